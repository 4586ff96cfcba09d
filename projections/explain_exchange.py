"""What an exchange is about, whom it waits for or was completed without, what waits for them, and what to do about it.

An exchange waits only for whom it needs, and not for long; whoever is missing then is still needed, and named here
until it is heard or leaves (DS16, DS17): since when, until when at the latest, which partitions it keeps waiting. Who
has answered meanwhile, the newest single maps tell (`single_maps.py`); a coordinator may have heard more.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile

from topolog.events.awaited import Asked
from topolog.events.baseline import BaselineChanged
from topolog.events.drains import DrainCancelled, DrainStarted
from topolog.events.errors import NotFound
from topolog.events.exchange import OTHERS, ExchangeQueued, ExchangeRow, QueueRow, Trigger
from topolog.events.groups import GroupRow
from topolog.events.ids import Position
from topolog.events.membership import NodeLeft
from topolog.projections import exchanges, partitions, patience, paused, queries
from topolog.projections.durations import ago
from topolog.projections.explain import last_causes, with_next
from topolog.projections.layout import Decided
from topolog.projections.packed import Condition
from topolog.projections.partition_resources import ExchangeDetail
from topolog.projections.resources import Explanation, Lease
from topolog.projections.sentences import counted, listed
from topolog.projections.silence import NOT_RENEWED
from topolog.projections.store import Reading

_LEASES_MAX = 10
"""Servers whose lease is told of, those with the worst first."""

_TRIGGERS_MAX = 5
_LOOKED_AT = 10
"""Decisions about what triggered an exchange that are looked through for the one that did."""

_TRIGGERING = tuple(each.__name__ for each in (*OTHERS, ExchangeQueued, BaselineChanged, DrainStarted, DrainCancelled))
_SUBJECTS: Mapping[str, str] = {"BASELINE_CHANGED": "baseline"}
_WORST_FIRST = ("NONE", "OVERDUE", "SILENT", None, "VALID")


def explain_exchange(reading: Reading, age_ms: int, version: str) -> Explanation:
    """One exchange; raises as `exchanges.exchange` does."""
    found = exchanges.exchange(reading, age_ms, version)
    missed, newest = paused.Missed(reading, age_ms), exchanges.last_row(reading)
    is_newest = newest is not None and str(newest.version) == found.version
    silent = tuple(missed.silent.values()) if is_newest else ()
    facts = {
        **dict(_what(found)),
        **dict(_ended(reading, found, missed)),
        **(dict(_live(missed)) if is_newest else {}),
        **dict(_waiting(reading, age_ms, found, missed, silent)),
        **(dict(_paused(reading, missed)) if is_newest else {}),
        **dict(_besides(reading, missed.exchange)),
    }
    causes = last_causes(sorted(_decisions(reading, found), key=lambda decided: -decided.position))
    explained = Explanation(_sentence(found, silent), facts, causes, missed.awaited(silent))
    about = "topolog get partitions --state MOVING"
    if found.state == "OPEN":
        about = f"topolog wait exchange/{found.version} --for=Completed"
    elif silent:
        about = "topolog get partitions --state PAUSED"
    return with_next(explained, about, f"topolog history exchange {found.version}")


def triggers(about: Sequence[Trigger]) -> str:
    """`JOIN n4, LEAVE n2`."""
    return _listed([(each.type.value, each.subject) for each in about])


def _listed(about: Sequence[tuple[str, str]]) -> str:
    """Types and subjects of triggers."""
    shown = ", ".join(f"{type_} {subject}".rstrip() for type_, subject in about[:_TRIGGERS_MAX])
    return shown + (f" and {len(about) - _TRIGGERS_MAX} more" if len(about) > _TRIGGERS_MAX else "")


def _sentence(found: ExchangeDetail, silent: Sequence[Asked]) -> str:
    about = f"Exchange {found.version} ({_listed([(each.type, each.subject) for each in found.triggers])})"
    names = listed([each.node for each in silent])
    if found.state == "OPEN":
        opened = f"{about} is open since position {found.started_at}, {ago(found.duration_ms)} ago"
        return f"{opened}; it waits for {names or 'nobody any more'}."
    changed = sum(found.changed.values())
    outcome = f"{counted(changed, 'partition')} changed"
    if found.is_switch:
        outcome = f"{changed} primar{'y was' if changed == 1 else 'ies were'} handed over"
    lost = f", {sum(found.lost.values())} lost" if found.lost else ""
    without = f"; it was completed without {names}, still needed" if names else ""
    took = f"was completed at position {found.completed_at} after {ago(found.duration_ms)}"
    return f"{about} {took}: {outcome}{lost}{without}."


def _what(found: ExchangeDetail) -> Iterator[tuple[str, str]]:
    if found.state == "OPEN":
        most = f"for {paused.PATIENCE.gather_ms} ms at most"
        yield "phase", f"waits for those that it needs, {most}; everything that has a primary is served"
    else:
        yield "phase", "completed"
    if found.unheard:
        names = ", ".join(found.unheard)
        yield "completed without", f"{names}: what waits for their answers stays as it is until they are heard"
    if found.result != found.version:
        yield "taken in", f"what happened meanwhile; the result is that of view {found.result}"
    for group, count in found.changed.items():
        lost = f", {found.lost[group]} lost" if group in found.lost else ""
        yield f"group {group}", f"{counted(count, 'partition')} changed{lost}"
    if found.waited:
        slowest = found.waited[-1]
        were = f"{len(found.asked)} were asked, {len(found.waited)} answered"
        yield "slowest answer", f"{slowest.node}, after {slowest.waited_ms} ms; {were}"
    elif found.asked and found.state != "OPEN":
        yield "asked", f"{', '.join(found.asked)}: none of them has answered"
    elif found.state != "OPEN" and not found.is_switch:
        yield "asked", "nobody: what is to be decided follows from the log alone"


def _ended(reading: Reading, found: ExchangeDetail, missed: paused.Missed) -> Iterator[tuple[str, str]]:
    """Whom the log has named as silent for long, and how the wait for those has ended whom it was completed without."""
    if found.overdue_at is not None:
        names = ", ".join(found.overdue)
        yield "overdue", f"{names}: named at position {found.overdue_at}, because they had been silent for long"
    needed = {each.node for each in missed.row.servers} if missed.row else set()
    for node in found.unheard[:_LEASES_MAX]:
        if left := _left(reading, found, node):
            yield f"wait for {node}", left
        elif node not in needed:
            yield f"wait for {node}", "it has been heard since, or is needed no more"


def _left(reading: Reading, found: ExchangeDetail, node: str) -> str:
    """That it left after the exchange was completed without it; the first time counts."""
    ended_at = reading.position if found.completed_at is None else found.completed_at
    since = takewhile(lambda decided: decided.position > ended_at, reading.decisions(subject=f"node {node}"))
    left = [decided for decided in since if isinstance(decided.event, NodeLeft)]
    if not left:
        return ""
    event = left[-1].event
    assert isinstance(event, NodeLeft)
    return f"it left at position {left[-1].position} ({event.reason.value})"


def _live(missed: paused.Missed) -> Iterator[tuple[str, str]]:
    """Who has answered by now, as the newest maps have it."""
    answered = [each.node for each in missed.asked if each.node not in missed.silent]
    if answered:
        taken_in = "" if missed.exchange else "; the next exchange takes that in"
        yield "has answered", f"{listed(answered)}{taken_in}"
    if missed.silent:
        yield "has not answered", listed(list(missed.silent))


def _waiting(
    reading: Reading, age_ms: int, found: ExchangeDetail, missed: paused.Missed, silent: Sequence[Asked]
) -> Iterator[tuple[str, str]]:
    """Of each server that is needed what for, since when and until when, its lease, and what can be done."""
    leases = []
    for asked in silent:
        try:
            leases.append((queries.lease(reading, age_ms, asked.node), asked))
        except NotFound:
            yield asked.node, "no member any more; the exchange is about to take that in"
    leases.sort(key=lambda each: (_WORST_FIRST.index(each[0].state), -(each[0].age_ms or 0)))
    for lease, asked in leases[:_LEASES_MAX]:
        what = "its single map" if asked.needs_map else "a sign of life"
        yield f"waits for {lease.node}", f"{what}; {missed.since(asked)}; {_lease_in_words(lease)}"
        yield f"{lease.node} is waited for until", missed.ends(asked)
    if leases:
        yield "next", _advice(found, leases[0][0])


def _lease_in_words(lease: Lease) -> str:
    if lease.state is None:
        return "renewals of the past are not kept"
    if lease.state == "NONE":
        return "none of its heartbeats has been confirmed since it joined"
    return f"lease {lease.state}, heartbeat {lease.sequence} confirmed {lease.age_ms} ms ago"


def _advice(found: ExchangeDetail, worst: Lease) -> str:
    if worst.state in NOT_RENEWED:
        return f"`topolog explain node {worst.node}`: it is silent, and leaves by itself when its lease is over"
    hangs = f"if {worst.node} hangs though it beats, `topolog remove node {worst.node}` takes it out"
    wait = f"`topolog wait exchange/{found.version} --for=Completed`; " if found.state == "OPEN" else ""
    return f"{wait}{hangs}"


def _paused(reading: Reading, missed: paused.Missed) -> Iterator[tuple[str, str]]:
    """By group, which partitions are paused and for whom each waits; what is served meanwhile."""
    for _, group in reading.rows(GroupRow):
        count = partitions.condition_totals(reading, group.name).get(Condition.PAUSED, 0)
        if not count:
            continue
        by_wait = [
            f"{partitions.ranges(numbers)} for {listed(nodes) or 'the next exchange'}"
            for nodes, numbers in missed.by_wait(group.name)
        ]
        more = f"; the first {paused.SAMPLE} of them are told" if count > paused.SAMPLE else ""
        yield f"paused of group {group.name}", f"{counted(count, 'partition')}: {'; '.join(by_wait)}{more}"
        yield f"goes on of group {group.name}", paused.goes_on(reading, group.name)


def _besides(reading: Reading, row: ExchangeRow | None) -> Iterator[tuple[str, str]]:
    queue = reading.row(QueueRow, "")
    if queue is not None:
        after = f"behind exchange {row.version}" if row else "about to begin"
        yield "queued", f"{triggers(queue.triggers)} ({after})"
    for hand_over in exchanges.hand_overs(reading):
        count = sum(len(move.partitions) for move in hand_over.moves)
        words = patience.for_hand_over(reading, hand_over)[1]
        yield f"hand-over by {hand_over.node}", f"{count} partitions, since position {hand_over.prepared_at}; {words}"


def _decisions(reading: Reading, found: ExchangeDetail) -> Iterator[Decided]:
    """The decisions that triggered it, and those that began, widened and ended it."""
    yield from exchanges.decisions(reading, found)
    if not found.is_switch:
        end = reading.position if found.completed_at is None else found.completed_at
        yield from _that_triggered(reading, found, Position(end + 1))


def _that_triggered(reading: Reading, found: ExchangeDetail, before: Position) -> Iterator[Decided]:
    for type_, subject in dict.fromkeys((each.type, each.subject) for each in found.triggers[:_TRIGGERS_MAX]):
        is_node = type_ in ("JOIN", "LEAVE", "DRAIN")
        about = f"{'node' if is_node else 'group'} {subject}" if subject else _SUBJECTS.get(type_, "exchange")
        decisions = reading.decisions(before if is_node else found.started_at, about)
        yield from islice((each for each in islice(decisions, _LOOKED_AT) if each.event_name in _TRIGGERING), 1)
