"""One worker: terms, data folder, and as many runs of the app as it takes.

Threats. A folder that outlives the topics that it mirrors: faust ends with a ConsistencyError, or goes on with figures
of a log that is gone. Two workers on one folder.

The folder is derived data, so the cure is to begin another: one per log, `<log id>.<number>`, and the next number where
the table contradicts its changelog; older ones are removed. A worker may be ended the hard way (`ending.py`): nothing
is lost by that, for `windows.py` is right after any crash.

    lock            held by the worker that uses the folder
    1f04bf6a.1/     faust's data folder: the table's RocksDBs, one per partition
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from topolog.events.errors import BadInput, DamagedStore, TopologError
from topolog.events.kafka import KafkaReader
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import PLANS, Topic
from topolog.streams.faust_apps.ending import STOP_LIMIT_S, ending_hard
from topolog.streams.faust_apps.security import faust_settings
from topolog.streams.lease_health.app import HealthApp, Place, app_id
from topolog.streams.lease_health.metrics import HealthMeasures
from topolog.streams.lease_health.terms import Follower, read_terms
from topolog.streams.lease_health.windows import Terms
from topolog.streams.local.stopping import Stop

_LOOK_AGAIN_S = 0.1
_LOG_LIMIT_S = 5.0
_REBUILDS_MAX = 3
_NEEDED = tuple(plan for plan in PLANS if plan.topic in (Topic.DECISIONS, Topic.HEARTBEATS, Topic.LEASE_HEALTH))
_LOGGER = logging.getLogger("topolog.lease_health")

Newest = Callable[[Terms | None], Terms | None]


def run_worker(kafka: Mapping[str, str], cluster: str, folder: Path, stopping: Stop, measures: HealthMeasures) -> None:
    """Measure the lease health of a cluster until told to stop. `folder` and `measures` are this worker's own.

    Raises BadInput if another worker uses the folder, NotFound if a topic is missing, Unreachable if Kafka is away for
    good, DamagedStore if the table is damaged again and again.
    """
    settings = faust_settings(kafka, "Lease health")
    with _only_one(folder), ending_hard(stopping) as told, _following(kafka, cluster, told) as newest:
        admin = KafkaAdmin(kafka)
        admin.wait_for_leaders(cluster, _NEEDED)
        replicas = admin.replicas(cluster, Topic.LEASE_HEALTH)
        rebuilds = 0
        while terms := newest(_terms(kafka, cluster, told)):
            place = Place(_table_folder(folder, terms.log_id), replicas, f"pid-{os.getpid()}")
            _LOGGER.info("Measuring the heartbeats of log %s (fence %d ms).", terms.log_id.hex(), terms.fence_ms)
            try:
                asyncio.run(_run(settings, kafka, cluster, terms, place, told, newest, measures))
            except DamagedStore as error:
                rebuilds += 1
                if rebuilds > _REBUILDS_MAX:
                    raise
                _rebuild(admin, app_id(cluster, terms.log_id), place.folder, error)


async def _run(
    settings: Mapping[str, object],
    kafka: Mapping[str, str],
    cluster: str,
    terms: Terms,
    place: Place,
    told: Stop,
    newest: Newest,
    measures: HealthMeasures,
) -> None:
    def log_now() -> bytes | None:
        found = _terms(kafka, cluster, _Within(_LOG_LIMIT_S, told))
        return found.log_id if found else terms.log_id

    def is_over() -> bool:
        return told.is_set() or newest(terms) != terms

    await HealthApp(settings, cluster, terms, place, measures).run(is_over, log_now)


@contextlib.contextmanager
def _following(kafka: Mapping[str, str], cluster: str, told: threading.Event) -> Iterator[Newest]:
    """Follow the log beside the app; what is given turns terms into those of the same log's end, as far as known."""
    ended, found = threading.Event(), _Found()

    def follow() -> None:
        while not (told.is_set() or ended.is_set()):
            try:
                with contextlib.closing(KafkaReader(kafka, cluster)) as reader:
                    follower = Follower(reader)
                    while not (told.is_set() or ended.is_set()):
                        follower.step(_LOOK_AGAIN_S)
                        found.terms = follower.newest or found.terms
            except TopologError as error:
                _LOGGER.info("The log is read again for its lease terms: %s", error.message)
                ended.wait(_LOG_LIMIT_S)

    def newest(terms: Terms | None) -> Terms | None:
        return found.terms if terms and found.terms and found.terms.log_id == terms.log_id else terms

    thread = threading.Thread(target=follow, name="terms", daemon=True)
    thread.start()
    try:
        yield newest
    finally:
        ended.set()
        thread.join(STOP_LIMIT_S)


class _Found:
    """What one thread knows, and others look at."""

    terms: Terms | None = None


def _terms(kafka: Mapping[str, str], cluster: str, stop: Stop) -> Terms | None:
    with contextlib.closing(KafkaReader(kafka, cluster)) as reader:
        return read_terms(reader, stop)


class _Within:
    """Told to stop when the time is over, too."""

    def __init__(self, limit_s: float, stop: Stop) -> None:
        self._over = threading.Timer(limit_s, lambda: None)
        self._over.daemon = True
        self._over.start()
        self._stop = stop

    def is_set(self) -> bool:
        return not self._over.is_alive() or self._stop.is_set()

    def wait(self, timeout: float) -> bool:
        return self._stop.wait(timeout) or self.is_set()


def _table_folder(folder: Path, log_id: bytes) -> Path:
    """The newest folder of this log's table, made if there is none; those of other logs are removed."""
    prefix = f"{log_id.hex()[:8]}."
    numbers = [
        int(path.name[len(prefix) :]) for path in folder.glob(f"{prefix}*") if path.name[len(prefix) :].isdigit()
    ]
    table = folder / f"{prefix}{max(numbers, default=1)}"
    for other in folder.iterdir():
        if other.is_dir() and other != table:
            shutil.rmtree(other, ignore_errors=True)
    table.mkdir(exist_ok=True)
    return table


def _rebuild(admin: KafkaAdmin, group: str, table: Path, error: DamagedStore) -> None:
    """Begin another folder, and read again what the topic still has."""
    _LOGGER.warning("%s It is built anew from heartbeats.", error)
    name, _, number = table.name.rpartition(".")
    table.with_name(f"{name}.{int(number) + 1}").mkdir(exist_ok=True)
    if not admin.forget_group(group):
        _LOGGER.warning("Another worker reads on: the windows fill again by themselves within ten minutes.")


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise BadInput(f"{folder} cannot be used: {error.strerror}.", hint="Set health.data to another one.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BadInput(
            f"Another worker measures lease health in {folder}.", hint="Give each a folder of its own: health.data."
        ) from None
    finally:
        os.close(lock)
