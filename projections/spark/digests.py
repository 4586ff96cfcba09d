"""Rows without their contents, and rows by their keys: what goes between replicas once leaves are found to differ.

A row is carried as JSON of its canonical values (canonical.py says how each is written), so that a replica that stores
other physical types can write it back; a key is the JSON list of its canonical values, the same text at each replica.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.errors import ReplicaFailed
from topolog.events.replica import RowDigest
from topolog.events.token_range import FULL, Ranges
from topolog.events.tree_spec import TreeSpec
from topolog.projections.spark import canonical
from topolog.projections.spark.row_hashes import H1, H2, TOKEN, hashed

_UNSIGNED = (1 << 64) - 1
_NAMES = ("token", "key", "h1", "h2", "version", "is_tombstone")
BATCH_ROWS = 10_000


def digests(frame: DataFrame, spec: TreeSpec, ranges: Ranges = (FULL,)) -> Iterator[RowDigest]:
    """One for each row in these ranges, in any order."""
    for batch in digest_table(frame, spec, ranges).to_batches(BATCH_ROWS):
        yield from digests_in(batch)


def digest_table(frame: DataFrame, spec: TreeSpec, ranges: Ranges) -> pa.Table:
    """The same, as it is collected: some 60 bytes a row, a quarter of what the digests take as objects."""
    rows = hashed(frame, spec, ranges)
    return rows.select(*_digest(rows, spec)).toArrow()


def digests_in(batch: pa.RecordBatch) -> Iterator[RowDigest]:
    tokens, keys, h1s, h2s, versions, tombstones = (batch.column(name).to_pylist() for name in _NAMES)
    for token, key, h1, h2, version, is_tombstone in zip(tokens, keys, h1s, h2s, versions, tombstones, strict=True):
        one, other = h1 & _UNSIGNED, h2 & _UNSIGNED
        yield RowDigest(token, f"[{one},{other}]" if key is None else key, one, other, version, is_tombstone)


def rows_of(frame: DataFrame, spec: TreeSpec, keys: Sequence[str]) -> Iterator[tuple[RowDigest, str]]:
    """Of the rows with these keys their digests and contents; a key that is there twice comes twice.

    For a table without key the key of a row is its two hashes, as in digests.
    """
    rows = by_keys(hashed(frame, spec), spec, keys)
    fields = [rows.schema[name] for name in spec.column_names]
    table = rows.select(*_digest(rows, spec), canonical.wire(fields).alias("content"))
    contents = table.toArrow()
    told = contents.column("content").to_pylist()
    found = chain.from_iterable(map(digests_in, contents.to_batches()))
    yield from zip(found, told, strict=True)


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
    wanted_keys = keys if spec.key else map(_signed, keys)
    texts = rows.sparkSession.createDataFrame([[key_object(names, key)] for key in wanted_keys], "v string")
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


def _signed(key: str) -> str:
    """The two hashes that name a row of a table without key, as Spark has them; raises ReplicaFailed SCHEMA."""
    try:
        words = msgspec.json.decode(key, type=tuple[int, int])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ReplicaFailed("SCHEMA", f"{key!r} names no row of a table without key.") from error
    return str([word - (word >> 63 << 64) for word in words])


def _digest(rows: DataFrame, spec: TreeSpec) -> list[Expression]:
    fields = canonical.key_fields(rows.schema, spec)
    version = tombstone = F.lit(None)
    if name := spec.version_column:
        version = canonical.text(canonical.column(name), rows.schema[name].dataType)
    if name := spec.tombstone_column:
        tombstone = canonical.column(name).cast("boolean")
    return [
        F.col(TOKEN).alias("token"),
        (canonical.key_text(fields) if fields else F.lit(None).cast("string")).alias("key"),
        F.col(H1).alias("h1"),
        F.col(H2).alias("h2"),
        version.cast("string").alias("version"),
        F.coalesce(tombstone.cast("boolean"), F.lit(False)).alias("is_tombstone"),
    ]
