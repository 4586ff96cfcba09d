"""Why a partition is where it is: whom the affinity wants and why, since which decision who acts, what it waits for.

The order of hashes is computed anew by the very function the coordinator uses, over those that may hold copies at the
position that is read: all servers, or of a persistent group the members of the baseline, of whom those that are away
get nothing. Where it differs from what the log wants, an exchange that began since has yet to say so.
"""

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from topolog.events.baseline import BaselineRow
from topolog.events.drains import DrainRow
from topolog.events.exchange import AffinitySwitched, FullPartitionMap, HandOverRow
from topolog.events.group_definition import Affinity
from topolog.events.groups import GroupRow
from topolog.events.membership import NodeLeft, NodeRow
from topolog.projections import causes, exchanges, explain_exchange, partition_history, patience
from topolog.projections.explain import last_causes, with_next
from topolog.projections.layout import Decided
from topolog.projections.moments import iso
from topolog.projections.partition_history import Step
from topolog.projections.partition_resources import Partition
from topolog.projections.partitions import Names, partition
from topolog.projections.resources import Awaited, Explanation
from topolog.projections.store import Reading
from topolog.streams.rules import placement
from topolog.streams.rules.affinity import NOBODY, Candidate, Placement, ideal

_STEPS_MAX = 50
"""Changes of the partition that are looked through for who acted before, the newest ones."""

_CAUSES_MAX = 10
_RANKS_MORE = 3
"""Servers that are named behind those that are wanted."""


def explain_partition(reading: Reading, group: str, number: int) -> Explanation:
    """Why here, since when, after whom, and what is waited for; raises NotFound as `partition` does."""
    here = partition(reading, group, number)
    about = reading.row(GroupRow, group)
    assert about is not None, "a partition has a group"
    steps = list(islice(partition_history.steps(reading, group, number), _STEPS_MAX))
    hand_over, unfit = _hand_over(reading, here), _unfit(reading, about)
    facts = {
        **dict(_why_here(reading, about, here)),
        **dict(_why_now(reading, here, steps)),
        **dict(_waits(reading, here, hand_over, unfit)),
    }
    decisions = [_decision_of(reading, step, group) for step in steps[:_CAUSES_MAX]]
    made = [causes.shown(each) for each in causes.chain(reading, here.token)]
    found = Explanation(
        _sentence(here, hand_over, unfit),
        facts,
        causes.merged(last_causes(decisions), made),
        _awaited(reading, here, hand_over),
    )
    name = shlex.quote(here.name)
    return with_next(found, f"topolog explain decision {here.token}", f"topolog history partition {name}")


def _sentence(here: Partition, hand_over: HandOverRow | None, unfit: str) -> str:
    loading = [copy.node for copy in here.copies if copy.wanted and copy.state != "OWNING"]
    surplus = [copy.node for copy in here.copies if not copy.wanted]
    backups = f" with {_and(here.backups)} as backup{'s' if len(here.backups) > 1 else ''}" if here.backups else ""
    acting = f"Partition {here.name} is on {here.primary}{backups}"
    match here.state:
        case "LOST":
            end = f"it awaits {_and(here.awaits)}" if here.awaits else "nobody is left who could end that"
            return f"Partition {here.name} is lost since position {here.token}: no owner of it is present; {end}."
        case "PAUSED" if not here.copies:
            why = f"is on no server, and is neither read nor written: {unfit}"
            new = "has never been shared out: the exchange of its group has not ended yet"
            return f"Partition {here.name} {why if unfit else new}."
        case "PAUSED":
            return (
                f"Nobody acts for partition {here.name} since position {here.token}; it is neither read nor written "
                f"until the exchange ends. Whole copies that are present: {_and(_owners(here)) or 'none'}."
            )
        case "MOVING":
            return f"{acting}; {_and(loading)} {'loads' if len(loading) == 1 else 'load'}."
        case "SWITCHING" if hand_over is not None:
            return f"{acting}; it is being handed over to {here.wanted[0]} and pauses until {here.primary} has drained."
        case "SWITCHING":
            return f"{acting}; it is to be handed over to {here.wanted[0]}, which has all of it by now."
        case "RENTING":
            return f"{acting}, as the affinity wants it; {_and(surplus)} no longer needed."
        case _:
            return f"{acting}, as the affinity wants it."


def _why_here(reading: Reading, group: GroupRow, here: Partition) -> Iterator[tuple[str, str]]:
    is_lost = here.state == "LOST"
    yield "affinity wants", ", ".join(here.wanted) or ("nobody while it is lost" if is_lost else "nobody yet")
    candidates, present = _candidates(reading, group)
    chosen = _choice(candidates, Placement.of(group.definition), here.partition)
    now = [node for node in chosen if node in present]
    fitting = [each for each in candidates if group.affinity.admits(each.attributes)]
    ranked = _choice(fitting, Placement(partitions=group.partitions, backups=max(0, len(fitting) - 1)), here.partition)
    if fitting:
        shown = ranked[: len(chosen) + _RANKS_MORE]
        more = f" and {len(ranked) - len(shown)} more" if len(ranked) > len(shown) else ""
        order = ", ".join(node if node in present else f"{node} (away)" for node in shown) + more
        servers = f"{len(fitting)} {_kind_of(reading, group, len(fitting))} that may hold copies"
        rule = _rule(group.affinity, group.backups + 1, "would be" if is_lost else "")
        yield "because", f"by their hashes with partition {here.partition} the {servers} are in order {order}; {rule}"
    if is_lost:
        yield "affinity would want", f"{', '.join(now) or 'nobody'} once its loss is given up"
        return
    if tuple(now) != here.wanted:
        yield "affinity would want now", f"{', '.join(now) or 'nobody'}: an exchange has yet to decide that"
    if away := [node for node in chosen if node not in present]:
        yield "away", f"{_and(away)} of the baseline: others get no copy for that, until the baseline changes"
    elif len(here.wanted) <= group.backups:
        yield "copies", f"{len(here.wanted)} of {group.backups + 1} that the group asks for: there are too few servers"


def _candidates(reading: Reading, group: GroupRow) -> tuple[list[Candidate], frozenset[str]]:
    """Whom the affinity chooses from, and which of them are here and may get copies."""
    state = reading.state(NodeRow, BaselineRow, DrainRow)
    ready = placement.may_hold(state)
    return placement.candidates(state, group, ready), frozenset(row.node for row in ready)


def _kind_of(reading: Reading, group: GroupRow, count: int) -> str:
    if group.persistent and reading.row(BaselineRow, "") is not None:
        return f"member{'' if count == 1 else 's'} of the baseline"
    return f"server{'' if count == 1 else 's'}"


def _unfit(reading: Reading, group: GroupRow) -> str:
    """Why no server may hold copies of the group's partitions, by the attribute that is missing; "" if one may."""
    servers, _ = _candidates(reading, group)
    if any(group.affinity.admits(row.attributes) for row in servers):
        return ""
    if not servers:
        return "there is no server"
    for attribute, value in sorted(group.affinity.node_filter.items()):
        found = {row.attributes.get(attribute) for row in servers}
        if value not in found:
            others = ", ".join(sorted(filter(None, found)))
            there = f"they have {attribute} {others}" if others else f"none of them has an attribute {attribute}"
            return f"no server fits the node filter of group {group.name}, which asks for {attribute} {value}; {there}"
    wanted = " and ".join(f"{attribute} {value}" for attribute, value in sorted(group.affinity.node_filter.items()))
    return f"no server fits the node filter of group {group.name}, which asks for {wanted} at once"


def _rule(affinity: Affinity, copies: int, verb: str) -> str:
    if copies == 1:
        return f"the first {verb or 'is'} wanted"
    are = verb or "are"
    if affinity.exclude_neighbours_by:
        return f"the first {copies} of different {affinity.exclude_neighbours_by} {are} wanted, while there are enough"
    if affinity.backup_filter:
        return f"the first {copies} of different {affinity.backup_filter} {are} wanted"
    return f"the first {copies} {are} wanted"


def _choice(candidates: Sequence[Candidate], placement: Placement, number: int) -> list[str]:
    """Whom the affinity wants of these for one partition: with fewer partitions it is the beginning of the whole."""
    if not candidates:
        return []
    upto = msgspec.structs.replace(placement, partitions=number + 1)
    indexes = ideal(candidates, upto)[number].tolist()
    return [candidates[index].node for index in indexes if index != NOBODY]


def _why_now(reading: Reading, here: Partition, steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    decided = reading.surely_decision(here.token)
    what = f"acting primary {here.primary}" if here.primary else "nobody acts"
    if here.copies:
        at = f"position {here.token} ({iso(decided.logged_at_ms)})"
        yield f"{what} since", f"{at}: {_in_words(reading, decided)}"
    before = _before(reading, here, steps)
    if before:
        yield "acted before", before
    for copy in here.copies:
        wanted = "" if copy.wanted else ", no longer wanted"
        absent = "" if copy.is_member else ", not a member now"
        yield f"copy on {copy.node}", f"{copy.state} since position {copy.since}{wanted}{absent}"


def _in_words(reading: Reading, decided: Decided) -> str:
    """What a decision was, and what had triggered it."""
    event = decided.event
    match event:
        case FullPartitionMap():
            row = exchanges.row_at(reading, decided.position)
            about = explain_exchange.triggers(row.triggers) if row else "an exchange"
            return f"outcome of exchange {row.version} ({about})" if row else f"outcome of {about}"
        case AffinitySwitched():
            how = "its lease was over" if event.evidence.presumed_fenced else "it had drained"
            former = (*event.evidence.presumed_fenced, *event.evidence.applied)
            return f"hand-over by {_and(former)}, prepared at position {event.prepared}, done when {how}"
        case NodeLeft():
            return f"{event.node} left ({event.reason.value})"
        case _:
            return decided.event_name


def _before(reading: Reading, here: Partition, steps: Sequence[Step]) -> str:
    """The node that acted last before the one that acts now, and until when; nothing if there was none."""
    who = Names(reading)
    for step in steps:
        acting = step.before.acting if step.before else None
        if acting is not None and who[acting] != here.primary:
            return f"{who[acting]}, until position {step.position}"
    return ""


def _waits(reading: Reading, here: Partition, hand_over: HandOverRow | None, unfit: str) -> Iterator[tuple[str, str]]:
    row = exchanges.open_row(reading)
    if here.state == "LOST":
        yield "the loss ends", _end_of_loss(here)
    elif here.state == "PAUSED":
        if unfit and not here.copies:
            alter = f"`topolog alter group {here.group} --node-filter ATTRIBUTE=VALUE`"
            yield "waits for", f"a server that fits, or {alter} (`topolog get nodes -o wide` shows attributes)"
        elif row is not None:
            yield "waits for", f"exchange {row.version}: `topolog explain exchange {row.version}`"
        else:
            last = exchanges.last_row(reading)
            unheard = ", ".join(last.unheard) if last else ""
            without = f"the map of {unheard}, without which exchange {last.version} was completed" if last else ""
            yield "waits for", without if unheard else "the next exchange, which has not begun yet"
    elif hand_over is not None:
        yield (
            "hand-over",
            f"prepared at position {hand_over.prepared_at}; {patience.for_hand_over(reading, hand_over)[1]}",
        )
    elif here.state == "MOVING":
        yield (
            "waits for",
            "the copies that load from the primary; it is served as before, but each write waits for them too",
        )


def _end_of_loss(here: Partition) -> str:
    given_up = f"or with `topolog reset group {here.group}`, which gives up what is lost"
    if not here.awaits:
        return f"only with `topolog reset group {here.group}`, which gives up what is lost: no absent node owns it"
    here_again = [copy.node for copy in here.copies if copy.node in here.awaits and copy.is_member]
    if here_again:
        return f"when the map of {_or(here_again)} says that its copy is still there, {given_up}"
    return f"when {_or(here.awaits)} is back with its disk, {given_up}"


def _awaited(reading: Reading, here: Partition, hand_over: HandOverRow | None) -> tuple[Awaited, ...]:
    row = exchanges.open_row(reading)
    if here.state == "LOST":
        return tuple(Awaited(node, here.token, None) for node in here.awaits)
    if here.state == "PAUSED" and row is not None:
        return explain_exchange.awaited(row)
    if hand_over is not None:
        return (patience.for_hand_over(reading, hand_over)[0],)
    return tuple(Awaited(copy.node, copy.since, None) for copy in here.copies if copy.wanted and copy.state == "MOVING")


def _hand_over(reading: Reading, here: Partition) -> HandOverRow | None:
    """The hand-over under way that this partition is a part of."""
    for row in exchanges.hand_overs(reading):
        for move in row.moves:
            if move.group == here.group and here.partition in move.partitions:
                return row
    return None


def _decision_of(reading: Reading, step: Step, group: str) -> Decided:
    return partition_history.did_it(reading, step, group)[0]


def _owners(here: Partition) -> list[str]:
    return [copy.node for copy in here.copies if copy.state == "OWNING" and copy.is_member]


def _and(names: Sequence[str]) -> str:
    return _listed(names, "and")


def _or(names: Sequence[str]) -> str:
    return _listed(names, "or")


def _listed(names: Sequence[str], word: str) -> str:
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
