"""`topolog diff`: what of a resource differs between two moments, and exit code 8 if anything does."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from topolog.events.errors import BadInput
from topolog.projections.cli import moments
from topolog.projections.cli.client import Answer
from topolog.projections.cli.column import Column, field
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.narrowing import Filters
from topolog.projections.cli.options import NameArgument, ResourceArgument, Shape, Target
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import CLUSTER, PAST_MISSING, Resource, find_item
from topolog.projections.cli.terminal import Screen, clean

_SIGNS = {"ADDED": "+", "REMOVED": "-", "CHANGED": "~"}
_STYLES = {"+": "green", "~": "yellow", "-": "red"}
_COLUMNS = (
    field("NAME", "name"),
    field("CHANGE", "change"),
    Column("CHANGES", lambda item: "; ".join(map(str, item.get("changes") or ())), folds=True),
)


def diff(
    resource: ResourceArgument,
    name: NameArgument = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="MOMENT", help="What --as-of takes: 1234, 15m, topology:4.1 …")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="MOMENT", show_default="now", help="The same.")] = None,
    *,
    filters: Filters,
    target: Target,
    shape: Shape,
) -> None:
    """Say what differs between two moments: `topolog diff partitions --from 15m`. Exit code 8 if anything does."""
    kind, name = find_item(resource, name)
    if kind in PAST_MISSING:
        raise BadInput(f"{kind.plural} have no past.", hint=f"`topolog watch {kind.plural}` shows what changes.")
    if since is None:
        raise BadInput("Since when?", hint="--from 15m, --from 1234, --from exchange:4.0")
    now = datetime.now(UTC)
    moment_since = moments.moment(since, now, "--from")
    moment_until = None if until is None else moments.moment(until, now, "--to")
    params = filters.of(kind, name)
    with connect(target) as api:
        answer = api.diff((kind.usual,), moment_since, moment_until, params)
        if name is not None and kind is not CLUSTER:
            answer = _about(answer, kind, name)
    screen = Screen(no_color=shape.no_color)
    if shape.output.is_for_people and not answer.items:
        screen.note("Nothing differs.", style="")
    else:
        page = _wide if shape.output.is_for_people else None
        print_answer(screen, shape, answer, View(_COLUMNS, lambda each: f"{kind.singular}/{each.get('name')}", page))
    if answer.items:
        raise typer.Exit(ExitCode.FOUND)


def _about(answer: Answer, kind: Resource, name: str) -> Answer:
    def is_it(each: Json) -> bool:
        return name == each.get("name") or name == kind.name_of(each.get("after") or each.get("before") or {})

    return Answer(answer.status, {**answer.body, "items": [each for each in answer.items if is_it(each)]})


def _wide(answer: Answer, wide: bool) -> RenderableType:
    """Rows with a sign before them and their changes below; wide also shows what was added or removed."""
    lines: list[RenderableType] = []
    for item in answer.items:
        sign = _SIGNS.get(str(item.get("change")), "?")
        lines.append(Text(clean(f"{sign} {item.get('name')}"), style=_STYLES.get(sign, "")))
        lines += [Text(f"    {clean(each)}") for each in _details(item, wide=wide)]
    return Group(*lines)


def _details(item: Json, *, wide: bool) -> Iterator[str]:
    if item.get("change") == "CHANGED":
        yield from map(str, item.get("changes") or ())
    elif wide:
        held = item.get("after") or item.get("before") or {}
        yield from (f"{name}: {value}" for name, value in held.items() if value not in (None, "", [], {}))
