"""`topolog repair schedule …`: sessions that are opened again and again."""

from typing import Annotated

import typer

from topolog.projections.cli import columns, moments
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.options import Extent, Moment, Patience, Shape, Target
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.reading import at_most, params_of
from topolog.projections.cli.repair_options import Comparison, Direction
from topolog.projections.cli.resources import SCHEDULES
from topolog.projections.cli.terminal import Screen
from topolog.projections.cli.writing import ask

NameOfSchedule = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's.")]


def set_schedule(  # noqa: PLR0913 (its options)
    name: NameOfSchedule,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Whose replicas.")],
    every: Annotated[str, typer.Option("--every", metavar="1d", help="How often.")],
    repairs: Annotated[
        bool, typer.Option("--repair", help="Repair what differs, by --policy; only compare otherwise.")
    ] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Open none until it is set again without this.")] = False,
    *,
    comparison: Comparison,
    direction: Direction,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Compare, or repair, a table each so often, first after that time. A schedule of this name is replaced."""
    kind = "REPAIR" if repairs else "PREVIEW"
    definition = {**comparison.body(table), **direction.body(), "session": kind}
    every_ms = max(1, round(moments.seconds(every, "--every") * 1000))
    body = {"name": name, "definition": definition, "every_ms": every_ms, "paused": paused}
    ask({"kind": "set-schedule", **body}, patience, target, shape)


def drop_schedule(name: NameOfSchedule, *, patience: Patience, target: Target, shape: Shape) -> None:
    """Open no more sessions by this schedule; one that is open goes on."""
    ask({"kind": "drop-schedule", "name": name}, patience, target, shape)


def list_schedules(*, target: Target, shape: Shape, moment: Moment, extent: Extent) -> None:
    """All schedules: when they are due, and why the last time was put off."""
    with connect(target) as api:
        answer = api.get_rows(SCHEDULES.path(), params_of(moment), at_most(extent))
    view = View(columns.BY_RESOURCE[SCHEDULES], SCHEDULES.label)
    print_answer(Screen(no_color=shape.no_color), shape, answer, view, is_past=moment.is_past)
