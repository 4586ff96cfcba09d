"""One archive for all reports, landed once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.frames import came, lander_of
from tests.spark.reports.history import History

from topolog.projections.archive.landings import Archive, opened
from topolog.projections.archive.positions import brought_forward
from topolog.projections.projector import Projector
from topolog.projections.spark.reports.landed import Days, Landed
from topolog.projections.store import Reading

MakeLanded = Callable[[Days], Landed]


@pytest.fixture(scope="session")
def history() -> History:
    return History()


@pytest.fixture(scope="session")
def archive(spark: SparkSession, history: History, tmp_path_factory: pytest.TempPathFactory) -> Archive:
    folder = tmp_path_factory.mktemp("reports") / "archive"
    with opened(folder, history.chronicle.cluster) as archive:
        lander_of(spark, archive).land(came(spark, history.chronicle.cluster, history.entries()), "test")
    return Archive(folder)


@pytest.fixture(scope="session")
def landed(spark: SparkSession, archive: Archive) -> MakeLanded:
    """The archive as reports read it, of these days."""
    positions = brought_forward(archive)
    return lambda days: Landed(spark, archive, positions, days)


@pytest.fixture(scope="session")
def reading(history: History, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    """What the live projections say of the same log."""
    projector = Projector(history.chronicle.log.reader(), tmp_path_factory.mktemp("store"), "main")
    while projector.step():
        pass
    assert projector.stopped is None
    with projector.reading() as reading:
        yield reading
    projector.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tables"
