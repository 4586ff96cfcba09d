"""`topolog spark rebuild`: projection stores built anew from archives and topics, put where projectors find them."""

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topolog.commands.command_line import Config, Set, load_settings, say, settings_of
from topolog.commands.spark import SparkOptions
from topolog.commands.spark import session as spark_session
from topolog.events.errors import BadInput, Unreachable
from topolog.events.log import LogReader
from topolog.events.topics import PLANS, Topic
from topolog.projections.cli import moments
from topolog.projections.cli.options import Shape
from topolog.projections.cli.rebuilds import show_rebuilds
from topolog.projections.cli.terminal import Screen, StatusLine
from topolog.settings.model import Settings, cluster_folder
from topolog.settings.values import home_path

if TYPE_CHECKING:
    from topolog.projections.archive.rebuilding import OpenTopic, Outcome, Task

_DECISIONS = [plan for plan in PLANS if plan.topic is Topic.DECISIONS]


@dataclass(frozen=True)
class Source:
    """What a store is rebuilt from."""

    archive: Annotated[
        Path | None, typer.Option("--from", metavar="ARCHIVE", help="What `topolog spark archive` has made.")
    ] = None
    from_topic: Annotated[bool, typer.Option("--from-topic", help="From the topic, without an archive.")] = False
    archive_only: Annotated[
        bool, typer.Option("--archive-only", help="Up to the archive's end, whatever the topic has.")
    ] = False
    every: Annotated[bool, typer.Option("--all", help="Every archive in --from and below it, side by side.")] = False


@dataclass(frozen=True)
class Target:
    """Where it goes, and what is asked of the store that is there."""

    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FOLDER",
            help="A projector's data folder; with --all one that has such a folder per cluster.",
            show_default="projector.data",
        ),
    ] = None
    check: Annotated[bool, typer.Option("--check", help="Compare the store in the folder first, row by row.")] = False
    only_check: Annotated[bool, typer.Option("--only-check", help="Compare, and put nothing there.")] = False
    wait: Annotated[
        str, typer.Option("--wait", metavar="TIME", help="Until the projector has taken it over, at most so long.")
    ] = "0s"


def rebuild_projections(
    config: Config = None,
    pairs: Set = None,
    *,
    source: Source,
    target: Target,
    spark: SparkOptions,
    shape: Shape,
) -> None:
    """Build projection stores anew from an archive, and behind its end from the topic (docs/rebuild.md).

    One cluster is folded in this process, without Spark; with --all Spark folds many of them side by side.

    A projector that runs on the folder takes the store over without a failed read. Exit code 8 if --check finds
    differences or, with --all, an archive cannot be rebuilt; 1 if the projector refuses; 7 if --wait is over.
    """
    from topolog.projections.archive.rebuilding import awaited

    _check(source, spark)
    patience_s = moments.seconds(target.wait, "--wait")
    if source.every:
        found = _all(source, target, settings_of(config, spark.over(pairs)))
    else:
        found = [_one(source, target, _settings_of_archive(source, config, pairs))]
    until_s = time.monotonic() + patience_s
    found = [awaited(each, until_s, time.monotonic, time.sleep) for each in found]
    show_rebuilds(Screen(no_color=shape.no_color), shape, found, were_awaited=patience_s > 0)


def topic_reader(kafka: Mapping[str, str], cluster: str) -> LogReader:
    """A reader of the cluster's topics; an executor calls it too. Raises Unreachable, and NotFound without a topic."""
    from topolog.events.kafka import KafkaReader
    from topolog.events.kafka_admin import KafkaAdmin

    KafkaAdmin(kafka).wait_for_leaders(cluster, _DECISIONS)
    return KafkaReader(kafka, cluster)


def _topic(source: Source, settings: Settings) -> "OpenTopic | None":
    """How to read topics; None if they are not to be read, or no broker answers and an archive will do."""
    from topolog.events.kafka_admin import KafkaAdmin

    if source.archive_only:
        return None
    try:
        KafkaAdmin(settings.kafka).topics()
    except Unreachable as error:
        if source.from_topic:
            raise
        say(f"{error.message} The rebuild ends where the archive does.")
        return None
    return partial(topic_reader, dict(settings.kafka))


def _check(source: Source, spark: SparkOptions) -> None:
    if (source.archive is None) != source.from_topic:
        raise BadInput("Name an archive, or the topic.", hint="Either --from ARCHIVE or --from-topic.")
    if source.from_topic and (source.archive_only or source.every):
        raise BadInput("--from-topic reads no archive.", hint="Leave out --archive-only and --all.")
    if spark != SparkOptions() and not source.every:
        raise BadInput(
            "One cluster is rebuilt without Spark.", hint="Leave out --master, --cores and --memory, or say --all."
        )


def _settings_of_archive(source: Source, config: Path | None, pairs: list[str] | None) -> Settings:
    """The settings; of the archive's cluster, if none is named."""
    from topolog.projections.archive.landings import Archive

    given = load_settings(config, pairs)
    if source.archive is None or "cluster.name" in given.origins:
        return given.settings
    about = Archive(_absolute(source.archive, "--from")).about
    return settings_of(config, [*(pairs or []), f"cluster.name={about.cluster}"])


def _one(source: Source, target: Target, settings: Settings) -> "Outcome":
    from topolog.projections.archive.rebuilding import rebuild_store
    from topolog.projections.self_check.opened import store_path

    archive, folder = (
        source.archive and _absolute(source.archive, "--from"),
        _absolute(target.to or settings.projector.data, "--to"),
    )
    if target.check or target.only_check:
        store_path(folder)
    task = _task(archive, target, settings.cluster.name, folder, _topic(source, settings))
    with StatusLine() as line:
        return rebuild_store(task, time.monotonic, line.show)


def _all(source: Source, target: Target, settings: Settings) -> "list[Outcome]":
    from topolog.projections.archive.rebuilding import archives
    from topolog.projections.spark import jobs, rebuild

    assert source.archive is not None, "--all has --from"
    open_topic = _topic(source, settings)
    found, failed = archives(_absolute(source.archive, "--from"))
    tasks = []
    for name, archive in found.items():
        folder = _absolute(target.to, "--to") / name if target.to else cluster_folder(name) / "projector"
        tasks.append(_task(archive, target, name, folder, open_topic))
    with (
        tempfile.TemporaryDirectory(prefix="topolog-spark-") as scratch,
        spark_session(Path(scratch), settings.spark, with_connectors=False) as session,
        StatusLine() as line,
    ):
        line.show(f"rebuilding {len(tasks)} clusters")
        made = jobs.run(session, lambda: rebuild.collected(rebuild.outcomes(session, tasks))) if tasks else []
        return [*made, *failed]


def _task(archive: Path | None, target: Target, cluster: str, folder: Path, open_topic: "OpenTopic | None") -> "Task":
    from topolog.projections.archive.rebuilding import Task

    return Task(
        cluster,
        folder,
        archive,
        open_topic,
        check=target.check or target.only_check,
        puts=not target.only_check,
    )


def _absolute(path: Path, option: str) -> Path:
    return home_path(path, option).absolute()
