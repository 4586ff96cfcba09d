"""One Spark session for all tests in this folder, which therefore run in one process: `--dist loadscope` shares out
whole scopes, and here the scope is the folder."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from topolog.projections.spark.session import SessionSettings, spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, small: the same for all tests, which leave nothing behind in it."""
    settings = SessionSettings(memory="1g", shuffle_partitions=2)
    with spark_session(tmp_path_factory.mktemp("spark"), settings) as session:
        yield session
