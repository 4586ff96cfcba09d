"""`topolog spark archive`: topics of a cluster land as Parquet tables."""

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topolog.command_line import Config, Set, say
from topolog.command_line import settings as settings_of
from topolog.events.errors import BadInput, LogDiverged, Permanent, Retriable
from topolog.events.topics import Topic, topic_name
from topolog.projections.archive import java_settings, progress, topics
from topolog.projections.archive.landings import ArchiveWriter, opened
from topolog.projections.archive.spans import Span, minus, overlapping
from topolog.projections.cli import moments
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.terminal import StatusLine
from topolog.settings import HIGHEST_PORT, Settings
from topolog.spark import session as spark_session
from topolog.streams.local.stopping import Stop, stopping_when_told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from topolog.projections.spark.landing import Stream

_LOGGER = logging.getLogger("topolog.archive")
_LOOK_EVERY_S = 5.0
_TURN_S = 0.25
_AGAIN_S = 2.0


@dataclass(frozen=True)
class Extent:
    """What is landed."""

    once: Annotated[bool, typer.Option("--once", help="Land what is there, then end.")] = False
    clusters: Annotated[
        str | None,
        typer.Option("--clusters", metavar="PATTERN", help="All clusters of this name (`shop-*`), each below --to."),
    ] = None
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Land only what was appended from then on; and end.")
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

    every: Annotated[str, typer.Option("--every", metavar="TIME", help="How often there is a landing.")] = "10s"
    kafka_properties: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings of Java's clients, instead of what the settings kafka.* say."),
    ] = None
    metrics_port: Annotated[
        int | None, typer.Option(min=1, max=HIGHEST_PORT, help="Serve /metrics on this port of 127.0.0.1.")
    ] = None
    memory: Annotated[str, typer.Option(help="Of Spark's JVM.")] = "2g"


def archive_topics(
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="The archive, which is made if there is none.")],
    config: Config = None,
    pairs: Set = None,
    *,
    extent: Extent,
    running: Running,
) -> None:
    """Land the topics of a cluster as Parquet tables, until told to stop (docs/pipeline.md).

    What has landed is not landed again, whatever was killed: start it anew with the same folder. Exit code 8 with
    --once or --from if files of the archive are missing.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    settings = settings_of(config, pairs)
    every_s, span = moments.seconds(running.every, "--every"), _time_span(extent.since, extent.until)
    if extent.once and span:
        raise BadInput("--from and --until end by themselves.", hint="Leave out --once.")
    if extent.clusters is not None and (span or extent.accept_loss):
        raise BadInput("--clusters lands all of many clusters.", hint="Leave out --from, --until and --accept-loss.")
    java = _java(settings, running.kafka_properties)
    if extent.clusters is not None:
        _land_fleet(settings, to.expanduser().absolute(), java, extent, running)
        return
    with stopping_when_told(os.environ) as stopping, opened(to.expanduser().absolute(), settings.cluster.name) as found:
        work = Work(settings, found, java, _named(extent.only or ()), running.metrics_port)
        missing = _told_of_missing(found)
        work.begin(accept_loss=extent.accept_loss)
        with _spark(found.folder, running.memory) as session:
            if span:
                work.backfill(session, *span)
            else:
                work.stream(session, stopping, once=extent.once, every_s=every_s)
    if missing and (extent.once or span):
        raise typer.Exit(ExitCode.FOUND)


class Work:
    """One archive and the topics that land in it."""

    def __init__(
        self,
        settings: Settings,
        archive: ArchiveWriter,
        java: dict[str, str],
        only: Sequence[Topic],
        metrics_port: int | None,
    ) -> None:
        from topolog.events.kafka_admin import KafkaAdmin

        self._kafka = settings.kafka
        self._cluster = settings.cluster.name
        self._archive = archive
        self._java = java
        self._topics = only
        self._admin = KafkaAdmin(settings.kafka)
        self._metrics_port = metrics_port

    def begin(self, *, accept_loss: bool) -> None:
        """Raise what `topics.check` does unless these are the topics that the archive was made of."""
        seen = self._look()
        self._archive.identify(topics.log_id(self._kafka, self._cluster))
        if accept_loss and (lost := [each for each in topics.deleted(self._archive, seen) if not _is_log(each)]):
            self._archive.give_up(lost, _now_ms())
            say(
                f"Given up: {sum(each.end - each.start for each in lost)} records that were deleted before they landed."
            )
        topics.check(self._archive, seen)
        for (topic, number), (oldest, _) in seen.bounds.items():
            if oldest and not any(span.place == (topic, number) for span in self._archive.covered()):
                say(f"{topic}/{number} begins at offset {oldest}: what was before is no longer kept.")

    def backfill(self, session: "SparkSession", start_ms: int, end_ms: int) -> None:
        from topolog.projections.spark.landing import Job

        seen = self._look()
        wanted = self._appended(seen, start_ms, end_ms)
        left = minus(wanted, self._archive.covered())
        name = f"{_text(start_ms)} to {_text(end_ms)}"
        before = self._archive.rows().get("records", 0)
        Job(session, self._archive, self._java, _now_ms, self._topics, self._check).backfill(left, f"backfill {name}")
        records = self._archive.rows().get("records", 0) - before
        there = sum(span.end - span.start for span in overlapping(wanted, self._archive.covered()))
        say(f"From {name}: {records:,} records landed, {there - records:,} had before.")

    def stream(self, session: "SparkSession", stopping: Stop, *, once: bool, every_s: float) -> None:
        """Land until told to stop; while no broker answers, wait for one."""
        from topolog.events.kafka import KafkaReader
        from topolog.projections.archive.metrics import ArchiveMetrics, served
        from topolog.projections.spark.landing import Job

        metrics = ArchiveMetrics()
        job = Job(session, self._archive, self._java, _now_ms, self._topics, self._check)
        with (
            served(metrics, self._metrics_port),
            StatusLine() as line,
            contextlib.closing(KafkaReader(self._kafka, self._cluster)) as reader,
        ):

            def tell(stream: "Stream") -> None:
                seen = self._look()
                first = {span.place: span.start for span in reversed(topics.unread(self._archive, seen))}
                found = progress.progress(self._archive, seen, topics.appended_ms(reader, first), _now_ms())
                found = progress.at_rate(found, stream.rows_per_s())
                metrics.tell(found)
                line.show(progress.sentence(found))

            is_told = False
            while True:
                try:
                    self._run(lambda: job.stream(self._starts(), once=once, every_s=every_s), tell, stopping)
                    break
                except Retriable as error:
                    if once:
                        raise
                    if not is_told:
                        say(f"{error.message} Trying again until it does.")
                    is_told = True
                if stopping.wait(_AGAIN_S):
                    break
        found = progress.progress(self._archive, topics.Seen({}, {}), {}, _now_ms())
        landings = "1 landing" if found.landings == 1 else f"{found.landings} landings"
        say(f"{found.cluster}: {found.rows.get('records', 0):,} records in {landings}.")

    def _run(self, start: "Callable[[], Stream]", tell: "Callable[[Stream], None]", stopping: Stop) -> None:
        """One stream, from its start to its end or to that of this process."""
        stream, look_at, landings = start(), time.monotonic(), len(self._archive.landings)
        try:
            while not stopping.is_set() and not stream.wait(_TURN_S):
                for landing in self._archive.landings[landings:]:
                    landings += 1
                    _LOGGER.info("Landing %d: %d records.", landing.number, landing.rows.get("records", 0))
                if time.monotonic() >= look_at:
                    with contextlib.suppress(Retriable):
                        tell(stream)
                    look_at = time.monotonic() + _LOOK_EVERY_S
        except LogDiverged:
            self._check()  # which says what is wrong with them, if anything still is
            raise
        finally:
            stream.stop()

    def _look(self) -> topics.Seen:
        return topics.look(self._admin, [self._cluster], self._topics)[self._cluster]

    def _check(self) -> None:
        topics.check(self._archive, self._look())

    def _starts(self) -> dict[topics.Place, int]:
        seen = self._look()
        topics.check(self._archive, seen)
        return topics.starts(self._archive, seen)

    def _appended(self, seen: topics.Seen, start_ms: int, end_ms: int) -> tuple[Span, ...]:
        """The offsets of what was appended from one time to before another."""
        names = {place: (topic_name(self._cluster, _topic(place[0])), place[1]) for place in seen.bounds}
        starts, ends = (self._admin.offsets_at([*names.values()], ms) for ms in (start_ms, end_ms))
        found = []
        for place, (oldest, end) in seen.bounds.items():
            start, stop = starts[names[place]], ends[names[place]]
            found.append(Span(*place, end if start < 0 else max(start, oldest), end if stop < 0 else min(stop, end)))
        return minus(found, ())


def _land_fleet(settings: Settings, to: Path, java: dict[str, str], extent: Extent, running: Running) -> None:
    """All clusters of a pattern, in rounds. Exit code 8 with --once if some of them could not be landed."""
    from topolog.events.kafka_admin import KafkaAdmin
    from topolog.projections.archive.metrics import ArchiveMetrics, served
    from topolog.projections.spark.fleet import Fleet

    metrics, every_s = ArchiveMetrics(), moments.seconds(running.every, "--every")
    fleet = Fleet(
        to,
        extent.clusters or "*",
        KafkaAdmin(settings.kafka),
        lambda name: topics.log_id(settings.kafka, name),
        _now_ms,
        _named(extent.only or ()),
    )
    with (
        stopping_when_told(os.environ) as stopping,
        fleet,
        served(metrics, running.metrics_port),
        StatusLine() as line,
        _spark(to / ".spark", running.memory) as session,
    ):
        said: dict[str, str] = {}

        def told(_: float) -> None:
            if stopping.is_set():
                raise Ended

        with contextlib.suppress(Ended):
            while not stopping.is_set():
                with _waiting_for_kafka(stopping, once=extent.once):
                    landed = fleet.round(session, java, told)
                    for found in (all_ := fleet.progress()):
                        metrics.tell(found)
                    line.show(progress.sentence(max(all_, key=lambda each: each.behind)) if all_ else "no cluster yet")
                    said = _say_set_aside(fleet.set_aside, said)
                    if not landed and (extent.once or stopping.wait(every_s)):
                        break
        with contextlib.suppress(Retriable):
            for found in fleet.progress():
                say(progress.sentence(found))
    if extent.once and said:
        raise typer.Exit(ExitCode.FOUND)


class Ended(Exception):
    """This process was told to stop while it landed a batch, which is dropped."""


@contextlib.contextmanager
def _waiting_for_kafka(stopping: Stop, *, once: bool) -> Iterator[None]:
    try:
        yield
    except Retriable as error:
        if once:
            raise
        say(f"{error.message} Trying again until it does.")
        stopping.wait(_AGAIN_S)


def _say_set_aside(found: Mapping[str, Permanent], said: Mapping[str, str]) -> dict[str, str]:
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
def _spark(folder: Path, memory: str) -> "Iterator[SparkSession]":
    handler = signal.getsignal(signal.SIGINT)
    with spark_session(folder / "spark", memory, with_connectors=True) as session:
        signal.signal(signal.SIGINT, handler)  # PySpark has put one of its own there, which ends nothing in order
        yield session


def _java(settings: Settings, properties: Path | None) -> dict[str, str]:
    if properties is not None:
        found = java_settings.read_properties(properties.expanduser())
        return {"bootstrap.servers": settings.kafka["bootstrap.servers"], **found}
    java = java_settings.translated(settings.kafka)
    if java.left_out:
        say(f"Without meaning to Spark's Kafka client: {', '.join(f'kafka.{key}' for key in java.left_out)}.")
    return java.settings


def _named(names: Sequence[str]) -> tuple[Topic, ...]:
    return tuple(dict.fromkeys(_topic(name) for name in names)) or topics.TOPICS


def _topic(name: str) -> Topic:
    for topic in Topic:
        if topic.short_name == name:
            return topic
    raise BadInput(f"There is no topic {name!r}.", hint=f"There is {', '.join(topic.short_name for topic in Topic)}.")


def _time_span(since: str | None, until: str | None) -> tuple[int, int] | None:
    """In ms since 1970 (UTC); None if nothing is said."""
    if since is None:
        if until is not None:
            raise BadInput("--until needs a beginning.", hint="Such as --from 2026-11-01.")
        return None
    now = datetime.now(UTC)
    start, end = _time(since, "--from", now), now if until is None else _time(until, "--until", now)
    if start >= end:
        raise BadInput("--from must lie before --until.")
    return round(start.timestamp() * 1000), round(end.timestamp() * 1000)


def _time(text: str, option: str, now: datetime) -> datetime:
    """A time without an offset is the reader's own; a duration is that long ago."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except ValueError:
        pass
    try:
        return now - timedelta(seconds=moments.seconds(text, option))
    except (BadInput, OverflowError):
        raise BadInput(
            f"{option} {text!r} is no time.", hint="Such as 2026-11-01, 2026-11-01T02:00Z, or how long ago: 36h."
        ) from None


def _is_log(span: Span) -> bool:
    return span.topic == Topic.DECISIONS.short_name


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
