"""Where rows come from: CSV, JSON lines or Parquet, in a file or in a folder of files.

A column has the type that the file says. Parquet says it exactly; of CSV and JSON lines it is inferred from all
values. So the same table in two formats has two opinions about a price, and that is what agreement is about.

A file must fit in memory. The only file that imports pyarrow.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from topolog.events.errors import BadInput, MissingExtra
from topolog.streams.local.demo.founding import table_name
from topolog.streams.local.demo.types_of_rows import Document, document_of, field_names, type_name

FORMATS = (".parquet", ".csv", ".jsonl", ".ndjson")
_JSON_LINES = FORMATS[2:]


class Share(msgspec.Struct, frozen=True):
    """Which rows a node holds: those whose key hashes to `index` of `count`, whoever asks and in whatever format."""

    index: int
    count: int

    def has(self, key: object) -> bool:
        return zlib.crc32(str(key).encode()) % self.count == self.index


class Table(msgspec.Struct, frozen=True):
    """One file of rows. `name` is its type's, `table` that of the table in which they are stored. `fields`: column ->
    field name; `types`: field name -> type name, of fields with values."""

    name: str
    table: str
    path: Path
    key: str
    fields: Mapping[str, str]
    types: Mapping[str, str]
    content: Any
    """A pyarrow.Table."""

    def documents(self, share: Share) -> Iterator[Document]:
        """The share's rows in the order of the file, without those that have no key."""
        for batch in self.content.to_batches(max_chunksize=1024):
            for row in batch.to_pylist():
                document = document_of(row, self.fields, self.key)
                if document[self.key] is not None and share.has(document[self.key]):
                    yield document


def find_files(data: Path, share: Share) -> list[Path]:
    """The files that a node loads. Of a table that is there in several formats the last node takes another than the
    rest, as when a new loader is tried beside the old. Raises BadInput if there is nothing to load."""
    if not data.exists():
        raise BadInput(f"There are no rows at {data}.", hint="--data names a file or a folder of files.")
    candidates = [data] if data.is_file() else sorted(path for path in data.iterdir() if path.suffix in FORMATS)
    if not candidates or candidates[0].suffix not in FORMATS:
        raise BadInput(f"{data} holds no rows that can be read.", hint=f"Files end in {', '.join(FORMATS)}.")
    tables: dict[str, list[Path]] = {}
    for path in candidates:
        tables.setdefault(path.stem, []).append(path)
    return [_choose(paths, share) for paths in tables.values()]


def _choose(paths: Sequence[Path], share: Share) -> Path:
    by_format = sorted(paths, key=lambda path: FORMATS.index(path.suffix))
    return by_format[-1 if share.index == share.count - 1 else 0]


def read_tables(data: Path, share: Share) -> list[Table]:
    """Every table, the smallest first, so that all types are known soon. Raises BadInput, MissingExtra."""
    tables = [read_table(path) for path in find_files(data, share)]
    return sorted(tables, key=lambda table: (table.content.num_rows, table.name))


def read_table(path: Path) -> Table:
    """The table in the file. Raises BadInput with the file's name for what cannot be read, MissingExtra."""
    arrow = _arrow()
    try:
        content = _content(path)
    except (arrow.ArrowException, OSError) as error:
        raise BadInput(f"{path} cannot be read as {path.suffix[1:]}: {str(error).splitlines()[0]}.") from error
    columns = content.column_names
    if not columns or len(set(columns)) < len(columns) or not all(column.strip() for column in columns):
        raise BadInput(f"{path} needs columns with names of their own; it has {columns}.")
    fields = field_names(columns)
    types = {fields[each.name]: name for each in content.schema if (name := _type_name(arrow, each.type))}
    key = next((field for field in fields.values() if field.lower() == "id"), fields[columns[0]])
    return Table(type_name(path.stem), table_name(path.stem), path, key, fields, types, content)


def _arrow() -> ModuleType:
    try:
        import pyarrow  # type: ignore[import-untyped]  # it ships no types
    except ImportError as error:
        raise MissingExtra(
            "Reading rows needs the extra 'local', which is not installed.",
            hint="Install it with: pip install 'topolog[local]'",
        ) from error
    return pyarrow  # type: ignore[no-any-return]  # for the same reason


def _content(path: Path) -> Any:
    """All of the file as a pyarrow.Table."""
    if path.suffix in _JSON_LINES:
        from pyarrow import json

        return json.read_json(path)
    if path.suffix == ".csv":
        from pyarrow import csv

        return csv.read_csv(path)
    from pyarrow import parquet

    return parquet.read_table(path)


def _type_name(arrow: ModuleType, kind: Any) -> str:
    """Ignite's name of an Arrow type, empty for a column that holds nothing; what has no better name is an Object."""
    is_a = arrow.types
    if is_a.is_dictionary(kind):
        return _type_name(arrow, kind.value_type)
    known: tuple[tuple[Callable[[Any], bool], str], ...] = (
        (is_a.is_null, ""),
        (is_a.is_boolean, "boolean"),
        (is_a.is_int8, "byte"),
        (lambda each: is_a.is_int16(each) or is_a.is_uint8(each), "short"),
        (lambda each: is_a.is_int32(each) or is_a.is_uint16(each), "int"),
        (lambda each: is_a.is_int64(each) or is_a.is_uint32(each), "long"),
        (lambda each: is_a.is_decimal(each) or is_a.is_uint64(each), "decimal"),
        (lambda each: is_a.is_float16(each) or is_a.is_float32(each), "float"),
        (is_a.is_float64, "double"),
        (lambda each: str(each).endswith(("string", "string_view")), "String"),
        (lambda each: str(each).startswith(("binary", "large_binary", "fixed_size_binary")), "byte[]"),
        (is_a.is_date, "Date"),
        (is_a.is_timestamp, "Timestamp"),
        (is_a.is_time, "Time"),
        (lambda each: "uuid" in str(each), "UUID"),
        (lambda each: str(each).startswith(("list", "large_list", "fixed_size_list")), "Collection"),
        (is_a.is_map, "Map"),
    )
    return next((name for fits, name in known if fits(kind)), "Object")
