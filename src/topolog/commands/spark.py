"""`topolog spark`: the data pipeline. Topics land in an archive, projections are rebuilt and reports made from it.

Each command is a file of its own beside this one; what they share is a session of Spark on this machine.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topolog.commands.command_line import say
from topolog.settings.spark import Spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from topolog.projections.spark.session import SessionSettings


@dataclass(frozen=True)
class SparkOptions:
    """What a session of Spark may use."""

    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where Spark's tasks run: local, local[4], spark://HOST:PORT.",
            show_default="spark.master, local",
        ),
    ] = None
    cores: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="How many cores Spark takes.", show_default="spark.cores, all"),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(help="Of Spark's JVM, such as 4g.", show_default="spark.memory, 2g or 512m a core"),
    ] = None

    def over(self, pairs: list[str] | None) -> list[str]:
        """These as settings, behind those that --set has."""
        named = {"master": self.master, "cores": self.cores, "memory": self.memory}
        return [*(pairs or []), *(f"spark.{name}={value}" for name, value in named.items() if value is not None)]


def session_settings(spark: Spark, jars: tuple[Path, ...] = ()) -> "SessionSettings":
    """What the settings say of a session."""
    from topolog.projections.spark.session import SessionSettings

    return SessionSettings(
        master=spark.master,
        cores=spark.cores,
        memory=spark.memory,
        executor_memory=spark.executor_memory,
        driver_host=spark.driver_host,
        java_home=spark.java,
        jars=jars,
    )


@contextlib.contextmanager
def session(folder: Path, spark: Spark, *, with_connectors: bool) -> Iterator["SparkSession"]:
    """Spark as the settings say, its log and its spill below `folder`; with what reads Kafka and Avro if asked to,
    which is fetched the first time."""
    from topolog.projections.spark.session import check_installed, spark_session
    from topolog.streams.local.jars import CONNECTORS, default_cache, fetch_jars

    check_installed(spark.java)
    jars = tuple(fetch_jars(default_cache(CONNECTORS), say, CONNECTORS)) if with_connectors else ()
    with spark_session(folder, session_settings(spark, jars)) as session:
        yield session
