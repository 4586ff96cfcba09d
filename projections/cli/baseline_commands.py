"""`topolog cluster …` and `topolog baseline …`: whether the cluster serves, and who counts."""

import functools
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from topolog.events.errors import BadInput
from topolog.projections import baseline_graph
from topolog.projections.baseline_resources import Baseline, Branch, Join
from topolog.projections.cli import columns, moments
from topolog.projections.cli.client import Answer
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.options import Extent, Moment, Patience, Shape, Target
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.past_of_node import read_past
from topolog.projections.cli.problems import Json
from topolog.projections.cli.reading import at_most, params_of
from topolog.projections.cli.resources import BASELINES
from topolog.projections.cli.terminal import Screen, clean
from topolog.projections.cli.writing import Doubt, ask

_WHO = "`topolog get nodes` lists them."

NodesArgument = Annotated[list[str] | None, typer.Argument(metavar="NODE...", help="Names of nodes.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AcceptLoss = Annotated[
    bool, typer.Option("--accept-loss", help="Also if nobody else has a whole copy of what a dropped node holds.")
]


def activate(*, patience: Patience, target: Target, shape: Shape) -> None:
    """Read and write. The first time all servers that are online become the baseline."""
    ask({"kind": "cluster-state", "state": "ACTIVE"}, patience, target, shape)


def lease_terms(
    fence: Annotated[
        str | None, typer.Option("--fence", metavar="20s", help="So long a node may serve on one heartbeat.")
    ] = None,
    margin: Annotated[
        str | None, typer.Option("--margin", metavar="5s", help="So much longer others wait for a silent node.")
    ] = None,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Change how long leases run, and how long others wait; what is not said stays as it is.

    The longer of both waits counts until the change is confirmed, when the former wait is over: --wait accepted.
    """
    said: Json = {}
    for name, text in (("fence", fence), ("margin", margin)):
        if text is not None:
            said[f"{name}_ms"] = round(moments.seconds(text, f"--{name}") * 1000)
    if not said:
        raise BadInput("No terms are to be changed.", hint="Say what, as --fence 10s --margin 3s.")
    ask({"kind": "lease-terms", **said}, patience, target, shape)


def read_only(*, patience: Patience, target: Target, shape: Shape) -> None:
    """Read, and write nothing."""
    ask({"kind": "cluster-state", "state": "ACTIVE_READ_ONLY"}, patience, target, shape)


def deactivate(yes: Yes = False, *, patience: Patience, target: Target, shape: Shape) -> None:
    """Neither read nor write, until the cluster is activated by hand; a restart does not do that."""
    doubt = _doubt("deactivated", "Deactivate the cluster? Nothing is read or written until it is activated again.")
    ask({"kind": "cluster-state", "state": "INACTIVE"}, patience, target, shape, None if yes else doubt)


def set_members(
    nodes: NodesArgument = None,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="VIEW", help="The servers of that view, as 5.0, in place of names."),
    ] = None,
    accept_loss: AcceptLoss = False,
    yes: Yes = False,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Let exactly these nodes count, or the servers of a former view."""
    if bool(nodes) == (version is not None):
        raise BadInput("Name the nodes that are to count, or a view with --version.", hint=_WHO)
    of_version = {} if version is None else {"version": version}
    _change({"verb": "SET", "nodes": nodes or [], **of_version}, accept_loss, yes, patience, target, shape)


def add(nodes: NodesArgument = None, *, patience: Patience, target: Target, shape: Shape) -> None:
    """Let these servers count too."""
    _change({"verb": "ADD", "nodes": _named(nodes)}, False, True, patience, target, shape)


def remove(
    nodes: NodesArgument = None,
    accept_loss: AcceptLoss = False,
    yes: Yes = False,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Let these nodes, which are away, count no more; one that is online is drained instead."""
    names = _named(nodes)
    doubt = _doubt(
        "removed",
        f"Remove {', '.join(names)} from the baseline? Others get copies of what they hold, and theirs "
        "are cleared when they come back.",
    )
    _change({"verb": "REMOVE", "nodes": names}, accept_loss, yes, patience, target, shape, doubt)


def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="A server that is online.")],
    cancel: Annotated[bool, typer.Option("--cancel", help="Take it back.")] = False,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Let a server hand over all it holds while it goes on serving; then it counts no more."""
    ask({"kind": "drain", "node": node, "cancel": cancel}, patience, target, shape)


def auto_adjust(
    on: Annotated[
        bool | None, typer.Option("--on/--off", help="Whether the baseline follows the servers.", show_default=False)
    ] = None,
    soft: Annotated[
        str | None, typer.Option("--soft", metavar="5m", help="So long after the last join or leave.")
    ] = None,
    hard: Annotated[
        str | None, typer.Option("--hard", metavar="30m", help="Not later than so long after the first.")
    ] = None,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Let the baseline follow the servers by itself, or not; what is not said stays as it is."""
    said: Json = {} if on is None else {"enabled": on}
    for name, text in (("soft", soft), ("hard", hard)):
        if text is not None:
            said[f"{name}_ms"] = round(moments.seconds(text, f"--{name}") * 1000)
    if not said:
        raise BadInput("Nothing is to be changed of auto-adjust.", hint="Say what, as --on --soft 5m --hard 30m.")
    ask({"kind": "auto-adjust", **said}, patience, target, shape)


def hold(
    on: Annotated[bool | None, typer.Option("--on/--off", help="Hold it, or let it go.", show_default=False)] = None,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Keep the cluster as it is: while held, it neither activates nor adjusts its baseline by itself."""
    if on is None:
        raise BadInput("Shall the cluster be held, or let go?", hint="Say --on or --off.")
    ask({"kind": "hold", "on": on}, patience, target, shape)


def warm(yes: Yes = False, *, patience: Patience, target: Target, shape: Shape) -> None:
    """Go on with the members that are here although the cluster is cold: what only the others have is lost."""
    doubt = _doubt(
        "warmed",
        "Go on without the members that are away? What nobody here has a whole copy of is lost. "
        "--dry-run says how much that is.",
    )
    ask({"kind": "warm"}, patience, target, shape, None if yes else doubt)


def graph(
    past: Annotated[
        str | None,
        typer.Option("--past", metavar="FILE", help="Draw the branch of the node with this topolog-past.json too."),
    ] = None,
    *,
    target: Target,
    shape: Shape,
    moment: Moment,
    extent: Extent,
) -> None:
    """Draw the baselines with their branching points, newest first, and the histories of nodes that were refused."""
    content, params = None if past is None else read_past(past), params_of(moment)
    with connect(target) as api:
        answer = api.get_rows(BASELINES.path(), params, at_most(extent))
        beside = api.get(("branches",), {**params, "limit": baseline_graph.LANES_MAX}).items
        judged = None if content is None else api.judge(str(content["node"]), content, params).item
    page = functools.partial(_drawn, beside=beside, judged=judged)
    view = View(columns.BY_RESOURCE[BASELINES], BASELINES.label, page)
    print_answer(Screen(no_color=shape.no_color), shape, answer, view, is_past=moment.is_past)


def _drawn(answer: Answer, _: bool, *, beside: Sequence[Json], judged: Json | None) -> RenderableType:
    found = [msgspec.convert(each, Branch) for each in beside]
    lines = []
    if judged is not None:
        join = msgspec.convert(judged, Join)
        own = baseline_graph.of_join(join)
        found = [*([own] if own else []), *(each for each in found if each.node != join.node)]
        lines = [f"{join.kinship}: {join.sentence}", ""]
    rows = baseline_graph.rows([msgspec.convert(each, Baseline) for each in answer.items], found)
    drawn = list(baseline_graph.as_text(rows)) or ["There is no baseline yet: every server counts."]
    return Text(clean("\n".join([*lines, *drawn])))


def _named(nodes: Sequence[str] | None) -> list[str]:
    if not nodes:
        raise BadInput("Which nodes?", hint=f"Name one or more; {_WHO}")
    return list(nodes)


def _change(
    asked: Json,
    accept_loss: bool,
    yes: bool,
    patience: Patience,
    target: Target,
    shape: Shape,
    doubt: Doubt | None = None,
) -> None:
    if accept_loss:
        question = "Change the baseline though the last copies of partitions may go? They are lost then."
        doubt, asked = _doubt("changed", question), {**asked, "accept_loss": True}
    ask({"kind": "baseline", **asked}, patience, target, shape, None if yes else doubt)


def _doubt(done: str, question: str) -> Doubt:
    return Doubt(done, lambda cluster: f"{question} (cluster {cluster})")
