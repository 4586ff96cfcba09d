"""`topolog diff`: what of a resource differs between two moments, and exit code 8 if anything does."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from topolog.events.errors import BadInput
from topolog.projections.cli import moments
from topolog.projections.cli.client import Answer
from topolog.projections.cli.column import Column, field
from topolog.projections.cli.connecting import connect_about
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.narrowing import Filters
from topolog.projections.cli.options import NameArgument, ResourceArgument, Shape, Target
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import CLUSTER, LISTS_ALONE, PAST_MISSING, UNWATCHED, Resource, find_item
from topolog.projections.cli.terminal import Screen, clean, plain
from topolog.projections.ordering import natural

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
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort",
            metavar="[-]FIELD,…",
            help="Order by these fields: name, change, or those of -o json of the list; - is descending.",
        ),
    ] = None,
    *,
    filters: Filters,
    target: Target,
    shape: Shape,
) -> None:
    """Say what differs between two moments: `topolog diff partitions --from 15m`. Exit code 8 if anything does."""
    kind, name = find_item(resource, name)
    if kind in PAST_MISSING:
        verb = "get" if kind in UNWATCHED else "watch"
        raise BadInput(f"{kind.plural} have no past.", hint=f"`topolog {verb} {kind.plural}` shows what there is.")
    if since is None:
        raise BadInput("Since when?", hint="--from 15m, --from 1234, --from exchange:4.0")
    now = datetime.now(UTC)
    moment_since = moments.moment(since, now, "--from")
    moment_until = None if until is None else moments.moment(until, now, "--to")
    params = filters.of(kind, name)
    with connect_about(target, kind, name) as api:
        answer = api.diff((kind.usual,), moment_since, moment_until, params)
        if name is not None and kind is not CLUSTER:
            answer = _about(answer, kind, name)
            if not answer.items and kind not in LISTS_ALONE:
                api.get(kind.path(name), {} if moment_until is None else {"as_of": moment_until})  # raises NotFound
    if sort is not None:
        answer = Answer(answer.status, {**answer.body, "items": ordered(answer.items, sort)})
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


def ordered(items: list[Json], by: str) -> list[Json]:
    """The rows by these fields in turn, as the API orders lists: nothing before numbers before texts.

    A field is one of the row itself, or of its item as it is, of one that has gone as it was; BadInput for one that no
    row has.
    """
    found = items
    for text in reversed([part.strip() for part in by.split(",")]):
        name = text.removeprefix("-")
        if items and not any(_has(each, name) for each in items):
            raise BadInput(
                f"Nothing can be ordered by {name!r}.", hint="By name, change, or fields of the list, as state."
            )
        values = [natural(_value(each, name)) for each in found]
        places = sorted(range(len(found)), key=values.__getitem__, reverse=text.startswith("-"))
        found = [found[place] for place in places]
    return found


def _has(row: Json, name: str) -> bool:
    return name in ("name", "change") or name in _item(row)


def _value(row: Json, name: str) -> Any:
    value = row.get(name) if name in ("name", "change") else _item(row).get(name)
    return value if isinstance(value, str | int | float | None) else plain(value)


def _item(row: Json) -> Json:
    return row.get("after") or row.get("before") or {}


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
