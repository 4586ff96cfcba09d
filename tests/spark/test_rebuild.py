"""Many clusters are rebuilt side by side, each to its live projection's state; one that cannot be stops no other."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.frames import came, lander_of
from tests.unit.projections.archive.landed import in_landings, table
from tests.unit.projections.archive.test_rebuilding import of_log, rebuild
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import project
from tests.unit.projections.sharing import shared_out
from tests.unit.projections.test_projector import eventful

from topolog.events.topics import Topic
from topolog.projections.archive import reading
from topolog.projections.archive.landings import Archive, opened
from topolog.projections.archive.rebuilding import Standing, Task
from topolog.projections.self_check.verdict import State
from topolog.projections.spark.rebuild import collected, longest_first, outcomes


def full() -> Chronicle:
    chronicle = Chronicle().start()
    shared_out(chronicle, "s1", "s2", "s3")
    return eventful(chronicle)


HISTORIES: dict[str, Callable[[], Chronicle]] = {
    "eventful": lambda: eventful(Chronicle().start()),
    "with partitions": full,
}


@pytest.mark.parametrize("name", HISTORIES)
def test_from_the_topic_through_spark_to_the_live_projections_state(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Landed in two batches by the job, rebuilt from its files: the same store, byte for byte."""
    chronicle = HISTORIES[name]()
    entries = chronicle.entries
    with opened(tmp_path / "archive", "main") as archive:
        lander = lander_of(spark, archive)
        lander.land(came(spark, "main", entries[9:]), "backfill")
        lander.land(came(spark, "main", entries), "stream")
    told = rebuild(Task("main", tmp_path / "made", tmp_path / "archive"))
    assert told.state_hash == chronicle.fold.state.hash().hex()
    assert told.chain == chronicle.fold.header.chain.hex()
    assert of_log(tmp_path / "made") == of_log(project(chronicle, tmp_path / "live"))


def test_the_tests_own_archives_are_like_those_of_the_job(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise tests without Spark would prove nothing."""
    chronicle = full()
    with opened(tmp_path / "archive", "main") as archive:
        lander_of(spark, archive).land(came(spark, "main", chronicle.entries), "stream")
    (landed,) = reading.tables(Archive(tmp_path / "archive"), Topic.DECISIONS.short_name)
    own = table(chronicle.entries)
    assert [field.name for field in landed.schema] == list(reading.ALL_COLUMNS)
    for name in ("offset", "key", "value", "headers"):
        assert landed.column(name).to_pylist() == own.column(name).to_pylist(), name


def test_clusters_are_rebuilt_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    """Three clusters, of which one lacks a day; where a store differs, the row says so and names what differs."""
    chronicles = {name: full() for name in ("a", "b", "c")}
    for _ in range(60):
        chronicles["b"].renew("s1")
    for name, chronicle in chronicles.items():
        in_landings(tmp_path / "root" / name, name, chronicle.entries, (20,))
    max((tmp_path / "root" / "c").glob("records/*/*/*.parquet")).unlink()
    live = tmp_path / "to" / "a"
    _of_cluster("a", chronicles["a"], live)
    tasks = [
        Task(name, tmp_path / "to" / name, tmp_path / "root" / name, check=name == "a") for name in sorted(chronicles)
    ]
    assert [each.cluster for each in longest_first(tasks)] == ["b", "a", "c"]
    a, b, c = collected(outcomes(spark, tasks))
    assert [each.cluster for each in (a, b, c)] == ["a", "b", "c"]
    assert (a.standing, b.standing, c.standing) == (Standing.OFFERED, Standing.PUT, Standing.FAILED)
    for told in (a, b):
        assert told.state_hash == chronicles[told.cluster].fold.state.hash().hex()
        assert told.position == chronicles[told.cluster].position == told.decisions - 1
    assert a.verdict is not None
    assert a.verdict.state is State.EQUAL
    assert "lacks 1 files of decisions" in c.error
    assert "backup" in c.hint
    assert of_log(tmp_path / "to" / "b") == of_log(_of_cluster("b", chronicles["b"], tmp_path / "live"))


def _of_cluster(name: str, chronicle: Chronicle, folder: Path) -> Path:
    """A projector's folder of this cluster."""
    chronicle.cluster = name
    return project(chronicle, folder)
