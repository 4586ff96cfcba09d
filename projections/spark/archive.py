"""The steps of an archive, each from one DataFrame to another: records as they came, decoded by type, or set aside.

Bytes become columns by DataFrame functions and by Spark's own reader of Avro: nothing of a record passes through Python.
A record says by its fingerprint which released schema has written it; it is read by that one and told as the newest
version of its type says, so one table holds all versions. What no schema fits is set aside with the reason.
"""

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from pyspark.sql.avro.functions import from_avro

from topolog.events.codec import Released
from topolog.events.framing import MARKER, PREFIX_BYTES, SCHEMA_HEADER
from topolog.events.stamp import HEADER_NAME
from topolog.projections.archive.spans import Span

NO_PREFIX, UNKNOWN_SCHEMA, DAMAGED = "NO_PREFIX", "UNKNOWN_SCHEMA", "DAMAGED"
"""Why a record is set aside: it does not say which schema has written it; this release does not know that schema; it
does, and the bytes are not of it."""

RECORD_COLUMNS = ("topic", "partition", "offset", "appended_at", "date", "key", "value", "headers")
_REGISTRY_HEAD_BYTES = 5


def records(source: DataFrame, topics: Mapping[str, str]) -> DataFrame:
    """What Kafka gives, as the archive keeps it; `topics` are short names by Kafka's names of the topics.

    topic, partition, offset; appended_at, which is the broker's time, and its date (UTC); key (bytes); value (bytes);
    headers (an array of key and value).
    """
    names = F.create_map(*(F.lit(each) for pair in topics.items() for each in pair))
    return source.select(
        F.element_at(names, F.col("topic")).alias("topic"),
        "partition",
        "offset",
        F.col("timestamp").alias("appended_at"),
        F.to_date("timestamp").alias("date"),
        "key",
        "value",
        F.coalesce("headers", F.array().cast("array<struct<key:string,value:binary>>")).alias("headers"),
    )


def without(landed: DataFrame, spans: Iterable[Span]) -> DataFrame:
    """The records but for those of these spans."""
    for span in spans:
        at, place = F.col("offset"), (F.col("topic") == span.topic) & (F.col("partition") == span.partition)
        landed = landed.where(~(place & (at >= span.start) & (at < span.end)))
    return landed


def stated(landed: DataFrame) -> DataFrame:
    """The records with `encoded`, the single-object encoding whatever framing they came in, and its `prefix` (hex)."""
    framing = _header(SCHEMA_HEADER)
    is_framed = F.col("value").startswith(F.lit(b"\0")) & (F.length(framing) == PREFIX_BYTES - len(MARKER))
    body = F.expr(f"substring(value, {_REGISTRY_HEAD_BYTES + 1})")
    encoded = F.when(is_framed, F.concat(F.lit(MARKER), framing, body)).otherwise(F.col("value"))
    has_prefix = F.coalesce(F.col("encoded").startswith(F.lit(MARKER)), F.lit(False)) & (
        F.length("encoded") >= PREFIX_BYTES
    )
    prefix = F.hex(F.expr(f"substring(encoded, 1, {PREFIX_BYTES})"))
    return landed.withColumn("encoded", encoded).withColumn("prefix", F.when(has_prefix, prefix))


def decoded(told: DataFrame, versions: Iterable[Released]) -> DataFrame:
    """The records of one type, of all its versions, with `event`; None where the bytes are not what they say.

    For such bytes Spark gives a record whose fields are all None, which none of ours is.
    """
    event: Column | None = None
    body = F.expr(f"substring(encoded, {PREFIX_BYTES + 1})")
    prefixes = []
    for version in versions:
        options = {"mode": "PERMISSIVE", "avroSchema": version.newest}
        read = F.when(F.col("prefix") == version.prefix.hex().upper(), from_avro(body, version.schema, options))
        event = read if event is None else F.coalesce(event, read)
        prefixes.append(version.prefix.hex().upper())
    assert event is not None, "a type without a schema"
    found = told.where(F.col("prefix").isin(prefixes)).withColumn("event", event)
    fields = found.select("event.*").columns
    is_read = reduce(Column.__or__, (F.col(f"event.`{name}`").isNotNull() for name in fields))
    return found.withColumn("event", F.when(is_read, F.col("event")))


def table(events: DataFrame) -> DataFrame:
    """A table of one type: `log` says where a record stands, `stamp` what was written beside it, then its fields."""
    log = F.struct("topic", "partition", "offset", "appended_at", F.col("key").cast("string").alias("key"))
    kept = events.where(F.col("event").isNotNull())
    return kept.select("date", log.alias("log"), _stamp(_header(HEADER_NAME)).alias("stamp"), "event.*")


def set_aside(told: DataFrame, reason: Column, type_: str = "") -> DataFrame:
    """The records that are in no table, with the reason and the type that they say they are."""
    return told.select(*RECORD_COLUMNS, reason.alias("reason"), F.lit(type_).alias("type"))


def reason_without_type(known: Iterable[str]) -> Column:
    """Why a record has no type; None for one that has. `known`: prefixes (hex, upper case)."""
    unknown = F.when(~F.col("prefix").isin(list(known)), UNKNOWN_SCHEMA)
    return F.when(F.col("prefix").isNull(), NO_PREFIX).otherwise(unknown)


def log_id() -> Column:
    """Of which log a record says that it is; None without a stamp."""
    return F.substring(_header(HEADER_NAME), 2, 16)


def _header(name: str) -> Column:
    """The content of the first header of this name, None without one."""
    return F.get(F.filter("headers", lambda header: header["key"] == name), 0)["value"]


def _stamp(stamp: Column) -> Column:
    """A stamp's fields (`events/stamp.py` has the layout, which is for ever); None without one, or of another layout."""
    fits = (_number(stamp, 1, 1) == 1) & (F.length(stamp) >= 68)
    inputs = _number(stamp, 62, 1)
    cause, actor, reason = (_number(stamp, at, 2) for at in (63, 65, 67))
    texts = F.lit(69) + inputs * 11
    fields = F.struct(
        _bytes(stamp, 2, 16).alias("log_id"),
        _number(stamp, 18, 8).alias("term"),
        _number(stamp, 26, 8).alias("sequence"),
        _number(stamp, 34, 2).cast("int").alias("index"),
        _number(stamp, 36, 2).cast("int").alias("size"),
        _bytes(stamp, 38, 16).alias("chain"),
        F.timestamp_millis(_number(stamp, 54, 8)).alias("recorded_at"),
        _text(stamp, texts, cause).alias("cause"),
        _text(stamp, texts + cause, actor).alias("actor"),
        _text(stamp, texts + cause + actor, reason).alias("reason"),
    )
    return F.when(fits, fields)


def _bytes(data: Column, start: int, length: int) -> Column:
    return F.substring(data, start, length)


def _number(data: Column, start: int, length: int) -> Column:
    """An unsigned number, big-endian; all that a stamp states is below 2^63."""
    return F.conv(F.hex(F.substring(data, start, length)), 16, 10).cast("long")


def _text(data: Column, start: Column, length: Column) -> Column:
    return F.substring(data, start.cast("int"), length.cast("int")).cast("string")
