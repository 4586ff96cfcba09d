"""The command that waits: `topolog wait exchange/4.0 --for=Completed`, `topolog wait group/orders --for=Settled`.

A group is settled when nothing more will change by itself: no exchange is open, every copy that is there is whole and
wanted, and the wanted primaries act. What is lost stays as it is until somebody does something.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from topolog.events.errors import BadInput, NotCaughtUp, NotFound
from topolog.projections.cli import columns, conditions, moments
from topolog.projections.cli.change_wait import Until, await_change
from topolog.projections.cli.client import Answer, Api
from topolog.projections.cli.conditions import Condition
from topolog.projections.cli.connecting import connect_about
from topolog.projections.cli.options import NameArgument, Shape, Target, WaitArgument
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.pausing import Pause
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import (
    AWAITED,
    CHANGES,
    CLUSTER,
    DECISIONS,
    EXCHANGES,
    GROUPS,
    LEASES,
    PARTITIONS,
    PRESENT,
    SESSIONS,
    Resource,
    find_item,
    find_named,
)
from topolog.projections.cli.session_wait import await_session, show_end
from topolog.projections.cli.terminal import Screen, plain
from topolog.projections.cli.transport import Param

_USUAL = {
    EXCHANGES: ("Completed",),
    GROUPS: ("Settled",),
    CHANGES: tuple(Until),
    SESSIONS: ("Over",),
}
"""Of these more than one look at one item is needed, or more is said of what has come."""

_UNSETTLED = ("PAUSED", "MOVING", "SWITCHING", "RENTING")


def _proposed(context: typer.Context, incomplete: str) -> list[str]:
    """Conditions of what the command names so far, for the Tab key."""
    named = context.params.get("resource") or next(iter(context.args), "")  # where click stops at `--for` without value
    try:
        kind, _ = find_item(str(named), None, AWAITED)
    except BadInput:
        return []
    names = [*_USUAL.get(kind, ()), *conditions.names_of(kind)]
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def wait(
    resource: WaitArgument,
    name: NameArgument = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="CONDITION",
            help="Completed, of an exchange; Settled, of a group; Committed, Deleted, Over, of a change; Over, of a "
            "session; Member, Left, of a node; Accepted, of a type … Of anything Exists, Gone, FIELD=VALUE.",
            show_default="what is usual",
            autocompletion=_proposed,
        ),
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="60s", help="How long to wait for that.")] = "60s",
    *,
    target: Target,
    shape: Shape,
) -> None:
    """Wait until an exchange is completed, without a version the newest, until a group has come to rest, until a change
    is in force (exit code 5 if it is rolled back), until a session has ended (with its exit code), or until anything
    else is as --for says. Exit code 7 if it takes longer."""
    kind, name = find_named(resource, name, among=AWAITED)
    timeout_s = moments.seconds(timeout, "--timeout")
    own = next((each for each in _USUAL.get(kind, ()) if each.lower() == (until or each).lower()), None)
    if own is None and kind in _USUAL and until is not None and "=" not in until:
        _check_general(kind, until)
    with connect_about(target, kind, name) as api:
        if own is not None and kind is SESSIONS:
            show_end(Screen(no_color=shape.no_color), shape, await_session(api, name, timeout, timeout_s))
            return
        if own is not None and kind is CHANGES:
            answer = await_change(api, name, Until(own), timeout, timeout_s)
        else:
            look, pause = _looking(api, kind, name, None if own else conditions.condition(kind, until))
            answer = _await(look, pause, timeout, timeout_s)
    print_answer(Screen(no_color=shape.no_color), shape, answer, View(columns.BY_RESOURCE[kind], kind.label))


def _check_general(kind: Resource, until: str) -> None:
    """What has conditions of a kind of its own has but those, and the ones that anything has."""
    if until.lower() not in (conditions.EXISTS.name.lower(), conditions.GONE.name.lower()):
        hint = f"Wait for it with --for={' or '.join(_USUAL[kind])}."
        raise BadInput(f"No {kind.singular} is {until} one day.", hint=hint)


@dataclass(frozen=True)
class _Look:
    """What one look has found; `why` it is not what is waited for, "" if it is."""

    found: Answer | None
    why: str = ""
    hint: str = ""

    @property
    def is_awaited(self) -> bool:
        return bool(self.why)


def _await(look: Callable[[], _Look], pause: Pause, timeout: str, timeout_s: float) -> Answer:
    deadline_s = time.monotonic() + timeout_s
    while (found := look()).is_awaited:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise NotCaughtUp(f"{found.why} within {timeout}.", hint=found.hint)
        pause.until_change(found.found, left_s)
    assert found.found is not None, "what nobody has seen is awaited"
    return found.found


def _looking(api: Api, kind: Resource, name: str, wanted: Condition | None) -> tuple[Callable[[], _Look], Pause]:
    """How to look, and how to wait for the next look: for anything to be decided where it hangs on several things."""
    if wanted is None:
        look = _completed if kind is EXCHANGES else _settled
        return lambda: look(api, name), Pause(api, (EXCHANGES if kind is EXCHANGES else DECISIONS).path())
    is_told = kind not in PRESENT and not wanted.is_of_clock
    path = DECISIONS.path() if kind is CLUSTER else (kind.usual,)
    return lambda: _held(api, kind, name, wanted), Pause(api, path, _narrowed(kind, name), is_told=is_told)


def _narrowed(kind: Resource, name: str) -> dict[str, Param]:
    """The filters that leave little beside the one thing."""
    if kind is PARTITIONS:
        return {"group": name.split("/", maxsplit=1)[0]}
    return {"node": name} if kind is LEASES else {}


def _held(api: Api, kind: Resource, name: str, wanted: Condition) -> _Look:
    hint = f"`topolog describe {kind.singular} {name}` says how it stands.".replace("  ", " ")
    label = f"{kind.singular} {name}".strip()
    try:
        answer = api.get(kind.path(name), {})
    except NotFound:
        if wanted.holds(None):  # nothing to show of it but where the API stands
            beside = api.get(kind.path(), {"limit": 1})
            gone: Json = {"kind": kind.singular.capitalize(), "apiVersion": beside.body.get("apiVersion"), "items": []}
            return _Look(Answer(beside.status, {**gone, "asOf": beside.as_of, "next": None}))
        return _Look(_anywhere(api), f"There was no {label}", f"`topolog get {kind.usual}` lists them.")
    if wanted.holds(answer.item):
        return _Look(answer)
    stands = f" ({wanted.shows} {plain(conditions.at(answer.item, wanted.shows))})" if wanted.shows else ""
    return _Look(answer, f"{label[0].upper()}{label[1:]} was not {wanted.name}{stands}", hint)


def _anywhere(api: Api) -> Answer:
    """Where the API stands."""
    return api.get(CLUSTER.path(), {})


def _completed(api: Api, version: str) -> _Look:
    try:
        answer = api.get(EXCHANGES.path(version), {})
    except NotFound:  # it may begin yet
        named = "" if version == EXCHANGES.unnamed else f" {version}"
        return _Look(_anywhere(api), f"There was no exchange{named}", "`topolog get exchanges` lists them.")
    if answer.item.get("state") == "COMPLETED":
        return _Look(answer)
    named = answer.item.get("version", version)
    return _Look(
        answer,
        f"Exchange {named} was not completed ({_whom(answer.item)})",
        f"`topolog explain exchange {named}` says what is known of them.",
    )


def _whom(exchange: Json) -> str:
    """Whom an open exchange waits for, as far as the log knows."""
    awaited = [str(node) for node in exchange.get("awaited") or ()]
    return f"asked, not all have answered: {', '.join(awaited) or 'nobody'}"


def _settled(api: Api, group: str) -> _Look:
    """All questions are about one position, so that nothing passes from one state to the next in between."""
    answer = api.get(GROUPS.path(group), {})
    moment: dict[str, Param] = {"as_of": str(answer.body["asOf"]["position"]), "limit": 1}
    open_exchange = api.get(EXCHANGES.path(), {"state": "OPEN", **moment}).items
    if open_exchange:
        return _Look(answer, f"Exchange {open_exchange[0].get('version')} was not completed", _EXPLAIN_EXCHANGE)
    for state in _UNSETTLED:
        if found := api.get(PARTITIONS.path(), {"group": group, "state": state, **moment}).items:
            name = found[0].get("name")
            hint = f"`topolog explain partition {name}` says why."
            return _Look(answer, f"Group {group} did not settle: partition {name} is {state}", hint)
    return _Look(answer)


_EXPLAIN_EXCHANGE = "`topolog explain exchange` says what it waits for."
