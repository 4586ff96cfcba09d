"""One RocksDB with everything a reader can ask about: rows, their history, decisions.

Threats. The process is killed at any byte of a write; the disk returns other bytes than it was given; the folder is
that of another cluster, of another log, or of a version whose rows had other fields.

Invariant. What the store holds is what one fold of the log makes of its first `meta.position + 1` records.

Argument. Everything that follows from a run of whole sets goes into one atomic write, and with it the place in the log
to go on from; so the store moves from the border of one set to the border of another, never between. The rows are
hashed again when the store is opened, RocksDB checks its blocks when they are read, and the first record read from the
log must be the last one that was stored (`projector.py`); whatever does not agree is a DamagedStore, for which there is
one cure: build it again from the log. Nothing is synced to disk: a store that has lost its tail reads it again.

Where things lie is in `layout.py`.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from rocksdict import Options, Rdict, WriteBatch

from topolog.events.errors import BadInput, DamagedStore, Gone, NotFound, Retriable
from topolog.events.failpoints import reach
from topolog.events.ids import NOWHERE, Offset, Position
from topolog.events.log import Partition
from topolog.events.membership import LeasesRenewed
from topolog.events.rows import ROWS
from topolog.events.state import Key, Row, State
from topolog.projections import layout
from topolog.projections.generations import generation_path
from topolog.projections.layout import Changed, Decided, Meta, WholeSet
from topolog.projections.progress import Progress
from topolog.projections.rocks import DiskFull, TooManyOpenFiles, View, translated
from topolog.projections.sides import SideRow, SideWrite

R = TypeVar("R", bound=Row)
S = TypeVar("S", bound=SideRow)


class Present(msgspec.Struct, frozen=True):
    """What a projector knows beside its store: how long ago it has read the last word about a partition of lease
    health, how far it has read which topics, how long ago it has read the newest decision, and why it reads no further,
    None while it does."""

    heard_ago_ms: Mapping[int, int] = {}
    progress: Progress = Progress()
    quiet_ms: int = 0
    stopped: str | None = None


_NOTHING_BESIDE = Present()


class Reading:
    """All rows at one position, and the past up to it. It holds still while the projector goes on; one thread uses it.

    `meta` is that of the store's newest position, and `present` as it is now, whatever position is read; None keeps all
    that is known of the present alone out of what is read.
    """

    def __init__(self, view: View, meta: Meta, at: Position, present: Present | None = _NOTHING_BESIDE) -> None:
        self._view = view
        self._present = present
        self.meta = meta
        self.position = at
        self.is_current = present is not None and at == meta.position

    @property
    def present(self) -> Present:
        return self._present or _NOTHING_BESIDE

    def as_of(self, position: int) -> "Reading":
        """The same at another position. One inside a set stands for the whole set, for a set happens at once.

        Raises Gone for a position before the log's first, NotFound for one this store has not reached.
        """
        if position < 0:
            raise Gone(f"There is no position {position}: a log begins at position 0.")
        if position > self.position:
            raise NotFound(
                f"Position {position} has not been reached here; the newest is {self.position}.",
                hint="To wait for it, ask with at_least instead of as_of.",
            )
        end = self.surely_decision(Position(position)).set_end
        return Reading(self._view, self.meta, end, self._present)

    def row(self, kind: type[R], key: str) -> R | None:
        name = (kind.KIND, key)
        if self.is_current:
            found = self._view.get(layout.row_key(name))
        else:
            found = next((value for _, value in self._history(layout.history_stem(name))), None)
        return layout.decode(found, kind) if found else None

    def rows(self, kind: type[R], prefix: str = "", start: str = "") -> Iterator[tuple[str, R]]:
        """(key, row) of one kind by key, of keys with this prefix and from `start` on, which has it too.

        Nothing of a volatile kind in the past.
        """
        found = self._current_rows if self.is_current else self._past_rows
        for key, value in found(kind, prefix, start or prefix):
            yield key, layout.decode(value, kind)

    def versions(self, kind: type[R], key: str) -> Iterator[tuple[Position, R | None]]:
        """(position, row) for each set that changed the row, newest first; None where it was removed."""
        for position, value in self._history(layout.history_stem((kind.KIND, key))):
            yield position, layout.decode(value, kind) if value else None

    def sets(self, after: Position) -> Iterator[tuple[Position, tuple[Key, ...]]]:
        """(end, rows it changed) of each whole set behind `after`, oldest first, but for renewals of leases."""
        start = layout.changed_key(Position(max(after, NOWHERE) + 1))
        for key, value in self._view.scan(start, start[:1]):
            end = Position(int.from_bytes(key[1:], "big"))
            if end > self.position:
                break
            changed: Changed = layout.decode(value, Changed)
            yield end, changed.rows

    def settled(self) -> "Reading":
        """The same position as it will be told for ever: without what is known of the present alone."""
        return Reading(self._view, self.meta, self.position, None)

    def state(self, *kinds: type[Row]) -> State:
        """The rows of these kinds (all if none is named) as the State that rules and folds work on."""
        state = State()
        for kind in kinds or ROWS:
            for key, row in self.rows(kind):
                state.put(key, row)
        state.drain()
        return state

    def decision(self, position: int) -> Decided | None:
        """The decision at this position, None if there is none yet."""
        if not 0 <= position <= self.position:
            return None
        found = self._view.get(layout.decision_key(Position(position)))
        return layout.decode(found, Decided) if found else None

    def surely_decision(self, position: int) -> Decided:
        """The decision at a position that has been reached; raises DamagedStore if it is not there."""
        decided = self.decision(position)
        if decided is None:
            raise DamagedStore(f"The decision at position {position} is missing.")
        return decided

    def decisions(self, before: int | None = None, subject: str = "") -> Iterator[Decided]:
        """Decisions about one subject, or all but lease renewals, newest first; those below `before` only."""
        return (self.surely_decision(position) for position in self.positions(before, subject))

    def positions(self, before: int | None = None, subject: str = "") -> Iterator[Position]:
        """The positions of `decisions`, without reading what stands there."""
        stem = layout.subject_stem(subject)
        for key, _ in self._view.scan(stem + layout.inverted(self._newest(before)), stem):
            yield layout.position_of(key)

    def positions_after(self, after: Position, subject: str = "") -> Iterator[Position]:
        """The positions of decisions about one subject, or of all but lease renewals, behind `after`, oldest first."""
        stem = layout.subject_stem(subject)
        for key, _ in self._view.scan(stem + layout.inverted(Position(after + 1)), stem, back=True):
            if layout.position_of(key) > self.position:
                return
            yield layout.position_of(key)

    def all_decisions(self, before: int | None = None) -> Iterator[Decided]:
        """Every decision, lease renewals too, newest first; those below `before` only."""
        return (self.surely_decision(position) for position in range(self._newest(before), -1, -1))

    def decisions_of_set(self, end: Position) -> list[Decided]:
        """The decisions of the set that ends at this position, in order."""
        return [self.surely_decision(each) for each in range(self.surely_decision(end).set_start, end + 1)]

    def position_at(self, time_ms: int) -> Position:
        """The newest position that was in the log by this time; raises Gone if that is before its beginning.

        The time of decisions never runs backwards over positions, so they are their own index.
        """
        low, high = -1, int(self.position)
        while low < high:
            middle = (low + high + 1) // 2
            if self.surely_decision(middle).logged_at_ms <= time_ms:
                low = middle
            else:
                high = middle - 1
        if low < 0:
            raise Gone("The log begins after that time.", hint="The oldest position that can be asked for is 0.")
        return Position(low)

    def side(self, kind: type[S], key: str) -> S | None:
        """A row of a side family as it is now, whatever position is read: these have no history."""
        found = self._view.get(layout.side_key((kind.KIND, key)))
        return layout.decode(found, kind) if found else None

    def sides(self, kind: type[S], after: str | None = None) -> Iterator[tuple[str, S]]:
        """(key, row) of one side family by key, as it is now; those behind the key `after` only."""
        prefix = layout.side_key((kind.KIND, ""))
        start = prefix if after is None else layout.side_key((kind.KIND, after)) + b"\0"
        for key, value in self._view.scan(start, prefix):
            yield key[len(prefix) :].decode(), layout.decode(value, kind)

    def _newest(self, before: int | None) -> Position:
        return self.position if before is None else Position(min(self.position, before - 1))

    def _current_rows(self, kind: type[Row], prefix: str, start: str) -> Iterator[tuple[str, bytes]]:
        family = layout.row_key((kind.KIND, ""))
        for key, value in self._view.scan(layout.row_key((kind.KIND, start)), layout.row_key((kind.KIND, prefix))):
            yield key[len(family) :].decode(), value

    def _past_rows(self, kind: type[Row], prefix: str, start: str) -> Iterator[tuple[str, bytes]]:
        """One seek to the version that counts and one to the next key, however long the history of a row."""
        family = layout.history_family(kind.KIND, prefix)
        found = next(self._view.scan(layout.history_family(kind.KIND, start), family), None)
        while found:
            stem = found[0][:-8]
            _, value = next(self._history(stem), (NOWHERE, b""))
            if value:
                yield layout.key_of_stem(stem, kind.KIND), value
            found = next(self._view.scan(stem + layout.PAST_ALL_POSITIONS, family), None)

    def _history(self, stem: bytes) -> Iterator[tuple[Position, bytes]]:
        for key, value in self._view.scan(stem + layout.inverted(self.position), stem):
            yield layout.position_of(key), value


class Store:
    """The projection of one cluster in `folder`, opened or made. One thread writes, any thread reads."""

    def __init__(self, folder: Path, cluster: str, path: Path | None = None) -> None:
        """Raises DamagedStore, and BadInput for another cluster's folder or one that cannot be used.

        `path` names a store that is not the one that counts in the folder.
        """
        self.path = path or generation_path(folder)
        self._open_readings = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._db = _open(self.path)
        try:
            self.meta = self._stored_meta(cluster)
        except Exception:  # whatever it is, RocksDB's lock must not outlive it
            self._db.close()
            raise

    def load(self) -> State:
        """All rows of the newest position; raises DamagedStore unless they have the hash that was stored with them."""
        with self.reading() as reading:
            state, meta = reading.state(), reading.meta
            if state.hash() != meta.state_hash:
                raise DamagedStore(
                    f"The rows at position {meta.position} have the hash {state.hash().hex()}, "
                    f"stored is {meta.state_hash.hex()}."
                )
            if meta.position != NOWHERE and reading.surely_decision(meta.position).chain != meta.header.chain:
                raise DamagedStore(f"The decision at position {meta.position} is not the one the store stands at.")
        return state

    def write(self, sets: Sequence[WholeSet]) -> None:
        """All that follows from these sets, in one atomic write."""
        batch = WriteBatch(raw_mode=True)
        newest: dict[Key, Row | bytes | None] = {}
        for each in sets:
            _put_decisions(batch, each)
            _put_changed(batch, each)
            newest.update(each.rows)
            newest.update(_put_history(batch, each))
        for key, row in newest.items():
            if row:
                batch.put(layout.row_key(key), row if isinstance(row, bytes) else layout.encode(row))
            else:
                batch.delete(layout.row_key(key))
        batch.put(layout.META_KEY, layout.encode(sets[-1].meta))
        with translated():
            self._db.write(batch)
        self.meta = sets[-1].meta

    def write_sides(self, write: SideWrite) -> None:
        """Rows of side families and where to go on in their topics, in one atomic write."""
        batch = WriteBatch(raw_mode=True)
        for key, row in write.rows.items():
            if row is None:
                batch.delete(layout.side_key(key))
            else:
                batch.put(layout.side_key(key), layout.encode(row))
        for partition, offset in write.nexts.items():
            batch.put(layout.side_offset_key(partition), str(offset).encode())
        with translated():
            self._db.write(batch)

    def side_offset(self, partition: Partition) -> Offset | None:
        """The offset of the side topic's next record, None before the first."""
        with translated():
            found = self._db.get(layout.side_offset_key(partition))
        return None if found is None else Offset(int(found))

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """The newest position, and from it any past one; it holds still until the block ends."""
        with self.view() as view:
            yield reading_of(view)

    @contextmanager
    def view(self) -> Iterator[View]:
        """The same as keys and values."""
        with self._changed:
            self._open_readings += 1
        try:
            with closing(self._view()) as view:
                yield view
        finally:
            with self._changed:
                self._open_readings -= 1
                self._changed.notify_all()

    def close_if_idle(self) -> bool:
        """Close it unless a reading is open; whether it is closed."""
        with self._changed:
            if self._open_readings:
                return False
        self.close()
        return True

    def close(self) -> None:
        """Wait until no reading is open, for RocksDB must outlive its iterators, then close; once is enough."""
        with self._changed:
            self._changed.wait_for(lambda: self._open_readings == 0)
            if not self._is_closed:
                self._is_closed = True
                # An earlier write failed: it says so once more.
                with suppress(DiskFull, TooManyOpenFiles, DamagedStore), translated():
                    self._db.close()

    def _view(self) -> View:
        if self._is_closed:
            raise Retriable("The store is being opened again.", hint="Try again in a moment.")
        return View(self._db)

    def _stored_meta(self, cluster: str) -> Meta:
        with translated():
            stored = self._db.get(layout.META_KEY)
            is_new = stored is None and next(iter(self._db.keys()), None) is None
        if is_new:
            new = Meta(cluster)
            self._db[layout.META_KEY] = layout.encode(new)
            reach("projector.made")
            return new
        if stored is None:
            raise DamagedStore(f"{self.path} has rows and does not say where it stands.")
        meta: Meta = layout.decode(stored, Meta)
        if meta.cluster != cluster:
            raise BadInput(
                f"{self.path} holds the projections of cluster {meta.cluster!r}, not of {cluster!r}.",
                hint="Give each cluster a folder of its own.",
            )
        return meta


def reading_of(view: View, present: Present = _NOTHING_BESIDE) -> Reading:
    """What the view shows at the newest position that it has."""
    stored = view.get(layout.META_KEY)
    assert stored is not None, "a store says where it stands from its first write on"
    meta = layout.decode(stored, Meta)
    return Reading(view, meta, meta.position, present)


def _open(path: Path) -> Rdict:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_paranoid_checks(True)
    options.set_keep_log_file_num(2)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"The folder {path} cannot hold a store: {error.strerror}.") from error
    with translated():
        return Rdict(str(path), options=options)


def _put_history(batch: WriteBatch, whole: WholeSet) -> dict[Key, bytes]:
    """The rows as the set left them; what was put, empty for one that it removed."""
    end = layout.inverted(whole.meta.position)
    encoded = {
        key: b"" if row is None else layout.encode(row)
        for key, row in whole.rows.items()
        if not layout.is_volatile(key)
    }
    for key, value in encoded.items():
        batch.put(layout.history_stem(key) + end, value)
    return encoded


def _put_changed(batch: WriteBatch, whole: WholeSet) -> None:
    if not all(isinstance(folded.event, LeasesRenewed) for folded in whole.decisions):
        rows = tuple(sorted(key for key in whole.rows if not layout.is_volatile(key)))
        batch.put(layout.changed_key(whole.meta.position), layout.encode(Changed(rows)))


def _put_decisions(batch: WriteBatch, whole: WholeSet) -> None:
    for folded in whole.decisions:
        decided = layout.decided(folded, whole.meta)
        batch.put(layout.decision_key(decided.position), layout.encode(decided))
        if not decided.is_renewal:
            end = layout.inverted(decided.position)
            for subject in (decided.subject, ""):
                batch.put(layout.subject_stem(subject) + end, b"")
