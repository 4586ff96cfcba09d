"""`topolog replay`: have a dead letter appended to its topic again, and say where its outcome will be."""

from typing import Annotated

import typer

from topolog.projections.cli import columns
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.options import NameArgument, ReplayArgument, Shape, Target
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.resources import REPLAYABLE, find_named
from topolog.projections.cli.terminal import Screen


def replay(
    resource: ReplayArgument,
    name: NameArgument = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the record.")] = "",
    *,
    target: Target,
    shape: Shape,
) -> None:
    """Append a dead letter again, to the byte, where a newer version may read it: `topolog replay dead-letter 3`."""
    kind, name = find_named(resource, name, among=REPLAYABLE)
    screen = Screen(no_color=shape.no_color)
    with connect(target) as api:
        answer = api.replay(name, reason)
    print_answer(screen, shape, answer, View(columns.REPLAY, kind.label))
    if not shape.output.is_for_people:
        return
    if answer.item.get("request"):
        screen.note(f"`topolog get request {answer.item['request']}` shows what is decided.")
    else:
        screen.note(
            f"This API cannot read it; a newer coordinator may. If none can it dies again, and "
            f"`topolog describe dead-letter {name}` names the new letter."
        )
