"""The log of an archive: which offsets have landed, in which files, and how a landing comes to stand.

An archive is a folder with the topics of one cluster as Parquet tables. Spark writes the files; this says which count.

Threats. A job dies at any point, or the power goes, and its batch is done again, by this job or another one; two jobs
land at once; a backfill covers what the stream has landed; somebody reads the tables while they are written; the folder
belongs to another cluster or to the life before a topic was made anew; records are deleted from a topic before they
have landed.

Invariant. Each record is in the archive once or not at all, and each file below `records/`, `tables/` and `quarantine/`
is part of a landing that stands.

Argument. A landing is written into a folder of its own below `staging/`. It stands from the moment at which its
description has its name in `landings/`. That is a link to a file that is on the disk already, as is all that it names,
with the folders on the way there; and it fails if there is one of that name: of two jobs one has landed, and the other
ends, to go on behind it when it is started again. Landings alone say where a stream goes on: there is no checkpoint
beside them that could be lost, be older, or be another's. A job leaves out of its batch what landings say that they
have, so what is done again after a crash adds nothing. The files of a landing that stands are then moved into the
tables, which may be done twice; whoever opens the archive for writing finishes what was left, and removes what belongs
to no landing. What was deleted before it landed is in a landing as lost, if an operator says so: a hole that nobody has
seen there is none.

    archive.json      whose archive this is
    landings/         one description per landing: 000000000012.json
    staging/          files of landings that do not stand yet, or are not moved yet; Spark's own notes of one run
    records/          every record as it came, by topic and day
    tables/           decisions and requests decoded, one table per type, by day
    quarantine/       what could not be decoded, and why
    derived/          what follows from the rest (`derived.py`); may be removed
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from topolog.events.errors import BadInput, Permanent
from topolog.projections.archive import durable
from topolog.projections.archive.spans import Span, merged

FORMAT = 1
TABLES = RECORDS, TYPED, QUARANTINE = "records", "tables", "quarantine"
"""Every record as it came, those decoded (one table per type), and what could not be decoded."""

_ABOUT, _LANDINGS, _STAGING, _LOCK = "archive.json", "landings", "staging", "lock"
_DIGITS = 12
T = TypeVar("T")


class About(msgspec.Struct, frozen=True):
    """Whose archive a folder is. `log_id` (hex) is that of the cluster's log, empty until its first record has
    landed; `topic_ids` are those that Kafka gives, by the topics' short names; `begins` is of each partition
    (`requests/0`) the oldest offset that there was when a job first set out to land all of it."""

    format: int
    cluster: str
    log_id: str = ""
    topic_ids: dict[str, str] = {}
    begins: dict[str, int] = {}


class Landing(msgspec.Struct, frozen=True):
    """What one landing has. `rows` by table; `files` are below the archive, relative; `source` says which job it was.

    `spans` begin and end with a record; `read` is what the job has read for it, in which the first and the last offset
    may hold none (the mark of a transaction, a record that was compacted away). `lost` was deleted before it landed.
    `landed_ms` is wall time (UTC), for people.
    """

    number: int
    source: str
    spans: tuple[Span, ...]
    rows: dict[str, int]
    files: tuple[str, ...]
    landed_ms: int
    read: tuple[Span, ...] = ()
    lost: tuple[Span, ...] = ()

    @property
    def records(self) -> int:
        return self.rows.get(RECORDS, 0)


class DamagedArchive(Permanent):
    """Something that a landing says it has is not there, or cannot be read. It says nothing of any store."""

    code = "damaged_archive"


class LandedElsewhere(Permanent):
    """Another job has made the landing of this number."""

    code = "landed_elsewhere"


class Archive:
    """One archive folder, for reading. `landings` are read once; `refresh` looks for newer ones."""

    def __init__(self, folder: Path) -> None:
        """Raises BadInput if there is no archive in the folder, DamagedArchive if it cannot be read."""
        self.folder = folder.absolute()  # the JVM of Spark runs in a folder of its own
        about = _read(folder / _ABOUT, About)
        if about is None:
            raise BadInput(f"{folder} is no archive.", hint="`topolog spark archive --to FOLDER` makes one.")
        if about.format != FORMAT:
            raise BadInput(
                f"The archive in {folder} has format {about.format}, and this release reads {FORMAT}.",
                hint="Use the release that has made it, or land the topics anew in another folder.",
            )
        self.about = about
        self.landings: list[Landing] = []
        newest = max((path.name for path in (folder / _LANDINGS).glob("*.json")), default="")
        self.refresh()  # behind the look at what is there: what lands meanwhile is no loss
        self._check_numbers(newest)

    @staticmethod
    def is_at(folder: Path) -> bool:
        """Whether the folder is an archive; it may be damaged."""
        return (folder / _ABOUT).is_file()

    def refresh(self) -> None:
        """Read the landings that have come since."""
        while (found := _read(self._landing_path(len(self.landings)), Landing)) is not None:
            self.landings.append(found)

    def spans(self) -> tuple[Span, ...]:
        """The offsets that have landed."""
        return merged(span for landing in self.landings for span in landing.spans)

    def covered(self) -> tuple[Span, ...]:
        """The offsets that need not be read again: landed, without a record, or lost."""
        return merged(span for each in self.landings for span in (*each.spans, *each.read, *each.lost))

    def lost(self) -> tuple[Span, ...]:
        """The offsets that were deleted before they landed."""
        return merged(span for landing in self.landings for span in landing.lost)

    @property
    def records(self) -> int:
        """How many records have landed."""
        return sum(landing.records for landing in self.landings)

    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        found: dict[str, int] = {}
        for landing in self.landings:
            for table, count in landing.rows.items():
                found[table] = found.get(table, 0) + count
        return found

    def files(self, prefix: str, of: Landing | None = None) -> list[Path]:
        """The files of a table, of a part of one, or all (""), that stand: in the tables or still on their way there,
        where a writer may move them at any moment (`final`); those of all landings, or of one."""
        found = []
        for landing in self.landings if of is None else (of,):
            for name in landing.files:
                if not prefix or name.startswith(f"{prefix}/"):
                    moved = self.folder / name
                    found.append(moved if moved.exists() else self._staged(landing.number) / name)
        return found

    def final(self, path: Path) -> Path:
        """Where one of `files` stands for good: in the tables."""
        staging = self.folder / _STAGING
        return self.folder / Path(*path.relative_to(staging).parts[1:]) if path.is_relative_to(staging) else path

    def missing(self, prefix: str = "") -> list[Path]:
        """Those of `files` that are not there."""
        gone = [self.final(path) for path in self.files(prefix) if not path.exists()]
        return [path for path in gone if not path.exists()]

    def check_named(self, *tables: str) -> None:
        """Read newer landings, and raise DamagedArchive if there are files of these tables that none names: what they
        have would land twice, and who reads what is named would miss it."""
        there = [path for table in tables for path in (self.folder / table).rglob("*.parquet")]
        self.refresh()  # behind the look at what is there: what lands meanwhile is no loss
        named = {name for landing in self.landings for name in landing.files}
        if unnamed := sorted({str(path.relative_to(self.folder)) for path in there} - named):
            raise DamagedArchive(
                f"No landing of {self.folder} names {unnamed[0]}: the description of the newest one is missing.",
                hint="Bring it back from a backup, or land the topics anew in another folder.",
            )

    def _check_numbers(self, newest: str) -> None:
        """One description that is gone would hide all behind it."""
        if newest > self._landing_path(len(self.landings)).name:
            raise DamagedArchive(
                f"{self._landing_path(len(self.landings))} is missing, and there is {newest}.",
                hint="Bring it back from a backup, or land the topics anew in another folder.",
            )

    def _staged(self, number: int) -> Path:
        return self.folder / _STAGING / f"{number:0{_DIGITS}}"

    def _landing_path(self, number: int) -> Path:
        return self.folder / _LANDINGS / f"{number:0{_DIGITS}}.json"


class ArchiveWriter(Archive):
    """An archive that this process lands into; `opened` gives one."""

    def identify(self, log_id: bytes, topic_ids: Mapping[str, str] = {}) -> None:
        """Note the cluster's log at its first record (empty before), and Kafka's ids of the topics.

        Raises BadInput if the archive was made of another log, or of topics that have been made anew since.
        """
        known, found = self.about.log_id, log_id.hex()
        if known and found and known != found:
            raise BadInput(
                f"The archive in {self.folder} has log {known}, and the topics have log {found}: "
                "they were made anew, or belong to another cluster.",
                hint="Land them in another folder, and keep this one: it is all that is left of that log.",
            )
        for topic, id_ in topic_ids.items():
            if self.about.topic_ids.get(topic, id_) != id_:
                raise BadInput(
                    f"The topic {topic} was made anew since it was landed in {self.folder}: it has other offsets now.",
                    hint="Land it in another folder, and keep this one: it is all that is left of those records.",
                )
        self._describe(log_id=known or found, topic_ids={**self.about.topic_ids, **topic_ids})

    def begin(self, offsets: Mapping[str, int]) -> None:
        """Note the oldest offset of each partition that a job is about to land; what was noted before stays."""
        self._describe(begins={**offsets, **self.about.begins})

    def _describe(self, **said: Any) -> None:
        about = msgspec.structs.replace(self.about, **said)
        if about != self.about:
            _write(self.folder / _ABOUT, about)
            self.about = about

    def staged(self) -> Path:
        """The empty folder for the files of the next landing."""
        folder = self._staged(len(self.landings))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def scratch(self, name: str) -> Path:
        """An empty folder on the same disk, which no process has had before: the JVM of one that was killed goes on
        writing for a moment."""
        (self.folder / _STAGING).mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder / _STAGING))

    def land(
        self,
        source: str,
        spans: Sequence[Span],
        rows: dict[str, int],
        landed_ms: int,
        read: Sequence[Span] = (),
    ) -> Landing:
        """Make what is staged stand, and move it into the tables; raises LandedElsewhere if another job was first."""
        return self._stand(Landing(len(self.landings), source, tuple(spans), rows, (), landed_ms, tuple(read)))

    def give_up(self, lost: Sequence[Span], landed_ms: int) -> Landing:
        """Note that these offsets were deleted before they landed, so that what comes behind them can land."""
        self.staged()
        return self._stand(Landing(len(self.landings), "given up", (), {}, (), landed_ms, lost=tuple(lost)))

    def _stand(self, landing: Landing) -> Landing:
        number = landing.number
        folder = self._staged(number)
        files = tuple(sorted(str(path.relative_to(folder)) for path in _parquet(folder)))
        if landing.records and not files:
            raise LandedElsewhere(f"Another process has removed what was to be landing {number} of {self.folder}.")
        landing = msgspec.structs.replace(landing, files=files)
        durable.sync(folder / name for name in files)
        durable.sync_names((folder / name for name in files), self.folder)
        described = folder / "landing.json"
        _write(described, landing)
        try:
            os.link(described, self._landing_path(number))
        except FileExistsError:
            raise LandedElsewhere(
                f"Another job has made landing {number} of {self.folder}.",
                hint="One archive has one writer. Start again: it goes on behind what has landed.",
            ) from None
        durable.sync_folder(self.folder / _LANDINGS)
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
        durable.sync_names((self.folder / name for name in landing.files), self.folder)
        shutil.rmtree(staged)


@contextmanager
def opened(folder: Path, cluster: str) -> Iterator[ArchiveWriter]:
    """The archive of this cluster in the folder, which is made if there is none; one process at a time.

    Raises BadInput if the folder is another cluster's, has something else in it, or another process lands there.
    """
    _check_free(folder)
    try:
        durable.make_folder(folder / _LANDINGS)
        opened_lock = (folder / _LOCK).open("w")
    except OSError as error:
        raise BadInput(f"{folder} cannot hold an archive: {error.strerror}.") from error
    with opened_lock as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"Another process lands into {folder}.", hint="One archive has one writer; wait for it, or stop it."
            ) from None
        if not (folder / _ABOUT).exists():
            _write(folder / _ABOUT, About(FORMAT, cluster))
        archive = ArchiveWriter(folder)
        if archive.about.cluster != cluster:
            raise BadInput(
                f"The archive in {folder} is that of cluster {archive.about.cluster!r}, not of {cluster!r}.",
                hint="Each cluster has a folder of its own.",
            )
        archive.recover()
        archive.check_named(*TABLES)
        yield archive


def _check_free(folder: Path) -> None:
    """What is in a folder by mistake is not to become, or to be removed as, part of an archive."""
    if (folder / _ABOUT).exists() or not folder.exists():
        return
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder.", hint="An archive is made in a folder that is new or empty.")
    own = (folder / _LANDINGS, folder / _LOCK, durable.unfinished(folder / _ABOUT))
    others = sorted(path.name for path in folder.iterdir() if path not in own)
    if others:
        raise BadInput(
            f"{folder} holds no archive, but {others[0]}.", hint="An archive is made in a folder that is new or empty."
        )


def _parquet(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*.parquet") if not path.name.startswith(("_", ".")))


def _read(path: Path, type_: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=type_)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise DamagedArchive(f"{path} cannot be read: {error}.") from error


def _write(path: Path, value: msgspec.Struct) -> None:
    durable.write(path, msgspec.json.format(msgspec.json.encode(value)))
