"""The commands that read: get, describe, history, explain. They change nothing and every answer names its position."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from topolog.events.errors import BadInput, NotFound
from topolog.projections.cli import moments
from topolog.projections.cli.client import PAGE_ROWS, Answer, Api
from topolog.projections.cli.connecting import connect, connect_about
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.narrowing import Filters, Picked
from topolog.projections.cli.options import (
    ExplainArgument,
    Extent,
    Format,
    HistoryArgument,
    Imagined,
    Moment,
    NameArgument,
    ResourceArgument,
    Shape,
    Target,
)
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import (
    CLUSTER,
    DECISIONS,
    EXPLAINED,
    JOINS,
    LEASE_HEALTH,
    LISTS_ALONE,
    NODES,
    OBJECTS,
    PROJECTIONS,
    WITH_HISTORY,
    Resource,
    find_item,
    find_named,
    nearest,
)
from topolog.projections.cli.terminal import Screen
from topolog.projections.cli.transport import Param

if TYPE_CHECKING:
    from rich.console import RenderableType

    from topolog.projections.cli.column import Column

RECENT = 5
"""Decisions that `describe` shows of a history: enough to see what happened last, short enough for one screen."""

EVERYTHING = 1 << 62


def get(  # noqa: PLR0913 (its options)
    resource: ResourceArgument,
    name: NameArgument = None,
    watches: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on showing changes; on a terminal the table is drawn in place.")
    ] = False,
    *,
    target: Target,
    shape: Shape,
    moment: Moment,
    extent: Extent,
    filters: Filters,
    picked: Picked,
) -> None:
    """List rows, or show one: `topolog get types`, `topolog get type Customer -o json`."""
    kind, name = find_item(resource, name)
    if watches:
        if extent.limit is not None:
            asked = f"topolog watch {kind.plural if name is None else f'{kind.singular} {name}'} --limit {extent.limit}"
            raise BadInput("-w shows all rows.", hint=f"`{asked}` ends after as many events.")
        _watch(kind, name, target, shape, moment, filters)
        return
    is_list = name is None and kind is not CLUSTER
    params = {**params_of(moment), **filters.of(kind, name), **picked.params(is_list, shape.output)}
    _check_asked(kind, name, {**params, **({} if extent.limit is None else {"limit": extent.limit})})
    with connect_about(target, kind, name) as api:
        if is_list:
            answer = api.get_rows(kind.path(), params, at_most(extent))
        else:
            answer = _only(_get_one(api, kind, name or "", params), picked.names)
    view = View(
        _columns(kind, picked.names), kind.label, warnings=_warnings_of(kind), folded=_folding(kind, picked.names)
    )
    print_answer(Screen(no_color=shape.no_color), shape, answer, view, is_past=moment.is_past)


def _folding(kind: Resource, names: Sequence[str]) -> "Callable[[Sequence[Json]], Sequence[Json]]":
    """How repeated refusals become one row; whoever picks fields gets them of each."""

    def fold(items: Sequence[Json]) -> Sequence[Json]:
        from topolog.projections.cli.log_columns import folded

        return items if names else folded(kind, items)

    return fold


def _columns(kind: Resource, names: Sequence[str]) -> "Sequence[Column]":
    """The columns of these fields, of the kind if none are named; loaded while the answer is there already."""
    from topolog.projections.cli.column import field
    from topolog.projections.cli.columns import BY_RESOURCE

    return tuple(field(each.upper().replace("_", " "), each) for each in names) or BY_RESOURCE[kind]


def _check_asked(kind: Resource, name: str | None, params: Mapping[str, Param]) -> None:
    """BadInput for what the API has not, or would leave unheeded: it says all of its process's stores, as they are."""
    if name is not None and kind in LISTS_ALONE:
        hint = f"`topolog get {kind.plural}` lists all, --filter narrows that."
        raise BadInput(f"No {kind.singular} is asked for by its name: there is the list alone.", hint=hint)
    if params and kind is PROJECTIONS:
        raise BadInput("The stores of a process are few, and have no past.", hint=f"Leave {', '.join(params)} out.")


def _only(answer: Answer, names: Sequence[str]) -> Answer:
    """The answer with these fields of its item, all if there are none named; BadInput for one that it has not."""
    if not names:
        return answer
    if unknown := [name for name in names if name.split(".")[0] not in answer.item]:
        raise BadInput(f"There is no field {unknown[0]!r}.", hint=f"There are {', '.join(answer.item)}.")
    kept = {name.split(".")[0] for name in names}
    item = {name: value for name, value in answer.item.items() if name in kept}
    return Answer(answer.status, {**answer.body, "item": item})


def _watch(kind: Resource, name: str | None, target: Target, shape: Shape, moment: Moment, filters: Filters) -> None:
    """A table in place on a terminal; else events in the format that is chosen, JSON lines if none is."""
    from topolog.projections.cli import watching

    if moment.is_past or moment.at_least is not None:
        raise BadInput("What is watched is now.", hint="`topolog watch --since TOKEN` begins behind a token.")
    given = filters.of(kind, name)
    if shape.output.is_for_people and sys.stdout.isatty():
        with connect_about(target, kind, name) as api:
            watching.draw(api, kind, name, given, shape)
        return
    shape = shape if shape.chosen else replace(shape, chosen=Format.JSONL)
    watching.watch(kind.usual, name, filters=filters, target=target, shape=shape)


def describe(
    resource: ResourceArgument, name: NameArgument = None, *, target: Target, shape: Shape, moment: Moment
) -> None:
    """Show one thing in full, with the last decisions about it."""
    kind, name = find_named(resource, name)
    params = params_of(moment)
    _check_asked(kind, name, params)
    with connect_about(target, kind, name) as api:
        answer = _get_one(api, kind, name, params)
        recent, are_all = _recent(api, kind, name, answer) if shape.output.is_for_people else ([], True)
    more = "" if are_all else f"the last {len(recent)}; `topolog history {kind.singular} {name}` shows all"

    def page(answer: Answer, wide: bool) -> "RenderableType":
        from topolog.projections.cli.pages import describe_page
        from topolog.projections.cli.schema_columns import in_words

        item = in_words(answer.item) if kind in OBJECTS else answer.item
        return describe_page(item, recent, more, wide=wide)

    print_answer(
        Screen(no_color=shape.no_color),
        shape,
        answer,
        View(_columns(kind, ()), kind.label, page, _warnings_of(kind)),
        is_past=moment.is_past,
    )


def history(
    resource: HistoryArgument,
    name: NameArgument = None,
    *,
    target: Target,
    shape: Shape,
    moment: Moment,
    extent: Extent,
) -> None:
    """List every decision that changed one thing, and what it changed."""
    kind, name = find_named(resource, name, among=WITH_HISTORY)
    params = params_of(moment)
    with connect_about(target, kind, name) as api:
        try:
            answer = api.get_rows((*kind.path(name), "history"), params, at_most(extent))
        except NotFound as error:
            raise _with_guess(error, api, kind, name, params) from error
    from topolog.projections.cli import log_columns

    print_answer(
        Screen(no_color=shape.no_color),
        shape,
        answer,
        View(log_columns.HISTORY, DECISIONS.label),
        is_past=moment.is_past,
    )


def explain(
    resource: ExplainArgument,
    name: NameArgument = None,
    imagined: Annotated[
        Imagined | None,
        typer.Option("--if", help="Of a node: what would happen to partitions if it did that. Nothing is changed."),
    ] = None,
    past: Annotated[
        str | None,
        typer.Option("--past", metavar="FILE", help="Of a join: the topolog-past.json of the node's data folder."),
    ] = None,
    *,
    target: Target,
    shape: Shape,
    moment: Moment,
) -> None:
    """Say why one thing is as it is, and what it waits for; or what would happen if a node went, or joined (exit code 8
    if it would be refused)."""
    kind, name = find_named(resource, name, among=EXPLAINED)
    params = params_of(moment)
    if imagined is not None and kind is not NODES:
        raise BadInput(
            f"--if is about nodes, not about {kind.plural}.", hint="One looks like explain node n3 --if dies."
        )
    if past is not None and kind is not JOINS:
        raise BadInput(
            f"--past is about joins, not about {kind.plural}.", hint=f"topolog explain join n3 --past {past}"
        )
    if kind is JOINS:
        _explain_join(name, past, params, target, shape, moment)
        return
    with connect_about(target, kind, name) as api:
        if imagined is None:
            answer = _get_one(api, kind, name, params, "explain")
        else:
            answer = _get_one(api, kind, name, params, "forecast", about={"event": imagined.value})
        label = f"{kind.singular}/{name or api.cluster}"
    from topolog.projections.cli import columns, pages

    view = View(columns.EXPLANATION, lambda _: label, pages.explain_page)
    if imagined is not None:
        view = View(columns.FORECAST_OF_NODE, lambda _: label, pages.forecast_page)
    print_answer(Screen(no_color=shape.no_color), shape, answer, view, is_past=moment.is_past)


def _explain_join(
    name: str, past: str | None, params: dict[str, Param], target: Target, shape: Shape, moment: Moment
) -> None:
    from topolog.projections.cli.past_of_node import read_past

    content = None if past is None else read_past(past)
    with connect(target) as api:
        answer = api.get(JOINS.path(name), params) if content is None else api.judge(name, content, params)
    from topolog.projections.cli import columns, pages

    view = View(columns.JOIN, JOINS.label, pages.join_page)
    print_answer(Screen(no_color=shape.no_color), shape, answer, view, is_past=moment.is_past)
    if not answer.item.get("is_admitted"):
        raise typer.Exit(ExitCode.FOUND)


def _warnings_of(kind: Resource) -> Callable[[Answer], Sequence[str]]:
    """Of the cluster, what is wrong; of lease health, why not all is well; what is not known is said once, not of every
    node."""
    if kind is CLUSTER:
        return lambda answer: [str(each) for each in answer.item.get("news") or ()]
    if kind is not LEASE_HEALTH:
        return lambda _: ()
    return lambda answer: list(
        dict.fromkeys(str(each.get("sentence")) for each in answer.items if each.get("state") not in ("OK", "RELEASED"))
    )


def params_of(moment: Moment) -> dict[str, Param]:
    params: dict[str, Param] = {}
    if moment.as_of is not None:
        params["as_of"] = moments.moment(moment.as_of, datetime.now(UTC))
    if moment.at_least is not None:
        params |= {"at_least": moment.at_least, "wait": "10s"}
    return params


def at_most(extent: Extent) -> int | None:
    return EVERYTHING if extent.every and extent.limit is None else extent.limit


def _get_one(
    api: Api,
    kind: Resource,
    name: str,
    params: dict[str, Param],
    *aspect: str,
    about: Mapping[str, Param] | None = None,
) -> Answer:
    """One item, or an aspect of it; NotFound proposes the names that are most like the one given.

    `about`: parameters of this aspect alone, which the list of names does not know.
    """
    try:
        return api.get((*kind.path(name), *aspect), {**params, **(about or {})})
    except NotFound as error:
        raise _with_guess(error, api, kind, name, params) from error


def _with_guess(error: NotFound, api: Api, kind: Resource, name: str, params: dict[str, Param]) -> NotFound:
    if error.hint or kind in (CLUSTER, DECISIONS):
        return error
    guess = ""
    with suppress(NotFound):
        guess = nearest(name, map(kind.name_of, api.get_rows(kind.path(), params, PAGE_ROWS).items))
    return NotFound(error.message, hint=guess or f"`topolog get {kind.plural}` lists them.")


def _recent(api: Api, kind: Resource, name: str, answer: Answer) -> tuple[list[Json], bool]:
    """The last decisions about the item, as of the very position at which it was read, and whether they are all."""
    if not kind.has_past:
        return [], True
    same_position = {"as_of": int(answer.as_of["position"])} if "position" in answer.as_of else {}
    found = api.get((*kind.path(name), "history"), {**same_position, "limit": RECENT})
    return found.items, not found.next
