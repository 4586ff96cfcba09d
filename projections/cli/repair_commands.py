"""`topolog repair …`: the plan of a repair, the repair, its pace and its end; replicas that nobody serves."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from topolog.events.errors import BadInput, Refused
from topolog.projections.cli import repair_columns
from topolog.projections.cli.client import Answer, Api
from topolog.projections.cli.column import listed, size
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.options import Patience, Shape, Target
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.reading import EVERYTHING
from topolog.projections.cli.repair_options import Comparison, Direction, Following
from topolog.projections.cli.resources import REPLICAS, SESSIONS
from topolog.projections.cli.rows import Rows
from topolog.projections.cli.session_wait import await_session, show_end
from topolog.projections.cli.terminal import Screen, clean
from topolog.projections.cli.verify_commands import number_of, start
from topolog.projections.cli.writing import Doubt, ask, confirm
from topolog.projections.explain_words import LEFT_ALONE, rows

SessionArgument = Annotated[
    str | None, typer.Argument(metavar="SESSION", help="The preview: 47, or session/47 as `verify -o name` prints it.")
]
File = Annotated[
    str | None, typer.Option("--file", "-f", metavar="FILE", help="Read the session's name from a file; - is stdin.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
NumberArgument = Annotated[str, typer.Argument(metavar="SESSION", help="Its number.")]


def plan(
    session: SessionArgument = None,
    file: File = None,
    *,
    direction: Direction,
    following: Following,
    target: Target,
    shape: Shape,
) -> None:
    """Show what a repair would do about what a preview has found: rows, bytes, from whom to whom, and what it leaves
    alone. Another policy than the preview's looks at the differing rows again; nothing is written."""
    number = _named(session, file)
    with connect(target) as api:
        found = _planned(api, number, direction, following, shape)
        _show(Screen(no_color=shape.no_color), shape, api, found)


def run(  # noqa: PLR0913 (its options)
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION|TABLE", help="A preview, or a table that is compared first.")
    ] = None,
    file: File = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Wait for a repair of the same tokens that is under way.")
    ] = False,
    yes: Yes = False,
    *,
    comparison: Comparison,
    direction: Direction,
    following: Following,
    target: Target,
    shape: Shape,
) -> None:
    """Repair what a preview has found to differ, and verify it at a new read point. The plan is shown, and asked about,
    first. Exit code 0 if all is equal now, 9 if only a part, 11 if it failed."""
    screen = Screen(no_color=shape.no_color)
    with connect(target) as api:
        number = _preview_of(api, _given(session, file), comparison, direction, following, shape)
        found = _planned(api, number, direction, following, shape)
        said = found.item.get("definition") or {}
        if said.get("policy", "REPORT") == "REPORT":
            hint = "--policy pull --source R1, or --policy union --version-column changed_at"
            raise BadInput("A repair needs to know which way rows go.", hint=hint)
        if not found.item.get("differing"):
            screen.note(f"Nothing is to be repaired: preview {number} has found no row that differs.", style="")
            return
        plan_of = _plan(api, found)
        screen.aside(_page(Answer(found.status, {**found.body, "item": plan_of}), False))
        if not yes and not following.dry_run:
            what = f"write {rows(plan_of['rows'])}, {plan_of['deletes']} of them deletions"
            confirm(
                Doubt("repaired", lambda cluster: f"Repair {plan_of['table']} of cluster {cluster}: {what}?"),
                api.cluster,
            )
        body = {**_same(found.item), "session": "REPAIR", "preview": int(number_of_item(found.item)), "queues": queue}
        repair = start(api, body, following, shape)
        if repair is not None:
            show_end(screen, shape, await_session(api, repair, following.timeout, following.timeout_s))


def pause(number: NumberArgument, *, patience: Patience, target: Target, shape: Shape) -> None:
    """Begin no more segments and steps; what is asked already is finished."""
    ask({"kind": "alter-session", "session": int(number_of(number)), "paused": True}, patience, target, shape)


def resume(number: NumberArgument, *, patience: Patience, target: Target, shape: Shape) -> None:
    """Go on with a session that is paused."""
    ask({"kind": "alter-session", "session": int(number_of(number)), "paused": False}, patience, target, shape)


def pace(
    number: NumberArgument,
    intensity: Annotated[
        int | None, typer.Option("--intensity", min=1, max=100, help="How much of the time is worked, in percent.")
    ] = None,
    parallel: Annotated[int | None, typer.Option("--parallel", min=1, help="How many segments at a time.")] = None,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Change the pace of a session that runs, from its next segment on."""
    if intensity is None and parallel is None:
        raise BadInput("Nothing is to be changed.", hint="--intensity 50, --parallel 2")
    body = {"session": int(number_of(number)), "intensity": intensity, "parallel": parallel}
    ask({"kind": "alter-session", **body}, patience, target, shape)


def abort(
    number: Annotated[str | None, typer.Argument(metavar="SESSION", help="Its number.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every session that is open.")] = False,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """End a session. What it has written stays; a validator that has read of the end, or has not heard of the log for
    5 s, writes no more."""
    if every is (number is not None):
        raise BadInput("Which session is to be ended?", hint="Give its number, or --all.")
    session = None if number is None else int(number_of(number))
    ask({"kind": "abort-sessions", "session": session}, patience, target, shape)


def withdraw(
    replica: Annotated[str, typer.Argument(metavar="TABLE@NAME", help="As `topolog get replicas` lists it.")],
    yes: Yes = False,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Ask a replica no more that nobody serves; its validator declares it again when it starts."""
    table, at, name = replica.removeprefix(f"{REPLICAS.singular}/").rpartition("@")
    if not (table and at and name):
        raise BadInput(f"{replica!r} is no replica.", hint="One looks like orders@R1: `topolog get replicas -o name`.")
    effect = "Sessions that ask it something go on without it, or fail."
    doubt = Doubt("withdrawn", lambda cluster: f"Withdraw replica {table}@{name} of cluster {cluster}? {effect}")
    ask({"kind": "withdraw-replica", "table": table, "name": name}, patience, target, shape, None if yes else doubt)


# What a repair would do.


def _named(session: str | None, file: str | None) -> str:
    return number_of(_given(session, file))


def _given(session: str | None, file: str | None) -> str:
    """What is named on the command line or, in one line, by a file."""
    if (session is None) is (file is None):
        raise BadInput("Which preview?", hint="Give its number, or -f - to read it from `topolog verify … -o name`.")
    if session is not None:
        return session
    try:
        text = sys.stdin.read() if file == "-" else _read(str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} cannot be read: {error}.") from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        what = "nothing" if not lines else f"{len(lines)} lines"
        raise BadInput(
            f"{'stdin' if file == '-' else file} has {what}, and names no session.", hint="-o name prints one."
        )
    return lines[0]


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as opened:  # noqa: PTH123  # a path of the user's, as he typed it
        return opened.read()


def _preview_of(
    api: Api, given: str, comparison: Comparison, direction: Direction, following: Following, shape: Shape
) -> str:
    """The preview that is named, or one of the table that is named, made now."""
    if given.removeprefix(f"{SESSIONS.singular}/").isdecimal():
        return number_of(given)
    body = {**comparison.body(given), **direction.body(), "session": "PREVIEW"}
    if not direction.is_given:
        raise BadInput("A repair needs to know which way rows go.", hint="--policy pull --source R1")
    return _started(api, body, following, shape)


def _started(api: Api, body: Json, following: Following, shape: Shape) -> str:
    """The number of a preview that must be seen through before anything can be said."""
    if following.dry_run or not following.wait:
        raise BadInput("The plan comes of a preview, which has to be waited for.", hint="`topolog verify` makes one.")
    number = start(api, body, following, shape)
    assert number is not None, "what is followed has a number"
    return number


def _planned(api: Api, number: str, direction: Direction, following: Following, shape: Shape) -> Answer:
    """The preview whose plan is wanted, ended: the one that is named, or another with the policy that is given."""
    found = await_session(api, number, following.timeout, following.timeout_s)
    if found.item.get("kind") != "PREVIEW":
        raise BadInput(
            f"Session {number} is a repair.", hint=f"`topolog describe repair {number}` shows what it moves."
        )
    if found.item.get("state") not in ("SUCCEEDED", "PARTIAL"):
        message = f"Preview {number} ended as {found.item.get('state')}, so there is nothing to plan by."
        raise Refused(
            str(found.item.get("code") or "NO_PREVIEW"), "", message, hint=f"`topolog explain session {number}`."
        )
    if not direction.is_given or not found.item.get("differing") or _is_same(found.item, direction.body()):
        return found
    body = {**_same(found.item), **direction.body(), "session": "PREVIEW", "preview": int(number)}
    Screen(no_color=shape.no_color).note("Another policy than the preview's: the rows that differ are looked at again.")
    again = _started(api, body, following, shape)
    return await_session(api, again, following.timeout, following.timeout_s)


_DIRECTION = ("policy", "source", "version_column", "tombstone_column", "deletes_extra")


def _is_same(session: Json, wanted: Json) -> bool:
    said: Mapping[str, Any] = session.get("definition") or {}
    return all((said.get(name) or "") == (wanted[name] or "") for name in _DIRECTION)


def _same(session: Json) -> Json:
    """What was asked for, as the API takes it again, but for what it was to be."""
    said = dict(session.get("definition") or {})
    for name in ("kind", "preview", "queues", "reviewed_at_ms", "tokens"):
        said.pop(name, None)
    return said


def number_of_item(session: Json) -> str:
    return str(session.get("number"))


def _plan(api: Api, found: Answer) -> Json:
    """What a repair over this preview would move, with an estimate of the bytes."""
    session = found.item
    replicas = api.get_rows(REPLICAS.path(), {"table": str(session.get("table"))}, EVERYTHING).items
    row_bytes = {str(each.get("replica")): int(each.get("row_bytes") or 0) for each in replicas}
    copies = [
        {**each, "bytes": (int(str(each["rows"])) - int(str(each["deletes"]))) * row_bytes.get(str(each["source"]), 0)}
        for each in listed(session, "copies")
    ]
    return {
        "session": session.get("number"),
        "table": session.get("table"),
        "policy": session.get("policy"),
        "source": session.get("source"),
        "rows_differ": session.get("rows_differ"),
        "rows": sum(int(str(each["rows"])) for each in copies),
        "deletes": sum(int(str(each["deletes"])) for each in copies),
        "bytes": sum(int(str(each["bytes"])) for each in copies),
        "copies": copies,
        "unresolved": session.get("unresolved") or {},
        "ranges": session.get("differing") or [],
        "covered_percent": session.get("covered_percent"),
    }


def _show(screen: Screen, shape: Shape, api: Api, found: Answer) -> None:
    answer = Answer(found.status, {**found.body, "kind": "RepairPlan", "item": _plan(api, found)})
    print_answer(screen, shape, answer, View(repair_columns.PLAN, lambda item: f"session/{item.get('session')}", _page))


def _page(answer: Answer, wide: bool) -> RenderableType:
    item = answer.item
    source = f" from {item['source']}" if item.get("source") else ""
    head = f"{rows(item.get('rows_differ'))} of {item.get('table')} differ; policy {item.get('policy')}{source}."
    parts: list[RenderableType] = [Text(clean(head), style="bold")]
    if item.get("copies"):
        parts += [Text(""), Rows(item["copies"], repair_columns.COPIES, wide=wide), Text("")]
        deletes = f", {item.get('deletes')} of them deletions" if item.get("deletes") else ""
        parts.append(
            Text(f"{rows(item.get('rows'))} would be written{deletes}, about {size(int(item.get('bytes') or 0))}.")
        )
    else:
        parts.append(Text("Nothing would be written."))
    parts += [Text(clean(line)) for line in _left_alone(item.get("unresolved") or {})]
    if int(item.get("covered_percent") or 0) < 100:
        parts.append(Text(f"The preview covers {item.get('covered_percent')} % of what was asked for.", style="yellow"))
    if item.get("copies"):
        parts.append(Text(f"`topolog repair run {item.get('session')}` does that, and verifies it.", style="dim"))
    return Group(*parts)


def _left_alone(unresolved: Mapping[str, object]) -> Sequence[str]:
    return [f"{rows(count)} left alone: {LEFT_ALONE.get(name, name)}." for name, count in unresolved.items()]
