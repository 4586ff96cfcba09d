"""A folder of Parquet files as a replica: plain or partitioned (`name=value` folders), as Spark and others write it.

Threats. A file is rewritten while it is read, or between two steps of one session. A folder is listed while somebody
is replacing all of it. Somebody adds a file with the very row that is about to be written. A repair dies between two
files. Files have columns that Spark does not show.

Invariant. A read point is a folder of hard links, so that later files in their place do not change it; its name is a
hash of what the files are: paths, sizes, times and footers. All its files have the same columns. A row is written by
putting one file in place of another in one step, so that a reader sees each row as it was or as it is to be, and never
both or none; a row that goes to another partition stands in both for the moment between two files, or until it is
written again where a repair has died in it.

Argument. Writers of Parquet make new files; none opens one to change it. Who lists a folder while Spark overwrites it
sees `_temporary` in it, or another list at the second look: then it looks again, and in the end says that it is busy.
Before each file is put in its place the folder is listed anew, behind the fence: a file that was replaced meanwhile is
not replaced by ours, and one that has come is looked at for the rows that are to be written. What comes between that
list and the step is as if it had come behind it.
"""

import hashlib
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.errors import ReplicaFailed
from topolog.events.replica_access import Fence, Progress
from topolog.events.tree_spec import TreeSpec
from topolog.projections.spark.carried_rows import CarriedRows
from topolog.projections.spark.replica import Change, Described
from topolog.projections.spark.sources.parquet_files import (
    File,
    Footer,
    check_alike,
    footers,
    linked,
    listed,
    partitions,
)

_LOGGER = logging.getLogger(__name__)
_LOOKS = 5
_FILE = "topolog_file"


class ParquetSource:
    """`folder` holds the files. Read points are kept beside it in `.<folder>.topolog/`, unless `cuts` names a place."""

    looks_again = False

    def __init__(self, folder: Path, *, cuts: Path | None = None) -> None:
        self._folder = folder.absolute()
        self._cuts = cuts or self._folder.parent / f".{self._folder.name}.topolog"
        self._alike: set[str] = set()

    def describe(self, session: SparkSession) -> Described:
        """Raises ReplicaFailed as `cut` and `frame` do."""
        files, ends = self._read(self._folder)
        check_alike(session, self._folder, files, ends)
        rows, size = sum(each.rows for each in ends), sum(each.size for each in files)
        schema = session.read.parquet(str(self._folder)).schema
        return Described(schema, rows, size // rows if rows else 0, is_writable=os.access(self._folder, os.W_OK))

    def cut(self, progress: Progress, shared: str | None = None) -> str | None:
        """Raises ReplicaFailed CORRUPT for a file that is no Parquet, IO while somebody replaces the files."""
        if shared is not None and self._place(shared).is_dir():
            return shared
        for _ in range(_LOOKS):
            place = self._cuts / f"new-{uuid.uuid4().hex}"
            try:
                files = listed(self._folder)
                if files and self._linked(files, place, progress) and files == listed(self._folder):
                    content = (files, [each.digest for each in footers(place, files)])
                    return self._keep(place, hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest()[:32])
            finally:
                self._clear(place)
        raise self._busy()

    def cuts(self) -> set[str]:
        return {each.name for each in self._cuts.iterdir()} if self._cuts.is_dir() else set()

    def frame(self, session: SparkSession, cut: str | None) -> DataFrame:
        """Raises ReplicaFailed SCHEMA if the files have not the same columns."""
        place = self._place(cut)
        if cut is not None and not place.is_dir():
            raise ReplicaFailed("CUT_LOST", f"{self._folder} no longer has the read point {cut}.")
        if cut not in self._alike:
            check_alike(session, place, *self._read(place))
            if cut is not None:
                self._alike.add(cut)
        return session.read.parquet(str(place))

    def places(self, spec: TreeSpec, cut: str | None) -> Sequence[str]:
        """Columns that are folders, but for those of the key."""
        first = next((each.path for each in listed(self._place(cut)) or []), "")
        return [name for name in partitions(first) if name in spec.column_names and name not in spec.key]

    def write(
        self, session: SparkSession, spec: TreeSpec, changes: Sequence[Change], cut: str | None, fence: Fence
    ) -> int:
        """New rows make new files; then the files with rows of these keys are written anew, one by one."""
        stored = self.frame(session, cut)
        sent = CarriedRows(session, spec, changes, stored.schema)
        watch = _Watch(self._folder, listed(self._place(cut)) or [], lambda files: self._has_some(sent, stored, files))
        workplace = self._cuts / f"new-{uuid.uuid4().hex}"
        try:
            if sent.left:
                told = (sent.left, self._folder, ", ".join(sent.unfit))
                _LOGGER.warning("%d rows are not written to %s, whose types do not hold their %s", *told)
            touched = sent.beside(stored.withColumn(_FILE, F.col("_metadata.file_path"))).select(_FILE).distinct()
            paths = sorted(unquote(urlparse(row[0]).path) for row in touched.collect() if row[0])
            self._insert(sent, stored, workplace / "new", watch, fence)
            for number, path in enumerate(paths):
                relative = Path(path).relative_to(self._place(cut))
                self._replace(sent, stored, relative, cut, workplace / str(number), watch, fence)
            return len(changes) - sent.left
        finally:
            self._clear(workplace)

    def release(self, cut: str) -> None:
        self._alike.discard(cut)
        self._clear(self._cuts / cut)

    def _clear(self, place: Path) -> None:
        """Nothing is left beside the data of who ends, in order or not."""
        shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):  # others are kept
            self._cuts.rmdir()

    def _place(self, cut: str | None) -> Path:
        return self._folder if cut is None else self._cuts / cut

    def _busy(self) -> ReplicaFailed:
        return ReplicaFailed("IO", f"{self._folder} is being written, or holds no files.", hint="Try again later.")

    def _read(self, place: Path) -> tuple[list[File], list[Footer]]:
        """The files, and what they end with; some that vanish meanwhile are others by the next look."""
        for _ in range(_LOOKS):
            if files := listed(place):
                with suppress(FileNotFoundError):
                    return files, list(footers(place, files))
        raise self._busy()

    def _linked(self, files: Sequence[File], place: Path, progress: Progress) -> bool:
        """Whether all of them were there to be linked."""
        size = 0
        try:
            place.mkdir(parents=True)
            for each in files:
                linked(self._folder / each.path, place / each.path)
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

    def _has_some(self, sent: CarriedRows, stored: DataFrame, files: Sequence[File]) -> bool:
        """Whether any of these files has a row with one of the keys that are sent."""
        reader = stored.sparkSession.read.schema(stored.schema).option("basePath", str(self._folder))
        rows = reader.parquet(*(str(self._folder / each.path) for each in files))
        return not sent.beside(rows).isEmpty()

    def _insert(self, sent: CarriedRows, stored: DataFrame, made: Path, watch: "_Watch", fence: Fence) -> None:
        """Rows that are nowhere, and those that go to another partition."""
        names = [name for name in partitions(watch.example) if name in stored.schema.names]
        writer = sent.new(stored, names).coalesce(1).write
        (writer.partitionBy(*names) if names else writer).parquet(str(made))
        files = listed(made) or []
        for file, end in zip(files, footers(made, files), strict=True):
            if end.rows:
                watch.ready(fence)
                place = self._folder / file.path
                place.parent.mkdir(parents=True, exist_ok=True)
                (made / file.path).replace(place)
                watch.know(file.path)

    def _replace(
        self,
        sent: CarriedRows,
        stored: DataFrame,
        path: Path,
        cut: str | None,
        made: Path,
        watch: "_Watch",
        fence: Fence,
    ) -> None:
        """Put a file with these changes in the place of the one at `path`, as it is at the read point."""
        base, target = self._place(cut), self._folder / path
        names = [name for name in partitions(path.as_posix()) if name in stored.schema.names]
        reader = stored.sparkSession.read.schema(stored.schema).option("basePath", str(base))
        rows = sent.applied(reader.parquet(str(base / path)), names).drop(*names)
        rows.coalesce(1).write.parquet(str(made))
        (file,) = made.glob("*.parquet")
        watch.ready(fence, path.as_posix())
        target.with_name(f".{target.name}.crc").unlink(missing_ok=True)  # Hadoop's, of the file that was there
        file.replace(target)
        watch.know(path.as_posix())


class _Watch:
    """What has become of the folder since the read point, when something is about to be put into it.

    `has_some`: whether files that have come have any of the rows that are to be written.
    """

    def __init__(self, folder: Path, at_cut: Sequence[File], has_some: Callable[[Sequence[File]], bool]) -> None:
        self.example = at_cut[0].path if at_cut else ""
        self._folder = folder
        self._at_cut = {each.path: each for each in at_cut}
        self._known = set(at_cut)
        self._has_some = has_some

    def ready(self, fence: Fence, replaced: str = "") -> None:
        """Raises what the fence does, and ReplicaFailed IO unless the rows, and the file that is to be replaced, still
        are what they were."""
        while True:
            fence()
            files = listed(self._folder)
            if files is None:
                raise ReplicaFailed("IO", f"{self._folder} is being written by somebody else.", hint="Repair again.")
            if replaced and self._at_cut[replaced] not in files:
                raise ReplicaFailed("IO", f"{replaced} was replaced since its rows were read.", hint="Repair again.")
            come = [each for each in files if each not in self._known]
            if not come:
                return
            if self._has_some(come):
                names = ", ".join(each.path for each in come[:3])
                raise ReplicaFailed("IO", f"{names} came meanwhile, with rows that were sent.", hint="Repair again.")
            self._known.update(come)

    def know(self, path: str) -> None:
        """That file is ours."""
        stat = (self._folder / path).stat()
        self._known.add(File(path, stat.st_size, stat.st_mtime_ns))
