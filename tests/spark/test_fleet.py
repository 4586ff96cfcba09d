"""Many clusters in one job on a real broker: a large one delays nobody, a broken one ends nothing (RD29)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from tests.broker.conftest import eventually

from topolog.events.errors import BadInput, NotFound, SparkFailed
from topolog.events.kafka import KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import PLANS, Topic, topic_name
from topolog.projections.archive import reading
from topolog.projections.archive.landings import Archive, DamagedArchive, opened
from topolog.projections.spark import batches
from topolog.projections.spark.fleet import Fleet
from topolog.projections.spark.lander import Lander, ReadSpans

LARGE, SMALL = 400, 4


def write(kafka: str, cluster: str, records: int) -> None:
    writer = KafkaWriter({"bootstrap.servers": kafka}, cluster)
    for number in range(records):
        writer.append(Topic.REQUESTS, "k", f"{cluster} {number}".encode())
    assert writer.flush(30) == 0
    writer.close()


def values(folder: Path) -> list[bytes]:
    tables = reading.tables(Archive(folder), "requests", columns=["value"])
    return [value for table in tables for value in table.column("value").to_pylist()]


@pytest.fixture
def fleet(kafka: str, cluster: str, tmp_path: Path) -> Iterator[Fleet]:
    """Three clusters, the second with a hundred times as much."""
    admin = KafkaAdmin({"bootstrap.servers": kafka})
    for name, records in (("a", SMALL), ("b", LARGE), ("c", SMALL)):
        admin.create_topics(f"{cluster}-{name}", PLANS)
        write(kafka, f"{cluster}-{name}", records)
    with Fleet(
        tmp_path / "fleet", f"{cluster}-*", admin, {"bootstrap.servers": kafka}, lambda _: b"", lambda: 7
    ) as fleet:
        yield fleet


def test_what_small_clusters_have_is_in_the_first_batch(
    fleet: Fleet, spark: SparkSession, kafka: str, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all of the large one lands in time, each cluster's records in an archive of its own."""
    monkeypatch.setattr(batches, "RECORDS_PER_BATCH_MAX", LARGE // 2)
    assert fleet.round(spark).landed == LARGE // 2
    behind = {found.cluster: found.behind for found in fleet.progress()}
    assert behind == {f"{cluster}-a": 0, f"{cluster}-b": LARGE // 2 + 2 * SMALL, f"{cluster}-c": 0}
    rounds = [fleet.round(spark).landed for _ in range(3)]
    assert rounds == [LARGE // 2, 2 * SMALL, 0]
    for name, records in (("a", SMALL), ("b", LARGE), ("c", SMALL)):
        whole = f"{cluster}-{name}"
        assert values(tmp_path / "fleet" / whole) == [f"{whole} {number}".encode() for number in range(records)]


def test_a_cluster_that_cannot_be_landed_is_named_and_the_others_land(
    fleet: Fleet, spark: SparkSession, kafka: str, cluster: str, tmp_path: Path
) -> None:
    """One whose folder is another's, one whose topics are not all made; it lands once that is mended."""
    broken, half = f"{cluster}-a", f"{cluster}-d"
    with opened(tmp_path / "fleet" / broken, "another"):
        pass
    decisions = [plan for plan in PLANS if plan.topic is Topic.DECISIONS]
    KafkaAdmin({"bootstrap.servers": kafka}).create_topics(half, decisions)
    assert fleet.round(spark).landed == LARGE + SMALL
    assert {name: type(error) for name, error in fleet.set_aside.items()} == {broken: BadInput, half: NotFound}
    assert len(values(tmp_path / "fleet" / f"{cluster}-c")) == SMALL
    (tmp_path / "fleet" / broken).rename(tmp_path / "elsewhere")
    assert fleet.round(spark).landed == SMALL, fleet.set_aside
    assert fleet.set_aside.keys() == {half}


def test_what_ends_sparks_job_is_landed_alone_and_the_others_land_before_it(
    fleet: Fleet, spark: SparkSession, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is wrong with its topics or its folder, so no look finds it; once it can be landed, it is."""
    broken, land = f"{cluster}-b", Lander.land

    def fail(lander: Lander, batch: DataFrame, source: str, read: ReadSpans) -> None:
        if broken in read:
            raise SparkFailed("A record that ends the job.")
        land(lander, batch, source, read)

    monkeypatch.setattr(Lander, "land", fail)
    assert fleet.round(spark).landed == 2 * SMALL, fleet.set_aside
    assert fleet.round(spark).landed == 0, "so --once ends"
    assert {name: type(error) for name, error in fleet.set_aside.items()} == {broken: SparkFailed}
    monkeypatch.undo()
    assert fleet.round(spark).landed == LARGE
    assert not fleet.set_aside
    assert len(values(tmp_path / "fleet" / broken)) == LARGE


def test_a_cluster_whose_archive_is_damaged_meanwhile_ends_nothing(
    fleet: Fleet, spark: SparkSession, kafka: str, cluster: str, tmp_path: Path
) -> None:
    """The description of a landing cannot be read: seen when the next one is made."""
    broken, sound = f"{cluster}-a", f"{cluster}-c"
    fleet.round(spark)
    (tmp_path / "fleet" / broken / "landings" / f"{1:012}.json").write_text("{")
    for name in (broken, sound):
        write(kafka, name, SMALL)
    assert fleet.round(spark).landed == SMALL, fleet.set_aside
    assert len(values(tmp_path / "fleet" / sound)) == 2 * SMALL
    assert fleet.round(spark).landed == 0
    assert {name: type(error) for name, error in fleet.set_aside.items()} == {broken: DamagedArchive}


def test_offsets_without_a_record_do_not_keep_a_fleet_at_work(
    fleet: Fleet, spark: SparkSession, kafka: str, cluster: str, tmp_path: Path
) -> None:
    """A transaction that was aborted leaves nothing else."""
    while fleet.round(spark).left:
        pass
    name = topic_name(f"{cluster}-c", Topic.REQUESTS)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(name, b"never")
    producer.flush()
    producer.abort_transaction()
    admin, place = KafkaAdmin({"bootstrap.servers": kafka}), (name, 0)
    eventually(lambda: admin.bounds([place])[place] == (0, SMALL + 2), "the mark of the abort, which follows it")
    assert fleet.round(spark).landed == 2
    assert fleet.round(spark).landed == 0
    assert len(values(tmp_path / "fleet" / f"{cluster}-c")) == SMALL
