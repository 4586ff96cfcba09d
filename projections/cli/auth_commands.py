"""`topolog auth`: who one is to an API, what one may there, and why not."""

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from topolog.projections.cli.client import Answer
from topolog.projections.cli.column import Column, field
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.options import Shape, Target
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.rows import Rows
from topolog.projections.cli.terminal import Screen, clean
from topolog.projections.cli.transport import Param


class Verb(StrEnum):
    """What can be done."""

    READ = "read"
    READ_PAYLOAD = "read-payload"
    CHANGE = "change"
    ADMINISTER = "administer"
    AUDIT = "audit"


VerbArgument = Annotated[Verb, typer.Argument(metavar="VERB", help=f"One of: {', '.join(Verb)}.")]
ThingArgument = Annotated[
    str, typer.Argument(metavar="RESOURCE[/NAME]", help="Such as groups, or groups/orders; partitions/orders/17.")
]


def _thing(item: Json) -> str:
    return f"{item.get('resource')}{'/' + str(item['name']) if item.get('name') else ''}"


_WHO = (
    field("NAME", "name"),
    field("METHOD", "method"),
    field("GRANTS", "grants"),
    field("RIGHTS", "rights", wide=True),
    field("CLUSTERS", "clusters", wide=True),
)
_MAY = (
    field("RIGHT", "right"),
    Column("THING", _thing),
    Column("ALLOWED", lambda item: bool(item.get("allowed"))),
    field("BY", "by"),
    field("MISSING", "missing"),
)
_GRANTS = (
    field("GRANT", "grant"),
    Column("ALLOWS", lambda item: bool(item.get("allows"))),
    field("WHY NOT", "why_not", folds=True),
)


def whoami(*, target: Target, shape: Shape) -> None:
    """Say who you are to the API: your name, by what it knows you, and your grants."""
    with connect(target) as api:
        answer = api.of_process("whoami", {})
    print_answer(Screen(no_color=shape.no_color), shape, answer, View(_WHO, lambda item: str(item.get("name"))))


def can_i(verb: VerbArgument, thing: ThingArgument, *, target: Target, shape: Shape) -> None:
    """Say whether you may do something (exit code 3 if not)."""
    answer = _asked(verb, thing, target)
    print_answer(Screen(no_color=shape.no_color), shape, answer, View(_MAY, _thing))
    _end(answer)


def explain(verb: VerbArgument, thing: ThingArgument, *, target: Target, shape: Shape) -> None:
    """Say why you may or may not do something, grant by grant (exit code 3 if not)."""
    answer = _asked(verb, thing, target)
    print_answer(Screen(no_color=shape.no_color), shape, answer, View(_MAY, _thing, _page))
    _end(answer)


def _asked(verb: Verb, thing: str, target: Target) -> Answer:
    resource, _, name = thing.partition("/")
    params: dict[str, Param] = {"right": verb.value, "resource": resource, **({"name": name} if name else {})}
    with connect(target) as api:
        return api.get(("can-i",), params)


def _page(answer: Answer, wide: bool) -> RenderableType:
    item = answer.item
    told = f"You may {item.get('right')} {_thing(item)}, by {item.get('by')}."
    if not item.get("allowed"):
        told = f"You may not {item.get('right')} {_thing(item)}. It takes a grant such as {item.get('missing')}."
    grants = [each for each in item.get("grants") or () if isinstance(each, dict)]
    shown = Rows(grants, _GRANTS, wide=wide) if grants else Text("You have no grants at all.")
    return Group(Text(clean(told), style="bold"), Text(""), shown)


def _end(answer: Answer) -> None:
    if not answer.item.get("allowed"):
        raise typer.Exit(ExitCode.AUTH)
