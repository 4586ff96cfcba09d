"""Who acted for which partition, from when on: what no table of an archive has, because owners travel packed.

What a decision makes of a partition follows from the state before it (a leave ends what the node acted for, a hand-over
names partitions and not who stops), so it is told by the one fold, which runs over the archive's records as it does in
every reader; here is only listened to which rows a set has left. A tenure is a line per change of a partition: who acts
for it now, if anybody does, whether a hand-over has stopped its primary, whether it is lost.

The fold takes long, so it goes on where it stood: its rows are kept beside the archive (`derived.py`), behind a whole
set. Which voidings count is known beforehand (`positions.py`).
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from numpy.typing import NDArray

from topolog.events.errors import TopologError
from topolog.events.exchange import HandOverRow, Move
from topolog.events.fold import Fold, Ignored
from topolog.events.ids import Position
from topolog.events.ownership import RosterRow, row_key
from topolog.events.ownership_columns import (
    NOBODY,
    PARTITIONS_PER_ROW,
    Columns,
    OwnershipRow,
)
from topolog.events.rows import ROWS, row_format
from topolog.events.state import Key, State
from topolog.events.topics import Topic
from topolog.projections.archive import reading
from topolog.projections.archive.derived import Derived, Kept, Lines, Told
from topolog.projections.archive.landings import Archive
from topolog.projections.archive.positions import Positions

LINES_PER_FILE = 500_000
_KINDS = {row.KIND: row for row in ROWS}

SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("partition", pa.int32()),
        ("position", pa.int64()),
        ("logged_at", pa.timestamp("ms", tz="UTC")),
        ("primary", pa.string()),
        ("is_stopped", pa.bool_()),
        ("is_lost", pa.bool_()),
        ("is_there", pa.bool_()),
    ]
)
"""`primary` is null while nobody acts; `is_stopped`: it has stopped for a hand-over; not `is_there`: the group was
dropped."""


class _Kept(Kept, frozen=True):
    """`rows`: (kind, key, the row as msgpack), in the order of the state; the fold stands behind a whole set."""

    rows: tuple[tuple[str, str, bytes], ...] = ()


def brought_forward(
    archive: Archive, positions: Positions, folder: Path | None = None, told: Told = lambda _: None
) -> tuple[Path, ...]:
    """Fold what has landed since, as far as positions go; the files of tenures.

    Raises Poisoned for a record that counts and cannot be folded.
    """
    derived = Derived(archive, folder, "tenures", _Kept(row_format()))
    with derived.locked():
        kept = derived.read()
        listener = _Listener(kept, positions)
        columns = reading.RECORD_COLUMNS
        try:
            for table in reading.tables(archive, Topic.DECISIONS.short_name, kept.next_offset, columns=columns):
                for record in reading.records(table):
                    if record.offset < positions.next_offset:
                        listener.read(record)
                if len(listener.lines) >= LINES_PER_FILE:
                    listener.write(derived)
                    told(f"folded up to position {listener.header.position}")
        except TopologError:
            listener.write(derived)  # a fold that refuses a record leaves its state as it was; no other error does
            raise
        return derived.paths(listener.write(derived))


class _Listener:
    """The fold, and what it has left of partitions since the last file."""

    def __init__(self, kept: _Kept, positions: Positions) -> None:
        state = State()
        for kind, key, row in kept.rows:
            state.put(key, msgspec.msgpack.decode(row, type=_KINDS[kind]))
        state.drain()
        self._kept = kept
        self._fold = Fold(state, kept.header)
        for each in positions.voidings:
            self._fold.void((Position(each.position), each.chain))
        self.header, self._next_offset = kept.header, kept.next_offset
        self._heard_ms = self._logged_ms = kept.logged_ms
        self._known = {key: _standing(row) for key, row in state.rows(OwnershipRow)}
        self._moves = {key: row.moves for key, row in state.rows(HandOverRow)}
        for move in (move for moves in self._moves.values() for move in moves):
            self._stop(move, True)
        self.lines = Lines(SCHEMA)

    def read(self, record: reading.Record) -> None:
        self._heard_ms = max(self._heard_ms, record.appended_ms)
        folded = self._fold.read(record.stamp, record.value)
        if isinstance(folded, Ignored) or not folded:
            return
        self.header, self._next_offset, self._logged_ms = self._fold.header, record.offset + 1, self._heard_ms
        touched = self._fold.state.drain()
        kinds = {kind for kind, _ in touched}
        if OwnershipRow.KIND in kinds or HandOverRow.KIND in kinds:
            self._note(touched)

    def _note(self, touched: Sequence[Key]) -> None:
        """What a set has left; a hand-over may begin for partitions whose rows it does not touch."""
        state, before = self._fold.state, dict[str, _Standing | None]()
        keys = [key for kind, key in touched if kind == OwnershipRow.KIND]
        for moves in [key for kind, key in touched if kind == HandOverRow.KIND]:
            row = state.get(HandOverRow, moves)
            was, now = self._moves.pop(moves, ()), row.moves if row else ()
            if now:
                self._moves[moves] = now
            for move in (*was, *now):
                keys += (row_key(move.group, partition) for partition in move.partitions)
        keys = list(dict.fromkeys(keys))
        for key in keys:
            before[key] = self._known.pop(key, None)
            held = state.get(OwnershipRow, key)
            if held is not None:
                self._known[key] = _standing(held)
        for move in (move for moves in self._moves.values() for move in moves):
            self._stop(move, True)
        for key in keys:
            self._tell(key, before[key], self._known.get(key))

    def _stop(self, move: Move, is_stopped: bool) -> None:
        for partition in move.partitions:
            known = self._known.get(row_key(move.group, partition))
            if known is not None:
                known.stopped[partition % PARTITIONS_PER_ROW] = is_stopped

    def _tell(self, key: str, before: "_Standing | None", after: "_Standing | None") -> None:
        """A line for each partition that is another now."""
        told = after or before
        assert told is not None, "a row that never was is not touched"
        names = self._fold.state.get(RosterRow, "")
        for line in _differing(before, after).tolist():
            number = int(after.acting[line]) if after else NOBODY
            values = (
                told.group,
                told.first + line,
                self.header.position,
                self._logged_ms,
                names.nodes[number] if names and number != NOBODY else None,
                bool(after and after.stopped[line]),
                bool(after and after.lost[line]),
                after is not None,
            )
            self.lines.add(values)

    def write(self, derived: Derived[_Kept]) -> _Kept:
        """Keep what was heard, and the rows of the fold; from here on it counts."""
        if self._next_offset == self._kept.next_offset:
            return self._kept
        rows = tuple(
            (kind, key, msgspec.msgpack.encode(row))
            for kind, some in self._fold.state.copies().items()
            for key, row in some.items()
        )
        kept = _Kept(row_format(), self._next_offset, self.header, self._logged_ms, self._kept.files, rows)
        self._kept = derived.write(kept, self.lines.drained())
        return self._kept


class _Standing(msgspec.Struct):
    """Columns of one row: who acts, what is lost, where a hand-over has stopped the primary."""

    group: str
    first: int
    acting: NDArray[np.uint16]
    lost: NDArray[np.bool_]
    stopped: NDArray[np.bool_]


def _standing(row: OwnershipRow) -> _Standing:
    columns = Columns(row)
    stopped = np.zeros(row.count, np.bool_)
    return _Standing(row.group, row.first, columns.acting, columns.lost != 0, stopped)


def _differing(before: _Standing | None, after: _Standing | None) -> NDArray[np.intp]:
    if before is None or after is None or len(before.acting) != len(after.acting):
        told = after or before
        return np.arange(len(told.acting) if told else 0)
    changed = (before.acting != after.acting) | (before.lost != after.lost) | (before.stopped != after.stopped)
    return np.flatnonzero(changed)
