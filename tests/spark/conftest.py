"""One Spark session for all tests of this folder, which `make test-spark` therefore runs in one process."""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.place import Place

from topolog.projections.spark.session import SessionSettings, spark_session
from topolog.streams.local.jars import CONNECTORS, default_cache, fetch_jars

UNCLOSED = "ignore:unclosed <socket:ResourceWarning"
"""PySpark leaves the sockets through which results come to be closed when they are collected."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(UNCLOSED))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores and little memory, but room for the code of all tests: with one compiler alone the JVM has 48 MB.

    Nobody changes its settings for longer than a test.
    """
    quick_to_start = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m")
    jars = tuple(fetch_jars(default_cache(CONNECTORS), print, CONNECTORS))
    settings = SessionSettings(cores=2, memory="1g", shuffle_partitions=2, java_options=quick_to_start, jars=jars)
    with spark_session(tmp_path_factory.mktemp("spark"), settings) as session:
        yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def places(spark: SparkSession, tmp_path: Path) -> tuple[Place, Place]:
    return Place(spark, tmp_path / "one"), Place(spark, tmp_path / "other")
