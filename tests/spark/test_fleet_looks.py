"""What a fleet sees of its clusters, and does with those that are not in order (RD29); without a broker."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from topolog.events.errors import BadInput, LogDiverged, NotFound, Unreachable
from topolog.events.kafka_admin import FoundTopic
from topolog.events.topics import clusters, topic_name
from topolog.projections.archive import topics
from topolog.projections.archive.landings import opened
from topolog.projections.archive.spans import Span
from topolog.projections.spark import jobs
from topolog.projections.spark.fleet import Fleet, Wanted
from topolog.projections.spark.pipeline import Pipeline

Bounds = Callable[[tuple[str, int]], tuple[int, int]]


class Broker:
    """Has the topics of these clusters, with one partition each."""

    def __init__(self, *names: str, bounds: Bounds = lambda _: (0, 7), id_: str = "1") -> None:
        self.names = {topic_name(name, topic) for name in names for topic in topics.TOPICS}
        self.is_there = True
        self._bounds = bounds
        self._id = id_

    def topics(self) -> frozenset[str]:
        if not self.is_there:
            raise Unreachable("No broker.")
        return frozenset(self.names)

    def describe(self, names: Iterable[str]) -> dict[str, FoundTopic]:
        return {name: FoundTopic(self._id, 1) for name in names if name in self.names}

    def not_found(self, cluster: str, name: str) -> NotFound:
        return NotFound(f"{cluster} lacks {name}")

    def bounds(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        return {place: self._bounds(place) for place in places}


def fleet_of(folder: Path, broker: Any) -> Fleet:
    return Fleet(folder, "*", broker, {}, lambda _: b"", lambda: 7)


def test_a_topic_whose_name_is_no_clusters_is_nobodys() -> None:
    """Kafka takes an underscore, topolog does not; and names may be longer."""
    names = [
        "topolog.good.decisions",
        "topolog.my_cluster.decisions",
        f"topolog.{'x' * 201}.decisions",
        "topolog.decisions",
    ]
    assert clusters(names) == ["good"]


def test_a_folder_that_can_hold_no_archive_sets_one_cluster_aside(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "landings").write_text("")
    with fleet_of(tmp_path, Broker("a", "b")) as fleet:
        assert fleet._looked_at().keys() == {"b"}
        assert isinstance(fleet.set_aside["a"], BadInput)


def test_a_cluster_that_cannot_be_read_in_time_delays_nobody(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partitions have leaders and say how far they go, so no look finds it; a broker that is silent does end it."""

    def land(fleet: Fleet, _: SparkSession, batch: Wanted, told: jobs.OnProgress | None) -> int:
        if "b" in {name for name, _ in batch}:
            raise Unreachable("Kafka does not answer Spark.")
        for name in {name for name, _ in batch}:
            archive = fleet._opened(name)
            archive.staged()
            archive.land("test", [span for of, span in batch if of == name], {}, 5)
        return sum(span.end - span.start for _, span in batch)

    monkeypatch.setattr(Fleet, "_land", land)
    broker = Broker("a", "b", "c")
    with fleet_of(tmp_path, broker) as fleet:
        done = fleet.round(spark)
        assert (done.landed, done.left) == (2 * len(topics.TOPICS) * 7, 0)
        assert fleet.set_aside.keys() == {"b"}
        assert fleet.round(spark).landed == 0
        broker.is_there = False
        with pytest.raises(Unreachable, match="No broker"):
            fleet.round(spark)


def test_nothing_is_given_up_against_topics_of_others(tmp_path: Path) -> None:
    """The settings name a mirror, and --accept-loss is said: it ends before it notes anything."""
    right, said = Broker("main", bounds=lambda _: (0, 300)), list[str]()
    with opened(tmp_path / "archive", "main") as archive:
        Pipeline(archive, right, {}, lambda: 7, said.append).begin(b"a" * 16)  # type: ignore[arg-type]
        archive.staged()
        archive.land(
            "test", [Span("decisions", 0, 0, 300), Span("requests", 0, 0, 100), Span("dead", 0, 0, 300)], {}, 5
        )
        mirror = Broker("main", bounds=lambda place: (0, 0) if "decisions" in place[0] else (250, 300), id_="other")
        with pytest.raises(BadInput, match="made anew"):
            Pipeline(archive, mirror, {}, lambda: 7, said.append).begin(b"", accept_loss=True)  # type: ignore[arg-type]
        assert archive.lost() == ()
        assert Span("requests", 0, 100, 300) in topics.unread(archive, topics.look(right, "main"))  # type: ignore[arg-type]


def test_of_the_log_nothing_is_ever_given_up(tmp_path: Path) -> None:
    cut, said = Broker("main", bounds=lambda _: (5, 9)), list[str]()
    with opened(tmp_path / "archive", "main") as archive:
        archive.staged()
        archive.land("test", [Span("requests", 0, 0, 2), Span("dead", 0, 0, 5), Span("decisions", 0, 0, 2)], {}, 5)
        with pytest.raises(LogDiverged, match="decisions/0 from 2 to 4"):
            Pipeline(archive, cut, {}, lambda: 7, said.append).begin(b"", accept_loss=True)  # type: ignore[arg-type]
        assert archive.lost() == (Span("requests", 0, 2, 5),)
        assert said == ["Given up: 3 records that were deleted before they landed."]
