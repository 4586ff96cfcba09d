"""`topolog spark archive`: topics of a cluster land as Parquet tables."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from topolog.commands.command_line import Config, Set, say, settings_of
from topolog.commands.logs import log_as
from topolog.commands.metrics_port import served
from topolog.commands.spark import SparkOptions
from topolog.commands.spark import session as spark_session
from topolog.events.errors import BadInput, Retriable, TopologError
from topolog.events.topics import BY_SHORT_NAME, Topic
from topolog.projections.archive import java_settings, progress, topics
from topolog.projections.archive.landings import ArchiveWriter, opened
from topolog.projections.cli import moments
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.terminal import StatusLine
from topolog.settings.model import Metrics, Settings
from topolog.settings.spark import Spark
from topolog.settings.values import HIGHEST_PORT, home_path
from topolog.streams.local.stopping import Stop, stopping_when_told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from topolog.projections.spark.batches import Stream
    from topolog.projections.spark.pipeline import Pipeline

_AGAIN_S = 2.0
Result = TypeVar("Result")


@dataclass(frozen=True)
class Extent:
    """What is landed."""

    once: Annotated[bool, typer.Option("--once", help="Land what is there, then end.")] = False
    clusters: Annotated[
        str | None,
        typer.Option("--clusters", metavar="PATTERN", help="All clusters of this name (`shop-*`), each below --to."),
    ] = None
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Land only what was appended from then on; and end.")
    ] = None
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="And before then.", show_default="now")
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="One of the cluster's topics; may be repeated.",
            show_default=", ".join(topic.short_name for topic in topics.TOPICS),
        ),
    ] = None
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on behind records that were deleted before they landed.")
    ] = False


@dataclass(frozen=True)
class Running:
    """How it is done."""

    every: Annotated[str, typer.Option("--every", metavar="TIME", help="How often there is a landing.")] = "1m"
    kafka_properties: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings of Java's clients, instead of what the settings kafka.* say."),
    ] = None
    metrics_port: Annotated[
        int | None, typer.Option(min=1, max=HIGHEST_PORT, help="Serve /metrics on this port of 127.0.0.1.")
    ] = None


def archive_topics(
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="The archive, which is made if there is none.")],
    config: Config = None,
    pairs: Set = None,
    *,
    extent: Extent,
    running: Running,
    spark: SparkOptions,
) -> None:
    """Land the topics of a cluster as Parquet tables, until told to stop (docs/pipeline.md).

    What has landed is not landed again, whatever was killed: start it anew with the same folder. Exit code 8 with
    --once or --since if files of the archive are missing.
    """
    settings = settings_of(config, spark.over(pairs))
    log_as("archive", settings)
    every_s = moments.seconds(running.every, "--every")
    span = _time_span(extent.since, extent.until)
    if extent.once and span:
        raise BadInput("--since and --until end by themselves.", hint="Leave out --once.")
    if extent.clusters is not None and (span or extent.accept_loss):
        raise BadInput("--clusters lands all of many clusters.", hint="Leave out --since, --until and --accept-loss.")
    java = _java(settings, running.kafka_properties)
    folder, only = home_path(to, "--to").absolute(), _named(extent.only or ())
    found = 0
    with stopping_when_told(os.environ) as stopping, contextlib.suppress(Ended):
        work = Work(settings, java, stopping, every_s, extent.once, running.metrics_port)
        if extent.clusters is not None:
            found = _land_fleet(work, folder, extent.clusters, only)
        else:
            found = _land_cluster(work, folder, only, span, accept_loss=extent.accept_loss)
    if found and (extent.once or span):
        raise typer.Exit(ExitCode.FOUND)


class Ended(Exception):
    """This process was told to stop; a batch that it landed is dropped."""


class Work(NamedTuple):
    """How to land, whatever is landed. `java` are settings of Kafka's Java clients."""

    settings: Settings
    java: dict[str, str]
    stopping: Stop
    every_s: float
    once: bool = False
    metrics_port: int | None = None

    @property
    def metrics(self) -> Metrics:
        """Where metrics are served: the option goes before the settings."""
        return Metrics(port=self.metrics_port) if self.metrics_port else self.settings.metrics

    def end_if_told(self, _: float = 0.0) -> None:
        """Raise Ended once told to stop."""
        if self.stopping.is_set():
            raise Ended


def _land_cluster(
    work: Work, folder: Path, only: Sequence[Topic], span: tuple[int, int] | None, *, accept_loss: bool
) -> int:
    """One cluster; how many files of its archive are missing."""
    with begun(work, folder, only, accept_loss=accept_loss) as (pipeline, archive):
        missing = _told_of_missing(archive)
        with _spark(folder, work.settings.spark) as session:
            if span:
                _backfill(pipeline, session, work, *span)
            else:
                keep_landing(pipeline, session, work)
                landings = "1 landing" if len(archive.landings) == 1 else f"{len(archive.landings)} landings"
                say(f"{archive.about.cluster}: {archive.records:,} records in {landings}.")
    return missing


@contextlib.contextmanager
def begun(
    work: Work, folder: Path, only: Sequence[Topic] = topics.TOPICS, *, accept_loss: bool = False
) -> "Iterator[tuple[Pipeline, ArchiveWriter]]":
    """The pipeline of the settings' cluster and its archive, once their topics are known to be in order. Raises Ended
    if told to stop while no broker answers."""
    from topolog.events.kafka_admin import KafkaAdmin
    from topolog.projections.spark.pipeline import Pipeline

    kafka, cluster = work.settings.kafka, work.settings.cluster.name
    admin, patience = KafkaAdmin(kafka), Patience(work)
    patience.until_done(lambda: topics.look(admin, cluster, only))  # a name that was mistyped makes no archive
    with opened(folder, cluster) as archive:
        pipeline = Pipeline(archive, admin, work.java, now_ms, say, only)
        patience.until_done(lambda: pipeline.begin(topics.log_id(kafka, cluster), accept_loss=accept_loss))
        yield pipeline, archive


def _backfill(pipeline: "Pipeline", session: "SparkSession", work: Work, start_ms: int, end_ms: int) -> None:
    from topolog.projections.spark.pipeline import utc

    try:
        done = pipeline.backfill(session, start_ms, end_ms, work.end_if_told)
    except Ended:
        say("Ended before all has landed: what has landed stays, the same command lands the rest.")
        raise
    said = f"{done.records:,} records landed, {done.before:,} had before"
    say(f"From {utc(start_ms)} to {utc(end_ms)}: {said}.")


def keep_landing(pipeline: "Pipeline", session: "SparkSession", work: Work) -> None:
    """Land until there is no more, or until told to stop; while no broker answers, wait for one."""
    from topolog.events.kafka import KafkaReader
    from topolog.projections.archive.metrics import ArchiveMetrics

    metrics = ArchiveMetrics()
    with (
        served(work.metrics, lambda: metrics),
        StatusLine() as line,
        contextlib.closing(KafkaReader(work.settings.kafka, work.settings.cluster.name)) as reader,
    ):

        def look(stream: "Stream") -> None:
            found = pipeline.progress(reader, stream.rows_per_s())
            metrics.tell([found])
            line.show(progress.sentence(found))

        def land() -> None:
            stream = pipeline.stream(session, once=work.once, every_s=work.every_s)
            pipeline.follow(stream, work.stopping.is_set, look)

        with contextlib.suppress(Ended):
            Patience(work).until_done(land)


def _land_fleet(work: Work, folder: Path, pattern: str, only: Sequence[Topic]) -> int:
    """All clusters of a pattern, in rounds; how many of them are not landed."""
    from topolog.events.kafka_admin import KafkaAdmin
    from topolog.projections.archive.metrics import ArchiveMetrics
    from topolog.projections.spark.fleet import Fleet

    kafka, metrics, patience = work.settings.kafka, ArchiveMetrics(), Patience(work)
    admin, said = KafkaAdmin(kafka), dict[str, str]()
    with (
        Fleet(folder, pattern, admin, work.java, lambda name: topics.log_id(kafka, name), now_ms, only) as fleet,
        served(work.metrics, lambda: metrics),
        StatusLine() as line,
        _spark(folder / ".spark", work.settings.spark) as session,
    ):
        with contextlib.suppress(Ended):
            while not work.stopping.is_set():
                done = patience.until_done(lambda: fleet.round(session, work.end_if_told))
                found = fleet.progress()
                metrics.tell(found, fleet.set_aside)
                line.show(progress.sentence(max(found, key=_behind)) if found else "no cluster yet")
                said = _say_set_aside(fleet.set_aside, said)
                if not done.left and (work.once or work.stopping.wait(work.every_s)):
                    break
        for each in fleet.progress():
            say(progress.sentence(each))
    return len(said)


def _behind(found: progress.Progress) -> int:
    return found.behind


class Patience:
    """While no broker answers that is said once, and tried again; of what is landed `once` it is the end."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._is_told = False

    def until_done(self, action: Callable[[], Result]) -> Result:
        """What `action` returns. Raises Ended once told to stop, and what is not Retriable."""
        while True:
            try:
                result = action()
            except Retriable as error:
                if self._work.once:
                    raise
                if not self._is_told:
                    say(f"{error.message} Trying again.")
                self._is_told = True
                if self._work.stopping.wait(_AGAIN_S):
                    raise Ended from error
            else:
                self._is_told = False
                return result


def _say_set_aside(found: Mapping[str, TopologError], said: Mapping[str, str]) -> dict[str, str]:
    """Once each."""
    now = {name: str(error) for name, error in found.items()}
    for name, text in now.items():
        if said.get(name) != text:
            say(f"{name} is not landed: {text}")
    return now


def _told_of_missing(archive: ArchiveWriter) -> int:
    """What comes is landed all the same: it may be deleted from its topic before somebody has found a backup."""
    missing = archive.missing()
    if missing:
        say(
            f"{len(missing)} files of {archive.folder} are missing, the first is {missing[0]}; "
            "whoever reads these records is told so. Bring them back from a backup. New records land meanwhile."
        )
    return len(missing)


@contextlib.contextmanager
def _spark(folder: Path, spark: Spark) -> "Iterator[SparkSession]":
    handler = signal.getsignal(signal.SIGINT)
    with spark_session(folder / "spark", spark, with_connectors=True) as session:
        signal.signal(signal.SIGINT, handler)  # PySpark has put one of its own there, which ends nothing in order
        yield session


def _java(settings: Settings, properties: Path | None) -> dict[str, str]:
    if properties is not None:
        found = java_settings.read_properties(home_path(properties, "--kafka-properties"))
        return {"bootstrap.servers": settings.kafka["bootstrap.servers"], **found}
    java = java_settings.translated(settings.kafka)
    if java.left_out:
        say(f"Without meaning to Spark's Kafka client: {', '.join(f'kafka.{key}' for key in java.left_out)}.")
    return java.settings


def _named(names: Sequence[str]) -> tuple[Topic, ...]:
    return tuple(dict.fromkeys(_topic(name) for name in names)) or topics.TOPICS


def _topic(name: str) -> Topic:
    if name not in BY_SHORT_NAME:
        raise BadInput(f"There is no topic {name!r}.", hint=f"There is {', '.join(BY_SHORT_NAME)}.")
    return BY_SHORT_NAME[name]


def _time_span(since: str | None, until: str | None) -> tuple[int, int] | None:
    """In ms since 1970 (UTC); None if nothing is said."""
    if since is None:
        if until is not None:
            raise BadInput("--until needs a beginning.", hint="Such as --since 2026-11-01.")
        return None
    now = datetime.now(UTC)
    start, end = moments.time(since, "--since", now), now if until is None else moments.time(until, "--until", now)
    if start >= end:
        raise BadInput("--since lies in the future." if until is None else "--since must lie before --until.")
    return round(start.timestamp() * 1000), round(end.timestamp() * 1000)


def now_ms() -> int:
    """Wall time (UTC)."""
    return time.time_ns() // 1_000_000
