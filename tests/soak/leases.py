"""Who was a member, and who acted as one. Pure.

An incarnation acts by passing a lease check, alone or around a read. It may do so from its NodeJoined on, and never
after its NodeLeft; and its NodeLeft may stand only where it cannot act any more.
"""

from collections.abc import Iterator

from tests.soak.history import NS_PER_MS, Decided, History, Rule, Steps, Violation, of
from tests.soak.operations import Held, Read

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events.leases import LeaveReason

CLOCK_GRAIN_MS = 20
"""What two times of the broker's clock may be nearer than they were: it is read in ms and is not steered by us."""


def fresh_leases(history: History) -> Iterator[Violation]:
    """A check that began a fence after a decision was seen in the log found the decision applied."""
    seen = Steps((each.seen_ns, each.position) for each in history.decided)
    for held in of(Held, history.lines):
        old = seen.before(held.at_ns - history.fence_ms * NS_PER_MS)
        if held.position < old:
            what = f"{held.client} held a lease at position {held.position} a fence after {old} was in the log"
            yield Violation(Rule.FRESH_LEASE, what)


def accepted(history: History) -> Iterator[Violation]:
    """A check that began after an acceptance was seen found the proposal applied."""
    proposed = history.proposed
    through = Steps(
        (each.seen_ns, proposed[each.event.type_name, each.event.version].position)
        for each in history.decided
        if isinstance(each.event, md.MetadataUpdateAccepted) and (each.event.type_name, each.event.version) in proposed
    )
    for held in of(Held, history.lines):
        needed = through.before(held.at_ns)
        if held.position < needed:
            what = f"{held.client} held a lease at position {held.position} when all up to {needed} was accepted"
            yield Violation(Rule.ACCEPTED, what)


def member_leases(history: History) -> Iterator[Violation]:
    left: dict[int, Decided] = {
        each.event.incarnation: each for each in history.decided if isinstance(each.event, m.NodeLeft)
    }
    joined = {
        (each.event.joiner.node, each.event.joiner.incarnation)
        for each in history.decided
        if isinstance(each.event, m.NodeJoined)
    }
    for line in history.lines:
        if not isinstance(line, Held | Read) or line.incarnation is None:
            continue
        did = "held a lease" if isinstance(line, Held) else f"read {line.type_name}"
        gone = left.get(line.incarnation)
        if gone is not None and line.at_ns > gone.seen_ns:
            what = f"{line.client} {did} {(line.at_ns - gone.seen_ns) / 1e6:.0f} ms after it was out"
            yield Violation(Rule.MEMBER_LEASE, f"{what} (position {gone.position})")
        if (line.client, line.incarnation) not in joined:
            yield Violation(Rule.MEMBER_LEASE, f"{line.client} {did} as an incarnation of it that never joined")


def lives(history: History) -> Iterator[Violation]:
    """The membership replayed: a node joins when its life before is out, and only a life that is in goes out."""
    inside: dict[str, int] = {}
    for each in history.decided:
        match each.event:
            case m.NodeJoined(joiner=joiner):
                if joiner.node in inside:
                    what = f"{joiner.node} joins at {each.position}, and its life before has not left"
                    yield Violation(Rule.ONE_LIFE, what)
                inside[joiner.node] = joiner.incarnation
            case m.NodeLeft(node=node, incarnation=incarnation):
                if inside.pop(node, None) != incarnation:
                    yield Violation(Rule.ONE_LIFE, f"{node} leaves at {each.position} as a life that was not in")


def leavings(history: History) -> Iterator[Violation]:
    """It had said so, its process was dead, or nothing has prolonged its lease for the fence and the margin."""
    holder: dict[int, int] = {}
    renewed_ms: dict[int, int] = {}
    for each in history.decided:
        match each.event:
            case m.NodeJoined(joiner=joiner, slot=slot):
                holder[slot] = joiner.incarnation
                renewed_ms[joiner.incarnation] = each.appended_ms
            case m.LeasesRenewed(renewals=renewals):
                for slot, _ in m.unpack_renewals(renewals):
                    renewed_ms[holder[slot]] = each.appended_ms
            case m.NodeLeft() as left if left.incarnation in renewed_ms:  # else ONE_LIFE is broken
                waited_ms = each.appended_ms - renewed_ms[left.incarnation]
                if _had_released(history, left, each) or _had_died(history, left, each):
                    continue
                if waited_ms < history.fence_ms + history.margin_ms - CLOCK_GRAIN_MS:
                    what = f"{left.node} is out ({left.reason.value}) {waited_ms} ms after its last renewal"
                    yield Violation(Rule.LEGAL_LEAVING, f"{what} (position {each.position})")


def _had_released(history: History, left: m.NodeLeft, each: Decided) -> bool:
    released_ms = history.released_ms.get(left.incarnation)
    return released_ms is not None and released_ms <= each.appended_ms + CLOCK_GRAIN_MS


def _had_died(history: History, left: m.NodeLeft, each: Decided) -> bool:
    """A certificate shortens the wait if it was there and is true: of a process that was killed, or of an incarnation
    that never held a lease, for a node that gives up while it joins renounces what it may yet be granted."""
    certified_ms = history.certified_ms.get(left.incarnation)
    if left.reason is not LeaveReason.DIED or certified_ms is None:
        return False
    lived_from = history.joined[left.incarnation].seen_ns
    was_killed = any(kill.client == left.node and lived_from < kill.at_ns < each.seen_ns for kill in history.kills)
    return certified_ms <= each.appended_ms + CLOCK_GRAIN_MS and (was_killed or left.incarnation not in history.held)
