"""`topolog context …`: whom the command line asks, under names of the user's own."""

from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from topolog.events.errors import BadInput
from topolog.projections.cli import completion
from topolog.projections.cli.client import Answer
from topolog.projections.cli.column import field
from topolog.projections.cli.contexts import Context, Standing, read_contexts, without_credentials
from topolog.projections.cli.options import Shape
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.terminal import Screen

_COLUMNS = (
    field("NAME", "name"),
    field("CURRENT", "current"),
    field("API", "api"),
    field("CLUSTER", "cluster"),
    field("PROTECTED", "protected"),
    field("TOKEN FILE", "token_file"),
    field("COLOUR", "colour", wide=True),
)
_VIEW = View(_COLUMNS, lambda item: str(item.get("name")))

NameOfContext = Annotated[str, typer.Argument(metavar="CONTEXT", help="Its name.", autocompletion=completion.contexts)]


@dataclass(frozen=True)
class Said:
    """What a context says; None leaves it as it is."""

    api: Annotated[str | None, typer.Option("--api", metavar="URL", help="Where the query API answers.")] = None
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Which cluster is meant.")] = None
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="The file that holds the bearer token.")
    ] = None
    protected: Annotated[
        bool | None,
        typer.Option(
            "--protected/--not-protected",
            help="Whether whatever changes something needs a --reason and a yes.",
            show_default=False,
        ),
    ] = None
    colour: Annotated[
        str | None, typer.Option("--colour", metavar="COLOUR", help="Its name is shown in it, as red.")
    ] = None


def list_contexts(*, shape: Shape) -> None:
    """All contexts, and which one is current."""
    held = read_contexts()
    items = [_item(each, held.current) for each in held.by_name.values()]
    screen = Screen(no_color=shape.no_color)
    print_answer(screen, shape, Answer(200, _envelope("ContextList", {"items": items, "next": None})), _VIEW)
    if held.current and held.current not in held.by_name:
        screen.note(f"Warning: {held.path}: the current context is {held.current!r}, which is not there.")


def show_context(
    name: Annotated[str | None, typer.Argument(metavar="CONTEXT", help="The current one if none is named.")] = None,
    *,
    shape: Shape,
) -> None:
    """One context, the current one unless another is named."""
    held = read_contexts()
    if not (name or held.current):
        raise BadInput("No context is current.", hint="`topolog context use NAME` chooses one.")
    by = "" if name else f"current in {held.path}"
    item = _item(held.named(name or held.current, said_by=by), held.current)
    print_answer(Screen(no_color=shape.no_color), shape, Answer(200, _envelope("Context", {"item": item})), _VIEW)


def use_context(
    name: Annotated[
        str, typer.Argument(metavar="CONTEXT", help="Its name; '' for none.", autocompletion=completion.contexts)
    ],
) -> None:
    """Mean this context from now on, unless --context or TOPOLOG_CONTEXT names another."""
    held = read_contexts()
    (held.used(name) if name else replace(held, current="")).save()
    Screen().note(f"Commands ask {name} now." if name else "No context is current now.", style="")


def add_context(name: NameOfContext, *, said: Said) -> None:
    """Add a context, or change what is said of one that is there: `topolog context add prod --api URL --protected`."""
    held = read_contexts()
    values = {key: value for key, value in asdict(said).items() if value is not None}
    if name not in held.by_name and not values.get("api"):
        raise BadInput(f"Where does the API of {name} answer?", hint="--api http://127.0.0.1:8642")
    before = held.by_name.get(name, Context(name))
    held.added(replace(before, **values)).save()
    Screen().note(f"{held.path} has context {name}. `topolog context use {name}` chooses it.", style="")
    if before.protected and said.protected is None:
        Screen().note(f"It stays protected; `topolog context add {name} --not-protected` changes that.", style="")


def remove_context(name: NameOfContext) -> None:
    """Forget a context; nothing else changes."""
    held = read_contexts()
    held.without(name).save()
    Screen().note(f"{held.path} has no context {name} any more.", style="")


def standing_rows(standing: Standing) -> list[tuple[str, str, str]]:
    """Whom the command line asks, as `config show` has it: what, its value, who says so."""
    context = standing.context
    rows = [("context", context.name if context else "", standing.origin or "none is chosen")]
    for name, said in (("api", standing.api), ("cluster", standing.cluster), ("token file", standing.token_file)):
        rows.append((name, without_credentials(said.value), said.origin))
    return [*rows, ("protected", "true" if standing.is_protected else "false", standing.origin or "default")]


def _item(context: Context, current: str) -> Json:
    return {**asdict(context), "current": context.name == current}


def _envelope(kind: str, content: Json) -> Json:
    return {"kind": kind, "apiVersion": "topolog/v1", **content}
