"""`topolog verify TABLE`: do the replicas of a table agree? Other things to verify are commands of the same group."""

from typing import Annotated

import typer

from topolog.events.errors import BadInput
from topolog.projections.cli.client import Api
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.options import Shape, Target
from topolog.projections.cli.problems import Json
from topolog.projections.cli.repair_options import Comparison, Direction, Following
from topolog.projections.cli.resources import SESSIONS
from topolog.projections.cli.session_wait import await_session, show_end
from topolog.projections.cli.terminal import Screen
from topolog.projections.cli.writing import follow

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="Whose replicas: `topolog get replicas`.")]


def verify(
    table: TableArgument,
    *,
    comparison: Comparison,
    direction: Direction,
    following: Following,
    target: Target,
    shape: Shape,
) -> None:
    """Compare the replicas of a table, and change nothing. Exit code 0 if they agree, 8 if they differ, 9 if only a
    part was compared, 10 if nobody can say, 11 if it failed."""
    body = {**comparison.body(table), **direction.body(), "session": "PREVIEW"}
    with connect(target) as api:
        number = start(api, body, following, shape)
        if number is not None:
            show_end(
                Screen(no_color=shape.no_color),
                shape,
                await_session(api, number, following.timeout, following.timeout_s),
            )


def start(api: Api, body: Json, following: Following, shape: Shape) -> str | None:
    """Ask for a session; its number if it is to be followed. Without that its outcome is shown."""
    request = {"kind": "start-session", **body, "reason": following.reason}
    is_followed = following.wait and not following.dry_run
    outcome = follow(api, request, following.patience, shape, is_shown=not is_followed)
    return number_of(str(outcome.get("subject") or "")) if is_followed else None


def number_of(label: str) -> str:
    """The number in `session 47`, `session/47` or `47`; BadInput for anything else."""
    number = label.strip().removeprefix(SESSIONS.singular).lstrip(" /")
    if not (number.isascii() and number.isdecimal()):
        raise BadInput(f"{label!r} names no session.", hint="One looks like 47 or session/47: `topolog get sessions`.")
    return number
