"""The command that waits: `topolog wait exchange/4.0 --for=Completed`."""

import time
from enum import StrEnum
from typing import Annotated

import typer

from topolog.events.errors import NotCaughtUp, NotFound
from topolog.projections.cli import columns, moments
from topolog.projections.cli.client import Answer, Api
from topolog.projections.cli.options import NameArgument, Shape, Target, WaitArgument
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.resources import AWAITED, find_named
from topolog.projections.cli.terminal import Screen

_PAUSE_S = 0.1
"""Between two looks: shorter than anybody notices, longer than a look takes."""


class Awaited(StrEnum):
    COMPLETED = "Completed"


def wait(
    resource: WaitArgument,
    name: NameArgument = None,
    until: Annotated[
        Awaited, typer.Option("--for", case_sensitive=False, help="What to wait for.")
    ] = Awaited.COMPLETED,
    timeout: Annotated[str, typer.Option("--timeout", metavar="60s", help="How long to wait for that.")] = "60s",
    *,
    target: Target,
    shape: Shape,
) -> None:
    """Wait until an exchange is completed; without a version the newest. Exit code 7 if it takes longer."""
    kind, name = find_named(resource, name, among=AWAITED)
    deadline_s = time.monotonic() + moments.seconds(timeout, "--timeout")
    with Api(target.api, target.cluster) as api:
        while (answer := _seen(api, kind.path(name))) is None or not _is(answer, until):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise _too_late(answer, f"{kind.singular} {name}", until, timeout)
            time.sleep(min(_PAUSE_S, left_s))
    print_answer(Screen(no_color=shape.no_color), shape, answer, View(columns.BY_RESOURCE[kind], kind.label))


def _seen(api: Api, path: tuple[str, ...]) -> Answer | None:
    """None while there is no such exchange: it may begin yet."""
    try:
        return api.get(path, {})
    except NotFound:
        return None


def _is(answer: Answer, until: Awaited) -> bool:
    return str(answer.item.get("state") or "") == until.value.upper()


def _too_late(answer: Answer | None, what: str, until: Awaited, timeout: str) -> NotCaughtUp:
    if answer is None:
        return NotCaughtUp(f"There was no {what} within {timeout}.", hint="`topolog get exchanges` lists them.")
    asked = ", ".join(map(str, answer.item.get("awaited") or ())) or "nobody"
    return NotCaughtUp(
        f"{what.capitalize()} was not {until.value.lower()} within {timeout}; asked, not all have answered: {asked}.",
        hint=f"`topolog explain {what}` says what is known of them.",
    )
