"""What an exchange is about, whom it waits for, and what to do about it.

Answers to an exchange are on the topic `maps`, which this reader does not read: who is asked is known here, and who has
not answered only from the moment on at which the log names them (ExchangeOverdue). Of each of these the last thing the
log knows is told, its lease; and when it is over, how the wait for them has ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile

from topolog.events.baseline import BaselineChanged
from topolog.events.drains import DrainCancelled, DrainStarted
from topolog.events.errors import NotFound
from topolog.events.exchange import OTHERS, ExchangeQueued, ExchangeRow, QueueRow, Trigger
from topolog.events.ids import Position
from topolog.events.membership import NodeLeft
from topolog.projections import exchanges, patience, queries
from topolog.projections.durations import ago
from topolog.projections.explain import last_causes, with_next
from topolog.projections.layout import Decided
from topolog.projections.partition_resources import ExchangeDetail
from topolog.projections.resources import Awaited, Explanation
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
    row = exchanges.open_row(reading)
    is_open = row is not None and str(row.version) == found.version
    facts = {
        **dict(_what(found)),
        **dict(_overdue(reading, found)),
        **(dict(_waiting(reading, age_ms, row)) if row is not None and is_open else {}),
        **dict(_besides(reading, row)),
    }
    causes = last_causes(sorted(_decisions(reading, found), key=lambda decided: -decided.position))
    explained = Explanation(_sentence(found), facts, causes, awaited(row) if row is not None and is_open else ())
    about = "topolog wait exchange/{0} --for=Completed" if is_open else "topolog get partitions --state MOVING"
    return with_next(explained, about.format(found.version), f"topolog history exchange {found.version}")


def triggers(about: Sequence[Trigger]) -> str:
    """`JOIN n4, LEAVE n2`."""
    return _listed([(each.type.value, each.subject) for each in about])


def awaited(row: ExchangeRow) -> tuple[Awaited, ...]:
    """Servers whose answer an open exchange may wait for: those it has asked, or those of them that the log names."""
    return tuple(Awaited(each.node, each.at, None) for each in exchanges.silent(row))


def _listed(about: Sequence[tuple[str, str]]) -> str:
    """Types and subjects of triggers."""
    shown = ", ".join(f"{type_} {subject}".rstrip() for type_, subject in about[:_TRIGGERS_MAX])
    return shown + (f" and {len(about) - _TRIGGERS_MAX} more" if len(about) > _TRIGGERS_MAX else "")


def _sentence(found: ExchangeDetail) -> str:
    about = f"Exchange {found.version} ({_listed([(each.type, each.subject) for each in found.triggers])})"
    if found.state == "OPEN":
        opened = f"{about} is open since position {found.started_at}, {ago(found.duration_ms)} ago"
        late = ", ".join(node for node in found.overdue if node in found.awaited)
        if late:
            return f"{opened}; overdue, named at position {found.overdue_at}: {late}."
        return f"{opened}; asked for their maps, not all have answered: {', '.join(found.awaited) or 'nobody'}."
    changed = sum(found.changed.values())
    outcome = f"{changed} partition{'' if changed == 1 else 's'} changed"
    if found.is_switch:
        outcome = f"{changed} primar{'y was' if changed == 1 else 'ies were'} handed over"
    lost = f", {sum(found.lost.values())} lost" if found.lost else ""
    return f"{about} was completed at position {found.completed_at} after {ago(found.duration_ms)}: {outcome}{lost}."


def _what(found: ExchangeDetail) -> Iterator[tuple[str, str]]:
    if found.state == "OPEN":
        yield (
            "phase",
            "waits for the single maps of the servers that are asked; everything that has a primary is served",
        )
    else:
        yield "phase", "completed"
    if found.unheard:
        names = ", ".join(found.unheard)
        yield "completed without", f"{names}: what only they hold stays paused until they are heard"
    if found.result != found.version:
        yield "taken in", f"what happened meanwhile; the result is that of view {found.result}"
    for group, count in found.changed.items():
        yield (
            f"group {group}",
            f"{count} partition{'' if count == 1 else 's'} changed"
            + (f", {found.lost[group]} lost" if group in found.lost else ""),
        )
    if found.waited:
        slowest = found.waited[-1]
        were = f"{len(found.asked)} were asked, {len(found.waited)} answered"
        yield "slowest answer", f"{slowest.node}, after {slowest.waited_ms} ms; {were}"
    elif found.asked and found.state != "OPEN":
        yield "asked", f"{', '.join(found.asked)}: none of them has answered"
    elif found.state != "OPEN" and not found.is_switch:
        yield "asked", "nobody: what is to be decided follows from the log alone"


def _overdue(reading: Reading, found: ExchangeDetail) -> Iterator[tuple[str, str]]:
    """Whom the log has named, and how the wait for each has ended."""
    if found.overdue_at is None:
        return
    names = ", ".join(found.overdue)
    yield "overdue", f"{names}: named at position {found.overdue_at}; the others that were asked had answered by then"
    for node in found.overdue[:_LEASES_MAX]:
        ends = [*_left(reading, found, node), *_answered(found, node)]
        if node in found.unheard:
            ends.append("was not heard: the exchange was completed without it")
        if ends:
            yield f"wait for {node}", f"{', and '.join(ends)}"


def _left(reading: Reading, found: ExchangeDetail, node: str) -> Iterator[str]:
    """That it left after it was named, while the exchange was open; the last time counts."""
    end = reading.position if found.completed_at is None else found.completed_at
    named_at = found.started_at if found.overdue_at is None else found.overdue_at
    since = takewhile(lambda decided: decided.position > named_at, reading.decisions(end + 1, f"node {node}"))
    for decided in since:
        if isinstance(decided.event, NodeLeft):
            yield f"it left at position {decided.position} ({decided.event.reason.value})"
            return


def _answered(found: ExchangeDetail, node: str) -> Iterator[str]:
    return (f"it answered after {each.waited_ms} ms" for each in found.waited if each.node == node)


def _waiting(reading: Reading, age_ms: int, row: ExchangeRow) -> Iterator[tuple[str, str]]:
    """The last thing that is known of each server that may not have answered, and what can be done."""
    leases = []
    for each in exchanges.silent(row):
        try:
            lease = queries.lease(reading, age_ms, each.node)
        except NotFound:
            yield each.node, "no member any more; the exchange is about to take that in"
            continue
        leases.append(lease)
    leases.sort(key=lambda lease: (_WORST_FIRST.index(lease.state), -(lease.age_ms or 0)))
    for lease in leases[:_LEASES_MAX]:
        if lease.state is None:
            yield lease.node, "asked; renewals of the past are not kept"
        elif lease.state == "NONE":
            yield lease.node, "none of its heartbeats has been confirmed since it joined"
        else:
            yield lease.node, f"lease {lease.state}, heartbeat {lease.sequence} confirmed {lease.age_ms} ms ago"
    if not leases:
        return
    worst = leases[0]
    if worst.state in ("NONE", "OVERDUE", "SILENT"):
        yield (
            "next",
            f"`topolog explain node {worst.node}`: it is silent, and leaves by itself when its lease is over",
        )
    elif worst.state is not None:
        late = next((lease.node for lease in leases if lease.node in row.overdue), None)
        advice = f"if {late or 'one that is asked'} hangs though it beats, `topolog remove node {late or 'NAME'}`"
        yield "next", f"`topolog wait exchange/{row.version} --for=Completed`; {advice} takes it out"


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
