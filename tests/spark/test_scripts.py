"""The scripts of docs/spark-submit.md as they stand, on a session that is there already, as under spark-submit."""

import contextlib
import json
import runpy
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.topics_place import TopicsPlace
from tests.unit.projections.chronicle import Chronicle

from topolog.events.codec import CODEC
from topolog.events.kafka import KafkaReader
from topolog.events.repair_requests import ReplicaDeclarationRequested
from topolog.events.replica import ReplicaDefinition
from topolog.events.topics import PARTITIONS, Topic
from topolog.projections.archive.landings import Archive

DOCS = Path(__file__).parents[2] / "docs"
Run = Callable[..., None]
PATIENCE_S = 60.0


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run one of them with these arguments. The session is not stopped, for other tests have it too."""
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)

    def ran(script: str, *arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        runpy.run_path(str(DOCS / script), run_name="__main__")

    return ran


@pytest.fixture
def place(spark: SparkSession, kafka: str, cluster: str, tmp_path: Path) -> TopicsPlace:
    return TopicsPlace(spark, kafka, cluster, tmp_path / "archives" / "one")


def test_topics_become_an_archive_and_that_reports_and_a_store(
    place: TopicsPlace, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The archive's script again, with nothing new, lands nothing."""
    chronicle = Chronicle(place.cluster).start()
    chronicle.join("n1")
    chronicle.leave("n1")
    place.write(chronicle)
    place.append(Topic.REQUESTS, [(b"no record of topolog's", ())])
    for _ in range(2):
        run("submit_archive.py", place.cluster, place.kafka["bootstrap.servers"], place.folder, "--once")
        archive = Archive(place.folder)
        assert len(archive.landings) == 1
    assert archive.rows()["quarantine"] == 1
    assert place.records_of(archive, Topic.DECISIONS) == [(each.offset, each.value) for each in chronicle.entries]

    run("submit_report.py", place.folder, tmp_path / "some", "leases")
    kept = json.loads((tmp_path / "some" / "reports.json").read_text())
    assert [each["name"] for each in kept["reports"]] == ["leases"]
    assert [row["node"] for row in kept["reports"][0]["rows"]] == ["n1"]
    assert "<svg" in (tmp_path / "some" / "index.html").read_text()

    with pytest.raises(SystemExit) as ended:
        run("submit_rebuild.py", place.folder.parent, tmp_path / "stores")
    assert ended.value.code == 0
    state_hash = chronicle.fold.state.hash().hex()
    assert f"{place.cluster} PUT {chronicle.position} {state_hash}" in capsys.readouterr().out


def test_an_archive_that_cannot_be_rebuilt_is_told_and_ends_with_code_8(
    place: TopicsPlace, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write(Chronicle(place.cluster).start())
    archive = place.land()
    (lost,) = archive.files("records")
    lost.unlink()
    with pytest.raises(SystemExit) as ended:
        run("submit_rebuild.py", place.folder.parent, tmp_path / "stores")
    assert ended.value.code == 8
    said = capsys.readouterr().out
    assert f"{place.cluster} FAILED" in said
    assert "lacks 1 files of decisions" in said


def test_a_validator_asks_for_its_replicas_to_be_declared_as_the_session_has_read_them(
    place: TopicsPlace, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ends when it is told to."""
    place.write(Chronicle(place.cluster).start())
    place.spark.sql("SELECT id, string(id) AS name FROM range(5)").write.parquet(str(tmp_path / "orders"))
    stop, declared = threading.Event(), list[ReplicaDefinition]()
    monkeypatch.setattr("topolog.streams.local.stopping.stopping_when_told", lambda _: contextlib.nullcontext(stop))

    def stop_when_declared() -> None:
        deadline = time.monotonic() + PATIENCE_S
        with contextlib.closing(KafkaReader(place.kafka, place.cluster)) as reader:
            reader.assign({(Topic.REQUESTS, number): None for number in range(PARTITIONS[Topic.REQUESTS])})
            while not declared and time.monotonic() < deadline:
                requests = [CODEC.decode(entry.value) for entry in reader.poll(0.1)]
                declared.extend(each.replica for each in requests if isinstance(each, ReplicaDeclarationRequested))
        stop.set()

    thread = threading.Thread(target=stop_when_declared)
    thread.start()
    arguments = (place.kafka["bootstrap.servers"], tmp_path / "copies", f"orders@r1=parquet:{tmp_path}/orders#id")
    run("submit_validator.py", place.cluster, *arguments)
    thread.join()
    assert [(each.id, [column.name for column in each.columns], each.key) for each in declared] == [
        ("orders@r1", ["id", "name"], ("id",))
    ]
