"""The commands that ask for a change. The API appends the request, the coordinator decides."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from topolog.events.errors import BadInput, MergeConflict, OutcomeUnknown, TopologError
from topolog.projections.cli import columns, moments
from topolog.projections.cli.client import Answer, Api
from topolog.projections.cli.conflict import advice, sides_table
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.definition_file import read_definition
from topolog.projections.cli.options import NameArgument, Patience, RemoveArgument, Shape, Target, Wait
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.pages import dry_run_page
from topolog.projections.cli.problems import Json, how_to_ask_again
from topolog.projections.cli.resources import NODES, REMOVABLE, TYPES, check_request_id, find_named
from topolog.projections.cli.terminal import Screen
from topolog.projections.cli.transport import Param


def propose(
    file: Annotated[str, typer.Option("--file", "-f", metavar="FILE", help="A definition, JSON or YAML; - is stdin.")],
    based_on: Annotated[
        int | None,
        typer.Option("--based-on", metavar="N", min=0, help="The version of the type that this was made from."),
    ] = None,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Propose a definition of a type: its fields are added to what stands, a contradiction is refused (exit code 5)."""
    check_request_id(patience.request_id)
    definition = read_definition(file).to_dict()
    ask({"kind": "propose", "definition": definition, "based_on": based_on}, patience, target, shape)


def remove(
    resource: RemoveArgument,
    name: NameArgument = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Remove a type from the cluster, or a node from its members."""
    kind, name = find_named(resource, name, among=REMOVABLE)
    effect = (
        "Every member forgets it, and what was built on its versions never comes back."
        if kind is TYPES
        else "Its lease is not renewed, and it is out when the lease is over."
    )
    doubt = Doubt("removed", lambda cluster: f"Remove {kind.singular} {name} from cluster {cluster}? {effect}", name)
    request = {"kind": "remove", "resource": kind.singular, "name": name}
    ask(request, patience, target, shape, None if yes else doubt)


def raise_level(
    level: Annotated[int, typer.Argument(metavar="LEVEL", min=1, help="The feature level that shall be in force.")],
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Let newer schemas be written, once every member is of a version that reads them; a level never falls again."""
    ask({"kind": "raise-level", "level": level}, patience, target, shape)


@dataclass(frozen=True)
class Doubt:
    """What is asked before something that stops service or cannot be taken back: `question` of the cluster's name, and
    what was not `done` after a no. `name`: what has to be typed, for a yes is typed before it is read; empty where a
    yes is enough."""

    done: str
    question: Callable[[str], str]
    name: str = ""


def ask(request: Json, patience: Patience, target: Target, shape: Shape, doubt: Doubt | None = None) -> None:
    """Make the request, once the doubt about it is over, and show its outcome; a dry run changes nothing."""
    check_request_id(patience.request_id)
    moments.seconds(patience.decided_within, "--timeout")  # before anybody is asked anything
    with connect(target) as api:
        if doubt is not None and not patience.dry_run:
            confirm(doubt, api.cluster)
        follow(api, {**request, "reason": patience.reason}, patience, shape)


def confirm(doubt: Doubt, cluster: str) -> None:
    """Ask on a terminal; BadInput where nobody can be asked, exit 1 for a no."""
    if not sys.stdin.isatty():
        raise BadInput(f"Nothing was {doubt.done}: nobody is here to be asked.", hint="--yes asks no question.")
    if not _is_agreed(doubt, cluster):
        Screen().note(f"Nothing was {doubt.done}.", style="")
        raise typer.Exit(1)


def _is_agreed(doubt: Doubt, cluster: str) -> bool:
    if not doubt.name:
        return bool(typer.confirm(doubt.question(cluster), err=True))
    question = f"{doubt.question(cluster)} Its name, to go on"
    typed = typer.prompt(question, default="", show_default=False, err=True)
    return str(typed).strip() == doubt.name


def follow(
    api: Api, request: Json, patience: Patience, shape: Shape, *, is_shown: bool = True, is_alone: bool = True
) -> Json:
    """Make the request, show its outcome and return it; raises what it means if it is not the one that was wanted.

    `is_shown`: not if something more is awaited, which is shown then; `is_alone`: not if it is one of several, which
    are shown together whatever becomes of them.
    """
    check_request_id(patience.request_id)
    timeout_s = moments.seconds(patience.decided_within, "--timeout")
    screen = Screen(no_color=shape.no_color)
    params: dict[str, Param] = {"wait": patience.awaits.value, "timeout": patience.decided_within}
    if patience.dry_run:
        params = {"dry_run": "true"}
    try:
        answer = api.submit(request, params, timeout_s, patience.request_id)
    except KeyboardInterrupt:
        asking = f"request {patience.request_id}" if patience.request_id else "requests"
        screen.note(f"The request may have been made: `topolog get {asking}` shows what was decided.", style="")
        raise
    if answer.is_refusal:
        raise _shown_refusal(screen, shape, answer) if is_alone else answer.error
    if patience.dry_run:
        if is_alone:
            print_answer(screen, shape, answer, View(columns.DRY_RUN, _label, dry_run_page))
        return answer.item
    if not is_shown and answer.item.get("status") != "UNKNOWN":
        return answer.item
    if is_alone:
        print_answer(screen, shape, answer, View(columns.OUTCOME, _label))
    if is_alone and shape.output.is_for_people and answer.item.get("token"):
        screen.note(f"A read with --at-least {answer.item['token']} holds this.")
    _note_stopping(screen, request, answer.item, patience)
    _check(answer.item, patience)
    return answer.item


def _note_stopping(screen: Screen, request: Json, outcome: Json, patience: Patience) -> None:
    """Say of a node that is to be removed that it is not out yet, unless that was waited for."""
    is_removal = request["kind"] == "remove" and request["resource"] == NODES.singular
    is_stopping = outcome.get("status") in ("GRANTED", "UNCHANGED") and not outcome.get("accepted")
    if is_removal and is_stopping and patience.awaits is not Wait.ACCEPTED:
        screen.note(
            f"{request['name']} is asked to stop; it is out when its lease is over at the latest (--wait accepted "
            "waits for that)"
        )


def _check(outcome: Json, patience: Patience) -> None:
    """Raise OutcomeUnknown if less is known than the caller waited for."""
    request_id, subject = str(outcome.get("id", "")), str(outcome.get("subject") or "the request")
    if patience.awaits is Wait.NONE:
        return
    if outcome.get("status") == "UNKNOWN":
        raise OutcomeUnknown(
            f"Request {request_id} was not decided within {patience.decided_within}: its outcome is unknown.",
            request_id=request_id,
            hint=how_to_ask_again(request_id),
        )
    if patience.awaits is Wait.ACCEPTED and not outcome.get("accepted"):
        raise OutcomeUnknown(
            f"Request {request_id} is granted, but not every member accepted {subject} within "
            f"{patience.decided_within}.",
            request_id=request_id,
            hint=f"`topolog explain {_explained(subject)}` says who was asked.",
        )


def _explained(subject: str) -> str:
    """The thing of which `explain` says what a request about `subject` waits for."""
    return subject if "/" in subject or (" " in subject and not subject.startswith("cluster")) else "cluster"


def _shown_refusal(screen: Screen, shape: Shape, answer: Answer) -> TopologError:
    """The refusal as an error, once its evidence is shown: both sides of a conflict, or all of it to a program."""
    error = answer.error
    if shape.output.is_document:
        print_answer(screen, shape, Answer(answer.status, {"kind": "Refusal", **answer.body}), View((), _label))
    elif isinstance(error, MergeConflict):
        screen.aside(sides_table(answer.body["current"], answer.body["proposed"]))
    if isinstance(error, MergeConflict) and not error.hint:
        error.hint = advice(error.rule, str(answer.body["current"].get("name", "")))
    return error


def _label(outcome: Json) -> str:
    """What the outcome is about as `-o name` prints it, `type/Customer`; before it is known, the request."""
    subject = str(outcome.get("subject") or "")
    return subject.replace(" ", "/", 1) if subject else f"request/{outcome.get('id', '?')}"
