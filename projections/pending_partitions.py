"""What waits among partitions: exchanges, hand-overs, copies that load, partitions that are lost or nobody acts for.

Partitions are counted by group in one pass over the packed rows, as the page does; of a million that are at rest this
takes a few milliseconds.
"""

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from topolog.events.awaited import Asked
from topolog.events.exchange import ExchangeRow, HandOverRow, QueueRow
from topolog.events.groups import GroupRow
from topolog.events.ids import Position
from topolog.projections import baselines, exchanges, explain_exchange, partitions, patience
from topolog.projections.packed import Condition
from topolog.projections.partition_resources import Partition
from topolog.projections.pending_resources import Pending, PendingHolder
from topolog.projections.pending_view import PendingView, What
from topolog.projections.sentences import listed
from topolog.streams.rules.exchange import Patience

_SAMPLE = 100
"""Partitions that are looked at one by one, of those that are alike: since when, and whom they await."""

_PATIENCE = Patience()
"""How long a coordinator waits for a map; no setting changes it."""


def of_exchanges(view: PendingView) -> Iterator[Pending]:
    """The exchange that is open, those that are to come, hand-overs under way."""
    row = exchanges.open_row(view.reading)
    if row is not None:
        yield _exchange(view, row)
    queue = view.reading.row(QueueRow, "")
    if queue is not None:
        first, about = queue.triggers[0], explain_exchange.triggers(queue.triggers)
        behind = f"behind exchange {row.version}" if row else "for the coordinator to begin it"
        said = f"An exchange ({about}) waits {behind}."
        ends = f"when exchange {row.version} is over" if row else "at once, unless the cluster does not share out now"
        what = f"exchange {row.version}" if row else "cluster"
        commands = (f"topolog explain {what}", f"topolog explain decision {first.at}")
        yield view.item(What("QUEUE", str(first.version), what, commands), said, first.at, (), None, ends)
    for hand_over in exchanges.hand_overs(view.reading):
        yield _hand_over(view, hand_over)


def _exchange(view: PendingView, row: ExchangeRow) -> Pending:
    version, silent = str(row.version), exchanges.silent(row)
    about = explain_exchange.triggers(row.triggers)
    commands = [f"topolog explain exchange {version}"]
    asked = tuple(_answering(view, each) for each in silent)
    late = [each.node for each in asked if each.node in row.overdue] or [each.node for each in asked if _is_bad(each)]
    commands += [f"topolog explain node {shlex.quote(node)}" for node in late[:1]]
    commands.append(f"topolog wait exchange/{version} --for=Completed")
    is_late, names = bool(row.overdue), listed([each.node for each in asked]) or "nobody"
    said = f"Exchange {version} ({about}) {'is overdue: it ' if is_late else ''}waits for the maps of {names}."
    what = What("EXCHANGE", version, f"exchange {version}", commands)
    if baselines.state_row(view.reading).cold_at is not None:
        ends = "without end, because the cluster is cold: not before enough of the baseline are back"
        cold = view.item(what, said, row.started_at, asked, None, ends)
        return msgspec.structs.replace(cold, is_overdue=is_late)
    left_ms = max((each.at_most_ms or 0 for each in asked), default=0)
    ends = "" if asked else "as soon as the coordinator sees that all have answered"
    item = view.item(what, said, row.started_at, asked, left_ms, ends)
    return msgspec.structs.replace(item, is_overdue=is_late)


def _is_bad(holder: PendingHolder) -> bool:
    return holder.lease in ("OVERDUE", "NONE", "SILENT")


def _answering(view: PendingView, asked: Asked) -> PendingHolder:
    """A server whose map is awaited: it answers, or is stopped after the longest wait and out when its lease is over;
    one that may not be stopped, for the last copies it has, is not waited for any longer either."""
    evict = patience.span_since(view.reading, asked.at, _PATIENCE.evict_ms)
    lease_ms = view.cluster.proceed_ms
    return view.holder(asked.node, asked.at, evict.left_ms + lease_ms)


def _hand_over(view: PendingView, row: HandOverRow) -> Pending:
    asked, words = patience.for_hand_over(view.reading, row)
    count = sum(len(move.partitions) for move in row.moves)
    said = f"{row.node} hands over {_count(count)} to {listed(sorted({move.to for move in row.moves}))}."
    ends = "" if asked.at_most_ms is not None else f"without end, because {words}"
    first = row.moves[0]
    commands = (
        f"topolog explain partition {shlex.quote(f'{first.group}/{first.partitions[0]}')}",
        f"topolog explain node {shlex.quote(row.node)}",
    )
    holder = view.holder(row.node, row.prepared_at, asked.at_most_ms)
    at, about = row.prepared_at, f"node {row.node}"
    return view.item(What("HAND-OVER", str(at), about, commands), said, at, (holder,), asked.at_most_ms, ends)


def of_partitions(view: PendingView) -> Iterator[Pending]:
    """By group: what is lost, what nobody acts for though no exchange is open, what loads."""
    is_open = exchanges.open_row(view.reading) is not None or view.reading.row(QueueRow, "") is not None
    for _, group in view.reading.rows(GroupRow):
        totals = partitions.condition_totals(view.reading, group.name)
        if lost := totals.get(Condition.LOST):
            yield _lost(view, group.name, lost)
        if (paused := totals.get(Condition.PAUSED)) and not is_open:
            yield _paused(view, group.name, paused)
        if loading := totals.get(Condition.MOVING):
            yield _loading(view, group.name, loading)


def _sample(view: PendingView, group: str, condition: Condition) -> list[Partition]:
    filters = {"group": group, "state": condition.name}
    return list(islice(partitions.partitions(view.reading, filters), _SAMPLE))


def _since(found: Sequence[Partition]) -> Position:
    return Position(min((each.token for each in found), default=0))


def _lost(view: PendingView, group: str, count: int) -> Pending:
    found = _sample(view, group, Condition.LOST)
    awaited = list(dict.fromkeys(node for each in found for node in each.awaits))
    said = f"{_count(count)} of group {group} {_are(count)} lost: no copy that is whole is present."
    reset = f"topolog reset group {shlex.quote(group)}"
    back = f"until {listed(awaited)} is back with its disk" if awaited else "for no absent node owns them"
    ends = f"without end, {back}, or they are given up with `{reset}`"
    first = shlex.quote(found[0].name)
    commands = (f"topolog explain partition {first}", f"{_LIST} --state LOST --group {shlex.quote(group)}", reset)
    asked = view.holders(awaited, _since(found), None)
    return view.item(
        What("LOST", group, f"partition {found[0].name}", commands), said, _since(found), asked, None, ends
    )


_LIST = "topolog get partitions"


def _paused(view: PendingView, group: str, count: int) -> Pending:
    """Nobody acts, and no exchange is going to change that soon."""
    found, last = _sample(view, group, Condition.PAUSED), exchanges.last_row(view.reading)
    unheard = last.unheard if last else ()
    said = f"{_count(count)} of group {group} {_are(count)} neither read nor written: nobody acts for {_them(count)}."
    why = f"until the map of {listed(unheard)} comes" if unheard else "until a server that fits is there"
    commands = (f"topolog explain partition {shlex.quote(found[0].name)}", "topolog get nodes -o wide")
    since = _since(found)
    asked = view.holders(unheard, since, None)
    about = f"partition {found[0].name}"
    return view.item(What("PAUSED", group, about, commands), said, since, asked, None, f"without end, {why}")


def _loading(view: PendingView, group: str, count: int) -> Pending:
    found = _sample(view, group, Condition.MOVING)
    copies = [copy for each in found for copy in each.copies if copy.state == "MOVING" and copy.wanted]
    nodes = list(dict.fromkeys(copy.node for copy in copies))
    since = Position(min((copy.since for copy in copies), default=view.reading.position))
    said = f"{_count(count)} of group {group} {'has a copy that loads' if count == 1 else 'have copies that load'}."
    ends = "without end, until the copies are whole, however long that takes; all of it is served meanwhile"
    commands = (
        f"topolog explain partition {shlex.quote(found[0].name)}",
        f"{_LIST} --state MOVING --group {shlex.quote(group)}",
        f"topolog get maps --group {shlex.quote(group)}",
    )
    asked = view.holders(nodes, since, None)
    return view.item(What("LOADING", group, f"partition {found[0].name}", commands), said, since, asked, None, ends)


def _count(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"
