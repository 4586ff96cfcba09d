"""The command that waits: `topolog wait exchange/4.0 --for=Completed`, `topolog wait group/orders --for=Settled`.

A group is settled when nothing more will change by itself: no exchange is open, every copy that is there is whole and
wanted, and the wanted primaries act. What is lost stays as it is until somebody does something.
"""

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from topolog.events.errors import BadInput, NotCaughtUp, NotFound
from topolog.projections.cli import columns, moments
from topolog.projections.cli.change_wait import Until, await_change
from topolog.projections.cli.client import Answer, Api
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.options import NameArgument, Shape, Target, WaitArgument
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import AWAITED, CHANGES, EXCHANGES, GROUPS, PARTITIONS, SESSIONS, find_named
from topolog.projections.cli.session_wait import await_session, show_end
from topolog.projections.cli.terminal import Screen
from topolog.projections.cli.transport import Param

_PAUSE_S = 0.1
"""Between two looks: shorter than anybody notices, longer than a look takes."""


class Awaited(StrEnum):
    COMPLETED = "Completed"
    SETTLED = "Settled"
    COMMITTED = "Committed"
    DELETED = "Deleted"
    OVER = "Over"


_USUAL = {
    EXCHANGES: (Awaited.COMPLETED,),
    GROUPS: (Awaited.SETTLED,),
    CHANGES: (Awaited.COMMITTED, Awaited.DELETED, Awaited.OVER),
    SESSIONS: (Awaited.OVER,),
}
_UNSETTLED = ("PAUSED", "MOVING", "SWITCHING", "RENTING")


def wait(
    resource: WaitArgument,
    name: NameArgument = None,
    until: Annotated[
        Awaited | None,
        typer.Option(
            "--for",
            case_sensitive=False,
            help="Completed, of an exchange; Settled, of a group; Over, of a session; of a change any of the others.",
        ),
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="60s", help="How long to wait for that.")] = "60s",
    *,
    target: Target,
    shape: Shape,
) -> None:
    """Wait until an exchange is completed, without a version the newest, until a group has come to rest, until a change
    is in force (exit code 5 if it is rolled back), or until a session has ended (with its exit code). Exit code 7 if it
    takes longer."""
    kind, name = find_named(resource, name, among=AWAITED)
    if until not in (None, *_USUAL[kind]):
        hint = f"Wait for it with --for={' or '.join(_USUAL[kind])}."
        raise BadInput(f"No {kind.singular} is {until} one day.", hint=hint)
    timeout_s = moments.seconds(timeout, "--timeout")
    if kind is SESSIONS:
        _wait_for_session(name, timeout, timeout_s, target, shape)
        return
    if kind is CHANGES:
        _wait_for_change(name, Until(until or Awaited.COMMITTED), timeout, timeout_s, target, shape)
        return
    deadline_s = time.monotonic() + timeout_s
    with connect(target) as api:
        while (answer := _completed(api, name) if kind is EXCHANGES else _settled(api, name)).is_awaited:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise NotCaughtUp(f"{answer.why} within {timeout}.", hint=answer.hint)
            time.sleep(min(_PAUSE_S, left_s))
    assert answer.found is not None, "what nobody has seen is awaited"
    print_answer(Screen(no_color=shape.no_color), shape, answer.found, View(columns.BY_RESOURCE[kind], kind.label))


def _wait_for_change(number: str, until: Until, timeout: str, timeout_s: float, target: Target, shape: Shape) -> None:
    with connect(target) as api:
        answer = await_change(api, number, until, timeout, timeout_s)
    print_answer(Screen(no_color=shape.no_color), shape, answer, View(columns.BY_RESOURCE[CHANGES], CHANGES.label))


def _wait_for_session(number: str, timeout: str, timeout_s: float, target: Target, shape: Shape) -> None:
    with connect(target) as api:
        answer = await_session(api, number, timeout, timeout_s)
    show_end(Screen(no_color=shape.no_color), shape, answer)


@dataclass(frozen=True)
class _Look:
    """What one look has found; `why` it is not what is waited for, "" if it is."""

    found: Answer | None
    why: str = ""
    hint: str = ""

    @property
    def is_awaited(self) -> bool:
        return bool(self.why)


def _completed(api: Api, version: str) -> _Look:
    try:
        answer = api.get(EXCHANGES.path(version), {})
    except NotFound:  # it may begin yet
        named = "" if version == EXCHANGES.unnamed else f" {version}"
        return _Look(None, f"There was no exchange{named}", "`topolog get exchanges` lists them.")
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
    if late := [str(node) for node in exchange.get("overdue") or () if node in awaited]:
        return f"overdue since position {exchange.get('overdue_at')}: {', '.join(late)}"
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
