"""Many clusters in one job on a real broker: a large one delays nobody, a broken one ends nothing (issue 9.5)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from topolog.events.errors import BadInput, NotFound
from topolog.events.kafka import KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import PLANS, Topic
from topolog.projections.archive import reading
from topolog.projections.archive.landings import Archive, opened
from topolog.projections.spark import landing
from topolog.projections.spark.fleet import Fleet

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
    with Fleet(tmp_path / "fleet", f"{cluster}-*", admin, lambda _: b"", lambda: 7) as fleet:
        yield fleet


def test_what_small_clusters_have_is_in_the_first_batch(
    fleet: Fleet, spark: SparkSession, kafka: str, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all of the large one lands in time, each cluster's records in an archive of its own."""
    monkeypatch.setattr(landing, "RECORDS_PER_BATCH_MAX", LARGE // 2)
    java = {"bootstrap.servers": kafka}
    assert fleet.round(spark, java) == LARGE // 2
    behind = {found.cluster: found.behind for found in fleet.progress()}
    assert behind == {f"{cluster}-a": 0, f"{cluster}-b": LARGE // 2 + 2 * SMALL, f"{cluster}-c": 0}
    rounds = [fleet.round(spark, java) for _ in range(3)]
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
    java = {"bootstrap.servers": kafka}
    assert fleet.round(spark, java) == LARGE + SMALL
    assert {name: type(error) for name, error in fleet.set_aside.items()} == {broken: BadInput, half: NotFound}
    assert len(values(tmp_path / "fleet" / f"{cluster}-c")) == SMALL
    (tmp_path / "fleet" / broken).rename(tmp_path / "elsewhere")
    assert fleet.round(spark, java) == SMALL
    assert fleet.set_aside.keys() == {half}
