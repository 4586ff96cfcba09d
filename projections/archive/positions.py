"""Which records of an archive count: the position of each that the one rule accepts, and its chain verified on the way.

Threats. The tables of an archive hold every record that decodes: those of a deposed coordinator, what was sent twice,
half of a set whose end was never written, what was voided since. A report over them would count what never happened.

Invariant. A record has a position here if and only if every reader of the log has folded it, and it is the same one.

Argument. The records are judged by `events/fold.Judge` alone, in the order of their offsets, by stamps and bytes;
nothing is decoded but voidings and the ends of terms. So all chain hashes from the log's first record on are verified,
and `verified_at` says up to where. Offsets that the archive lacks are an error unless nothing stood there that counts
(`holes.py`). A reader that has folded a record stops at its voiding, and so does everybody until that voiding is voided
as well: of voidings the newest ones are therefore believed first, and a voided one voids nothing.

Kept beside the archive, in a folder that can be deleted at any time: files of positions, and how far they go. A file
counts once that says so, which is written in one step; what a crash leaves over is written over.

    derived/positions.json    how far
    derived/positions/        offset, position, set_end, term, logged_at
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # the same

from topolog.events.errors import BadInput, LogDiverged
from topolog.events.fold import Accepted, Header, Ignored, Judge, ends_term
from topolog.events.lookahead import voided_by
from topolog.events.topics import Topic
from topolog.projections.archive import reading
from topolog.projections.archive.holes import ArchiveIncomplete, Holes
from topolog.projections.archive.landings import Archive

FORMAT = 2
ROWS_PER_FILE = 1_000_000
DERIVED = "derived"
_HOW_FAR, _FILES, _LOCK = "positions.json", "positions", "lock"
Told = Callable[[str], None]

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


class HowFar(msgspec.Struct, frozen=True):
    """Where the judging stands, with no hole in doubt. `files` hold `accepted` rows; `open_offsets` are those of the
    set that is open."""

    format: int = FORMAT
    next_offset: int = 0
    logged_ms: int = 0
    header: Header = Header()
    open: tuple[Accepted, ...] = ()
    open_offsets: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    accepted: int = 0
    ignored: dict[str, int] = {}
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
    folder = folder or archive.folder / DERIVED
    with locked(folder / _FILES):
        # Looked at here, so that positions and tables are those of one moment.
        reading.check_whole(archive, Topic.DECISIONS.short_name)
        before = _read(folder, archive)
        judging = _Judging(before, archive.folder)
        for table in reading.tables(
            archive, Topic.DECISIONS.short_name, before.next_offset, columns=reading.RECORD_COLUMNS
        ):
            judging.table(table)
            if judging.rows >= ROWS_PER_FILE and judging.incomplete() is None:
                judging.write(folder)
                told(f"judged up to offset {judging.next_offset}: position {judging.judge.header.position}")
        if incomplete := judging.incomplete():
            raise incomplete  # nothing is kept of what stands behind: it is judged anew once the hole is filled
        return _positions(folder, judging.write(folder))


class _Judging:
    """The positions that were found and are not written yet, and where the judge stands."""

    def __init__(self, before: HowFar, archive: Path) -> None:
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
        self._columns: tuple[list[int], ...] = tuple([] for _ in SCHEMA)

    @property
    def rows(self) -> int:
        return len(self._columns[0])

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
            line = (offset, each.place.position, end, each.place.term, self._logged_ms)
            for column, value in zip(self._columns, line, strict=True):
                column.append(value)
            if ends_term(each.value):
                self.judge.end_term()
            voided = voided_by(each.value)
            if voided is not None:
                self._voidings.append(Voided(each.place.position, *voided))
        self._open_offsets.clear()

    def incomplete(self) -> ArchiveIncomplete | None:
        return self._holes.incomplete(self._archive)

    def write(self, folder: Path) -> HowFar:
        """Keep what was found; from here on it counts."""
        files = self._before.files
        if self.rows:
            files = (*files, f"{len(files):09}.parquet")
            write_table(folder / _FILES / files[-1], pa.table(list(self._columns), schema=SCHEMA))
        header, whole = self.judge.standing
        how_far = HowFar(
            next_offset=self.next_offset,
            logged_ms=self._logged_ms,
            header=header,
            open=whole,
            open_offsets=tuple(self._open_offsets),
            files=files,
            accepted=self._before.accepted + self.rows,
            ignored=self._ignored,
            voidings=tuple(self._voidings),
        )
        if how_far != self._before:
            write_whole(folder / _HOW_FAR, msgspec.json.encode(how_far))
        self._before = how_far
        self._columns = tuple([] for _ in SCHEMA)
        return how_far


def _positions(folder: Path, how_far: HowFar) -> Positions:
    header = how_far.header
    return Positions(
        files=tuple(folder / _FILES / name for name in how_far.files),
        accepted=how_far.accepted,
        ignored=how_far.ignored,
        voidings=_counting(how_far.voidings),
        verified_at=header.position,
        chain=header.chain.hex(),
        next_offset=how_far.next_offset,
        logged_ms=how_far.logged_ms,
    )


def _counting(voidings: tuple[Voided, ...]) -> tuple[Voided, ...]:
    """Those that are not voided themselves."""
    counting: dict[int, Voided] = {}
    for each in sorted(voidings, key=lambda each: -each.by):
        if each.by not in counting:
            counting[each.position] = each
    return tuple(counting[position] for position in sorted(counting))


def _read(folder: Path, archive: Archive) -> HowFar:
    """How far it goes; from the beginning if it is of another format or another log, or files of it are gone."""
    try:
        found = msgspec.json.decode((folder / _HOW_FAR).read_bytes(), type=HowFar)
    except (FileNotFoundError, msgspec.MsgspecError):
        return HowFar()
    log_id = found.header.log_id.hex() if found.header.log_id else ""
    assert archive.about is not None
    is_whole = all((folder / _FILES / name).exists() for name in found.files)
    is_same = "" in (log_id, archive.about.log_id) or log_id == archive.about.log_id
    return found if found.format == FORMAT and is_whole and is_same else HowFar()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One at a time derives; another waits, and finds it done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("w")
    except OSError as error:
        raise BadInput(
            f"{folder} cannot be written: {error.strerror}.", hint="What is derived of an archive is kept there."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_table(path: Path, table: pa.Table) -> None:
    """As `write_whole`."""
    written = path.with_name(f".{path.name}.new")
    pq.write_table(table, written, compression="zstd", use_dictionary=False)
    with written.open("rb") as file:
        os.fsync(file.fileno())
    written.replace(path)


def write_whole(path: Path, content: bytes) -> None:
    """Whole or not at all, and on the disk when this returns."""
    written = path.with_name(f".{path.name}.new")
    with written.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    written.replace(path)
