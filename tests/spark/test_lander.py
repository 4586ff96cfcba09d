"""Topics become tables: decoded by what each record says of itself, each once, nothing skipped in silence."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from tests import second_level
from tests.spark.frames import came, lander_of
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_projector import eventful

from topolog.events.codec import CODEC, released
from topolog.events.errors import BadInput
from topolog.events.framing import MARKER, framed
from topolog.events.ids import Offset
from topolog.events.levels import FIRST_LEVEL
from topolog.events.log import Entry
from topolog.events.membership import NodeJoined
from topolog.events.stamp import HEADER_NAME, InputOffset, decode_stamp, encode_stamp
from topolog.events.topics import Topic
from topolog.projections.archive import reading
from topolog.projections.archive.landings import Archive, ArchiveWriter, opened
from topolog.projections.archive.spans import Span
from topolog.projections.spark.lander import Lander

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture
def chronicle() -> Chronicle:
    return eventful(Chronicle().start())


@pytest.fixture
def archive(chronicle: Chronicle, tmp_path: Path) -> Iterator[ArchiveWriter]:
    with opened(tmp_path / "archive", chronicle.cluster) as archive:
        yield archive


@pytest.fixture
def lander(spark: SparkSession, archive: ArchiveWriter) -> Lander:
    return lander_of(spark, archive)


def read(spark: SparkSession, archive: Archive, table: str) -> list[Any]:
    files = [str(path) for path in archive.files(table)]
    return spark.read.parquet(*files).orderBy("log.offset").collect() if files else []


def test_each_type_has_a_table_with_its_fields_its_place_and_its_stamp(
    spark: SparkSession, chronicle: Chronicle, archive: ArchiveWriter, lander: Lander
) -> None:
    entries = chronicle.log.entries(Topic.DECISIONS)
    lander.land(came(spark, chronicle.cluster, entries), "test")
    by_type: dict[str, list[Entry]] = {}
    for entry in entries:
        by_type.setdefault(type(CODEC.decode(entry.value)).__name__, []).append(entry)
    counts = {
        name.removeprefix("tables/"): count for name, count in archive.rows().items() if name.startswith("tables/")
    }
    assert counts == {name: len(each) for name, each in by_type.items()}
    assert archive.rows()["records"] == len(entries)
    joined = read(spark, archive, "tables/NodeJoined")
    for row, entry in zip(joined, by_type["NodeJoined"], strict=True):
        record: Any = CODEC.decode(entry.value)
        assert entry.stamp is not None
        stamp = decode_stamp(entry.stamp)
        assert (row.log.offset, row.log.topic, row.log.key) == (entry.offset, "decisions", entry.key or "")
        assert (row.stamp.term, row.stamp.sequence, row.stamp["index"], row.stamp.size) == (
            stamp.term,
            stamp.sequence,
            stamp.index,
            stamp.size,
        )
        assert (bytes(row.stamp.log_id), bytes(row.stamp.chain)) == (stamp.log_id, stamp.chain)
        assert (row.stamp.cause, row.stamp.actor, row.stamp.reason) == (stamp.cause, stamp.actor, stamp.reason)
        assert row.stamp.recorded_at.replace(tzinfo=UTC).timestamp() * 1000 == pytest.approx(stamp.recorded_at_ms)
        assert (row.joiner.node, row.slot) == (record.joiner.node, record.slot)


def test_what_a_stamp_says_lands_however_many_inputs_it_names(
    spark: SparkSession, chronicle: Chronicle, archive: ArchiveWriter, lander: Lander
) -> None:
    """They stand before its texts."""
    entry = next(each for each in chronicle.entries if CODEC.type_of(each.value) is NodeJoined)
    assert entry.stamp is not None
    stamp = msgspec.structs.replace(decode_stamp(entry.stamp), reason="größer")
    many = tuple(InputOffset(Topic.HEARTBEATS.code, number, Offset(7), b"a digest") for number in range(4))
    stamps = [encode_stamp(msgspec.structs.replace(stamp, inputs=many[:count])) for count in range(len(many) + 1)]
    entries = [
        msgspec.structs.replace(entry, offset=Offset(number), headers=((HEADER_NAME, each),))
        for number, each in enumerate(stamps)
    ]
    lander.land(came(spark, chronicle.cluster, entries), "test")
    rows = read(spark, archive, "tables/NodeJoined")
    assert len(rows) == len(entries)
    said = {(row.stamp.cause, row.stamp.actor, row.stamp.reason) for row in rows}
    assert said == {(stamp.cause, stamp.actor, "größer")}


def test_two_versions_of_a_type_are_one_table(
    spark: SparkSession, chronicle: Chronicle, archive: ArchiveWriter
) -> None:
    """Schema evolution by fingerprint: each is read by the schema that has written it, and told as the newest."""
    entry = next(each for each in chronicle.entries if CODEC.type_of(each.value) is NodeJoined)
    joined = CODEC.decode(entry.value)
    values = [second_level.CODEC.encode(joined, level) for level in (FIRST_LEVEL, second_level.LEVEL)]
    assert values[0][:10] != values[1][:10]
    entries = [msgspec.structs.replace(entry, offset=Offset(at), value=each) for at, each in enumerate(values)]
    lander = lander_of(spark, archive, released(second_level.CONTRACT))
    lander.land(came(spark, chronicle.cluster, entries), "test")
    assert archive.rows() == {"records": 2, "tables/NodeJoined": 2}
    older, newer = read(spark, archive, "tables/NodeJoined")
    assert older.asDict(recursive=True).keys() == newer.asDict(recursive=True).keys()
    assert older.joiner == newer.joiner


def test_records_are_kept_as_they_came(
    spark: SparkSession, chronicle: Chronicle, archive: ArchiveWriter, lander: Lander
) -> None:
    """Bytes, headers and order: all that a chain hash is made of."""
    entries = chronicle.log.entries(Topic.DECISIONS)
    lander.land(came(spark, chronicle.cluster, entries), "test")
    files = [str(path) for path in archive.files("records")]
    rows = spark.read.option("basePath", str(archive.folder / "records")).parquet(*files).orderBy("offset").collect()
    found = [(row.offset, bytes(row.value), [(each.key, bytes(each.value)) for each in row.headers]) for row in rows]
    assert found == [(each.offset, each.value, list(each.headers)) for each in entries]
    assert {row.topic for row in rows} == {"decisions"}


def test_what_is_given_again_lands_once(
    spark: SparkSession, chronicle: Chronicle, archive: ArchiveWriter, lander: Lander
) -> None:
    """A batch after a crash, one that overlaps, a backfill over all of it."""
    entries = chronicle.log.entries(Topic.DECISIONS)
    half = len(entries) // 2
    lander.land(came(spark, chronicle.cluster, entries[:half]), "stream 0")
    before = archive.rows()
    lander.land(came(spark, chronicle.cluster, entries[:half]), "stream 0")
    assert archive.rows() == before
    assert len(archive.landings) == 1
    lander.land(came(spark, chronicle.cluster, entries[half - 3 :]), "stream 1")
    lander.land(came(spark, chronicle.cluster, entries), "backfill")
    assert archive.rows()["records"] == len(entries)
    assert archive.spans() == (Span("decisions", 0, 0, len(entries)),)


def test_spans_begin_and_end_with_a_record_where_offsets_have_holes(
    spark: SparkSession, chronicle: Chronicle, archive: ArchiveWriter, lander: Lander
) -> None:
    """What a compacted topic has left, landed in part before; a reader takes both ends for records."""
    entries = [each for each in chronicle.log.entries(Topic.DECISIONS) if each.offset in (2, 3, 5, 8, 9, 12)]
    lander.land(
        came(spark, chronicle.cluster, entries[2:4]), "backfill", {chronicle.cluster: [Span("decisions", 0, 4, 9)]}
    )
    lander.land(came(spark, chronicle.cluster, entries), "stream 0", {chronicle.cluster: [Span("decisions", 0, 0, 14)]})
    assert [landing.spans for landing in archive.landings] == [
        (Span("decisions", 0, 5, 9),),
        (Span("decisions", 0, 2, 4), Span("decisions", 0, 9, 13)),
    ]
    assert archive.covered() == (Span("decisions", 0, 0, 14),)
    tables = reading.tables(archive, "decisions", columns=["offset"])
    assert [offset for table in tables for offset in table.column("offset").to_pylist()] == [2, 3, 5, 8, 9, 12]


def test_what_cannot_be_decoded_is_set_aside_with_the_reason(
    spark: SparkSession, chronicle: Chronicle, archive: ArchiveWriter, lander: Lander
) -> None:
    """A record of a later release, one cut short, one that is nothing of ours; they are among the records, too."""
    good = chronicle.log.entries(Topic.DECISIONS)[0]
    values = (b"", b"hello", MARKER + bytes(8) + b"later", good.value[:-3], good.value)
    stamped = [
        Entry(Topic.REQUESTS, 0, type(good.offset)(offset), "k", value, (), int(NOON.timestamp() * 1000))
        for offset, value in enumerate(values)
    ]
    lander.land(came(spark, chronicle.cluster, stamped), "test")
    files = [str(path) for path in archive.files("quarantine")]
    rows = spark.read.parquet(*files).orderBy("offset").collect()
    assert [(row.offset, row.reason) for row in rows] == [
        (0, "NO_PREFIX"),
        (1, "NO_PREFIX"),
        (2, "UNKNOWN_SCHEMA"),
        (3, "DAMAGED"),
    ]
    assert archive.rows() == {"records": 5, "tables/LogStarted": 1, "quarantine": 4}
    (row,) = read(spark, archive, "tables/LogStarted")
    assert row.stamp is None
    assert {path.parent.name for path in archive.files("tables")} == {"date=2026-11-22"}


def test_confluents_framing_is_read_as_any_other(
    spark: SparkSession, chronicle: Chronicle, archive: ArchiveWriter, lander: Lander
) -> None:
    entries = chronicle.log.entries(Topic.DECISIONS)
    ids = {each.value[:10]: number for number, each in enumerate(entries, start=1)}
    in_registry = []
    for each in entries:
        value, headers = framed(each.value, ids)
        in_registry.append(
            Entry(
                each.topic, each.partition, each.offset, each.key, value, (*each.headers, *headers), each.appended_at_ms
            )
        )
    lander.land(came(spark, chronicle.cluster, in_registry), "test")
    assert "quarantine" not in archive.rows()
    assert sum(count for name, count in archive.rows().items() if name.startswith("tables/")) == len(entries)


def test_the_topic_of_another_log_is_refused(
    spark: SparkSession, chronicle: Chronicle, archive: ArchiveWriter, lander: Lander
) -> None:
    """A topic that was made anew: its first record says so, and nothing of it lands."""
    archive.identify(b"x" * 16)
    with pytest.raises(BadInput, match="made anew"):
        lander.land(came(spark, chronicle.cluster, chronicle.log.entries(Topic.DECISIONS)), "test")
    assert archive.landings == []


def test_the_first_record_of_another_log_that_no_reader_counts_ends_nothing(
    spark: SparkSession, chronicle: Chronicle, archive: ArchiveWriter, lander: Lander
) -> None:
    """Two coordinators have begun an empty topic at once, and the second one's record comes in a later batch."""
    lander.land(came(spark, chronicle.cluster, chronicle.entries), "stream 0")
    before = len(chronicle.entries)
    stranger = Chronicle(log_id=b"x" * 16).start().entries[0]
    chronicle.append_raw(stranger.stamp, stranger.value)
    chronicle.join("n9")
    lander.land(came(spark, chronicle.cluster, chronicle.entries[before:]), "stream 1")
    assert archive.rows()["records"] == len(chronicle.entries)
    assert archive.about.log_id == chronicle.log_id.hex()
