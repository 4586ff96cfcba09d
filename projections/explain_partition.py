"""Why a partition is where it is: whom the affinity wants and why, since which decision who acts, what it waits for.

The order of hashes is computed anew by the very function the coordinator uses, over those that may hold copies at the
position that is read: all servers, or of a persistent group the members of the baseline, of whom those that are away
get nothing. Where it differs from what the log wants, an exchange that began since has yet to say so.
"""

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice

from topolog.events.baseline import BaselineRow
from topolog.events.exchange import AffinitySwitched, FullPartitionMap, HandOverRow
from topolog.events.group_definition import Affinity
from topolog.events.groups import GroupRow
from topolog.events.membership import NodeLeft
from topolog.projections import causes, exchanges, explain_exchange, partition_history, patience, paused
from topolog.projections.explain import last_causes, with_next
from topolog.projections.layout import Decided
from topolog.projections.moments import iso
from topolog.projections.partition_history import Step
from topolog.projections.partition_resources import Partition
from topolog.projections.partitions import Names, partition
from topolog.projections.paused import candidates_of, choice
from topolog.projections.resources import Awaited, Explanation
from topolog.projections.store import Reading
from topolog.streams.rules.affinity import Placement

_STEPS_MAX = 50
"""Changes of the partition that are looked through for who acted before, the newest ones."""

_CAUSES_MAX = 10
_RANKS_MORE = 3
"""Servers that are named behind those that are wanted."""


def explain_partition(reading: Reading, age_ms: int, group: str, number: int) -> Explanation:
    """Why here, since when, after whom, and what is waited for; raises NotFound as `partition` does."""
    here = partition(reading, group, number)
    about = reading.row(GroupRow, group)
    assert about is not None, "a partition has a group"
    steps = list(islice(partition_history.steps(reading, group, number), _STEPS_MAX))
    hand_over, unfit, waits = _hand_over(reading, here), _unfit(reading, about), _Paused(reading, age_ms, here)
    facts = {
        **dict(_why_here(reading, about, here)),
        **dict(_why_now(reading, here, steps)),
        **dict(_waits(reading, here, hand_over, unfit, waits)),
    }
    decisions = [_decision_of(reading, step, group) for step in steps[:_CAUSES_MAX]]
    made = [causes.shown(each) for each in causes.chain(reading, here.token)]
    found = Explanation(
        _sentence(here, hand_over, unfit, waits.wait),
        facts,
        causes.merged(last_causes(decisions), made),
        waits.awaited() if here.state == "PAUSED" else _awaited(reading, here, hand_over),
    )
    name = shlex.quote(here.name)
    return with_next(found, f"topolog explain decision {here.token}", f"topolog history partition {name}")


class _Paused:
    """Whom a partition waits for that is PAUSED."""

    def __init__(self, reading: Reading, age_ms: int, here: Partition) -> None:
        self.missed = paused.Missed(reading, age_ms)
        self.wait = self.missed.wait_of(here) if here.state == "PAUSED" else paused.Wait()

    def awaited(self) -> tuple[Awaited, ...]:
        return self.missed.awaited(self.wait.servers)

    def facts(self) -> Iterator[tuple[str, str]]:
        for asked in self.wait.servers:
            yield f"waits for {asked.node}", f"{self.wait.what(asked)}; {self.missed.since(asked)}"
            yield f"{asked.node} is waited for until", self.missed.ends(asked)


def _sentence(here: Partition, hand_over: HandOverRow | None, unfit: str, wait: paused.Wait) -> str:
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
            begins = f"it begins on {_or(wait.nodes)} as soon as that is heard"
            new = f"has never been shared out: {begins if wait.nodes else 'an exchange has yet to do that'}"
            return f"Partition {here.name} {why if unfit else new}."
        case "PAUSED":
            until = f"{_or(wait.nodes)} is heard" if wait.nodes else "an exchange has decided who acts"
            return (
                f"Partition {here.name} is paused: nobody acts for it since position {here.token}, and it is neither "
                f"read nor written until {until}."
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
    candidates, present = candidates_of(reading, group)
    chosen = choice(candidates, Placement.of(group.definition), here.partition)
    now = [node for node in chosen if node in present]
    fitting = [each for each in candidates if group.affinity.admits(each.attributes)]
    ranked = choice(fitting, Placement(partitions=group.partitions, backups=max(0, len(fitting) - 1)), here.partition)
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


def _kind_of(reading: Reading, group: GroupRow, count: int) -> str:
    if group.persistent and reading.row(BaselineRow, "") is not None:
        return f"member{'' if count == 1 else 's'} of the baseline"
    return f"server{'' if count == 1 else 's'}"


def _unfit(reading: Reading, group: GroupRow) -> str:
    """Why no server may hold copies of the group's partitions, by the attribute that is missing; "" if one may."""
    servers, _ = candidates_of(reading, group)
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


def _waits(
    reading: Reading, here: Partition, hand_over: HandOverRow | None, unfit: str, waits: _Paused
) -> Iterator[tuple[str, str]]:
    if here.state == "LOST":
        yield "the loss ends", _end_of_loss(here)
    elif here.state == "PAUSED":
        if unfit and not here.copies:
            alter = f"`topolog alter group {here.group} --node-filter ATTRIBUTE=VALUE`"
            yield "waits for", f"a server that fits, or {alter} (`topolog get nodes -o wide` shows attributes)"
        elif waits.wait.servers:
            yield from waits.facts()
        elif (row := waits.missed.exchange) is not None:
            yield "waits for", f"exchange {row.version}: `topolog explain exchange {row.version}`"
        else:
            yield "waits for", "the next exchange, which has not begun yet"
        yield "goes on meanwhile", paused.goes_on(reading, here.group)
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
    if here.state == "LOST":
        return tuple(Awaited(node, here.token, None) for node in here.awaits)
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


def _and(names: Sequence[str]) -> str:
    return _listed(names, "and")


def _or(names: Sequence[str]) -> str:
    return _listed(names, "or")


def _listed(names: Sequence[str], word: str) -> str:
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
