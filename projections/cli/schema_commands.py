"""The commands about databases, tables, views and grants: drop, rename, cancel of a change, and what `apply` needs."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from topolog.events.errors import BadInput
from topolog.events.object_definition import Definition, ObjectKind, Statement, Verb
from topolog.projections.cli import columns, moments
from topolog.projections.cli.change_wait import Until, await_change
from topolog.projections.cli.client import Api
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.options import (
    CancelArgument,
    NameArgument,
    Patience,
    RenameArgument,
    Shape,
    Target,
    Wait,
)
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.reading import EVERYTHING
from topolog.projections.cli.resources import (
    CANCELLABLE,
    CHANGES,
    DATABASES,
    GRANTS,
    OBJECTS,
    RENAMABLE,
    TABLES,
    Resource,
    check_request_id,
    find_named,
)
from topolog.projections.cli.schema_plan import Plan, Present
from topolog.projections.cli.terminal import Screen, clean
from topolog.projections.cli.writing import Doubt, confirm, follow

_PATIENCE = "60s"
"""Longer than a fence, usually: one silent server holds a change up for so long."""

Deadline = Annotated[
    str | None,
    typer.Option("--deadline", metavar="30s", help="Give the change up if it is not in force by then."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def rename(
    resource: RenameArgument,
    name: NameArgument = None,
    new_name: Annotated[str | None, typer.Argument(metavar="NEW_NAME", help="In the same database.")] = None,
    deadline: Deadline = None,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Give a table or a view of one another name: `topolog rename table shop.orders shop.sales`."""
    if "/" in resource and new_name is None:
        name, new_name = None, name
    kind, name = find_named(resource, name, among=RENAMABLE)
    if not new_name:
        raise BadInput(f"What is {kind.singular} {name} to be called?", hint="Give its new name behind the old one.")
    statement = Statement(Verb.RENAME, _KINDS[kind.singular], name, new_name=new_name)
    with connect(target) as api:
        ask_change(api, [statement], deadline, patience, shape, None)


def cancel(
    resource: CancelArgument, name: NameArgument = None, *, patience: Patience, target: Target, shape: Shape
) -> None:
    """Give up a change that is not committed yet: everything is as it was before. Exit code 5 if it is too late."""
    _, name = find_named(resource, name, among=CANCELLABLE)
    with connect(target) as api:
        follow(api, {"kind": "cancel-change", "change": int(name), "reason": patience.reason}, patience, shape)


def drop_object(
    kind: Resource, name: str, if_exists: bool, yes: bool, patience: Patience, target: Target, shape: Shape
) -> None:
    """Drop a database, table, view or grant."""
    statement = Statement(Verb.DROP, _KINDS[kind.singular], name, if_needed=if_exists)
    effect = _EFFECTS.get(kind, "")
    doubt = Doubt("dropped", lambda cluster: f"Drop {kind.singular} {name} of cluster {cluster}?{effect}", name)
    with connect(target) as api:
        ask_change(api, [statement], None, patience, shape, None if yes else doubt)


_KINDS = {
    "database": ObjectKind.DATABASE,
    "table": ObjectKind.TABLE,
    "view": ObjectKind.VIEW,
    "table-view": ObjectKind.VIEW,
    "grant": ObjectKind.GRANT,
}
_EFFECTS = {
    DATABASES: " All its tables, views and grants go with it, and all data.",
    TABLES: " All its data and the grants on it go with it.",
    GRANTS: " Nobody honours it any more when that is committed.",
}


def present_objects(api: Api) -> tuple[list[Present], int]:
    """All objects there are, at one position, and which."""
    moment: dict[str, Any] = {}
    found: list[Present] = []
    for kind in OBJECTS:
        answer = api.get_rows(kind.path(), moment, EVERYTHING)
        moment = {"as_of": int(answer.as_of["position"])}
        found += [_of_item(each) for each in answer.items]
    return found, moment["as_of"]


def _of_item(item: Json) -> Present:
    definition = msgspec.convert(item.get("definition") or {}, Definition)
    is_leaving = item.get("state") == "PRE_DELETE"
    return Present(
        ObjectKind(item["kind"]),
        str(item["name"]),
        definition,
        int(item.get("committed_at") or 0),
        item.get("change") if is_leaving else None,
    )


def show_plan(screen: Screen, shape: Shape, plan: Plan, position: int) -> None:
    """The plan: to people as what they asked for, beside a document on the other stream."""
    if plan.statements:
        (screen.view if shape.output.is_for_people else screen.aside)(plan_lines(plan))
    else:
        screen.note(f"Nothing is to be changed: all is as the file says at position {position}.", style="")
    if plan.kept:
        some = ", ".join(plan.kept[:5]) + (f" and {len(plan.kept) - 5} more" if len(plan.kept) > 5 else "")
        screen.note(f"Not in the file, and kept: {some}. --prune drops that.", style="")


_STYLES = {"+": "green", "~": "yellow", "-": "red"}


def plan_lines(plan: Plan) -> RenderableType:
    """The plan as people read it."""
    lines: list[RenderableType] = []
    for each in plan.lines:
        lines.append(Text(clean(f"{each.sign} {each.text}"), style=_STYLES[each.sign]))
        lines += [Text(clean(f"    {detail}"), style=_STYLES.get(detail[0], "")) for detail in each.details]
    return Group(*lines)


def ask_change(
    api: Api,
    statements: Sequence[Statement],
    deadline: str | None,
    patience: Patience,
    shape: Shape,
    doubt: Doubt | None,
    *,
    is_shown: bool = True,
) -> None:
    """Ask for one change of all these statements; follow it until it is in force unless less is wanted. `is_shown`: not
    if more is asked for, and all is shown at the end."""
    check_request_id(patience.request_id)
    timeout = patience.timeout or _PATIENCE
    timeout_s = moments.seconds(timeout, "--timeout")
    request: Json = {
        "kind": "schema-change",
        "statements": [plain_statement(each) for each in statements],
        "reason": patience.reason,
    }
    if deadline is not None:
        request["deadline_ms"] = max(1, round(moments.seconds(deadline, "--deadline") * 1000))
    if doubt is not None and not patience.dry_run:
        confirm(doubt, api.cluster)
    awaits_end = patience.wait in (None, Wait.ACCEPTED) and not patience.dry_run
    outcome = follow(api, request, patience, shape, is_shown=is_shown and not awaits_end, is_alone=is_shown)
    found = re.fullmatch(r"change (\d+)", str(outcome.get("subject") or ""))
    if not awaits_end:
        return
    if found is None:
        Screen(no_color=shape.no_color).note("Nothing was to be changed: what is asked for holds already.", style="")
        return
    try:
        answer = await_change(api, found[1], Until.COMMITTED, timeout, timeout_s)
    except KeyboardInterrupt:
        said = f"Change {found[1]} goes on: `topolog wait change/{found[1]}`, `topolog cancel change/{found[1]}`."
        Screen(no_color=shape.no_color).note(said, style="")
        raise
    if is_shown:
        print_answer(Screen(no_color=shape.no_color), shape, answer, View(columns.BY_RESOURCE[CHANGES], CHANGES.label))


def plain_statement(statement: Statement) -> Json:
    """The statement as the API takes it; what says nothing is left out, and what the API says by itself."""
    plain: Json = {name: value for name, value in msgspec.to_builtins(statement).items() if value not in _NOTHING}
    del plain["harmless"]
    if "definition" in plain:
        about = {name: value for name, value in plain["definition"].items() if value not in _NOTHING}
        is_view = statement.kind is ObjectKind.VIEW
        about["columns"] = [
            each["name"] if is_view else {"name": each["name"], "type": each["type"]}
            for each in about.get("columns", ())
        ]
        plain["definition"] = about
    for each in plain.get("columns", ()):
        for name in [name for name, value in each.items() if value in _NOTHING]:
            del each[name]
    return plain


_NOTHING: tuple[object, ...] = (None, "", [], {}, ())
