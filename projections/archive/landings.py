"""The log of an archive: which offsets have landed, in which files, and how a landing comes to stand.

An archive is a folder with the topics of one cluster as Parquet tables. Spark writes the files; this says which count.

Threats. A job dies at any point and does its batch again, or another one does; two jobs land at once; a backfill covers
what the stream has landed; somebody reads the tables while they are written; the folder, or its checkpoint, belongs to
another cluster or to the life before a topic was made anew.

Invariant. Each record is in the archive once or not at all, and each file below `records/`, `tables/` and `quarantine/`
is part of a landing that stands.

Argument. A landing is written into a folder of its own below `staging/`. It stands from the moment at which its
description has its name in `landings/`, which is a link to a file that is on the disk already, and fails if there is
one of that name: of two jobs one has landed, and the other begins again behind it. A job leaves out of its batch what
landings say that they have, so what is done again after a crash adds nothing. The files of a landing that stands are
then moved into the tables, which may be done twice; whoever opens the archive for writing finishes what was left, and
removes what belongs to no landing.

    archive.json      whose archive this is
    landings/         one description per landing: 000000000012.json
    staging/          files of landings that do not stand yet, or are not moved yet
    checkpoint/       how far the stream has read, kept by Spark
    records/          every record as it came, by topic and day
    tables/           decisions and requests decoded, one table per type, by day
    quarantine/       what could not be decoded, and why
"""

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from topolog.events.errors import BadInput, DamagedStore, Permanent
from topolog.projections.archive.spans import Span, merged

FORMAT = 1
TABLES = ("records", "tables", "quarantine")
_ABOUT, _LANDINGS, _STAGING, _LOCK = "archive.json", "landings", "staging", "lock"
_DIGITS = 12
T = TypeVar("T")


class About(msgspec.Struct, frozen=True):
    """Whose archive a folder is. `log_id` (hex) is that of the cluster's log, empty until its first record has
    landed."""

    format: int
    cluster: str
    log_id: str = ""


class Landing(msgspec.Struct, frozen=True):
    """What one landing has. `rows` by table; `files` are below the archive, relative; `source` says which job it was.

    `landed_ms` is wall time (UTC), for people.
    """

    number: int
    source: str
    spans: tuple[Span, ...]
    rows: dict[str, int]
    files: tuple[str, ...]
    landed_ms: int


class LandedElsewhere(Permanent):
    """Another job has made the landing of this number."""

    code = "landed_elsewhere"


class Archive:
    """One archive folder, for reading. `landings` are read once; `refresh` looks for newer ones."""

    def __init__(self, folder: Path) -> None:
        """Raises BadInput if there is no archive in the folder, DamagedStore if it cannot be read."""
        self.folder = folder
        self.about = _read(folder / _ABOUT, About)
        if self.about is None:
            raise BadInput(f"{folder} is no archive.", hint="`topolog spark archive --to FOLDER` makes one.")
        if self.about.format != FORMAT:
            raise BadInput(
                f"The archive in {folder} has format {self.about.format}, and this release reads {FORMAT}.",
                hint="Use the release that has made it, or land the topics anew in another folder.",
            )
        self.landings: list[Landing] = []
        self.refresh()

    def refresh(self) -> None:
        """Read the landings that have come since."""
        while (found := _read(self._landing_path(len(self.landings)), Landing)) is not None:
            self.landings.append(found)

    def spans(self) -> tuple[Span, ...]:
        """The offsets that have landed."""
        return merged(span for landing in self.landings for span in landing.spans)

    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        found: dict[str, int] = {}
        for landing in self.landings:
            for table, count in landing.rows.items():
                found[table] = found.get(table, 0) + count
        return found

    def files(self, prefix: str, of: Landing | None = None) -> list[Path]:
        """The files of a table, or of a part of one, that stand: in the tables or still on their way there; all of
        them, or those of one landing."""
        found = []
        for landing in self.landings if of is None else (of,):
            for name in landing.files:
                if name.startswith(f"{prefix}/"):
                    moved = self.folder / name
                    found.append(moved if moved.exists() else self._staged(landing.number) / name)
        return found

    def _staged(self, number: int) -> Path:
        return self.folder / _STAGING / f"{number:0{_DIGITS}}"

    def _landing_path(self, number: int) -> Path:
        return self.folder / _LANDINGS / f"{number:0{_DIGITS}}.json"


class ArchiveWriter(Archive):
    """An archive that this process lands into; `opened` gives one."""

    def identify(self, log_id: bytes) -> None:
        """Note the cluster's log at its first record; raises BadInput if the archive has another one's."""
        assert self.about is not None
        if self.about.log_id not in ("", log_id.hex()):
            raise BadInput(
                f"The archive in {self.folder} has log {self.about.log_id}, and the topics have log {log_id.hex()}: "
                "they were made anew, or belong to another cluster.",
                hint="Land them in another folder, and keep this one: it is all that is left of that log.",
            )
        if not self.about.log_id:
            self.about = msgspec.structs.replace(self.about, log_id=log_id.hex())
            _write(self.folder / _ABOUT, self.about)

    def staged(self) -> Path:
        """The empty folder for the files of the next landing."""
        folder = self._staged(len(self.landings))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def land(self, source: str, spans: Sequence[Span], rows: dict[str, int], landed_ms: int) -> Landing:
        """Make what is staged stand, and move it into the tables; raises LandedElsewhere if another job was first."""
        number = len(self.landings)
        folder = self._staged(number)
        files = tuple(sorted(str(path.relative_to(folder)) for path in _parquet(folder)))
        landing = Landing(number, source, tuple(spans), rows, files, landed_ms)
        _sync(folder / name for name in files)
        described = folder / "landing.json"
        _write(described, landing)
        try:
            os.link(described, self._landing_path(number))
        except FileExistsError:
            raise LandedElsewhere(f"Another job has made landing {number} of {self.folder}.") from None
        _sync_folder(self.folder / _LANDINGS)
        self.landings.append(landing)
        self._move(landing)
        return landing

    def recover(self) -> None:
        """Move what stands and was not moved; remove what belongs to no landing."""
        for landing in self.landings:
            self._move(landing)
        shutil.rmtree(self.folder / _STAGING, ignore_errors=True)

    def _move(self, landing: Landing) -> None:
        staged = self._staged(landing.number)
        if not staged.exists():
            return
        for name in landing.files:
            source, target = staged / name, self.folder / name
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.replace(target)
        shutil.rmtree(staged)


@contextmanager
def opened(folder: Path, cluster: str) -> Iterator[ArchiveWriter]:
    """The archive of this cluster in the folder, which is made if there is none; one process at a time.

    Raises BadInput if the folder is another cluster's or another process lands there.
    """
    (folder / _LANDINGS).mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"Another process lands into {folder}.", hint="One archive has one writer; wait for it, or stop it."
            ) from None
        if not (folder / _ABOUT).exists():
            _write(folder / _ABOUT, About(FORMAT, cluster))
        archive = ArchiveWriter(folder)
        assert archive.about is not None
        if archive.about.cluster != cluster:
            raise BadInput(
                f"The archive in {folder} is that of cluster {archive.about.cluster!r}, not of {cluster!r}.",
                hint="Each cluster has a folder of its own.",
            )
        archive.recover()
        yield archive


def _parquet(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*.parquet") if not path.name.startswith(("_", ".")))


def _read(path: Path, type_: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=type_)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise DamagedStore(f"{path} cannot be read: {error}.") from error


def _write(path: Path, value: msgspec.Struct) -> None:
    """Whole or not at all, and on the disk when this returns."""
    written = path.with_name(f".{path.name}.new")
    with written.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(value)))
        file.flush()
        os.fsync(file.fileno())
    written.replace(path)
    _sync_folder(path.parent)


def _sync(paths: Iterable[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
