"""Topics of a real broker land: as a stream, over a span of time, and not at all if they are not the archive's."""

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.topics_place import TopicsPlace, run_out
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_projector import eventful

from topolog.events.errors import BadInput, LogDiverged
from topolog.events.fold import Judge
from topolog.events.framing import MARKER
from topolog.events.stamp import HEADER_NAME
from topolog.events.topics import Topic, topic_name
from topolog.projections.archive import reading, topics
from topolog.projections.archive.landings import opened
from topolog.projections.archive.spans import Span
from topolog.projections.spark import batches
from topolog.projections.spark.batches import Stream
from topolog.projections.spark.pipeline import Backfilled


@pytest.fixture
def place(spark: SparkSession, kafka: str, cluster: str, tmp_path: Path) -> TopicsPlace:
    return TopicsPlace(spark, kafka, cluster, tmp_path / "archive")


@pytest.fixture
def chronicle(cluster: str) -> Chronicle:
    return eventful(Chronicle(cluster).start())


def test_a_stream_lands_what_is_there_and_goes_on_where_the_archive_ends(
    place: TopicsPlace, chronicle: Chronicle
) -> None:
    """Each record once, to the byte, and the chain hash holds from the log's beginning."""
    place.write(chronicle)
    place.append(Topic.REQUESTS, [(b"one", ()), (b"two", (("name", b"value"),))])
    first = place.land()
    assert first.about.log_id == chronicle.log_id.hex()
    assert len(first.landings) == 1
    assert len(place.land().landings) == 1, "nothing has come"
    chronicle.lead("c3").join("n9")
    place.write(chronicle)
    archive = place.land()
    assert archive.spans() == (Span("decisions", 0, 0, place.written), Span("requests", 0, 0, 2))
    assert place.records_of(archive, Topic.DECISIONS) == [(each.offset, each.value) for each in chronicle.entries]
    judge = Judge()
    for table in reading.tables(archive, "decisions"):
        for headers, value in zip(table.column("headers").to_pylist(), table.column("value").to_pylist(), strict=True):
            judge.judge(next(each["value"] for each in headers if each["key"] == HEADER_NAME), value)
    assert judge.header == chronicle.fold.header
    assert archive.missing() == []
    assert not any((place.folder / "staging").rglob("*.parquet"))


def test_many_batches_are_as_one(place: TopicsPlace, chronicle: Chronicle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "RECORDS_PER_BATCH_MAX", 10)
    place.write(chronicle)
    archive = place.land()
    assert len(archive.landings) == 2
    assert place.records_of(archive, Topic.DECISIONS) == [(each.offset, each.value) for each in chronicle.entries]
    for path in archive.files("records"):
        offsets = place.spark.read.parquet(str(path)).select("offset").collect()
        assert [row.offset for row in offsets] == sorted(row.offset for row in offsets)


def test_what_cannot_be_decoded_is_set_aside_and_stays_among_the_records(
    place: TopicsPlace, chronicle: Chronicle
) -> None:
    """No prefix, a schema of a later release, cut short, and a length that would take all memory there is."""
    good = chronicle.entries[0].value
    greedy = good[:10] + b"\xfe\xff\xff\xff\x0f" + b"x" * 40
    values = [b"", b"hello", MARKER + bytes(8) + b"later", good[:-3], greedy, good]
    place.append(Topic.REQUESTS, [(value, ()) for value in values])
    archive = place.land()
    assert archive.rows() == {"records": 6, "tables/LogStarted": 1, "quarantine": 5}
    rows = place.spark.read.parquet(*map(str, archive.files("quarantine"))).orderBy("offset").collect()
    reasons = ["NO_PREFIX", "NO_PREFIX", "UNKNOWN_SCHEMA", "DAMAGED", "DAMAGED"]
    assert [(row.offset, bytes(row.value), row.reason) for row in rows] == [
        (offset, value, reason) for offset, (value, reason) in enumerate(zip(values, reasons, strict=False))
    ]
    assert place.records_of(archive, Topic.REQUESTS) == list(enumerate(values))


def test_forged_stamps_land_without_one(place: TopicsPlace, chronicle: Chronicle) -> None:
    """All bits set: numbers that fit nothing end no job."""
    good = chronicle.entries[0]
    forged = b"\x01" + b"\xff" * 100
    place.append(Topic.DECISIONS, [(good.value, good.headers), (good.value, ((HEADER_NAME, forged),))])
    archive = place.land()
    assert archive.rows() == {"records": 2, "tables/LogStarted": 2}
    _, row = place.spark.read.parquet(*map(str, archive.files("tables"))).orderBy("log.offset").collect()
    assert (row.stamp.term, row.stamp.recorded_at) == (None, None)


def test_a_span_of_time_lands_once_however_often_and_the_stream_lands_the_rest(
    place: TopicsPlace, chronicle: Chronicle
) -> None:
    entries = [(each.value, each.headers) for each in chronicle.entries]
    place.append(Topic.DECISIONS, entries)
    wanted = [Span("decisions", 0, 5, 9), Span("decisions", 0, 12, 14)]
    with opened(place.folder, place.cluster) as archive:
        place.backfill(archive, wanted)
        assert archive.spans() == tuple(wanted)
        landings = len(archive.landings)
        place.backfill(archive, wanted)
        assert len(archive.landings) == landings
        place.backfill(archive, [Span("decisions", 0, 4, 13)])
        assert archive.spans() == (Span("decisions", 0, 4, 14),)
    landed = place.land()
    assert place.records_of(landed, Topic.DECISIONS) == [(each.offset, each.value) for each in chronicle.entries]
    assert landed.rows()["records"] == len(entries)


def test_what_was_appended_between_two_times_lands(place: TopicsPlace) -> None:
    """The broker's own times decide: the first one is in the span, the last one is behind it."""

    def next_ms() -> int:
        """A moment that nothing was appended in yet."""
        before_ms = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 == before_ms:
            pass
        return before_ms + 1

    place.append(Topic.REQUESTS, [(b"before", ())])
    start_ms = next_ms()
    place.append(Topic.REQUESTS, [(b"one", ()), (b"two", ())])
    end_ms = next_ms()
    place.append(Topic.REQUESTS, [(b"after", ())])
    with opened(place.folder, place.cluster) as archive:
        assert place.pipeline(archive).backfill(place.spark, start_ms, end_ms) == Backfilled(2, 0)
        assert place.pipeline(archive).backfill(place.spark, start_ms, end_ms) == Backfilled(0, 2)
        assert place.pipeline(archive).backfill(place.spark, end_ms + 60_000, end_ms + 90_000) == Backfilled(0, 0)
        assert place.records_of(archive, Topic.REQUESTS) == [(1, b"one"), (2, b"two")]
        assert archive.landings[0].source.startswith("backfill 20")


def test_records_deleted_before_they_landed_end_the_job_until_they_are_given_up(place: TopicsPlace) -> None:
    records = [(f"{number}".encode(), ()) for number in range(30)]
    place.append(Topic.REQUESTS, records[:10])
    place.land()
    place.append(Topic.REQUESTS, records[10:])
    place.delete_before(Topic.REQUESTS, 20)
    with pytest.raises(LogDiverged, match="requests/0 from 10 to 19"):
        place.land()
    with opened(place.folder, place.cluster) as archive:
        archive.give_up(topics.deleted(archive, place.seen()), 5)
    landed = place.land()
    assert landed.spans() == (Span("requests", 0, 0, 10), Span("requests", 0, 20, 30))
    assert landed.lost() == (Span("requests", 0, 10, 20),)


def test_a_topic_made_anew_is_refused_before_and_while_it_is_landed(place: TopicsPlace, chronicle: Chronicle) -> None:
    """Even when it has grown past what has landed, and when the batch was read before somebody looked."""
    place.write(chronicle)
    place.append(Topic.REQUESTS, [(b"one", ())])
    place.land()
    place.make_anew(Topic.REQUESTS)
    place.append(Topic.REQUESTS, [(b"other", ())] * 3)
    with pytest.raises(BadInput, match="requests was made anew"):
        place.land()
    with opened(place.folder, place.cluster) as archive:
        before = len(archive.landings)
        offsets = {topic_name(place.cluster, Topic.REQUESTS): {"0": 1}}
        lander, notes = place.lander(archive), archive.scratch("checkpoint")
        stream = Stream(place.spark, lander, place.cluster, place.kafka, notes, offsets, once=True, every_s=0)
        with pytest.raises(BadInput, match="requests was made anew"):
            run_out(stream)
        assert len(archive.landings) == before


def test_the_log_of_another_cluster_is_refused(place: TopicsPlace, chronicle: Chronicle) -> None:
    """The archive's folder is right and the settings name another broker, say: its log has another id."""
    place.write(chronicle)
    with opened(place.folder, place.cluster) as archive:
        archive.identify(b"x" * 16)
    with pytest.raises(BadInput, match="made anew, or belong to another cluster"):
        place.land()


def test_settings_that_javas_client_refuses_end_the_job_with_what_it_says(
    place: TopicsPlace, chronicle: Chronicle, tmp_path: Path
) -> None:
    """They are no broker that is silent, for which a job would wait: a key that is none, no JAAS line."""
    place.write(chronicle)
    key = tmp_path / "key.pem"
    key.write_text("none")
    tls = {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": str(key)}
    no_jaas = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    for settings, told in ((tls, "PEM"), (no_jaas, "JAAS")):
        place.kafka = {**place.kafka, **settings}
        with opened(tmp_path / told, place.cluster) as archive:
            with pytest.raises(BadInput, match=f"Java client refuses.*{told}"):
                run_out(place.pipeline(archive).stream(place.spark, once=True))
            with pytest.raises(BadInput, match=f"Java client refuses.*{told}"):
                place.backfill(archive, [Span("decisions", 0, 0, 1)])
            assert archive.landings == []


def test_a_request_may_last_as_long_as_the_user_says() -> None:
    """Java refuses a limit for calls below that for requests; librdkafka's own for these is a minute."""

    class Reader:
        def __init__(self) -> None:
            self.said: dict[str, str] = {}

        def format(self, _: str) -> "Reader":
            return self

        def option(self, name: str, value: str) -> "Reader":
            self.said[name] = value
            return self

    for request_ms, said, limit_ms in (
        ("60000", {}, "60000"),
        ("5000", {}, "20000"),
        ("60000", {"default.api.timeout.ms": "70000"}, "70000"),
    ):
        source = batches.kafka_source(Reader(), {"request.timeout.ms": request_ms, **said}, {"t": {"0": 1}})
        assert source.said["kafka.default.api.timeout.ms"] == limit_ms
        assert source.said["kafka.request.timeout.ms"] == request_ms
