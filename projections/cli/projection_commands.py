"""`topolog projection …`: the stores of the process that answers. Nothing here asks anything of the cluster."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from topolog.events.errors import NotCaughtUp, TopologError
from topolog.projections.cli import moments
from topolog.projections.cli.client import Answer, Api
from topolog.projections.cli.column import listed, size
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.options import Shape, Target
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.process_columns import BY_RESOURCE
from topolog.projections.cli.resources import PROJECTIONS
from topolog.projections.cli.rows import Rows
from topolog.projections.cli.terminal import Screen, StatusLine, clean
from topolog.projections.durations import ago

_PATH = PROJECTIONS.path()
_PAUSE_S = 0.2
_BAR = 24

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this one: its number, building or refused.")]


@dataclass(frozen=True)
class Asking:
    """Why something is asked for."""

    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with it, and in the log.")] = ""


@dataclass(frozen=True)
class Awaiting:
    """Whether its end is waited for."""

    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end; progress is told on a terminal.")] = False
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="10m", help="How long to wait; it goes on.", show_default="to its end"),
    ] = None

    @property
    def timeout_s(self) -> float | None:
        return None if self.timeout is None else moments.seconds(self.timeout, "--timeout")


def status(name: Name = None, *, target: Target, shape: Shape) -> None:
    """What is shown, built, kept for a way back, refused. Exit code 8 if what is shown is damaged."""
    with connect(target) as api:
        answer = api.get((*_PATH, name) if name else _PATH, {})
    print_answer(Screen(no_color=shape.no_color), shape, answer, _VIEW)
    if any(item.get("name") not in _NAMED and item.get("state") == "DAMAGED" for item in answer.items[:1]):
        raise typer.Exit(ExitCode.FOUND)


def rebuild(
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="RECORDS", help="At most so many records per second.")
    ] = None,
    *,
    asking: Asking,
    awaiting: Awaiting,
    target: Target,
    shape: Shape,
) -> None:
    """Build another store from the log beside the one that is shown, compare them, and show the new one. Reads go
    on."""
    _begin({"action": "rebuild", "reason": asking.reason, "rate": rate}, awaiting, target, shape)


def back(*, asking: Asking, awaiting: Awaiting, target: Target, shape: Shape) -> None:
    """Show the former store again, once it has been read on to the end of the log."""
    _begin({"action": "back", "reason": asking.reason}, awaiting, target, shape)


def cancel(*, asking: Asking, target: Target, shape: Shape) -> None:
    """Give up what is being built; what is shown stays."""
    _act({"action": "cancel", "reason": asking.reason}, target, shape)


def pause(*, asking: Asking, target: Target, shape: Shape) -> None:
    """Read the log no further. Answers go on and say how old they are; it holds over restarts."""
    _act({"action": "pause", "reason": asking.reason}, target, shape)


def resume(*, asking: Asking, target: Target, shape: Shape) -> None:
    """Read on."""
    _act({"action": "resume", "reason": asking.reason}, target, shape)


def drop(*, asking: Asking, target: Target, shape: Shape) -> None:
    """Remove the former store, and those that were set aside for damage: there is no way back then."""
    _act({"action": "drop-former", "reason": asking.reason}, target, shape)


def scrub(*, asking: Asking, awaiting: Awaiting, target: Target, shape: Shape) -> None:
    """Read every block of the store from the disk, to find what has rotted. Exit code 8 with --wait if something
    has."""
    screen = Screen(no_color=shape.no_color)
    with connect(target) as api:
        before = _scrub_of(api.get(_PATH, {})).get("time")
        api.act_on_projections({"action": "scrub", "reason": asking.reason})
        if not awaiting.wait:
            screen.note("It is being read; `topolog projection status -o wide` says how far.")
            return
        answer = _awaited(api, awaiting, lambda found: _is_scrubbed(found, before), _told_of_scrub)
    print_answer(screen, shape, answer, _VIEW)
    if listed(_scrub_of(answer), "findings"):
        raise typer.Exit(ExitCode.FOUND)


def _act(body: Json, target: Target, shape: Shape) -> None:
    with connect(target) as api:
        answer = api.act_on_projections(body)
    print_answer(Screen(no_color=shape.no_color), shape, answer, _VIEW)


def _begin(body: Json, awaiting: Awaiting, target: Target, shape: Shape) -> None:
    with connect(target) as api:
        answer = api.act_on_projections({name: value for name, value in body.items() if value is not None})
        if awaiting.wait:
            shown = _by_name(answer).get("building") or {}
            answer = _awaited(api, awaiting, _is_built, _told_of_build)
            _check_built(answer, shown)
    print_answer(Screen(no_color=shape.no_color), shape, answer, _VIEW)


def _check_built(answer: Answer, ordered: Json) -> None:
    """Raises TopologError with the reason if what was asked for came to nothing."""
    refused = _by_name(answer).get("refused")
    if refused and refused.get("started_at") == ordered.get("started_at"):
        raise TopologError(f"It came to nothing: {refused.get('why')}")


def _awaited(api: Api, awaiting: Awaiting, is_over: Callable[[Answer], bool], tell: Callable[[Answer], str]) -> Answer:
    deadline_s = None if awaiting.timeout_s is None else time.monotonic() + awaiting.timeout_s
    try:
        with StatusLine() as line:
            while not is_over(answer := api.get(_PATH, {})):
                line.show(tell(answer))
                left_s = _PAUSE_S if deadline_s is None else deadline_s - time.monotonic()
                if left_s <= 0:
                    raise NotCaughtUp(f"It did not end within {awaiting.timeout}, and goes on.", hint=_HINT)
                time.sleep(min(_PAUSE_S, left_s))
    except KeyboardInterrupt:
        Screen().note(f"It goes on: {_HINT}", style="")
        raise
    return answer


def _is_built(answer: Answer) -> bool:
    return "building" not in _by_name(answer)


def _is_scrubbed(answer: Answer, before: object) -> bool:
    found = _scrub_of(answer)
    return found.get("state") in ("WELL", "FOUND") and found.get("time") != before


def _scrub_of(answer: Answer) -> Json:
    found: Json | None = answer.items[0].get("scrub") if answer.items else None
    return found or {}


def _by_name(answer: Answer) -> dict[str, Json]:
    return {str(item.get("name")): item for item in answer.items}


def _told_of_build(answer: Answer) -> str:
    """`FOLDING [######------] 48 %, 57,312 of 120,000, 11,204 records/s, 5 s more`."""
    item = _by_name(answer)["building"]
    position, of, rate, eta = (item.get(name) for name in ("position", "of", "rate", "eta_s"))
    phase = str(item.get("phase"))
    if position is None or of is None or phase != "FOLDING":
        return f"{phase}: {item.get('why')}" if phase == "WAITING" else phase
    rest = f", {ago(int(eta) * 1000)} more" if eta is not None else ""
    return f"{phase} {_bar(position + 1, of + 1)}, {position:,} of {of:,}, {rate or 0:,.0f} records/s{rest}"


def _told_of_scrub(answer: Answer) -> str:
    found = _scrub_of(answer)
    done, of = int(str(found.get("bytes") or 0)), int(str(found.get("of") or 0))
    return f"reading {_bar(done, of)}, {size(done)}"


def _bar(done: int, of: int) -> str:
    share = min(1.0, done / of) if of > 0 else 0.0
    filled = round(share * _BAR)
    return f"[{'#' * filled}{'-' * (_BAR - filled)}] {share:.0%}"


def _page(answer: Answer, wide: bool) -> RenderableType:
    parts: list[RenderableType] = [Rows(answer.items, _COLUMNS, wide=wide)]
    for item in answer.items:
        compared = item.get("compared")
        if isinstance(compared, Mapping) and compared.get("differences"):
            examples = ", ".join(map(str, compared.get("examples") or ()))
            text = f"{item['name']}: {compared['differences']} of {compared['rows']} rows differ from those of "
            parts.append(Text(clean(f"\n{text}{compared['store']}: {examples}")))
        found = listed(item.get("scrub") or {}, "findings")
        parts += [Text(clean(f"\n{item['name']}: {each.get('place')}: {each.get('what')}")) for each in found]
    return Group(*parts)


_HINT = "`topolog projection status` shows it, `topolog projection cancel` ends it."
_NAMED = ("building", "refused")
_COLUMNS = BY_RESOURCE[PROJECTIONS]
_VIEW = View(_COLUMNS, PROJECTIONS.label, _page)
