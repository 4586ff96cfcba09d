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

from topolog.events.errors import DamagedStore, LogDiverged, Poisoned, TopologError, Undecodable
from topolog.events.failpoints import reach
from topolog.events.fold import Ignored
from topolog.events.ids import Offset
from topolog.events.log import Entry, LogReader
from topolog.events.lookahead import LookAhead
from topolog.events.stamp import NO_CHAIN, chain_after, decode_stamp
from topolog.events.state import State
from topolog.events.terms import ClusterRow
from topolog.events.topics import PLANS, Topic
from topolog.projections import findings
from topolog.projections.layout import Meta, WholeSet
from topolog.projections.sides import (
    SIDE_PARTITIONS,
    FindingsRow,
    LetterRow,
    SideWrite,
    WatchRow,
    expiry,
    side_write,
)
from topolog.projections.store import (
    DiskFull,
    Reading,
    Store,
    drop_older_generations,
    generation_path,
    move_aside,
)
from topolog.projections.whole_sets import WholeSets

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


class Freshness:
    """When a reader last knew that it had read to the end; all times are one monotonic clock's, in seconds."""

    def __init__(self, fence_ms: int = 0) -> None:
        self._last_record_s: float | None = None
        self._knew_end_s: float | None = None
        self._is_at_end = False
        self.fence_ms = fence_ms

    def note(self, now_s: float, *, counted: bool, at_end: bool) -> None:
        """What one look at the log has shown. `counted`: a record that counts, as only a leader of now can write."""
        if counted:
            self._last_record_s = now_s
        self._is_at_end = at_end
        if at_end:
            self._knew_end_s = self._last_record_s if self._is_silent(now_s) else now_s

    def lose(self) -> None:
        """This reader reads no further."""
        self._is_at_end = False

    def age_ms(self, now_s: float) -> int | None:
        """0 while at the end of a living log, else the time since the end was last known; None if it never was.

        A log that has been silent for too long may have moved on since its last record.
        """
        if self._knew_end_s is None or self._last_record_s is None:
            return None
        if not self._is_at_end:
            return round((now_s - self._knew_end_s) * 1000)
        return round((now_s - self._last_record_s) * 1000) if self._is_silent(now_s) else 0

    def _is_silent(self, now_s: float) -> bool:
        return self._last_record_s is None or (now_s - self._last_record_s) * 1000 >= self.fence_ms / 2


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
        self._reader = LookAhead(reader)
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
        self._open()

    @property
    def meta(self) -> Meta:
        """Where the store stands."""
        return self._store.meta

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
            if self._damage:
                self._rebuild(self._damage)
            if self.stopped and not self._hopes:
                return 0
            found = self._read(timeout_s)
            self._go_on()
            return found
        except Poisoned as error:
            self._hopes = True
            self._stop(str(error))
        except DamagedStore as error:
            self._damage = error.message
        except DiskFull as error:
            self._lacks_room = True
            self._stop(str(error))
        except TopologError as error:
            self._stop(str(error))
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
        self._store.close()

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """A reading of the newest position; damage that it meets has the store rebuilt."""
        with ExitStack() as stack:
            with self._swap:
                reading = stack.enter_context(self._store.reading())
            now_s = self._now_s()
            reading.heard_ago_ms = {key: round((now_s - at_s) * 1000) for key, at_s in self._heard_at_s.items()}
            try:
                yield reading
            except DamagedStore as error:
                self._damage = error.message
                raise

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Call `listener` in the projector's thread after each write."""
        self._listeners.append(listener)

    def _open(self) -> None:
        self._store, state = _open_store(self._folder, self.cluster)
        meta = self._store.meta
        self._sets = WholeSets(state, meta)
        self._is_proven = meta.last_offset is None
        self._note_terms()
        self._read_at = Offset(0)
        sides = {partition: self._store.side_offset(partition) for partition in SIDE_PARTITIONS}
        self._reader.assign({DECISIONS: meta.last_offset, **sides})

    def _rebuild(self, damage: str) -> None:
        self._rebuilds += 1
        if self._rebuilds > _REBUILDS_MAX:
            self._damage = None
            raise LogDiverged(
                f"The store was damaged {self._rebuilds} times in a row: {damage}",
                hint="Look for a failing disk, then start this projector on another folder.",
            )
        with self._swap:
            self._store.close()
            _set_aside(self._store.path, damage)
            self._damage = None
            self._freshness = Freshness(self._freshness.fence_ms)  # what the store before knew, this one does not
            self._is_first_end = True
            self._open()

    def _resume(self) -> None:
        """Go on from what is stored, once there is room; after a failure RocksDB writes only when opened again."""
        if shutil.disk_usage(self._folder).free < ROOM_BYTES:
            return
        with self._swap:
            self._store.close()
            self._open()
        _LOGGER.info("There is room again: the projector goes on from position %d.", self.meta.position)
        self._lacks_room, self.stopped = False, None

    def _read(self, timeout_s: float) -> int:
        polled = self._reader.poll(timeout_s)
        self._note_sides([entry for entry in polled if entry.topic is not Topic.DECISIONS])
        entries = [entry for entry in polled if entry.topic is Topic.DECISIONS]
        if entries:
            reach("projector.read")
        new = entries if self._is_proven else self._prove(entries)
        counted = len(new) < len(entries)
        for start in range(0, len(new), _BATCH_RECORDS):
            try:
                counted |= self._project(new[start : start + _BATCH_RECORDS])
            except Poisoned as poisoned:
                self._reader.look_ahead(self._sets.fold, poisoned, self._read_at)
                break
        at_end = self._reader.at_end(Topic.DECISIONS)
        self._freshness.note(self._now_s(), counted=counted, at_end=at_end)
        if at_end and self._is_first_end:
            self._is_first_end = False
            reach("projector.caught-up")
            drop_older_generations(self._folder)
        return len(polled)

    def _note_sides(self, entries: Sequence[Entry]) -> None:
        if entries:
            reach("projector.sides-read")
            write = self._with_findings(side_write(entries), entries)
            heard = {row.heard.partition: self._now_s() for row in write.rows.values() if isinstance(row, WatchRow)}
            self._heard_at_s = {**self._heard_at_s, **heard}  # another one: others read it meanwhile
            self._store.write_sides(write)
            reach("projector.sides-written")
        if self._now_s() >= self._expires_at_s:
            self._expires_at_s = self._now_s() + _EXPIRY_EVERY_S
            self._expire_sides()

    def _with_findings(self, write: SideWrite, entries: Sequence[Entry]) -> SideWrite:
        """Which pages of findings are kept goes by those that are kept already."""
        if all(entry.topic is not Topic.TREES for entry in entries):
            return write
        with self._store.reading() as reading:
            rows = findings.findings_write((row for _, row in reading.sides(FindingsRow)), entries)
        return msgspec.structs.replace(write, rows={**write.rows, **rows})

    def _expire_sides(self) -> None:
        """Drop what the topics have dropped."""
        with self._store.reading() as reading:
            letters = expiry(reading.sides(LetterRow), self.wall_ms() - _kept_ms(Topic.DEAD))
            pages = findings.expiry(
                (row for _, row in reading.sides(FindingsRow)), self.wall_ms() - _kept_ms(Topic.TREES)
            )
        for gone in (letters, pages):
            self._store.write_sides(gone)

    def _prove(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries behind the last one stored, which must come first; raises LogDiverged if it does not."""
        if not entries and not self._reader.at_end(Topic.DECISIONS):
            return entries
        if not entries or not self._is_last_stored(entries[0]):
            raise LogDiverged(
                f"Offset {self.meta.last_offset} of decisions does not hold the decision at position "
                f"{self.meta.position} that this store has folded from it.",
                hint="The topic was cut short, made again or swapped for a copy. If the log is right as it is, move "
                f"{self._store.path} away and start again: the store is built anew.",
            )
        self._is_proven = True
        self._reader.counted(entries[0], self._folded_fence_ms())
        return entries[1:]

    def _is_last_stored(self, entry: Entry) -> bool:
        try:
            stamp = decode_stamp(entry.stamp or b"")
        except Undecodable:
            return False
        with self._store.reading() as reading:
            before = reading.decision(self.meta.position - 1)
        chain = stamp.chain if stamp.sequence else before.chain if before else NO_CHAIN
        return chain_after(chain, entry.stamp or b"", entry.value) == self.meta.header.chain

    def _project(self, entries: Sequence[Entry]) -> bool:
        """Fold and store; what was folded before an error is stored all the same. Returns whether any record counts."""
        counted = False
        sets: list[WholeSet] = []
        try:
            for entry in entries:
                self._read_at = entry.offset
                found = self._sets.read(entry)
                if isinstance(found, Ignored):
                    continue
                counted = True
                self._reader.counted(entry, self._folded_fence_ms())
                if found:
                    sets.append(found)
        finally:
            if sets:
                self._commit(sets)
        return counted

    def _commit(self, sets: Sequence[WholeSet]) -> None:
        reach("projector.folded")
        self._store.write(sets)
        reach("projector.written")
        self.decided.update(type(folded.event).__name__ for each in sets for folded in each.decisions)
        self._note_terms()
        for listener in self._listeners:
            listener()

    def _note_terms(self) -> None:
        self._freshness.fence_ms = self._folded_fence_ms()

    def _folded_fence_ms(self) -> int:
        """What is in force where the fold stands, which may be ahead of the store."""
        cluster = self._sets.fold.state.get(ClusterRow, "")
        return cluster.fence_ms if cluster else 0

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
