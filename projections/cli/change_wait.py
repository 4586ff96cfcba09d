"""Waiting for a change of objects, and saying meanwhile for whom it waits."""

import time
from collections.abc import Mapping
from enum import StrEnum

from topolog.events.errors import NotCaughtUp, Refused
from topolog.projections.cli.client import Answer, Api
from topolog.projections.cli.column import names
from topolog.projections.cli.pausing import Pause
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import CHANGES
from topolog.projections.cli.terminal import StatusLine
from topolog.projections.durations import ago

_TELL_S = 1.0
"""How often the line is drawn anew while nothing happens: it has times in it."""

_OPEN = ("QUEUED", "PREPARED")


class Until(StrEnum):
    """How far a change is to come: in force, its data deleted everywhere too, or over in whatever way."""

    COMMITTED = "Committed"
    DELETED = "Deleted"
    OVER = "Over"


def await_change(api: Api, number: str, until: Until, timeout: str, timeout_s: float) -> Answer:
    """The change once it has come so far; raises Refused with what rolled it back, unless its end alone is awaited, and
    NotCaughtUp if it takes longer."""
    deadline_s, pause = time.monotonic() + timeout_s, Pause(api, CHANGES.path())
    with StatusLine() as line:
        while _is_on_its_way((answer := api.get(CHANGES.path(number), {})).item, until):
            line.show(progress(answer.item))
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise NotCaughtUp(f"{_late(answer.item)} longer than {timeout}.", hint=_HINT.format(number))
            pause.until_change(answer, min(_TELL_S, left_s))
    found = answer.item
    if found.get("state") == "ROLLED_BACK" and until is not Until.OVER:
        raise rolled_back(found)
    return answer


_HINT = "`topolog explain change {0}` says for whom it waits, `topolog cancel change/{0}` gives it up."


def rolled_back(change: Json) -> Refused:
    facts: Mapping[str, str] = {str(name): str(text) for name, text in (change.get("facts") or {}).items()}
    message = f"Change {change.get('number')} was rolled back, and everything is as it was: {change.get('message')}"
    hint = f"`topolog explain change {change.get('number')}` says more."
    return Refused(str(change.get("code") or ""), str(change.get("rule") or ""), message, facts, hint=hint)


def progress(change: Json) -> str:
    """`change 47: prepared, waiting 14 s for n3, at most 11 s more`."""
    about = f"change {change.get('number')} ({change.get('does')})"
    waited = ago(int(change.get("age_ms") or 0))
    match change.get("state"):
        case "QUEUED":
            behind = ", ".join(f"change {number}" for number in names(change.get("behind")))
            return f"{about}: waiting {waited} behind {behind or 'nobody any more'}"
        case "PREPARED":
            whom = ", ".join(map(str, names(change.get("silent")) or names(change.get("asked"))))
            at_most_ms = change.get("at_most_ms")
            rest = "" if at_most_ms is None else f", at most {ago(int(at_most_ms))} more"
            return f"{about}: waiting {waited} for {whom or 'nobody'}{rest}"
        case "COMMITTED":
            return (
                f"{about}: in force, waiting for {', '.join(map(str, names(change.get('undeleted'))))} to delete data"
            )
    return about


def _is_on_its_way(change: Json, until: Until) -> bool:
    if change.get("state") in _OPEN:
        return True
    return until is Until.DELETED and change.get("state") == "COMMITTED" and bool(change.get("undeleted"))


def _late(change: Json) -> str:
    said = progress(change)
    return f"{said[0].upper()}{said[1:]}; that takes"
