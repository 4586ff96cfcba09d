"""`topolog verify projections`: whether topolog's own stores are the same as its log."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topolog.commands.command_line import Config, Set, settings_of
from topolog.events.errors import BadInput
from topolog.events.topics import PLANS, Topic
from topolog.projections.cli.options import Shape
from topolog.projections.cli.store_verdicts import show_verdicts
from topolog.projections.cli.terminal import Screen, StatusLine
from topolog.settings.values import home_path

if TYPE_CHECKING:
    from topolog.projections.self_check.rebuild import Rebuild
    from topolog.projections.self_check.verdict import Verdict
    from topolog.settings.model import Settings


def verify_projections(
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="A projector's data folder; may be repeated.", show_default="projector.data"
        ),
    ] = None,
    mend: Annotated[
        bool, typer.Option("--mend", help="Write what differs as the log has it; the projector must be stopped.")
    ] = False,
    no_log: Annotated[
        bool, typer.Option("--no-log", help="Compare the folders with each other only; needs no broker.")
    ] = False,
    config: Config = None,
    pairs: Set = None,
    *,
    shape: Shape,
) -> None:
    """Compare stores of projectors with a rebuild from the log, each at its own position (docs/self-check.md).

    Exit code 8 if one differs, 1 if one is of another log.
    """
    settings = settings_of(config, pairs)
    folders = list(
        dict.fromkeys(home_path(folder, "--data").absolute() for folder in data or [settings.projector.data])
    )
    screen = Screen(no_color=shape.no_color)
    with StatusLine() as line:
        verdicts = _compared(folders, mend=mend) if no_log else _checked(settings, folders, line.show, mend=mend)
    show_verdicts(screen, shape, verdicts)


def _compared(folders: Sequence[Path], *, mend: bool) -> "Sequence[Verdict]":
    from topolog.projections.self_check import between

    if mend:
        raise BadInput("Without the log nobody knows which store is right.", hint="Leave out --no-log, or --mend.")
    if len(folders) < 2:
        raise BadInput("--no-log compares stores with each other.", hint="Name two or more, each with --data.")
    return between.compare(folders)


def _checked(
    settings: "Settings", folders: Sequence[Path], told: Callable[[str], None], *, mend: bool
) -> "Sequence[Verdict]":
    from topolog.projections.self_check import checking
    from topolog.projections.self_check.verdict import with_distances

    in_order = checking.nearest_first(folders)
    with _rebuilding(settings, told) as rebuild:
        if mend:
            return with_distances(checking.mend(rebuild, folder, told) for folder in in_order)
        return with_distances(checking.check(rebuild, folder) for folder in in_order)


@contextlib.contextmanager
def _rebuilding(settings: "Settings", told: Callable[[str], None]) -> "Iterator[Rebuild]":
    """A rebuild of the cluster's log, in a folder that goes with it."""
    from topolog.events.kafka import KafkaReader
    from topolog.events.kafka_admin import KafkaAdmin
    from topolog.projections.self_check.rebuild import Rebuild

    name = settings.cluster.name
    KafkaAdmin(settings.kafka).wait_for_leaders(name, [plan for plan in PLANS if plan.topic is Topic.DECISIONS])
    with (
        contextlib.closing(KafkaReader(settings.kafka, name)) as reader,
        tempfile.TemporaryDirectory(prefix="topolog-rebuild-") as folder,
        contextlib.closing(Rebuild(reader, name, Path(folder) / "store", time.monotonic, told)) as rebuild,
    ):
        yield rebuild
