"""A folder of Parquet files as a replica: plain or partitioned (`name=value` folders), as Spark and others write it.

Threats. A file is rewritten while it is read, or between two steps of one session. A folder is listed while somebody
is replacing all of it. A repair dies between two files.

Invariant. A read point is a folder of hard links, so that later files in their place do not change it; its name is a
hash of what the files are: paths, sizes, times and footers. A row is written by putting one file in place of another in
one step, so that a reader sees each row as it was or as it is to be, and never both or none; a row that goes to another
partition stands in both for the moment between two files.

Argument. Writers of Parquet make new files; none opens one to change it. Who lists a folder while Spark overwrites it
sees `_temporary` in it, or another list at the second look: then it looks again, and in the end says that it is busy.
Files that are to be replaced are compared with the read point first.
"""

import hashlib
import os
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from topolog.events.errors import ReplicaFailed
from topolog.events.replica_access import Fence, Progress
from topolog.events.tree_spec import TreeSpec
from topolog.projections.spark.carried_rows import CarriedRows
from topolog.projections.spark.replica import Change, Described

_LOOKS = 5
_FILE = "topolog_file"
_HIDDEN = ("_", ".")


class _File(msgspec.Struct, frozen=True, order=True):
    """A file by its path below the folder, and what would be another if it were replaced."""

    path: str
    size: int
    modified_ns: int


class ParquetSource:
    """`folder` holds the files. Read points are kept beside it in `.<folder>.topolog/`, unless `cuts` names a place."""

    looks_again = False

    def __init__(self, folder: Path, *, cuts: Path | None = None) -> None:
        self._folder = folder.absolute()
        self._cuts = cuts or self._folder.parent / f".{self._folder.name}.topolog"

    def describe(self, session: SparkSession) -> Described:
        files = self._listed() or []
        rows = sum(_rows(self._folder / each.path) for each in files)
        size = sum(each.size for each in files)
        is_writable = os.access(self._folder, os.W_OK)
        return Described(self.frame(session, None).schema, rows, size // rows if rows else 0, is_writable=is_writable)

    def cut(self, progress: Progress, shared: str | None = None) -> str | None:
        """Raises ReplicaFailed CORRUPT for a file that is no Parquet, IO while somebody replaces the files."""
        if shared is not None and self._place(shared).is_dir():
            return shared
        for _ in range(_LOOKS):
            place = self._cuts / f"new-{uuid.uuid4().hex}"
            try:
                files = self._listed()
                if files is not None and self._linked(files, place, progress) and files == self._listed():
                    content = (files, [_footer(place / each.path) for each in files])
                    return self._keep(place, hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest()[:32])
            finally:
                shutil.rmtree(place, ignore_errors=True)
        raise ReplicaFailed("IO", f"{self._folder} is being written, and has no read point.", hint="Try again later.")

    def cuts(self) -> set[str]:
        return {each.name for each in self._cuts.iterdir()} if self._cuts.is_dir() else set()

    def frame(self, session: SparkSession, cut: str | None) -> DataFrame:
        place = self._place(cut)
        if cut is not None and not place.is_dir():
            raise ReplicaFailed("CUT_LOST", f"{self._folder} no longer has the read point {cut}.")
        return session.read.parquet(str(place))

    def write(
        self, session: SparkSession, spec: TreeSpec, changes: Sequence[Change], cut: str | None, fence: Fence
    ) -> int:
        """New rows make new files; then the files with rows of these keys are written anew, one by one."""
        stored = self.frame(session, cut)
        sent = CarriedRows(session, spec, changes, stored.schema)
        workplace = self._cuts / f"new-{uuid.uuid4().hex}"
        try:
            touched = sent.beside(stored.withColumn(_FILE, F.col("_metadata.file_path"))).select(_FILE).distinct()
            paths = sorted(unquote(urlparse(row[0]).path) for row in touched.collect() if row[0])
            self._insert(sent, stored, self._partitions(stored, cut), workplace / "new", fence)
            for number, path in enumerate(paths):
                self._replace(sent, stored, Path(path), cut, workplace / str(number), fence)
            return len(changes)
        finally:
            shutil.rmtree(workplace, ignore_errors=True)

    def release(self, cut: str) -> None:
        shutil.rmtree(self._cuts / cut, ignore_errors=True)
        with suppress(OSError):  # others are kept
            self._cuts.rmdir()

    def _place(self, cut: str | None) -> Path:
        return self._folder if cut is None else self._cuts / cut

    def _listed(self) -> list[_File] | None:
        """The files as Spark finds them, None while Spark is replacing them."""
        found = []
        try:
            for place, folders, names in os.walk(self._folder, onerror=_raise):
                if "_temporary" in folders:
                    return None
                folders[:] = [name for name in folders if not name.startswith(_HIDDEN) or "=" in name]
                for path in (Path(place) / name for name in names if not name.startswith(_HIDDEN)):
                    stat = path.stat()
                    found.append(_File(path.relative_to(self._folder).as_posix(), stat.st_size, stat.st_mtime_ns))
        except FileNotFoundError:
            if not self._folder.is_dir():
                raise ReplicaFailed("IO", f"There is no folder {self._folder}.") from None
            return None
        return sorted(found)

    def _linked(self, files: Sequence[_File], place: Path, progress: Progress) -> bool:
        """Whether all of them were there to be linked, or copied where there are no links."""
        place.mkdir(parents=True)
        size = 0
        try:
            for each in files:
                _link(self._folder / each.path, place / each.path)
                size += each.size
                progress(0, size)
        except FileNotFoundError:
            return False
        return True

    def _keep(self, place: Path, name: str) -> str:
        kept = self._cuts / name
        if not kept.is_dir():
            place.rename(kept)
        return name

    def _partitions(self, stored: DataFrame, cut: str | None) -> list[str]:
        """The columns that are folders, the outermost first."""
        first = next((each for each in self._listed() or [] if "=" in each.path), None)
        names = [] if first is None else [part.partition("=")[0] for part in Path(first.path).parent.parts]
        return [name for name in map(unquote, names) if name in stored.schema.names]

    def _insert(
        self, sent: CarriedRows, stored: DataFrame, partitions: Sequence[str], made: Path, fence: Fence
    ) -> None:
        """Rows that are nowhere, and those that go to another partition."""
        writer = sent.new(stored, partitions).coalesce(1).write
        (writer.partitionBy(*partitions) if partitions else writer).parquet(str(made))
        for file in sorted(made.rglob("*.parquet")):
            if _rows(file):
                fence()
                place = self._folder / file.relative_to(made)
                place.parent.mkdir(parents=True, exist_ok=True)
                file.replace(place)

    def _replace(
        self, sent: CarriedRows, stored: DataFrame, path: Path, cut: str | None, made: Path, fence: Fence
    ) -> None:
        """Put a file with these changes in the place of the one at `path` of the read point."""
        base = self._place(cut)
        target = self._folder / path.relative_to(base)
        partitions = self._partitions(stored, cut)
        reader = stored.sparkSession.read.schema(stored.schema).option("basePath", str(base))
        rows = sent.applied(reader.parquet(str(path)), partitions).drop(*partitions)
        rows.coalesce(1).write.parquet(str(made))
        (file,) = made.glob("*.parquet")
        fence()
        before, now = path.stat(), target.stat()
        if (before.st_size, before.st_mtime_ns) != (now.st_size, now.st_mtime_ns):
            raise ReplicaFailed("IO", f"{target} has been replaced since its rows were read.", hint="Repair again.")
        target.with_name(f".{target.name}.crc").unlink(missing_ok=True)  # Hadoop's, of the file that was there
        file.replace(target)


def _raise(error: OSError) -> None:
    raise error


def _link(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, place)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        shutil.copy2(file, place)  # another file system, or one that knows no links


def _footer(file: Path) -> bytes:
    """SHA-256 of where a file's statistics and types stand; raises ReplicaFailed CORRUPT."""
    with file.open("rb") as opened:
        opened.seek(-min(8, file.stat().st_size), os.SEEK_END)
        end = opened.read(8)
        size = int.from_bytes(end[:4], "little")
        if len(end) < 8 or end[4:] != b"PAR1" or size > file.stat().st_size - 8:
            raise ReplicaFailed("CORRUPT", f"{file.name} is no whole Parquet file.", hint="Write it anew.")
        opened.seek(-8 - size, os.SEEK_END)
        return hashlib.sha256(opened.read(size)).digest()


def _rows(file: Path) -> int:
    try:
        return int(pq.read_metadata(file).num_rows)
    except pa.ArrowInvalid as error:
        raise ReplicaFailed("CORRUPT", f"{file.name} is no whole Parquet file.", hint="Write it anew.") from error
