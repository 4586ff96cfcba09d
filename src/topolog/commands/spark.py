"""`topolog spark`: the data pipeline. Topics land in an archive, projections are rebuilt and reports made from it.

Each command is a file of its own beside this one; what they share is a session of Spark on this machine.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from topolog.commands.command_line import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def session(folder: Path, memory: str, *, with_connectors: bool) -> Iterator["SparkSession"]:
    """Spark on this machine's cores, its log and its spill below `folder`; with what reads Kafka and Avro if asked to,
    which is fetched the first time."""
    from topolog.projections.spark.session import SessionSettings, check_installed, spark_session
    from topolog.streams.local.jars import CONNECTORS, default_cache, fetch_jars

    check_installed()
    jars = tuple(fetch_jars(default_cache(CONNECTORS), say, CONNECTORS)) if with_connectors else ()
    with spark_session(folder, SessionSettings(memory=memory, jars=jars)) as session:
        yield session
