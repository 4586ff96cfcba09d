"""`topolog status`: the cluster on one screen, and one exit code that says whether it is well."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from topolog.projections.cli.client import Answer
from topolog.projections.cli.column import Column, field, listed, names, to_the_second
from topolog.projections.cli.connecting import connect
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.options import Moment, Shape, Target
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.reading import params_of
from topolog.projections.cli.resources import CLUSTER
from topolog.projections.cli.terminal import Screen, clean
from topolog.projections.durations import ago
from topolog.projections.sentences import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = (
    field("NAME", "name"),
    field("WELL", "is_well"),
    field("WHY", "why", folds=True),
    field("COORDINATOR", "leader.name"),
    Column("SILENT", lambda item: [each.get("node") for each in listed(item, "silent")]),
    field("REFUSED", "refused_joins"),
    field("WAITS", "waits_in_all"),
)


def status(*, target: Target, shape: Shape, moment: Moment) -> None:
    """Whether the cluster is well, on one screen: what is lost or paused, who leads, who is silent and what hangs on
    it, what waits for whom, what went wrong last. Exit code 8 if it is not well."""
    with connect(replace(target, no_session=True)) as api:
        answer = api.get(("status",), params_of(moment))
    view = View(_COLUMNS, CLUSTER.label, _page)
    print_answer(Screen(no_color=shape.no_color), shape, answer, view, is_past=moment.is_past)
    if not answer.item.get("is_well") or answer.as_of.get("stopped"):
        raise typer.Exit(ExitCode.FOUND)


def _page(answer: Answer, _: bool) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    item = answer.item
    is_well = bool(item.get("is_well"))
    head = Text.assemble(
        (f"Cluster {clean(str(item.get('name')))} is {'well' if is_well else 'NOT WELL'}.", _STYLES[is_well])
    )
    why = [Text(clean(f"  ! {each}")) for each in names(item.get("why"))]
    rest = [Text(clean(line), style="bold" if line[:1].strip() else "") for line in _lines(item)]
    return Group(head, *why, *rest)


_STYLES = {True: "bold green", False: "bold red"}


def _lines(item: Json) -> Iterator[str]:
    """What stands below the reasons; headings begin in the first column."""
    yield "Leads"
    yield f"  {_leader(item.get('leader') or {})}"
    yield f"  {_members(int(item.get('members') or 0), item.get('leases') or {})}"
    if silent := listed(item, "silent"):
        yield "Silent"
        for each in silent:
            yield from _silent(each)
    if stopped := listed(item, "stopped"):
        yield "Not served"
        yield from (f"  {each['partitions']} of {each['group']} {str(each['state']).lower()}" for each in stopped)
    if waits := listed(item, "waits"):
        yield "Waits"
        yield from (f"  {_wait(each)}" for each in waits)
        if (more := int(item.get("waits_in_all") or 0) - len(waits)) > 0:
            yield f"  and {more} more: `topolog get pending`"
    if events := listed(item, "bad_events"):
        yield "Went wrong last"
        yield from (f"  {to_the_second(each['time'])}  {each['position']}  {each['sentence']}" for each in events)
    yield "Next"
    yield from (f"  {each}" for each in names(item.get("next")))


def _members(count: int, leases: Mapping[str, int]) -> str:
    """How many, and the leases of the servers among them; nothing of leases as of the past."""
    if not leases:
        return counted(count, "member")
    parts = [f"{holders} {state.lower()}" for state, holders in leases.items()]
    if clients := count - sum(leases.values()):
        parts.append(f"none of {counted(clients, 'client')}")
    return f"{counted(count, 'member')}; leases: {', '.join(parts)}"


def _leader(leader: Json) -> str:
    decided = leader.get("decided_ms")
    name = leader.get("name") or "nobody"
    heard = "" if decided is None else f"; the newest decision is {ago(int(decided))} old"
    since = f"term {leader.get('term')} since {to_the_second(leader.get('since_time'))}"
    return f"{name}, {since}, position {leader.get('since')}{heard}"


def _silent(each: Mapping[str, object]) -> Iterator[str]:
    """When its lease was renewed last, what is left, what hangs on it."""
    out_ms, fenced_ms = each.get("out_in_ms"), each.get("fenced_in_ms")
    serves = f"stops serving in {ago(fenced_ms)}" if isinstance(fenced_ms, int) and fenced_ms else "serves nothing"
    out = f", {f'out in {ago(out_ms)}' if out_ms else 'to be out'}" if isinstance(out_ms, int) else ""
    age, renewed = ago(int(str(each.get("age_ms")))), to_the_second(each.get("renewed_time"))
    yield f"  {each.get('node')}  last confirmed {age} ago ({renewed}), {serves}{out}"
    primary_of = each.get("primary_of")
    if isinstance(primary_of, Mapping) and primary_of:
        yield f"      primary of {', '.join(f'{count} of {group}' for group, count in primary_of.items())}"
    if awaited_by := names(each.get("awaited_by")):
        yield f"      awaited by {', '.join(map(str, awaited_by))}"


def _wait(each: Mapping[str, object]) -> str:
    nodes = ", ".join(str(held.get("node")) for held in listed(dict(each), "waits_for"))
    waited = ago(int(str(each.get("waited_ms"))))
    return f"{each.get('name')}  {waited}{f' for {nodes}' if nodes else ''}; ends {each.get('ends')}"
