"""What is derived of an archive and kept beside it: tables, and a state that says which of them count and how far they
go. It can be removed at any time, and is made anew.

Threats. A process dies at any step; two derive at once; what is there was made by another version, of another log, or
parts of it are gone.

Invariant. What is read here is of the archive's own log, in this version's format, and whole; or there is nothing.

Argument. One process at a time derives. A table counts once the state names it, and the state is written in one step,
behind the table; what a crash leaves over has the name of the next table, and is written over.

    derived/<name>/          tables: 000000000.parquet
    derived/<name>.state     how far they go
"""

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # the same

from topolog.events.errors import BadInput
from topolog.events.fold import Header
from topolog.projections.archive import durable
from topolog.projections.archive.landings import Archive

FOLDER = "derived"
_LOCK = "lock"
Told = Callable[[str], None]


class Kept(msgspec.Struct, frozen=True):
    """How far it goes: `next_offset` is that of the first record that is not in it, `header` that of the log before,
    `logged_ms` the log's time (UTC) there. `files` are the tables that count."""

    format: str
    next_offset: int = 0
    header: Header = Header()
    logged_ms: int = 0
    files: tuple[str, ...] = ()


K = TypeVar("K", bound=Kept)


class Derived(Generic[K]):
    """One kind of it, in `folder`, below the archive if None is given; `anew` is how it begins."""

    def __init__(self, archive: Archive, folder: Path | None, name: str, anew: K) -> None:
        folder = folder or archive.folder / FOLDER
        self._log_id = archive.about.log_id
        self._tables, self._state = folder / name, folder / f"{name}.state"
        self._anew = anew

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One at a time derives; another waits, and finds it done. Raises BadInput if nothing can be written there."""
        try:
            self._tables.mkdir(parents=True, exist_ok=True)
            lock = (self._tables / _LOCK).open("w")
        except OSError as error:
            raise BadInput(
                f"{self._tables} cannot be written: {error.strerror}.",
                hint="What is derived of an archive is kept there.",
            ) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self) -> K:
        try:
            found = msgspec.msgpack.decode(self._state.read_bytes(), type=type(self._anew))
        except (FileNotFoundError, msgspec.MsgspecError):
            return self._anew
        log_id = found.header.log_id.hex() if found.header.log_id else ""
        is_same = "" in (log_id, self._log_id) or log_id == self._log_id
        is_whole = all(path.exists() for path in self.paths(found))
        return found if found.format == self._anew.format and is_same and is_whole else self._anew

    def write(self, kept: K, table: pa.Table) -> K:
        """Keep this; from here on it counts. Rows that are in no table yet make one more."""
        if table.num_rows:
            name = f"{len(kept.files):09}.parquet"
            with durable.written(self._tables / name) as new:
                pq.write_table(table, new, compression="zstd", use_dictionary=False)
            kept = msgspec.structs.replace(kept, files=(*kept.files, name))
        durable.write(self._state, msgspec.msgpack.encode(kept))
        return kept

    def paths(self, kept: K) -> tuple[Path, ...]:
        return tuple(self._tables / name for name in kept.files)


class Lines:
    """Rows that are in no table yet, by column."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._columns: tuple[list[Any], ...] = tuple([] for _ in schema)

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, line: Sequence[Any]) -> None:
        for column, value in zip(self._columns, line, strict=True):
            column.append(value)

    def drained(self) -> pa.Table:
        table = pa.table(list(self._columns), schema=self._schema)
        self._columns = tuple([] for _ in self._schema)
        return table
