"""Which source a text names: `TABLE@NAME=SOURCE` of `topolog run validator`.

parquet:/data/orders#id,line          a folder of files; behind # the key, nothing for a table without one
sqlite:/data/shop.db#orders           a table; its key is the primary key
postgresql://ada@host/shop#orders     a table, public.orders if its schema is named; everything as libpq has it
projection:/data/projector#node@412   rows of one kind of a projection store, as of a position; @ may be left out
store:shop.orders@backup              a table of the example store: of each partition the copy that acts, or a backup
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from topolog.events.errors import BadInput
from topolog.events.token_range import FULL, Ranges
from topolog.projections.spark.replica import Source, SparkReplica
from topolog.projections.spark.sources.copied import CopiedSource, Original
from topolog.projections.spark.sources.parquet import ParquetSource
from topolog.projections.spark.sources.postgres import PostgresTable
from topolog.projections.spark.sources.projection import ProjectionRows
from topolog.projections.spark.sources.sqlite import SqliteTable
from topolog.projections.spark.sources.store import Part, StoreTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POSTGRES = ("postgresql", "postgres")
KINDS = ("parquet", "sqlite", *POSTGRES, "projection", "store")
_HINT = (
    "Write parquet:FOLDER#KEY, sqlite:FILE#TABLE, postgresql://USER@HOST/DATABASE#TABLE, projection:FOLDER#KIND or "
    "store:TABLE@acting."
)


class Catalogue:
    """Makes replicas for one process. `folder` is for the files of cuts; `endpoints` of the example store's nodes."""

    def __init__(self, session: "SparkSession", folder: Path, endpoints: Callable[[], Sequence[str]]) -> None:
        self._session = session
        self._folder = folder
        self._endpoints = endpoints

    def replica_from(
        self,
        text: str,
        table: str,
        name: str,
        *,
        datacenter: str = "",
        ranges: Ranges = (FULL,),
        boundaries: int = 0,
    ) -> SparkReplica:
        """The replica `name` of `table` whose rows are where `text` says; of so many keys a sample is declared.

        Raises BadInput for a text of another form; ReplicaFailed if what it names cannot be asked for its key now.
        """
        kind, _, rest = text.partition(":")
        if kind == "parquet":
            path, _, key = rest.partition("#")
            folder, own_key = _path(path, text), tuple(each.strip() for each in key.split(",") if each.strip())
            source: Source = ParquetSource(folder)
        else:
            source = copied = CopiedSource(self._original(kind, rest, text), self._folder / "cuts" / f"{table}@{name}")
            own_key = copied.key
        if boundaries and not own_key:
            raise BadInput(f"{table}@{name} has no key to take boundaries from.", hint="Serve it without --boundaries.")
        return SparkReplica(
            self._session, source, table, name, own_key, datacenter=datacenter, ranges=ranges, boundaries=boundaries
        )

    def _original(self, kind: str, rest: str, text: str) -> Original:
        place, hash_, what = rest.partition("#")
        if kind == "store":
            return self._store_table(rest, text)
        if not (hash_ and what.strip()):
            raise _no_source(text)
        if kind == "sqlite":
            return SqliteTable(_path(place, text), what)
        if kind in POSTGRES:
            return PostgresTable(f"{kind}:{place}", what)
        if kind == "projection":
            row, _, position = what.partition("@")
            if position and not position.isdecimal():
                raise BadInput(f"{position!r} in {text!r} is no position.", hint="Such as projection:/data#node@412.")
            return ProjectionRows(_path(place, text), row, int(position) if position else None)
        raise _no_source(text)

    def _store_table(self, rest: str, text: str) -> StoreTable:
        table, _, part = rest.partition("@")
        if not table or part not in [each.value for each in Part]:
            raise BadInput(f"{text!r} is no part of a table of the example store.", hint="store:shop.orders@acting")
        return StoreTable(self._endpoints, table, Part(part))


def check(text: str) -> None:
    """Raise BadInput for a text that begins with no kind of source, before a session is there to open it with."""
    if text.partition(":")[0] not in KINDS:
        raise _no_source(text)


def _path(path: str, text: str) -> Path:
    if not path.strip():
        raise _no_source(text)
    return Path(path)


def _no_source(text: str) -> BadInput:
    return BadInput(f"{text!r} names no source of rows.", hint=_HINT)
