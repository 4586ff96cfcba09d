"""Which records of an archive count: the position of each that the one rule accepts, and its chain verified on the way.

Threats. The tables of an archive hold every record that decodes: those of a deposed coordinator, what was sent twice,
half of a set whose end was never written, what was voided since. A report over them would count what never happened.

Invariant. A record has a position here if and only if every reader of the log has folded it, and it is the same one.

Argument. The records are judged by `events/fold.Judge` alone, in the order of their offsets, by stamps and bytes;
nothing is decoded but voidings and the ends of terms. So all chain hashes from the log's first record on are verified,
and `verified_at` says up to where. Offsets that the archive lacks are an error unless nothing stood there that counts
(`holes.py`). A reader that has folded a record stops at its voiding, and so does everybody until that voiding is voided
as well: of voidings the newest ones are therefore believed first, and a voided one voids nothing.

Kept beside the archive (`derived.py`), with columns offset, position, set_end, term, logged_at.
"""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from topolog.events.errors import LogDiverged
from topolog.events.fold import Accepted, Ignored, Judge, ends_term
from topolog.events.lookahead import voided_by
from topolog.events.topics import Topic
from topolog.projections.archive import reading
from topolog.projections.archive.derived import Derived, Kept, Lines, Told
from topolog.projections.archive.holes import ArchiveIncomplete, Holes
from topolog.projections.archive.landings import Archive

FORMAT = "2"
ROWS_PER_FILE = 1_000_000

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("position", pa.int64()),
        ("set_end", pa.int64()),
        ("term", pa.int64()),
        ("logged_at", pa.timestamp("ms", tz="UTC")),
    ]
)
"""`set_end` is the position of the set's last record; `logged_at` the log's own time of the set, which never runs
backwards over positions (LogAppendTime)."""


class Voided(msgspec.Struct, frozen=True):
    """The decision at `by` voids the one at `position`, whose chain hash is `chain`."""

    by: int
    position: int
    chain: bytes


class _Kept(Kept, frozen=True):
    """Where the judging stands, with no hole in doubt. The tables have `accepted` rows; `open_offsets` are those of the
    set that is open."""

    open: tuple[Accepted, ...] = ()
    open_offsets: tuple[int, ...] = ()
    accepted: int = 0
    ignored: dict[str, int] = msgspec.field(default_factory=dict)
    voidings: tuple[Voided, ...] = ()


class Positions(msgspec.Struct, frozen=True):
    """The positions of an archive. `verified_at` is the last position whose chain hash (`chain`, hex) was verified from
    the log's first record on; -1 if there is no decision. `next_offset`: of the first record that was not judged."""

    files: tuple[Path, ...]
    accepted: int
    ignored: dict[str, int]
    voidings: tuple[Voided, ...]
    verified_at: int
    chain: str
    next_offset: int
    logged_ms: int

    @property
    def voided(self) -> list[int]:
        """Positions of records that are left out."""
        return [each.position for each in self.voidings]

    @property
    def logged_at(self) -> datetime:
        """The log's time at its end (UTC)."""
        return datetime.fromtimestamp(self.logged_ms / 1000, UTC)


def brought_forward(archive: Archive, folder: Path | None = None, told: Told = lambda _: None) -> Positions:
    """Judge what has landed since; `folder` holds what is derived, below the archive if nothing is said.

    Raises DamagedArchive where the archive lacks what landings say that it has, ArchiveIncomplete where it lacks
    another part of the log, LogDiverged where it holds another history, BadInput if nothing can be written there.
    """
    derived = Derived(archive, folder, "positions", _Kept(FORMAT))
    with derived.locked():
        # Looked at here, so that positions and tables are those of one moment.
        reading.check_whole(archive, Topic.DECISIONS.short_name)
        before = derived.read()
        judging = _Judging(before, archive.folder)
        for table in reading.tables(
            archive, Topic.DECISIONS.short_name, before.next_offset, columns=reading.RECORD_COLUMNS
        ):
            judging.table(table)
            if len(judging.lines) >= ROWS_PER_FILE and judging.incomplete() is None:
                judging.write(derived)
                told(f"judged up to offset {judging.next_offset}: position {judging.judge.header.position}")
        if incomplete := judging.incomplete():
            raise incomplete  # nothing is kept of what stands behind: it is judged anew once the hole is filled
        return _positions(derived, judging.write(derived))


class _Judging:
    """The positions that were found and are not written yet, and where the judge stands."""

    def __init__(self, before: _Kept, archive: Path) -> None:
        self.judge = Judge()
        self.judge.stand((before.header, before.open))
        self.next_offset = before.next_offset
        self._archive = archive
        self._before = before
        self._logged_ms = before.logged_ms
        self._ignored = dict(before.ignored)
        self._voidings = list(before.voidings)
        self._open_offsets = list(before.open_offsets)
        self._holes = Holes()
        self.lines = Lines(SCHEMA)

    def table(self, table: pa.Table) -> None:
        """Judge these records, which follow those before."""
        for record in reading.records(table):
            self._record(record)

    def _record(self, record: reading.Record) -> None:
        if record.offset != self.next_offset:
            self._holes.found(self.next_offset, record.offset)
        self.next_offset = record.offset + 1
        self._logged_ms = max(self._logged_ms, record.appended_ms)
        try:
            verdict = self.judge.judge(record.stamp, record.value)
        except LogDiverged as error:
            raise self.incomplete() or error from error
        if isinstance(verdict, Ignored):
            if verdict is Ignored.GAP:
                self._open_offsets.clear()
            self._ignored[verdict.name] = self._ignored.get(verdict.name, 0) + 1
            return
        if self.judge.header.next_sequence == 1:
            self._open_offsets.clear()  # it opens a term: a set of the one before was cut short
        self._holes.counted(record.offset, record.stamp or b"")
        self._open_offsets.append(record.offset)
        if verdict:
            self._whole(verdict)

    def _whole(self, accepted: list[Accepted]) -> None:
        end = accepted[-1].place.position
        for each, offset in zip(accepted, self._open_offsets, strict=True):
            self.lines.add((offset, each.place.position, end, each.place.term, self._logged_ms))
            if ends_term(each.value):
                self.judge.end_term()
            voided = voided_by(each.value)
            if voided is not None:
                self._voidings.append(Voided(each.place.position, *voided))
        self._open_offsets.clear()

    def incomplete(self) -> ArchiveIncomplete | None:
        return self._holes.incomplete(self._archive)

    def write(self, derived: Derived[_Kept]) -> _Kept:
        """Keep what was found; from here on it counts."""
        header, whole = self.judge.standing
        kept = _Kept(
            format=FORMAT,
            next_offset=self.next_offset,
            logged_ms=self._logged_ms,
            header=header,
            open=whole,
            open_offsets=tuple(self._open_offsets),
            files=self._before.files,
            accepted=self._before.accepted + len(self.lines),
            ignored=self._ignored,
            voidings=tuple(self._voidings),
        )
        if kept != self._before:
            self._before = derived.write(kept, self.lines.drained())
        return self._before


def _positions(derived: Derived[_Kept], kept: _Kept) -> Positions:
    header = kept.header
    return Positions(
        files=derived.paths(kept),
        accepted=kept.accepted,
        ignored=kept.ignored,
        voidings=_counting(kept.voidings),
        verified_at=header.position,
        chain=header.chain.hex(),
        next_offset=kept.next_offset,
        logged_ms=kept.logged_ms,
    )


def _counting(voidings: tuple[Voided, ...]) -> tuple[Voided, ...]:
    """Those that are not voided themselves."""
    counting: dict[int, Voided] = {}
    for each in sorted(voidings, key=lambda each: -each.by):
        if each.by not in counting:
            counting[each.position] = each
    return tuple(counting[position] for position in sorted(counting))
