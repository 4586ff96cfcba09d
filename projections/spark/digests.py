"""Rows without their contents, and rows by their keys: what goes between replicas once leaves are found to differ.

A row is carried as JSON of its canonical values (canonical.py says how each is written), so that a replica that stores
other physical types can write it back; a key is the JSON list of its canonical values, the same text at each replica.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from topolog.events.errors import ReplicaFailed
from topolog.events.replica import RowDigest
from topolog.events.token_range import FULL, Ranges
from topolog.events.tree_spec import TreeSpec
from topolog.projections.spark import canonical
from topolog.projections.spark.row_hashes import H1, H2, TOKEN, hashed, within

_UNSIGNED = (1 << 64) - 1
_KEY = "topolog_key"


def digests(frame: DataFrame, spec: TreeSpec, ranges: Ranges = (FULL,)) -> Iterator[RowDigest]:
    """One for each row in these ranges, in any order."""
    rows = within(hashed(frame, spec), ranges)
    yield from _told(rows.select(*_digest(rows, spec)))


def rows_of(frame: DataFrame, spec: TreeSpec, keys: Sequence[str]) -> Iterator[tuple[RowDigest, str]]:
    """Of the rows with these keys their digests and contents; a key that is there twice comes twice.

    For a table without key the key of a row is its two hashes, as in digests.
    """
    rows = by_keys(hashed(frame, spec), spec, keys)
    fields = [rows.schema[name] for name in spec.column_names]
    table = rows.select(*_digest(rows, spec), canonical.wire(fields).alias("content"))
    contents = table.toArrow()
    told = contents.column("content").to_pylist()
    yield from zip(_digests(contents.drop_columns(["content"]).to_pylist()), told, strict=True)


def contents(session: SparkSession, spec: TreeSpec, values: Sequence[str]) -> list[tuple[int, int]]:
    """The two hashes of rows that are carried, in their order."""
    listed = session.createDataFrame(list(enumerate(values)), "topolog_number bigint, v string")
    columns = canonical.from_wire(F.col("v"), canonical.fields_of(spec.columns))
    sent = listed.select("topolog_number", F.struct(*columns).alias("row")).select("topolog_number", "row.*")
    rows = hashed(sent, spec, keep=("topolog_number",)).select("topolog_number", H1, H2).collect()
    return [(row[1] & _UNSIGNED, row[2] & _UNSIGNED) for row in sorted(rows)]


def by_keys(rows: DataFrame, spec: TreeSpec, keys: Sequence[str]) -> DataFrame:
    """Those of hashed rows that have one of these keys; raises ReplicaFailed for a text that is no key of the table."""
    names = spec.key or (H1, H2)
    fields = canonical.key_fields(rows.schema, spec) or [rows.schema[H1], rows.schema[H2]]
    texts = rows.sparkSession.createDataFrame([[key_object(names, key)] for key in keys], "v string")
    wanted = texts.select(*canonical.from_wire(F.col("v"), fields)).distinct().alias("wanted")
    same = [F.col(f"rows.`{name}`").eqNullSafe(F.col(f"wanted.`{name}`")) for name in names]
    return rows.alias("rows").join(F.broadcast(wanted), same, "left_semi")


def key_object(names: Sequence[str], key: str) -> str:
    """A key as the JSON object of its columns; raises ReplicaFailed SCHEMA."""
    try:
        values = msgspec.json.decode(key, type=list[msgspec.Raw])
    except msgspec.DecodeError as error:
        raise ReplicaFailed("SCHEMA", f"{key!r} is no key: not a JSON list.") from error
    if len(values) != len(names):
        raise ReplicaFailed("SCHEMA", f"{key!r} is no key of {', '.join(names)}.")
    return msgspec.json.encode(dict(zip(names, values, strict=True))).decode()


def _digest(rows: DataFrame, spec: TreeSpec) -> list[Expression]:
    fields = canonical.key_fields(rows.schema, spec) or [rows.schema[H1], rows.schema[H2]]
    version = tombstone = F.lit(None)
    if name := spec.version_column:
        version = canonical.text(canonical.column(name), rows.schema[name].dataType)
    if name := spec.tombstone_column:
        tombstone = canonical.column(name).cast("boolean")
    return [
        F.col(TOKEN).alias("token"),
        canonical.key_text(fields).alias("key"),
        F.col(H1).alias("h1"),
        F.col(H2).alias("h2"),
        version.cast("string").alias("version"),
        F.coalesce(tombstone.cast("boolean"), F.lit(False)).alias("is_tombstone"),
    ]


def _told(frame: DataFrame) -> Iterator[RowDigest]:
    for batch in frame.toArrow().to_batches():
        yield from _digests(batch.to_pylist())


def _digests(rows: Iterable[dict[str, object]]) -> Iterator[RowDigest]:
    for row in rows:
        digest = msgspec.convert(row, _Digest)
        unsigned = digest.h1 & _UNSIGNED, digest.h2 & _UNSIGNED
        yield RowDigest(digest.token, digest.key, *unsigned, digest.version, digest.is_tombstone)


class _Digest(msgspec.Struct):
    token: int
    key: str
    h1: int
    h2: int
    version: str | None
    is_tombstone: bool
