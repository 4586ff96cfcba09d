"""The steps of an archive, each from one DataFrame to another: records as they came, decoded by type, or set aside.

Bytes become columns by DataFrame functions and by Spark's own reader of Avro: no record passes through Python. A record
says by its fingerprint which released schema has written it; it is read by that one and told as the newest version of
its type says, so one table holds all versions. What no schema fits is set aside with the reason.

One Kafka partition is one task (of many partitions several are), and in each file the offsets of a partition rise: rows
are sorted where they are, never exchanged between tasks.
"""

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from pyspark.sql.avro.functions import from_avro

from topolog.events.codec import Released
from topolog.events.framing import MARKER, PREFIX_BYTES, SCHEMA_HEADER
from topolog.events.stamp import HEAD_BYTES, HEADER_NAME, INPUT_BYTES
from topolog.events.topics import ROOT
from topolog.projections.archive.spans import Span

NO_PREFIX, UNKNOWN_SCHEMA, DAMAGED = "NO_PREFIX", "UNKNOWN_SCHEMA", "DAMAGED"
"""Why a record is set aside: it does not say which schema has written it; this release does not know that schema; it
does, and the bytes are not of it."""

CLUSTER = "archive_of"
"""The column and folder of the cluster's name, which is that of no event's field."""

_ORDER = ("topic", "partition", "offset")
RECORD_COLUMNS = ("topic", "partition", "offset", "appended_at", "date", "key", "value", "headers")
_REGISTRY_HEAD_BYTES = 5
_LATEST_MS = 253_402_300_799_999  # the end of the year 9999


def records(source: DataFrame) -> DataFrame:
    """What Kafka gives, as the archive keeps it, and what of it is looked at more than once.

    archive_of (the cluster, with which the topic's name begins); topic (its short name), partition, offset;
    appended_at, which is the broker's time, and its date (UTC); key (bytes); value (bytes); headers (an array of key
    and value). is_framed: whether the value is in Confluent's framing; prefix (hex), which its single-object encoding
    begins with, None if it has none; stamp, a struct, None without one.
    """
    short_name = F.substring_index("topic", ".", -1)
    length = F.length("topic") - F.length(short_name) - len(ROOT) - 1
    kept = source.select(
        F.col("topic").substr(F.lit(len(ROOT) + 1), length).alias(CLUSTER),
        short_name.alias("topic"),
        "partition",
        "offset",
        F.col("timestamp").alias("appended_at"),
        F.to_date("timestamp").alias("date"),
        "key",
        "value",
        F.coalesce("headers", F.array().cast("array<struct<key:string,value:binary>>")).alias("headers"),
    )
    found = kept.withColumns({"schema": _header(SCHEMA_HEADER), "stamp": _header(HEADER_NAME)})
    fits = F.length("schema") == PREFIX_BYTES - len(MARKER)
    is_framed = F.coalesce(F.col("value").startswith(F.lit(b"\0")) & fits, F.lit(False))
    stated = F.hex(F.substring("value", 1, PREFIX_BYTES))
    has_one = F.coalesce(F.col("value").startswith(F.lit(MARKER)), F.lit(False)) & (F.length("value") >= PREFIX_BYTES)
    framing = F.hex(F.concat(F.lit(MARKER), F.col("schema")))
    return found.select(
        CLUSTER,
        *RECORD_COLUMNS,
        is_framed.alias("is_framed"),
        F.when(is_framed, framing).when(has_one, stated).alias("prefix"),
        _stamp(F.col("stamp")).alias("stamp"),
    )


def without(landed: DataFrame, taken: Mapping[str, Iterable[Span]]) -> DataFrame:
    """The records but for those of these spans, by cluster."""
    for cluster, spans in taken.items():
        for span in spans:
            landed = landed.where(~is_within(cluster, span))
    return landed


def is_within(cluster: str, span: Span) -> Column:
    at, place = F.col("offset"), (F.col(CLUSTER) == cluster) & (F.col("topic") == span.topic)
    return place & (F.col("partition") == span.partition) & (at >= span.start) & (at < span.end)


def decoded(told: DataFrame, versions: Iterable[Released]) -> DataFrame:
    """The records of one type, of all its versions, with `event`; None where the bytes are not what they say.

    For such bytes Spark gives a record whose fields are all None, which none of ours is. `task` is the number of the
    task, which is no function of the row: Spark pushes no filter that names it below the decoding, as it does one on
    `event` alone, which would then be decoded twice.
    """
    event: Column | None = None
    whole, framed = (F.expr(f"substring(value, {size + 1})") for size in (PREFIX_BYTES, _REGISTRY_HEAD_BYTES))
    body = F.when(F.col("is_framed"), framed).otherwise(whole)
    prefixes = []
    for version in versions:
        options = {"mode": "PERMISSIVE", "avroSchema": version.newest}
        read = F.when(F.col("prefix") == version.prefix.hex().upper(), from_avro(body, version.schema, options))
        event = read if event is None else F.coalesce(event, read)
        prefixes.append(version.prefix.hex().upper())
    assert event is not None, "a type without a schema"
    found = told.where(F.col("prefix").isin(prefixes)).withColumns({"event": event, "task": F.spark_partition_id()})
    fields = found.select("event.*").columns
    is_read = reduce(Column.__or__, (F.col(f"event.`{name}`").isNotNull() for name in fields))
    return found.withColumn("event", F.when(is_read, F.col("event")))


def table(events: DataFrame) -> DataFrame:
    """A table of one type: `log` says where a record stands, `stamp` what was written beside it, then its fields."""
    log = F.struct("topic", "partition", "offset", "appended_at", F.col("key").cast("string").alias("key"))
    is_read = F.col("event").isNotNull() & (F.col("task") >= 0)
    kept = events.where(is_read).sortWithinPartitions(CLUSTER, "date", *_ORDER)
    return kept.select(CLUSTER, "date", log.alias("log"), "stamp", "event.*")


def set_aside(told: DataFrame, reason: Column, type_: str = "") -> DataFrame:
    """The records that are in no table, with the reason and the type that they say they are."""
    return told.select(CLUSTER, *RECORD_COLUMNS, reason.alias("reason"), F.lit(type_).alias("type"))


def reason_without_type(known: Iterable[str]) -> Column:
    """Why a record has no type; None for one that has. `known`: prefixes (hex, upper case)."""
    unknown = F.when(~F.col("prefix").isin(list(known)), UNKNOWN_SCHEMA)
    return F.when(F.col("prefix").isNull(), NO_PREFIX).otherwise(unknown)


def begun(told: DataFrame, topic: str) -> DataFrame:
    """The clusters in whose log a first record stands among these, with its offset and the log's id."""
    is_first = (F.col("stamp.term") == 0) & (F.col("stamp.sequence") == 0) & (F.col("stamp.size") == 1)
    firsts = told.where((F.col("topic") == topic) & is_first)
    return firsts.groupBy(CLUSTER).agg(
        F.min("offset").alias("offset"), F.min_by("stamp.log_id", "offset").alias("log_id")
    )


def _header(name: str) -> Column:
    """The content of the first header of this name, None without one."""
    return F.get(F.filter("headers", lambda header: header["key"] == name), 0)["value"]


def _stamp(stamp: Column) -> Column:
    """A stamp's fields (`events/stamp.py` has the layout, for ever); None without one, or of another layout."""
    fits = (_number(stamp, 1, 1) == 1) & (F.length(stamp) >= HEAD_BYTES)
    inputs = _number(stamp, 62, 1)
    cause, actor, reason = (_number(stamp, at, 2) for at in (63, 65, 67))
    texts = F.lit(HEAD_BYTES + 1) + inputs * INPUT_BYTES  # what Spark cuts out is counted from 1
    fields = F.struct(
        _bytes(stamp, 2, 16).alias("log_id"),
        _number(stamp, 18, 8).alias("term"),
        _number(stamp, 26, 8).alias("sequence"),
        _number(stamp, 34, 2).cast("int").alias("index"),
        _number(stamp, 36, 2).cast("int").alias("size"),
        _bytes(stamp, 38, 16).alias("chain"),
        _time(_number(stamp, 54, 8)).alias("recorded_at"),
        _text(stamp, texts, cause).alias("cause"),
        _text(stamp, texts + cause, actor).alias("actor"),
        _text(stamp, texts + cause + actor, reason).alias("reason"),
    )
    return F.when(fits, fields)


def _bytes(data: Column, start: int, length: int) -> Column:
    return F.substring(data, start, length)


def _number(data: Column, start: int, length: int) -> Column:
    """An unsigned number, big-endian; None from 2^63 on, which no stamp of ours states and a forged one may."""
    return F.conv(F.hex(F.substring(data, start, length)), 16, 10).try_cast("long")


def _time(ms: Column) -> Column:
    """None for a time that nobody could have written down."""
    return F.when(ms.between(0, _LATEST_MS), F.timestamp_millis(ms))


def _text(data: Column, start: Column, length: Column) -> Column:
    return F.substring(data, start.cast("int"), length.cast("int")).cast("string")
