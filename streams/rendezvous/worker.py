"""One process of the rendezvous: a thread that follows the log and compares, and faust, which reads pages for it.

It keeps nothing on disk: both topics say all that it needs, so it may be ended the hard way at any time, and one that
starts anew comes to the same. Up to four share the four partitions of `trees`; each session is compared by one.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import PLANS, Topic
from topolog.streams.clock import SystemClock
from topolog.streams.faust_apps.ending import ending_hard
from topolog.streams.faust_apps.security import faust_settings
from topolog.streams.local.stopping import Stop
from topolog.streams.rendezvous.app import RendezvousApp
from topolog.streams.rendezvous.desk import Desk

_LOOK_AGAIN_S = 0.1
_NEEDED = tuple(plan for plan in PLANS if plan.topic in (Topic.DECISIONS, Topic.REQUESTS, Topic.TREES))
_LOGGER = logging.getLogger("topolog.rendezvous")


def run_worker(
    kafka: Mapping[str, str], cluster: str, stopping: Stop, show: Callable[[Desk], None] = lambda _: None
) -> None:
    """Compare what validators send until told to stop. `show` gets the desk, which counts.

    Raises NotFound if a topic is missing, Unreachable if Kafka is away for good, and whatever ends the reading of the
    log: LogDiverged, Poisoned.
    """
    settings = faust_settings(kafka, "The rendezvous")
    with ending_hard(stopping) as told, tempfile.TemporaryDirectory(prefix="topolog-rendezvous-") as folder:
        KafkaAdmin(kafka).wait_for_leaders(cluster, _NEEDED)
        with _following(kafka, cluster, told) as (desk, following):
            show(desk)

            def is_over() -> bool:
                return told.is_set() or following.done()

            while not is_over() and not desk.is_ready:
                told.wait(_LOOK_AGAIN_S)
            while not is_over():
                if _begins_anew(desk, is_over):
                    asyncio.run(_read(settings, cluster, desk, Path(folder), is_over))
            if following.done():
                following.result()


def _begins_anew(desk: Desk, is_over: Callable[[], bool]) -> bool:
    """Tell the desk that all pages come again; whether it knows."""
    before = desk.readings
    while not is_over() and not desk.take(None):
        pass
    while not is_over() and desk.readings == before:
        time.sleep(_LOOK_AGAIN_S)
    return not is_over()


async def _read(
    settings: Mapping[str, object], cluster: str, desk: Desk, folder: Path, is_over: Callable[[], bool]
) -> None:
    """Until all is over, or is to be read once more."""
    assert desk.log_id is not None
    _LOGGER.info("Reading the pages of log %s.", desk.log_id.hex())
    app = RendezvousApp(settings, cluster, desk.log_id, folder, desk.take)
    await app.run(lambda: is_over() or desk.wants_more)


@contextlib.contextmanager
def _following(
    kafka: Mapping[str, str], cluster: str, told: threading.Event
) -> Iterator[tuple[Desk, concurrent.futures.Future[None]]]:
    """A desk at work in a thread of its own."""
    name = f"rendezvous-{os.getpid()}-{secrets.token_hex(4)}"
    with (
        contextlib.closing(KafkaReader(kafka, cluster)) as reader,
        contextlib.closing(KafkaWriter(kafka, cluster, linger_ms=2)) as writer,
        concurrent.futures.ThreadPoolExecutor(1, "desk") as threads,
    ):
        desk = Desk(reader, writer, SystemClock(), name, secrets.randbits(62))
        try:
            yield desk, threads.submit(desk.run, told)
        finally:
            told.set()
