"""The faust app: it reads `trees` and hands every record on.

Nothing is acknowledged, so nothing is committed: whoever starts, and whoever is given a partition in a rebalance, reads
it from the oldest record that is kept. What has been read before does no harm (`meeting.py`). There are no tables, and
no topics of its own.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from faust.types import StreamT
from mode import CrashingSupervisor

from topolog.events.errors import Unreachable
from topolog.events.topics import PARTITIONS, RENDEZVOUS_APP, Topic, topic_name, topic_prefix
from topolog.streams.faust_apps.shell import make_app, raw_topic, run_app

RECORDS_AHEAD = 16
"""Records that faust holds and nobody has taken: they may have 700 kB each."""

FETCH_BYTES_MAX = 1 << 20

Take = Callable[[bytes], bool]
"""Takes a record, waiting for room; False if there was none for a moment."""


class RendezvousApp:
    """One run of the app. To be made and used inside a running event loop."""

    def __init__(self, kafka: Mapping[str, Any], cluster: str, log_id: bytes, folder: Path, take: Take) -> None:
        self._take = take
        self._app = make_app(
            kafka,
            app_id(cluster, log_id),
            folder,
            store="memory://",
            topic_partitions=PARTITIONS[Topic.TREES],
            stream_buffer_maxsize=RECORDS_AHEAD,
            broker_max_poll_records=RECORDS_AHEAD,
            consumer_max_fetch_size=FETCH_BYTES_MAX,
        )
        pages = raw_topic(self._app, topic_name(cluster, Topic.TREES), acks=False)
        self.agent = self._app.agent(pages, name="pages", supervisor_strategy=CrashingSupervisor)(self._read)
        self._app.finalize()

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Read until `is_over`; raises Unreachable if the app ends by itself."""

        async def asked() -> bool:
            return is_over()

        reason = await run_app(self._app, asked)
        if reason is not None:
            raise Unreachable(f"The rendezvous cannot go on: {type(reason).__name__}: {reason}.") from reason

    async def _read(self, stream: StreamT[bytes]) -> None:
        async for event in stream.events():
            while not await asyncio.to_thread(self._take, event.value or b""):
                pass


def app_id(cluster: str, log_id: bytes) -> str:
    """The consumer group: another log is another app."""
    return f"{topic_prefix(cluster)}{RENDEZVOUS_APP}{log_id.hex()[:8]}"
