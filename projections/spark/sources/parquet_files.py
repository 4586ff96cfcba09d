"""The files of a folder of Parquet: which there are, what they end with, and whether they are of one table.

Spark takes the schema of one file for that of all: of the others it would show no column that the one has not, and
whoever writes such a file anew would lose it. So files that differ in their columns are no table. Symbolic links are
not followed: what is put in the place of one would be beside what it points to, which others may write.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import SparkSession

from topolog.events.errors import ReplicaFailed

_HIDDEN = ("_", ".")
_TEMPORARY = "_temporary"
_END_BYTES = 8
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"


class File(msgspec.Struct, frozen=True, order=True):
    """A file by its path below the folder, and what would be another if it were replaced."""

    path: str
    size: int
    modified_ns: int


class Footer(msgspec.Struct, frozen=True):
    """`digest`: SHA-256 of where statistics and types stand. `types`: that of the types as they are written; files of
    one schema may have several."""

    digest: bytes
    rows: int
    types: bytes


def listed(folder: Path) -> list[File] | None:
    """The files as Spark finds them, None while Spark is replacing them.

    Raises ReplicaFailed IO without the folder, UNSUPPORTED for a symbolic link in it.
    """
    found = []
    try:
        for place, folders, names in os.walk(folder, onerror=_raise):
            if _TEMPORARY in folders:
                return None
            folders[:] = [name for name in folders if not name.startswith(_HIDDEN) or "=" in name]
            shown = [name for name in names if not name.startswith(_HIDDEN)]
            for path in (Path(place) / name for name in [*folders, *shown]):
                if path.is_symlink():
                    hint = "Move what it points to there, or serve that as a replica of its own."
                    raise ReplicaFailed("UNSUPPORTED", f"{path} is a symbolic link.", hint=hint)
            for path in (Path(place) / name for name in shown):
                stat = path.stat()
                found.append(File(path.relative_to(folder).as_posix(), stat.st_size, stat.st_mtime_ns))
    except FileNotFoundError:
        if not folder.is_dir():
            raise ReplicaFailed("IO", f"There is no folder {folder}.") from None
        return None
    return sorted(found)


def linked(file: Path, place: Path) -> None:
    """Link a file there, or copy it where there are no links; raises FileNotFoundError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, place)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        shutil.copy2(file, place)  # another file system, or one that knows no links


def footers(folder: Path, files: Sequence[File]) -> Iterator[Footer]:
    """Those of the files, in their order. Raises ReplicaFailed CORRUPT or IO with the file, FileNotFoundError."""
    for each in files:
        try:
            yield _footer(folder / each.path)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            if isinstance(error, OSError) and error.errno is not None:
                raise ReplicaFailed("IO", f"{each.path} cannot be read: {error.strerror}.") from error
            raise ReplicaFailed("CORRUPT", f"{each.path} is no whole Parquet file.", hint="Write it anew.") from error


def check_alike(session: SparkSession, folder: Path, files: Sequence[File], found: Sequence[Footer]) -> None:
    """Raises ReplicaFailed SCHEMA with the file if Spark has other columns in one than in the first (RE14)."""
    examples: dict[bytes, File] = {}
    for file, footer in zip(files, found, strict=True):
        examples.setdefault(footer.types, file)
    first, *others = examples.values()
    if not others:
        return
    wanted = _columns(session, folder, first)
    for each in others:
        if (columns := _columns(session, folder, each)) != wanted:
            raise ReplicaFailed(
                "SCHEMA",
                f"{each.path} has {_told(columns)}; {first.path} has {_told(wanted)}.",
                hint="Write all files anew with the same columns.",
            )


def partitions(path: str) -> list[str]:
    """The columns that are folders above this file, the outermost first."""
    return [unquote(part.partition("=")[0]) for part in PurePosixPath(path).parent.parts if "=" in part]


def _footer(file: Path) -> Footer:
    with file.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        opened.seek(-min(_END_BYTES, size), os.SEEK_END)
        end = opened.read(_END_BYTES)
        length = int.from_bytes(end[:4], "little")
        if len(end) < _END_BYTES or end[4:] != b"PAR1" or length > size - _END_BYTES:
            raise pa.ArrowInvalid(f"{file} has no footer")
        opened.seek(-_END_BYTES - length, os.SEEK_END)
        footer = opened.read(length)
    told = pq.read_metadata(pa.BufferReader(footer + end))
    _, _, types = str(told.schema).partition("\n")
    types_of_spark = (told.metadata or {}).get(_SPARK_SCHEMA, b"")
    written = hashlib.sha256(types.encode(errors="replace") + types_of_spark).digest()
    return Footer(hashlib.sha256(footer).digest(), told.num_rows, written)


def _columns(session: SparkSession, folder: Path, file: File) -> Mapping[str, str]:
    """What Spark finds in the file itself: a folder's name goes before a column of that name in a file."""
    in_folders = partitions(file.path)
    schema = session.read.parquet(str(folder / file.path)).schema
    return {each.name: each.dataType.simpleString() for each in schema if each.name not in in_folders}


def _told(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns.items())


def _raise(error: OSError) -> None:
    raise error
