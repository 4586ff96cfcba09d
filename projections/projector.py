"""The projector: reads `decisions`, folds, stores, and knows how old what it knows is.

Threats. A reader that shows yesterday's cluster as today's because its broker is gone; one that goes on behind a record
it could not fold; one that resumes in another log than the one it has folded; a damaged store.

Invariants. What is stored is a prefix of the log, in whole sets. `age_ms` never says less than the time since this
reader last knew that it had read to the end.

Argument. A batch is written only up to its last whole set that was folded without complaint, even if the next one is
poison, and the reader stops there for good: reads go on and say so. To resume, the record that was stored last is read
again and its chain hash compared, for the offset alone proves nothing (K3, K9). A broker that is gone sends no end of
partition, and neither does an idle one; but the leader writes at least every fence_ms / 4, so «at the end» is believed
only while the last record that counts is younger than fence_ms / 2.

A rebuilt store that is offered (`generations.py`) is read on beside the one that is shown, which nobody writes
meanwhile, until it stands where that one does or further; then readers get the new one and the former goes, when the
last reading of it has ended. So no read fails, and no position goes back. If anything is wrong with what is offered it
is refused, and the projector goes on as if nothing had been.
"""

import logging
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from topolog.events.errors import DamagedStore, LogDiverged, Poisoned, TopologError
from topolog.events.failpoints import reach
from topolog.events.log import Entry, LogReader
from topolog.events.lookahead import LookAhead
from topolog.events.state import State
from topolog.events.topics import PLANS, Topic
from topolog.projections import findings, generations, taking_over
from topolog.projections.freshness import Freshness
from topolog.projections.generations import generation_path, move_aside
from topolog.projections.layout import Meta, WholeSet
from topolog.projections.progress import Measured
from topolog.projections.projection import Projection
from topolog.projections.sides import (
    SIDE_PARTITIONS,
    FindingsRow,
    LetterRow,
    SideWrite,
    WatchRow,
    expiry,
    side_write,
)
from topolog.projections.store import DiskFull, Reading, Store

DECISIONS = (Topic.DECISIONS, 0)

_BATCH_RECORDS = 2_000
"""Records per write at most: enough to spread the cost of a write thin, few enough that readers see progress."""

_POLL_S = 0.1
_REBUILDS_MAX = 3
"""A store that is damaged more often than this in one process life has a bad disk: rebuilding will not help."""

_EXPIRY_EVERY_S = 3_600.0
"""How often what topics have dropped is dropped here."""

ROOM_BYTES = 256 << 20
"""So much must be free before a store that met a full disk is opened again: to open it writes what its log holds."""

_LOGGER = logging.getLogger(__name__)


class Projector:
    """One reader of the log and its store. One thread calls `step` or `run`; any thread reads.

    `now_s` is a monotonic clock, `wall_ms` the time of day (UTC). `stopped` says why this projector reads no further,
    None while it does: for good, but for a full disk; `decided` counts decisions by event since the process started.
    """

    def __init__(
        self,
        reader: LogReader,
        folder: Path,
        cluster: str,
        *,
        now_s: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Raises BadInput if the folder is another cluster's or in use; a damaged store is rebuilt."""
        self.cluster = cluster
        self.wall_ms = wall_ms
        self.decided: Counter[str] = Counter()
        self.stopped: str | None = None
        self._measured = Measured(reader, now_s)
        self._reader = LookAhead(self._measured)
        self._folder = folder
        self._now_s = now_s
        self._started_ms = wall_ms()
        self._freshness = Freshness()
        self._swap = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._rebuilds = 0
        self._damage: str | None = None
        self._lacks_room = False
        self._hopes = False
        self._is_first_end = True
        self._heard_at_s: dict[int, float] = {}
        self._expires_at_s = now_s()
        self._successor: Projection | None = None
        self._former: list[Store] = []
        self._shown = self._opened()
        self._counted_to = self.meta.position
        self._assign()

    @property
    def meta(self) -> Meta:
        """Where the store stands."""
        return self._shown.meta

    @property
    def age_ms(self) -> int:
        """How long ago this reader last knew that it had read to the end of the log.

        A reader that has not known it yet goes by the time of day and the time of the newest decision it has stored.
        """
        known = self._freshness.age_ms(self._now_s())
        if known is not None:
            return known
        return max(0, self.wall_ms() - (self.meta.logged_at_ms or self._started_ms))

    @property
    def fence_ms(self) -> int:
        """The cluster's; 0 while nothing has been decided."""
        return self._freshness.fence_ms

    def step(self, timeout_s: float = 0.0) -> int:
        """Read what is there, waiting up to `timeout_s` for the first record; returns how many records came.

        After an error that no later record can mend it sets `stopped` and reads nothing more; on a full disk until
        there is room again, at a poisoned record until it is voided.
        """
        try:
            if self._lacks_room:
                self._resume()
            if self._damage and self._successor is None:
                self._rebuild(self._damage)
            if self.stopped and not self._hopes:
                return 0
            self._drop_former()
            self._look_for_successor()
            found = self._read(timeout_s)
            self._succeed()
            self._go_on()
            return found
        except TopologError as error:
            self._meet(error)
        return 0

    def run(self, stop: threading.Event) -> None:
        """Step until `stop` is set, then close the log's reader."""
        try:
            while not stop.is_set():
                self.step(_POLL_S)
                if self.stopped:
                    stop.wait(_POLL_S)
        except Exception as error:  # a defect of ours: answers go on, and say that they grow old
            self._stop(f"The projector failed: {error!r}.")
            raise
        finally:
            self._reader.close()

    def close(self) -> None:
        """Close the store, once no reading of it is open."""
        for store in (*self._former, *([self._successor.store] if self._successor else ()), self._shown.store):
            store.close()

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """A reading of the newest position; damage that it meets has the store rebuilt."""
        with ExitStack() as stack:
            with self._swap:
                shown = self._shown
                reading = stack.enter_context(shown.store.reading())
            now_s = self._now_s()
            reading.progress = self._measured.progress()
            reading.heard_ago_ms = {key: round((now_s - at_s) * 1000) for key, at_s in self._heard_at_s.items()}
            try:
                yield reading
            except DamagedStore as error:
                if shown is self._shown:
                    self._damage = error.message
                raise

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Call `listener` in the projector's thread after each write."""
        self._listeners.append(listener)

    def _meet(self, error: TopologError) -> None:
        """What an error means for this projector."""
        if self._successor is not None:
            self._refuse(self._successor.store, generations.taken_path(self._folder), error)
            return
        match error:
            case DamagedStore():
                self._damage = error.message
                return
            case Poisoned():
                self._hopes = True
            case DiskFull():
                self._lacks_room = True
        self._stop(str(error))

    def _opened(self) -> Projection:
        return Projection(*_open_store(self._folder, self.cluster))

    def _assign(self) -> None:
        """Have the reader go on where what is shown stands."""
        self._note_terms()
        sides = {partition: self._shown.store.side_offset(partition) for partition in SIDE_PARTITIONS}
        self._reader.assign({DECISIONS: self.meta.last_offset, **sides})

    def _rebuild(self, damage: str) -> None:
        self._rebuilds += 1
        if self._rebuilds > _REBUILDS_MAX:
            self._damage = None
            raise LogDiverged(
                f"The store was damaged {self._rebuilds} times in a row: {damage}",
                hint="Look for a failing disk, then start this projector on another folder.",
            )
        with self._swap:
            for former in self._former:  # or it would pass for the newest of those that are whole
                former.close()
                shutil.rmtree(former.path, ignore_errors=True)
            self._former.clear()
            self._shown.store.close()
            _set_aside(self._shown.store.path, damage)
            self._damage = None
            self._freshness = Freshness(self._freshness.fence_ms)  # what the store before knew, this one does not
            self._is_first_end = True
            self._shown = self._opened()
            self._assign()

    def _resume(self) -> None:
        """Go on from what is stored, once there is room; after a failure RocksDB writes only when opened again."""
        if shutil.disk_usage(self._folder).free < ROOM_BYTES:
            return
        with self._swap:
            self._shown.store.close()
            self._shown = self._opened()
            self._assign()
        _LOGGER.info("There is room again: the projector goes on from position %d.", self.meta.position)
        self._lacks_room, self.stopped = False, None

    def _look_for_successor(self) -> None:
        """Begin to read on what is offered."""
        if self._successor is not None or self._reader.search is not None:
            return
        taken = generations.claim(self._folder)
        if taken is None:
            return
        reach("projector.taken")
        try:
            self._successor = taking_over.opened(taken, self.meta)
        except TopologError as error:
            self._turn_down(taken, error)
            return
        self._freshness.lose()
        self._reader.assign({DECISIONS: self._successor.meta.last_offset})
        _LOGGER.info("A rebuilt store is offered; it stands at position %d.", self._successor.meta.position)

    def _succeed(self) -> None:
        """Show the successor as soon as it stands where what is shown does."""
        successor = self._successor
        if successor is None or not successor.is_proven:
            return
        if successor.meta.position < self.meta.position:
            self._check_comes_nearer(successor)
            return
        taking_over.take_sides_along(self._shown.store, successor.store)
        successor.store.close()
        reach("projector.succeeding")
        path = generations.promote(self._folder)
        reach("projector.succeeded")
        try:
            store = Store(self._folder, self.cluster)
        except TopologError as error:
            self._refuse(successor.store, path, error)
            return
        former = self._shown
        with self._swap:
            self._shown = Projection(store, successor.sets.fold.state)
        self._successor, self._damage = None, None
        self._former.append(former.store)
        self._assign()
        self._tell_of_succession(former)

    def _check_comes_nearer(self, successor: Projection) -> None:
        if self._reader.at_end(Topic.DECISIONS):
            raise LogDiverged(
                f"The log ends at position {successor.meta.position}, and position {self.meta.position} is shown.",
                hint="The topic was cut short: compare it with a backup before going on.",
            )

    def _tell_of_succession(self, former: Projection) -> None:
        with self.reading() as reading:
            before = reading.decision(former.meta.position)
        if before is not None and before.state_hash != former.meta.state_hash:
            _LOGGER.error(
                "At position %d the store of before had the state hash %s, the rebuilt one has %s.",
                former.meta.position,
                former.meta.state_hash.hex(),
                before.state_hash.hex(),
            )
        _LOGGER.info("The rebuilt store is shown, at position %d.", self.meta.position)
        self._tell()

    def _refuse(self, store: Store, path: Path, error: TopologError) -> None:
        """Go on with what is shown."""
        self._successor = None
        store.close()
        self._turn_down(path, error)
        self._shown = self._shown.again()
        self._assign()

    def _turn_down(self, path: Path, error: TopologError) -> None:
        _LOGGER.error("A rebuilt store is not taken over: %s", error)
        generations.refuse(self._folder, path, str(error))

    def _drop_former(self) -> None:
        """Remove the stores that were shown before, once their last reading has ended."""
        for store in [each for each in self._former if each.close_if_idle()]:
            self._former.remove(store)
            shutil.rmtree(store.path, ignore_errors=True)

    def _read(self, timeout_s: float) -> int:
        polled = self._reader.poll(timeout_s)
        self._note_sides([entry for entry in polled if entry.topic is not Topic.DECISIONS])
        entries = [entry for entry in polled if entry.topic is Topic.DECISIONS]
        if entries:
            reach("projector.read")
        written = self._successor or self._shown
        new = written.prove(entries, self._reader.counted, at_end=self._reader.at_end(Topic.DECISIONS))
        counted = len(new) < len(entries)
        for start in range(0, len(new), _BATCH_RECORDS):
            batch = new[start : start + _BATCH_RECORDS]
            try:
                counted |= written.project(batch, self._reader.counted, self._note_written)
            except Poisoned as poisoned:
                self._reader.look_ahead(written.sets.fold, poisoned, written.read_at)
                break
        if self._successor is None:
            self._note_end(counted=counted)
        return len(polled)

    def _note_end(self, *, counted: bool) -> None:
        at_end = self._reader.at_end(Topic.DECISIONS)
        self._freshness.note(self._now_s(), counted=counted, at_end=at_end)
        if at_end and self._is_first_end and not self._former:
            self._is_first_end = False
            reach("projector.caught-up")
            generations.drop_older_generations(self._folder)

    def _note_sides(self, entries: Sequence[Entry]) -> None:
        if entries:
            reach("projector.sides-read")
            write = self._with_findings(side_write(entries), entries)
            heard = {row.heard.partition: self._now_s() for row in write.rows.values() if isinstance(row, WatchRow)}
            self._heard_at_s = {**self._heard_at_s, **heard}  # another one: others read it meanwhile
            self._shown.store.write_sides(write)
            reach("projector.sides-written")
        if self._now_s() >= self._expires_at_s:
            self._expires_at_s = self._now_s() + _EXPIRY_EVERY_S
            self._expire_sides()

    def _with_findings(self, write: SideWrite, entries: Sequence[Entry]) -> SideWrite:
        """Which pages of findings are kept goes by those that are kept already."""
        if all(entry.topic is not Topic.TREES for entry in entries):
            return write
        with self._shown.store.reading() as reading:
            rows = findings.findings_write((row for _, row in reading.sides(FindingsRow)), entries)
        return msgspec.structs.replace(write, rows={**write.rows, **rows})

    def _expire_sides(self) -> None:
        """Drop what the topics have dropped."""
        with self._shown.store.reading() as reading:
            letters = expiry(reading.sides(LetterRow), self.wall_ms() - _kept_ms(Topic.DEAD))
            pages = findings.expiry(
                (row for _, row in reading.sides(FindingsRow)), self.wall_ms() - _kept_ms(Topic.TREES)
            )
        for gone in (letters, pages):
            self._shown.store.write_sides(gone)

    def _note_written(self, sets: Sequence[WholeSet]) -> None:
        new = [folded for each in sets for folded in each.decisions if folded.place.position > self._counted_to]
        self.decided.update(type(folded.event).__name__ for folded in new)
        if new:
            self._counted_to = new[-1].place.position
        if self._successor is None:
            self._tell()

    def _tell(self) -> None:
        self._note_terms()
        for listener in self._listeners:
            listener()

    def _note_terms(self) -> None:
        self._freshness.fence_ms = self._shown.fence_ms

    def _go_on(self) -> None:
        """What could not be folded has been voided."""
        if self._hopes and self._reader.search is None:
            self._hopes, self.stopped = False, None
            _LOGGER.info("The projector goes on from position %d: what stopped it is voided.", self.meta.position)

    def _stop(self, reason: str) -> None:
        if reason != self.stopped:
            _LOGGER.error("The projector stops at position %d: %s", self.meta.position, reason)
        self.stopped = reason
        self._freshness.lose()


def _kept_ms(topic: Topic) -> int:
    return next(plan.retention_ms for plan in PLANS if plan.topic is topic)


def _open_store(folder: Path, cluster: str) -> tuple[Store, State]:
    """The store and its rows; a damaged one is moved aside and an empty one takes its place."""
    try:
        return _loaded(Store(folder, cluster))
    except DamagedStore as error:
        _set_aside(generation_path(folder), error.message)
    return _loaded(Store(folder, cluster))


def _loaded(store: Store) -> tuple[Store, State]:
    try:
        return store, store.load()
    except DamagedStore:
        store.close()
        raise


def _set_aside(path: Path, damage: str) -> None:
    aside = move_aside(path)
    reach("projector.set-aside")
    _LOGGER.error("The store is damaged: %s It lies in %s now and is built anew from the log.", damage, aside)
