"""A store that is read on beside the one that is shown, to the end of the log: a new one, or the former once more.

Threats. It is killed at any moment; what is shown goes on meanwhile; what has been written for it is damaged; it takes
the time that reads need.

Invariant. What is built is at every moment the fold of the log up to some position, and only what has stood at the end
of the log is offered.

Argument. It is the projector's own `Projection` on a `Store`, so it goes on from where its last write was, and the log
has to hold the record that was written last. Nobody but one process has it, by a lock. One that cannot be read is begun
anew; a former one that cannot be is given up, for there is no other.
"""

import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec

from topolog.events.errors import DamagedStore, NotCaughtUp, Unreachable
from topolog.events.failpoints import reach
from topolog.events.ids import Position
from topolog.events.log import LogReader
from topolog.events.lookahead import LookAhead
from topolog.events.topics import Topic
from topolog.projections.generations import BUILDING, generation_path, is_recalled, put
from topolog.projections.layout import Meta
from topolog.projections.projection import Projection
from topolog.projections.self_check.comparing import Comparison, StoreSide
from topolog.projections.self_check.findings import finding
from topolog.projections.self_check.opened import beside
from topolog.projections.store import Store, reading_of
from topolog.projections.upkeep.about import About, about, note
from topolog.projections.upkeep.compared import Compared
from topolog.projections.upkeep.pace import Pace
from topolog.projections.upkeep.tasks import Build, Offered, Phase, Progress, Report

PATIENCE_S = 30.0
"""How long the log may say nothing at all before the build gives up, to be tried again."""

_POLL_S = 0.1
_TELL_EVERY_S = 0.25
_EXAMPLES = 3
_LOCK = "building.lock"


def build(
    task: Build,
    reader: LogReader,
    tell: Callable[[Report], None],
    *,
    now_s: Callable[[], float] = time.monotonic,
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Do the task. Raises Unreachable for a silent log, Poisoned for a record that cannot be folded, LogDiverged if the
    log does not hold what was written last, DiskFull, DamagedStore for a former store that cannot be read."""
    with _alone(task.folder):
        building = _Building(task, reader, tell, now_s, wall_ms, sleep)
        with closing(building):
            reach("build.begun")
            building.to_end()
            reach("build.at-end")
            compared = building.compared()
            reach("build.compared")
            building.to_end()  # a comparison takes its time, and what is far behind would be refused
            position = building.note(compared)
        reach("build.noted")
        put(task.folder, BUILDING)
        reach("build.offered")
        tell(Offered(position, compared))


class _Building:
    """The store that is built, open."""

    def __init__(
        self,
        task: Build,
        reader: LogReader,
        tell: Callable[[Report], None],
        now_s: Callable[[], float],
        wall_ms: Callable[[], int],
        sleep: Callable[[float], None],
    ) -> None:
        self._task = task
        self._reader = LookAhead(reader)
        self._tell = tell
        self._now_s = now_s
        self._wall_ms = wall_ms
        self._pace = Pace(task.rate, now_s, sleep)
        self._projection = _opened(task)
        store = self._projection.store.path
        known = about(store)
        self._about = known if known.order == task.order else About(task.order, wall_ms(), why=task.why)
        note(store, self._about)
        self._reader.assign({(Topic.DECISIONS, 0): self._meta.last_offset})
        self._told_at_s = now_s() - _TELL_EVERY_S
        self._progress(Phase.FOLDING)

    @property
    def _meta(self) -> Meta:
        return self._projection.meta

    def to_end(self) -> None:
        """Fold until the log itself says that there is no more."""
        self._reader.hears(Topic.DECISIONS)  # an end that was heard before is none any more
        heard_at_s = self._now_s()
        while True:
            entries = self._reader.poll(_POLL_S)
            self._projection.take(entries, self._reader, lambda _: reach("build.written"))
            self._progress(Phase.FOLDING)
            if entries or self._reader.search is not None:
                heard_at_s = self._now_s()
                self._pace.spend(len(entries))
            elif self._reader.at_end(Topic.DECISIONS) and self._reader.hears(Topic.DECISIONS):
                return
            elif self._now_s() - heard_at_s > PATIENCE_S:
                raise Unreachable(f"The log has said nothing for {PATIENCE_S:g} s.", hint="It is asked again.")

    def compared(self) -> Compared | None:
        """All that it and the store that is shown hold of the past; None if that one cannot be read."""
        self._told_at_s = self._now_s() - _TELL_EVERY_S
        self._progress(Phase.COMPARING)
        shown = generation_path(self._task.folder)
        if not shown.is_dir():
            return None
        with suppress(DamagedStore, NotCaughtUp), beside(shown) as theirs, self._projection.store.view() as own:
            held, other = reading_of(own), reading_of(theirs)
            up_to = min(held.position, other.position)
            if up_to < 0:
                return None
            comparison = Comparison(StoreSide(own, up_to), StoreSide(theirs, up_to))
            found = [str(finding(each.key, each.expected, each.found).place) for each in comparison.mismatches()]
            own_hash, other_hash = (each.surely_decision(up_to).state_hash.hex() for each in (held, other))
            rows = comparison.buckets.rows
            return Compared(shown.name, up_to, rows, len(found), own_hash, other_hash, found[:_EXAMPLES])
        return None

    def note(self, compared: Compared | None) -> Position:
        """Have the store say what it is; returns where it stands."""
        made = msgspec.structs.replace(self._about, made_ms=self._wall_ms(), compared=compared, replaced_ms=0, doubt="")
        note(self._projection.store.path, made)
        return self._meta.position

    def close(self) -> None:
        """The reader is left to whoever has given it."""
        self._projection.store.close()

    def _progress(self, phase: Phase) -> None:
        if self._now_s() - self._told_at_s < _TELL_EVERY_S:
            return
        self._told_at_s = self._now_s()
        meta = self._meta
        rate = self._pace.rate(meta.position)
        self._tell(Progress(phase, meta.position, rate, meta.last_offset, meta.state_hash.hex(), self._about.began_ms))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Raises NotCaughtUp while another process builds there: one that is about to end, for its projector has."""
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NotCaughtUp("Another process still builds in this folder.") from None
        yield


def _opened(task: Build) -> Projection:
    """The store as it was left, or a new one."""
    folder = task.folder / BUILDING
    try:
        return _loaded(folder, task.cluster)
    except DamagedStore:
        if is_recalled(folder):
            raise
        shutil.rmtree(folder)
    return _loaded(folder, task.cluster)


def _loaded(folder: Path, cluster: str) -> Projection:
    store = Store(folder, cluster)
    try:
        return Projection(store, store.load())
    except Exception:  # whatever it is, RocksDB's lock must not outlive it
        store.close()
        raise
