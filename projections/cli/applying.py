"""`topolog apply`: make a cluster what a file says. The plan is shown first, and exactly that is asked for.

Databases, tables, views and grants are one change, made at once or not at all; each type, group, schedule, and the
baseline are a request of their own. They are made in the order of the plan, and the first that is refused ends it: what
was done is said, and the same file applied again does the rest.

A request that replaces what stands is not made if that has changed since the plan: it is looked at again right before.
What is decided between that look and the request, or is not known yet to the server that is asked, is written over.
"""

from typing import Annotated

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from topolog.events.errors import BadInput, NotFound, Refused, TopologError
from topolog.projections.cli import declared_plan, schema_plan
from topolog.projections.cli.client import Answer, Api
from topolog.projections.cli.column import field
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.declared_file import Declared, read_declared
from topolog.projections.cli.declared_plan import Planned, There
from topolog.projections.cli.options import Patience, Shape, Target
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.output_schema import Step
from topolog.projections.cli.problems import Json
from topolog.projections.cli.reading import EVERYTHING
from topolog.projections.cli.resources import BASELINES, GROUPS, SCHEDULES, TYPES, Resource, check_request_id
from topolog.projections.cli.schema_commands import (
    Deadline,
    Yes,
    ask_change,
    plain_statement,
    plan_lines,
    present_objects,
    show_plan,
)
from topolog.projections.cli.schema_plan import Plan
from topolog.projections.cli.terminal import Screen, clean
from topolog.projections.cli.writing import Doubt, confirm, follow

_COLUMNS = (
    field("STEP", "step"),
    field("DOES", "does"),
    field("ABOUT", "about"),
    field("STATUS", "status"),
    field("REQUEST", "request"),
    field("DETAILS", "details", wide=True, folds=True),
)
_STYLES = {"+": "green", "~": "yellow", "-": "red"}


def apply(
    file: Annotated[str, typer.Option("--file", "-f", metavar="FILE", help="Definitions, JSON or YAML; - is stdin.")],
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Drop what the file does not have, of the databases and tables that it has."),
    ] = False,
    deadline: Deadline = None,
    yes: Yes = False,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Make databases, tables, views, grants, types, groups, the baseline and schedules what the file says: the plan is
    shown, and exactly that is done. Refused (exit code 5) if somebody else has changed them in between."""
    check_request_id(patience.request_id)
    declared = read_declared(file)
    schema, screen = declared.schema, Screen(no_color=shape.no_color)
    with connect(target) as api:
        if not declared.is_schema_alone:
            _apply_all(api, declared, prune, deadline, None if yes else _DOUBT, patience, shape)
            return
        present, position = present_objects(api)
        plan = schema_plan.plan(schema.wanted, present, prune=prune)
        if plan.problems:
            problems = "; ".join(plan.problems)
            raise Refused("PLAN_IMPOSSIBLE", "", f"{schema.source} cannot be applied: {problems}.")
        show_plan(screen, shape, plan, position)
        if not plan.statements:
            return
        loss = " What is dropped goes with its data." if plan.loses_data else ""
        doubt = Doubt("applied", lambda cluster: f"Apply this to cluster {cluster}?{loss}")
        ask_change(api, plan.statements, deadline, patience, shape, None if yes else doubt)


_DOUBT = Doubt("applied", lambda cluster: f"Apply this to cluster {cluster}?")


def _apply_all(
    api: Api,
    declared: Declared,
    prune: bool,
    deadline: str | None,
    doubt: Doubt | None,
    patience: Patience,
    shape: Shape,
) -> None:
    """Everything that the file wants, step by step."""
    screen = Screen(no_color=shape.no_color)
    plan = Plan()
    if declared.schema.wanted:
        plan = schema_plan.plan(declared.schema.wanted, present_objects(api)[0], prune=prune)
    found = declared_plan.steps(declared, _there(api))
    if problems := "; ".join((*plan.problems, *found.problems)):
        raise Refused("PLAN_IMPOSSIBLE", "", f"{declared.source} cannot be applied: {problems}.")
    if not plan.statements and not found.planned:
        screen.note("Nothing is to be changed: all is as the file says.", style="")
        return
    screen.aside(_shown(plan, found.planned))
    planned = [*([_of_schema(plan)] if plan.statements else []), *found.planned]
    if patience.request_id and len(planned) > 1:
        raise BadInput(
            f"--request-id names one request, and the plan has {len(planned)}.",
            hint="Apply without it: what is done already is not in the next plan.",
        )
    if doubt is not None and not patience.dry_run:
        confirm(doubt, api.cluster)
    _make(api, planned, plan, deadline, patience, shape)


def _make(api: Api, planned: list[Planned], plan: Plan, deadline: str | None, patience: Patience, shape: Shape) -> None:
    """One step after the other; the first that fails is raised, once it is shown how far this has come."""
    made: list[Step] = []
    failed: TopologError | None = None
    for number, each in enumerate(planned, start=1):
        status, request = "LEFT OUT", None
        if failed is None:
            try:
                outcome = _made(api, each, plan, deadline, patience, shape)
                status = "PLANNED" if patience.dry_run else str(outcome.get("status") or "GRANTED")
                request = outcome.get("id")
            except TopologError as error:
                status, failed = "REFUSED" if isinstance(error, Refused) else "UNKNOWN", error
        made.append(Step(number, each.does, each.about, each.details, status, request))
    body = {"kind": "Applied", "apiVersion": "topolog/v1", "items": msgspec.to_builtins(made), "next": None}
    view = View(_COLUMNS, lambda item: f"{item['about']}")
    print_answer(Screen(no_color=shape.no_color), shape, Answer(200, body), view)
    if failed is not None:
        raise failed


def _made(api: Api, each: Planned, plan: Plan, deadline: str | None, patience: Patience, shape: Shape) -> Json:
    """Make one request; its outcome is shown with those of the others."""
    if each.request.get("kind") == "schema-change" and not patience.dry_run:
        ask_change(api, plan.statements, deadline, patience, shape, None, is_shown=False)
        return {}
    _check_stands(api, each)
    return follow(api, {**each.request, "reason": patience.reason}, patience, shape, is_shown=False, is_alone=False)


def _check_stands(api: Api, step: Planned) -> None:
    """Raise Refused if what the step replaces is no longer what was shown."""
    if step.planned_from is not None and (found := declared_plan.overtaken(step, _now(api, step))):
        message = f"What was planned from has changed: {_named(step)}: {found}."
        raise Refused("CONFLICT", "", message, hint="Apply the file again: the plan is made anew from what is there.")


def _now(api: Api, step: Planned) -> Json | None:
    """What the step is about, as it is now."""
    if step.request["kind"] == "baseline":
        return _baseline(api)
    kind = SCHEDULES if step.request["kind"] == "set-schedule" else GROUPS
    try:
        return api.get(kind.path(step.about)).item
    except NotFound:
        return None


def _of_schema(plan: Plan) -> Planned:
    """All statements as the one request that they are."""
    details = tuple(f"{line.sign} {line.text}" for line in plan.lines)
    request: Json = {"kind": "schema-change", "statements": [plain_statement(each) for each in plan.statements]}
    return Planned("~", "change definitions", "databases", details, request)


def _shown(plan: Plan, planned: tuple[Planned, ...]) -> RenderableType:
    lines: list[RenderableType] = [plan_lines(plan)] if plan.statements else []
    for each in planned:
        lines.append(Text(clean(f"{each.sign} {_named(each)}"), _STYLES[each.sign]))
        lines += [Text(clean(f"    {detail}"), style=_STYLES.get(detail[0], "")) for detail in each.details]
    return Group(*lines)


def _named(step: Planned) -> str:
    """What the step is about: `group orders`, `baseline`."""
    kind = step.does.partition(" ")[2]
    return kind if kind == step.about else f"{kind} {step.about}"


def _there(api: Api) -> There:
    baseline = _baseline(api) or {}
    return There(
        _by_name(api, TYPES),
        _by_name(api, GROUPS),
        _by_name(api, SCHEDULES),
        tuple(baseline.get("members") or ()),
    )


def _baseline(api: Api) -> Json | None:
    """The baseline that counts, if there is one."""
    found = api.get_rows(BASELINES.path(), {}, EVERYTHING).items
    return next((each for each in found if each.get("state") == "CURRENT"), None)


def _by_name(api: Api, kind: Resource) -> dict[str, Json]:
    return {kind.name_of(each): each for each in api.get_rows(kind.path(), {}, EVERYTHING).items}
