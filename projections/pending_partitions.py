"""What waits among partitions: exchanges, hand-overs, copies that load, partitions that are lost or nobody acts for.

Partitions are counted by group in one pass over the packed rows, as the page does; of a million that are at rest this
takes a few milliseconds.
"""

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from topolog.events.awaited import UnheardRow
from topolog.events.exchange import ExchangeRow, HandOverRow, QueueRow
from topolog.events.groups import GroupRow
from topolog.events.ids import Position
from topolog.projections import baselines, exchanges, explain_exchange, partitions, patience, paused
from topolog.projections.packed import Condition
from topolog.projections.partition_resources import Partition
from topolog.projections.pending_resources import Pending, PendingHolder
from topolog.projections.pending_view import PendingView, What
from topolog.projections.sentences import listed
from topolog.projections.silence import NOT_RENEWED


def of_exchanges(view: PendingView) -> Iterator[Pending]:
    """The exchange that is open, those that are to come, hand-overs under way."""
    missed = paused.Missed(view.reading, view.age_ms)
    row = missed.exchange
    if row is not None:
        yield _exchange(view, row, missed)
    elif missed.row is not None and missed.row.servers:
        yield _unheard(view, missed, missed.row)
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


def _exchange(view: PendingView, row: ExchangeRow, missed: paused.Missed) -> Pending:
    version, about = str(row.version), explain_exchange.triggers(row.triggers)
    gather = patience.span_since(view.reading, row.started_at, paused.PATIENCE.gather_ms)
    asked = tuple(view.holder(each.node, each.at, gather.left_ms) for each in missed.silent.values())
    said = f"Exchange {version} ({about}) waits for {listed([each.node for each in asked]) or 'nobody any more'}."
    commands = _commands(version, asked, f"topolog wait exchange/{version} --for=Completed")
    what = What("EXCHANGE", version, f"exchange {version}", commands)
    state = baselines.state_row(view.reading)
    if state.cold_at is not None:
        ends = "at no fixed time, because the cluster is cold: not before enough of the baseline are back"
        return view.item(what, said, row.started_at, asked, None, ends)
    if not state.shares_out:
        ends = f"at no fixed time, because the cluster is {state.allowed.value}: not before it is activated"
        return view.item(what, said, row.started_at, asked, None, ends)
    ends = "" if asked else "as soon as the coordinator sees that all have answered"
    return view.item(what, said, row.started_at, asked, gather.left_ms, ends)


def _unheard(view: PendingView, missed: paused.Missed, row: UnheardRow) -> Pending:
    """Servers that the last exchange was completed without, and that are still needed."""
    newest = exchanges.last_row(view.reading)
    assert newest is not None, "an exchange has done without them"
    version, names = str(newest.version), listed([each.node for each in row.servers])
    about = explain_exchange.triggers(newest.triggers)
    asked = tuple(view.holder(each.node, each.at, missed.at_most_ms(each)) for each in row.servers)
    is_one = len(asked) == 1
    said = f"Exchange {version} ({about}) was completed without {names}, {'which is' if is_one else 'who are'} needed"
    said += " and overdue." if row.overdue_at is not None else "."
    commands = _commands(version, asked, f"{_LIST} --state PAUSED")
    what = What("EXCHANGE", version, f"exchange {version}", commands)
    since = Position(min(each.at for each in row.servers))
    endless = [each.node for each in asked if each.at_most_ms is None]
    ends = f"at no fixed time, because {listed(endless)} may have last copies: until it is heard or removed"
    left_ms = None if endless else max(each.at_most_ms or 0 for each in asked)
    item = view.item(what, said, since, asked, left_ms, ends if endless else "")
    return msgspec.structs.replace(item, is_overdue=row.overdue_at is not None)


def _commands(version: str, asked: Sequence[PendingHolder], last: str) -> list[str]:
    late = [each.node for each in asked if each.lease in NOT_RENEWED or each.at_most_ms is None]
    nodes = [f"topolog explain node {shlex.quote(node)}" for node in late[:1]]
    return [f"topolog explain exchange {version}", *nodes, last]


def _hand_over(view: PendingView, row: HandOverRow) -> Pending:
    asked, words = patience.for_hand_over(view.reading, row)
    count = sum(len(move.partitions) for move in row.moves)
    said = f"{row.node} hands over {_count(count)} to {listed(sorted({move.to for move in row.moves}))}."
    ends = "" if asked.at_most_ms is not None else f"at no fixed time, because {words}"
    first = row.moves[0]
    commands = (
        f"topolog explain partition {shlex.quote(f'{first.group}/{first.partitions[0]}')}",
        f"topolog explain node {shlex.quote(row.node)}",
    )
    holder = view.holder(row.node, row.prepared_at, asked.at_most_ms)
    at, about = row.prepared_at, f"node {row.node}"
    return view.item(What("HAND-OVER", str(at), about, commands), said, at, (holder,), asked.at_most_ms, ends)


def of_partitions(view: PendingView) -> Iterator[Pending]:
    """By group: what is lost, what nobody acts for and no exchange is about to decide, what loads."""
    missed = paused.Missed(view.reading, view.age_ms)
    is_next = missed.exchange is not None or view.reading.row(QueueRow, "") is not None
    for _, group in view.reading.rows(GroupRow):
        totals = partitions.condition_totals(view.reading, group.name)
        if lost := totals.get(Condition.LOST):
            yield _lost(view, group.name, lost)
        if (count := totals.get(Condition.PAUSED)) and not (is_next and missed.row is None):
            yield _paused(view, group.name, count, missed)
        if loading := totals.get(Condition.MOVING):
            yield _loading(view, group.name, loading)


def _sample(view: PendingView, group: str, condition: Condition) -> list[Partition]:
    filters = {"group": group, "state": condition.name}
    return list(islice(partitions.partitions(view.reading, filters), paused.SAMPLE))


def _since(found: Sequence[Partition]) -> Position:
    return Position(min((each.token for each in found), default=0))


def _lost(view: PendingView, group: str, count: int) -> Pending:
    found = _sample(view, group, Condition.LOST)
    awaited = list(dict.fromkeys(node for each in found for node in each.awaits))
    said = f"{_count(count)} of group {group} {_are(count)} lost: no copy that is whole is present."
    reset = f"topolog reset group {shlex.quote(group)}"
    back = f"until {listed(awaited)} is back with its disk" if awaited else "for no absent node owns them"
    ends = f"at no fixed time: it waits {back}, or they are given up with `{reset}`"
    first = shlex.quote(found[0].name)
    commands = (f"topolog explain partition {first}", f"{_LIST} --state LOST --group {shlex.quote(group)}", reset)
    asked = view.holders(awaited, _since(found), None)
    return view.item(
        What("LOST", group, f"partition {found[0].name}", commands), said, _since(found), asked, None, ends
    )


_LIST = "topolog get partitions"


def _paused(view: PendingView, group: str, count: int, missed: paused.Missed) -> Pending:
    """Nobody acts, and no exchange is going to change that before somebody is heard."""
    found = _sample(view, group, Condition.PAUSED)
    servers = {asked.node: asked for each in found for asked in missed.wait_of(each).servers}
    asked = tuple(view.holder(each.node, each.at, missed.at_most_ms(each)) for each in servers.values())
    said = f"{_count(count)} of group {group} {_are(count)} neither read nor written: nobody acts for {_them(count)}."
    why = f"until {listed(list(servers))} is heard or removed" if servers else "until a server that fits is there"
    commands = (
        f"topolog explain partition {shlex.quote(found[0].name)}",
        f"{_LIST} --state PAUSED --group {shlex.quote(group)}",
        "topolog get nodes -o wide",
    )
    what = What("PAUSED", group, f"partition {found[0].name}", commands)
    is_endless = not asked or any(each.at_most_ms is None for each in asked)
    left_ms = None if is_endless else max(each.at_most_ms or 0 for each in asked)
    return view.item(
        what, said, _since(found), asked, left_ms, f"at no fixed time: it waits {why}" if is_endless else ""
    )


def _loading(view: PendingView, group: str, count: int) -> Pending:
    found = _sample(view, group, Condition.MOVING)
    copies = [copy for each in found for copy in each.copies if copy.state == "MOVING" and copy.wanted]
    nodes = list(dict.fromkeys(copy.node for copy in copies))
    since = Position(min((copy.since for copy in copies), default=view.reading.position))
    said = f"{_count(count)} of group {group} {'has a copy that loads' if count == 1 else 'have copies that load'}."
    ends = (
        "at no fixed time: it waits until the copies are whole, however long that takes; all of it is served meanwhile"
    )
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
