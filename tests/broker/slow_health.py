"""A worker of lease health on a machine that is busy just when it is assigned its partitions (`test_lease_health.py`).

    slow_health ARGUMENTS OF topolog

What waits for an answer of the broker goes on late: faust behind the seek to the committed place, the worker behind its
question for the oldest record of a partition.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from faust.transport.consumer import ThreadDelegateConsumer

from topolog.commands.tree import root
from topolog.projections.cli import app as cli

LATE_S = 1.0


def late(question: Callable[..., Awaitable[Mapping[Any, Any]]], seconds: float) -> Callable[..., Any]:
    """The same, answered so much later."""

    async def asked(consumer: ThreadDelegateConsumer, *partitions: Any) -> Mapping[Any, Any]:
        answer = await question(consumer, *partitions)
        await asyncio.sleep(seconds)
        return answer

    return asked


if __name__ == "__main__":
    for name, seconds in (("seek_to_committed", LATE_S), ("earliest_offsets", 1.5 * LATE_S)):
        setattr(ThreadDelegateConsumer, name, late(getattr(ThreadDelegateConsumer, name), seconds))
    sys.exit(cli.run(root, sys.argv[1:]))
