"""Sources whose rows Spark cannot read at one moment itself: they are copied to a Parquet file, and that is the cut.

Threat. Spark reads a database over several connections, each of which sees another moment; a comparison would find
differences that never were. What is written over a row was compared with an older one.

Invariant. A cut is one file of the rows as they were at one moment; and a row is changed only if it still is what it
was at the cut that it was compared at.

Argument. The rows come from one transaction, or whatever the original has in its place. The file is named by its
content once it is whole, so equal names mean equal rows, and a file that was cut short is never found under its name.
A change goes to the original with the row as it was at the cut; the original looks and writes under one lock.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyarrow import parquet

from topolog.events.errors import ReplicaFailed
from topolog.events.replica_access import Fence, Progress
from topolog.events.tree_spec import Column, TreeSpec
from topolog.projections.spark.canonical import spark_type
from topolog.projections.spark.replica import Change, Described
from topolog.projections.spark.sources import stored_values
from topolog.projections.spark.sources.stored_values import Row, Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 10_000
CUTS_MAX = 8
"""Files of former processes that are kept beside those of this one: a session may go on with them."""

_SUFFIX = ".parquet"
_NUMBER_BYTES, _BYTES = 8, {"boolean": 1, "string": 24, "binary": 24}
"""What a value takes, as a guess."""


class Shape(msgspec.Struct, frozen=True):
    """What the rows are: columns in canonical types, the key's columns; how many rows, as an estimate."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    rows: int = 0


class Edit(msgspec.Struct, frozen=True):
    """What is to become of one row: `before` as it was compared, `after` as it is to be, each None for no row."""

    key: tuple[Value, ...]
    before: Row | None
    after: Row | None


Batches = Iterable[Sequence[Sequence[Value]]]
"""Rows by the dozen thousand, each a value per column."""


class Original(Protocol):
    """Where the rows are kept. It says what it cannot do by ReplicaFailed."""

    @property
    def is_writable(self) -> bool: ...

    def reading(self) -> AbstractContextManager[tuple[Shape, Batches]]:
        """All rows as of one moment, until the block ends."""

    def apply(self, shape: Shape, edits: Sequence[Edit], fence: Fence) -> int:
        """Make those edits whose rows are still as before; how many, with those whose rows are already as after. All at
        once, or none where it raises. A row that would not be read back as `after` is left, and the log says so.

        `shape`: that of the edits, of which the original may have more columns. `fence` before what lasts.
        """


class CopiedSource:
    """A Source (replica.py) of an original; `folder` is its own, for the files of its cuts."""

    looks_again = True

    def __init__(self, original: Original, folder: Path) -> None:
        self._original = original
        self._folder = folder
        self._held: set[str] = set()

    def describe(self, session: "SparkSession") -> Described:
        from pyspark.sql import types as T  # noqa: N812 (its customary name)

        with self._original.reading() as (shape, _):
            fields = [T.StructField(each.name, spark_type(each)) for each in shape.columns]
            size = sum(_BYTES.get(each.type, _NUMBER_BYTES) for each in shape.columns)
            return Described(T.StructType(fields), shape.rows, size, is_writable=self._original.is_writable)

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key columns, as the original has them."""
        with self._original.reading() as (shape, _):
            return shape.key

    def cut(self, progress: Progress, shared: str | None = None) -> str:
        if shared is not None and self._file(shared).exists():
            self._held.add(shared)
            return shared
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f"new-{os.getpid()}"
        try:
            with self._original.reading() as (shape, batches):
                _write(new, shape, batches, progress)
            with new.open("rb") as file:
                name = hashlib.file_digest(file, "sha256").hexdigest()[:32]
            new.replace(self._file(name))
        except OSError as error:
            raise ReplicaFailed("IO", f"A cut cannot be written to {self._folder}: {error.strerror}.") from error
        finally:
            new.unlink(missing_ok=True)
        self._held.add(name)
        self._drop_surplus()
        return name

    def cuts(self) -> set[str]:
        return {file.stem for file in self._folder.glob(f"*{_SUFFIX}")}

    def frame(self, session: "SparkSession", cut: str | None) -> "DataFrame":
        """Without a cut the rows of now, which are copied as well."""
        file = self._file(cut or self.cut(_unheard))
        if not file.exists():
            raise ReplicaFailed("CUT_LOST", f"The read point {cut} is not kept any more.")
        return session.read.parquet(str(file))

    def places(self, spec: TreeSpec, cut: str | None) -> Sequence[str]:
        return ()

    def write(
        self, session: "SparkSession", spec: TreeSpec, changes: Sequence[Change], cut: str | None, fence: Fence
    ) -> int:
        """How many rows were still as at the cut, and are changed now, or were before."""
        if not self._original.is_writable:
            raise ReplicaFailed("NOT_WRITABLE", "This source is only read.")
        key = [next(column for column in spec.columns if column.name == name) for name in spec.key]
        before = self._rows_at(
            cut or self.cut(_unheard), spec, {stored_values.key_from_wire(each.key, key) for each in changes}
        )
        edits = []
        for each in changes:
            own = stored_values.key_from_wire(each.key, key)
            after = stored_values.row_from_wire(each.values, spec.columns) if each.values else None
            edits.append(Edit(own, before.get(own), after))
        return self._original.apply(Shape(spec.columns, spec.key), edits, fence)

    def release(self, cut: str) -> None:
        self._held.discard(cut)
        with suppress(OSError):
            self._file(cut).unlink()

    def _rows_at(self, cut: str, spec: TreeSpec, keys: set[tuple[Value, ...]]) -> dict[tuple[Value, ...], Row]:
        """Of the rows at the cut those with these keys, in the columns of the spec."""
        first = {key[0] for key in keys}
        wanted = None if None in first else [(spec.key[0], "in", list(first))]
        try:
            table = parquet.read_table(self._file(cut), columns=list(spec.column_names), filters=wanted)
        except (OSError, pa.ArrowException) as error:
            raise ReplicaFailed("CUT_LOST", f"The read point {cut} cannot be read: {error}.") from error
        table = table.cast(stored_values.arrow_schema(spec.columns))
        found = {tuple(row[name] for name in spec.key): row for row in _rows(table)}
        return {key: row for key, row in found.items() if key in keys}

    def _drop_surplus(self) -> None:
        """The oldest files that no session of this process reads."""
        files = [file for file in self._folder.glob(f"*{_SUFFIX}") if file.stem not in self._held]
        for file in sorted(files, key=lambda each: each.stat().st_mtime_ns)[:-CUTS_MAX]:
            file.unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"


def _unheard(rows: int, size: int) -> None:
    """For a copy that nobody waits for but the caller."""


def _write(file: Path, shape: Shape, batches: Batches, progress: Progress) -> None:
    count = size = 0
    with parquet.ParquetWriter(file, stored_values.arrow_schema(shape.columns)) as writer:
        for rows in batches:
            if rows:
                table = stored_values.arrow_table(shape.columns, rows)
                writer.write_table(table)
                count, size = count + table.num_rows, size + table.nbytes
                progress(count, size)


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=BATCH_ROWS):
        yield from batch.to_pylist()
