"""What faust apps have in common: they are made, given raw topics, and run until they are told to stop or crash.

faust is only the shell: records go in and out as bytes, and all that they mean is somewhere else.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import faust

from topolog.streams.faust_apps.unreadable import step_over_unreadable

_LOOK_AGAIN_S = 0.1


def make_app(kafka: Mapping[str, Any], name: str, folder: Path, **more: Any) -> faust.App:
    """An app of this name, which is that of its consumer group, too. `kafka` is what `faust_settings` gives."""
    step_over_unreadable()
    for library in ("faust", "mode", "aiokafka"):
        logging.getLogger(library).setLevel(logging.WARNING)
    return faust.App(
        name,
        **kafka,
        datadir=str(folder),
        autodiscover=False,
        web_enabled=False,
        key_serializer="raw",
        value_serializer="raw",
        topic_disable_leader=True,
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=6.0,
        broker_heartbeat_interval=1.0,
        broker_commit_interval=1.0,
        **more,
    )


def raw_topic(app: faust.App, name: str, **more: Any) -> Any:
    """A topic whose keys and values are bytes."""
    return app.topic(
        name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw", allow_empty=True, **more
    )


async def run_app(app: faust.App, is_over: Callable[[], Awaitable[bool]]) -> BaseException | None:
    """Run until `is_over` or until it ends by itself; why it has, if it has crashed."""
    try:
        await app.start()
        while not app.should_stop:
            await asyncio.sleep(_LOOK_AGAIN_S)
            if await is_over():
                break
    finally:
        await app.stop()
    return app.crash_reason
