"""Following a session of anti-entropy to its end, and the exit code that it means."""

import time
from collections.abc import Mapping

import typer

from topolog.events.errors import NotCaughtUp
from topolog.projections.cli import columns
from topolog.projections.cli.client import Answer, Api
from topolog.projections.cli.column import listed, size
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.options import Shape
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.pausing import Pause
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import SESSIONS
from topolog.projections.cli.terminal import Screen, StatusLine
from topolog.projections.durations import ago
from topolog.projections.explain_words import rows

_TELL_S = 1.0
"""How often the line is drawn anew while nothing is decided: readers tell of rows and bytes in between."""

OPEN = ("QUEUED", "RUNNING")
_TOLD_MAX = 2


def await_session(api: Api, number: str, timeout: str | None = None, timeout_s: float | None = None) -> Answer:
    """The session once it has ended, its progress on a terminal meanwhile; raises NotCaughtUp if it takes longer.

    Who stops this with Ctrl-C is told that the session goes on.
    """
    deadline_s, pause = None if timeout_s is None else time.monotonic() + timeout_s, Pause(api, SESSIONS.path())
    try:
        with StatusLine() as line:
            while (answer := api.get(SESSIONS.path(number), {})).item.get("state") in OPEN:
                line.show(progress(answer.item))
                left_s = _TELL_S if deadline_s is None else deadline_s - time.monotonic()
                if left_s <= 0:
                    raise NotCaughtUp(
                        f"Session {number} did not end within {timeout}, and goes on.", hint=_hint(number)
                    )
                pause.until_change(answer, min(_TELL_S, left_s))
    except KeyboardInterrupt:
        Screen().note(f"Session {number} goes on: {_hint(number)}", style="")
        raise
    return answer


def _hint(number: str) -> str:
    return f"`topolog wait session/{number}` follows it, `topolog repair abort {number}` ends it."


def progress(session: Json) -> str:
    """`session 47: 1/4 segments, 31 %, 1200000 rows 81.6 MB read; R2 LEAVES 40 %; about 12 s more`."""
    about = f"session {session.get('number')}"
    if session.get("state") == "QUEUED":
        return f"{about}: waits {ago(int(session.get('age_ms') or 0))} for another repair"
    done = f"{session.get('segments_done')}/{session.get('segments')} segments, {session.get('percent') or 0} %"
    tasks = [each for each in listed(session, "tasks") if each.get("state") == "ASSIGNED"]
    under_way = sum(int(str(each.get("rows") or 0)) for each in tasks)
    bytes_ = sum(int(str(each.get("bytes") or 0)) for each in tasks) + int(session.get("bytes_read") or 0)
    read = f"{int(session.get('rows_read') or 0) + under_way} rows, {size(bytes_)} read"
    written = f", {session['rows_written']} of {session.get('to_copy')} written" if session.get("rows_written") else ""
    whom = ", ".join(_task(each) for each in tasks[:_TOLD_MAX])
    more = f" and {len(tasks) - _TOLD_MAX} more" if len(tasks) > _TOLD_MAX else ""
    eta = session.get("eta_ms")
    rest = f"; about {ago(int(eta))} more" if eta is not None else ""
    paused = "; paused" if session.get("paused") else ""
    return f"{about}: {done}, {read}{written}{f'; {whom}{more}' if whom else ''}{paused}{rest}"


def _task(task: Mapping[str, object]) -> str:
    percent = f" {task['percent']} %" if task.get("percent") is not None else ""
    return f"{task.get('replica')} {task.get('kind')}{percent}"


def show_end(screen: Screen, shape: Shape, answer: Answer) -> None:
    """The session; to people also what it means and what to do next. Exits with the code that it means."""
    print_answer(screen, shape, answer, View(columns.BY_RESOURCE[SESSIONS], SESSIONS.label))
    if shape.output.is_for_people:
        screen.note(in_words(answer.item), style="")
    code = meaning(answer.item)
    if code is not ExitCode.OK:
        raise typer.Exit(code)


def meaning(session: Json) -> ExitCode:
    """The exit code of a session that has ended. A preview that found differences has found something, however much it
    covers; a repair that could not make all equal is partial."""
    state, verdict = session.get("state"), session.get("verdict")
    is_preview = session.get("kind") == "PREVIEW"
    if verdict == "DIFFER" and is_preview and state in ("SUCCEEDED", "PARTIAL"):
        return ExitCode.FOUND
    if verdict == "INCONCLUSIVE":
        return ExitCode.INCONCLUSIVE
    if state == "PARTIAL":
        return ExitCode.PARTIAL
    return ExitCode.OK if state == "SUCCEEDED" else ExitCode.FAILED


def in_words(session: Json) -> str:
    """What a session that has ended says, in a sentence or two."""
    number, table = session.get("number"), session.get("table")
    covered = int(session.get("covered_percent") or 0)
    part = "" if covered == 100 else f" Only {covered} % of what was asked for is covered."
    message = str(session.get("message") or "")
    why = f" {message}{'' if message.endswith('.') else '.'}" if message else ""
    match session.get("verdict"):
        case "DIFFER" if session.get("kind") == "PREVIEW":
            kinds = ", ".join(f"{count} {kind}" for kind, count in (session.get("kinds") or {}).items())
            count = int(session.get("rows_differ") or 0)
            differ = (
                f"{rows(count)} of {table} differ" if count else f"Whole leaves of {table} differ: rows not counted"
            )
            said = f"{differ}{f' ({kinds})' if kinds else ''}.{part}"
            return f"{said} `topolog get differences --session {number}`, `topolog repair plan {number}`."
        case "AGREE":
            return f"The replicas of {table} agree.{part}"
        case "REPAIRED":
            return f"The replicas of {table} agree now: {rows(session.get('rows_written'))} written.{part}"
        case "INCONCLUSIVE":
            return f"The replicas of {table} differ, but it is not sure that they differ at one moment.{why}"
    return f"Session {number}: {session.get('state')}.{why}{part} `topolog explain session {number}` says more."
