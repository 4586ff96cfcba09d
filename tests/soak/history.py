"""Whether a history was legal: what clients did and were told, held against the log that arbitrates. Pure.

Threats: an answer that was a lie (a success the log does not hold, two outcomes, a refusal with an effect), a read from
yesterday, a node that acts without being a member, a member that was put out while it still could act.

Method. Where the log orders everything, linearizability need not be searched for: the log order is the witness. Each
proposal takes effect at the position of its decision, and what is left to check is that this order agrees with real
time. Real time is one clock of one machine; the log's part in it is when the auditor saw a record, which is never
before the record was there, so a rule of the form «what began after that» is judged too mildly at worst, never falsely.

Each rule is a function from the history to its violations; `judge` runs all of them.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

import msgspec
from tests.soak.operations import AnyLine, Asked, Ended, Held, Line, Read, Sent, Stood, Told, fields_crc

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events.fold import Event

L = TypeVar("L", bound=Line)
NS_PER_MS = 1_000_000
CLOCK_GRAIN_MS = 20
"""What two times of the broker's clock may be nearer than they were: it is read in ms and is not steered by us."""


class Rule(Enum):
    ONE_OUTCOME = "every request has exactly one outcome"
    TOLD_THE_TRUTH = "what a client is told stands in the log"
    REAL_TIME = "what was asked after an answer stands behind what was answered"
    FRESH_READ = "no read shows less than was accepted, or read by anybody, before it began"
    TRUE_READ = "a read shows a version of the log with its content"
    FRESH_LEASE = "whoever holds a lease has applied all that is older than the fence"
    ACCEPTED = "accepted means applied or fenced, everywhere"
    MEMBER_LEASE = "no node outside the membership holds a lease"
    LEGAL_LEAVING = "a node is put out only when its lease is provably over"
    VERSIONS = "versions rise by one and hold exactly what was asked on top of what was there"
    ONE_FOLD = "all readers hold the same state at the same position"
    ONE_LOG = "the log is one chain, one author a term, and two readings of it agree"
    NO_END = "nothing ends a node for good"
    REST = "the cluster comes to rest when the faults are over"


class Violation(msgspec.Struct, frozen=True):
    rule: Rule
    what: str

    def __str__(self) -> str:
        return f"broken: {self.rule.value}: {self.what}"


class Decided(msgspec.Struct, frozen=True):
    """A decision that stands in the log; the auditor saw it at `seen_ns`, the broker stamped it `appended_ms`."""

    position: int
    seen_ns: int
    appended_ms: int
    event: Event


class Kill(msgspec.Struct, frozen=True):
    """A client's process was killed, no earlier than `at_ns`."""

    client: str
    at_ns: int


class History(msgspec.Struct, frozen=True, dict=True):
    """`requests`: those that stand on their topic, the first of each id. `released`: incarnations that said so.

    `state_hashes`: the auditor's, by position.
    """

    fence_ms: int
    margin_ms: int
    decided: Sequence[Decided] = ()
    requests: Mapping[str, q.AnyRequest] = {}
    digests: Mapping[str, bytes] = {}
    released: frozenset[int] = frozenset()
    state_hashes: Mapping[int, str] = {}
    lines: Sequence[AnyLine] = ()
    kills: Sequence[Kill] = ()

    @cached_property
    def outcomes(self) -> dict[str, list[Decided]]:
        """The decisions that give each request an outcome."""
        found: dict[str, list[Decided]] = defaultdict(list)
        for each in self.decided:
            ref = getattr(each.event, "request", None)
            if isinstance(ref, q.RequestRef):
                found[str(ref)].append(each)
        return found

    @cached_property
    def proposed(self) -> dict[tuple[str, int], Decided]:
        """Where each version of each type stands."""
        return {
            (each.event.type_name, each.event.version): each
            for each in self.decided
            if isinstance(each.event, md.MetadataUpdateProposed)
        }

    @cached_property
    def joined(self) -> dict[int, Decided]:
        return {each.event.joiner.incarnation: each for each in self.decided if isinstance(each.event, m.NodeJoined)}


class Steps:
    """A value that only rises, by the time from which it is known."""

    def __init__(self, steps: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(steps)
        self._times = [time for time, _ in ordered]
        self._values = list(accumulate((value for _, value in ordered), max))

    def before(self, at_ns: int) -> int:
        """The highest value known before this time, -1 if none was."""
        count = bisect_left(self._times, at_ns)
        return self._values[count - 1] if count else -1


def judge(history: History, *, at_rest: bool) -> list[Violation]:
    """Every violation, in the order of the rules. `at_rest`: nothing is under way any more, so nothing may be open."""
    rules = (
        _outcomes,
        _told,
        _real_time,
        _fresh_reads,
        _true_reads,
        _fresh_leases,
        _accepted,
        _member_leases,
        _leavings,
        _versions,
        _folds,
        _ends,
    )
    found = [violation for rule in rules for violation in rule(history)]
    return [*found, *_unanswered(history)] if at_rest else found


def _outcomes(history: History) -> Iterator[Violation]:
    for request, decided in history.outcomes.items():
        if len(decided) > 1:
            where = ", ".join(f"{type(each.event).__name__} at {each.position}" for each in decided)
            yield Violation(Rule.ONE_OUTCOME, f"{request} has {where}")
        digest = history.digests.get(request)
        ref = getattr(decided[0].event, "request", None)
        if digest is None:
            yield Violation(Rule.ONE_OUTCOME, f"{request} was never asked, and is decided at {decided[0].position}")
        elif ref is None or ref.digest != digest:
            yield Violation(Rule.ONE_OUTCOME, f"{request} was decided for another content than was asked first")


def _unanswered(history: History) -> Iterator[Violation]:
    for request in sorted(history.requests.keys() - history.outcomes.keys()):
        yield Violation(Rule.ONE_OUTCOME, f"{request} stands on its topic and has no outcome")


def _told(history: History) -> Iterator[Violation]:
    accepted = {
        each.event.type_name: each.event.version
        for each in history.decided
        if isinstance(each.event, md.MetadataUpdateAccepted)
    }
    for told in _of(Told, history.lines):
        if told.request is None:
            continue
        outcome = next(iter(history.outcomes.get(told.request, ())), None)
        what = f"{told.client} was told {told.status} {told.code or told.version} for {told.request}"
        if outcome is None:
            yield Violation(Rule.TOLD_THE_TRUTH, f"{what}, and the log has no outcome of it")
        elif (stands := _as_told(outcome)) != (told.status, told.version, told.code):
            yield Violation(Rule.TOLD_THE_TRUTH, f"{what}, the log has {stands} at {outcome.position}")
        elif told.status != "REFUSED" and told.position != outcome.position:
            yield Violation(Rule.TOLD_THE_TRUTH, f"{what} at {told.position}, the log has it at {outcome.position}")
        elif told.accepted and accepted.get(_subject(outcome, history), 0) < told.version:
            yield Violation(Rule.TOLD_THE_TRUTH, f"{what}, accepted, and the log has not accepted it")


def _as_told(outcome: Decided) -> tuple[str, int, str]:
    """Status, version and code as the client of this outcome has to be told them."""
    match outcome.event:
        case md.MetadataUpdateProposed(version=version):
            return "GRANTED", version, ""
        case q.RequestUnchanged(version=version):
            return "UNCHANGED", version or 0, ""
        case md.MetadataUpdateRejected(code=code) | q.RequestRefused(code=code):
            return "REFUSED", 0, code
        case event:
            return type(event).__name__, 0, ""


def _subject(outcome: Decided, history: History) -> str:
    match outcome.event:
        case md.MetadataUpdateProposed(type_name=name):
            return name
        case q.RequestUnchanged(subject=subject):
            return subject.removeprefix("type ")
    return ""


def _real_time(history: History) -> Iterator[Violation]:
    """A proposal whose asking began after somebody was told of position p is decided behind p."""
    known = Steps((told.at_ns, told.position) for told in _of(Told, history.lines))
    asked = {(each.client, each.life, each.operation): each for each in _of(Asked, history.lines)}
    for sent in _of(Sent, history.lines):
        outcome = next(iter(history.outcomes.get(sent.request or "", ())), None)
        began = asked.get((sent.client, sent.life, sent.operation))
        if outcome is None or began is None:
            continue
        before = known.before(began.at_ns)
        if outcome.position <= before:
            what = f"{sent.request} was asked when position {before} was known, and is decided at {outcome.position}"
            yield Violation(Rule.REAL_TIME, what)


def _fresh_reads(history: History) -> Iterator[Violation]:
    """Versions are known as accepted from the log, from whoever was told, and from whoever has read them."""
    known: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for each in history.decided:
        if isinstance(each.event, md.MetadataUpdateAccepted):
            known[each.event.type_name].append((each.seen_ns, each.event.version))
    names = {(each.client, each.life, each.operation): each.type_name for each in _of(Asked, history.lines)}
    for told in _of(Told, history.lines):
        if told.accepted:
            known[names[told.client, told.life, told.operation]].append((told.at_ns, told.version))
    for read in _of(Read, history.lines):
        known[read.type_name].append((read.returned_ns, read.version))
    steps = {name: Steps(each) for name, each in known.items()}
    for read in _of(Read, history.lines):
        floor = steps[read.type_name].before(read.at_ns)
        if read.version < floor:
            what = f"{read.client} read version {read.version} of {read.type_name} when {floor} was known as accepted"
            yield Violation(Rule.FRESH_READ, what)


def _true_reads(history: History) -> Iterator[Violation]:
    crcs = {
        key: fields_crc(each.event.definition.fields.items())
        for key, each in history.proposed.items()
        if isinstance(each.event, md.MetadataUpdateProposed)
    }
    for read in _of(Read, history.lines):
        if read.version and crcs.get((read.type_name, read.version)) != read.fields_crc:
            what = f"{read.client} read version {read.version} of {read.type_name} with a content that the log has not"
            yield Violation(Rule.TRUE_READ, what)


def _fresh_leases(history: History) -> Iterator[Violation]:
    """A check that began a fence after a decision was seen in the log found the decision applied."""
    seen = Steps((each.seen_ns, each.position) for each in history.decided)
    for held in _of(Held, history.lines):
        old = seen.before(held.at_ns - history.fence_ms * NS_PER_MS)
        if held.position < old:
            what = f"{held.client} held a lease at position {held.position} a fence after {old} was in the log"
            yield Violation(Rule.FRESH_LEASE, what)


def _accepted(history: History) -> Iterator[Violation]:
    """A check that began after an acceptance was seen found the proposal applied."""
    proposed = history.proposed
    through = Steps(
        (each.seen_ns, proposed[each.event.type_name, each.event.version].position)
        for each in history.decided
        if isinstance(each.event, md.MetadataUpdateAccepted) and (each.event.type_name, each.event.version) in proposed
    )
    for held in _of(Held, history.lines):
        needed = through.before(held.at_ns)
        if held.position < needed:
            what = f"{held.client} held a lease at position {held.position} when all up to {needed} was accepted"
            yield Violation(Rule.ACCEPTED, what)


def _member_leases(history: History) -> Iterator[Violation]:
    left: dict[int, Decided] = {
        each.event.incarnation: each for each in history.decided if isinstance(each.event, m.NodeLeft)
    }
    for held in _of(Held, history.lines):
        gone = left.get(held.incarnation)
        if gone is not None and held.at_ns > gone.seen_ns:
            what = f"{held.client} held a lease {(held.at_ns - gone.seen_ns) / 1e6:.0f} ms after it was out"
            yield Violation(Rule.MEMBER_LEASE, f"{what} (position {gone.position})")
        if held.incarnation not in history.joined:
            yield Violation(Rule.MEMBER_LEASE, f"{held.client} held a lease as an incarnation that never joined")


def _leavings(history: History) -> Iterator[Violation]:
    """It said so, its process was dead, or nothing has prolonged its lease for the fence and the margin."""
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
            case m.NodeLeft() as left:
                waited_ms = each.appended_ms - renewed_ms[left.incarnation]
                if left.incarnation in history.released or _was_killed(history, left, each.seen_ns):
                    continue
                if waited_ms < history.fence_ms + history.margin_ms - CLOCK_GRAIN_MS:
                    what = f"{left.node} is out ({left.reason.value}) {waited_ms} ms after its last renewal"
                    yield Violation(Rule.LEGAL_LEAVING, f"{what} (position {each.position})")


def _was_killed(history: History, left: m.NodeLeft, seen_ns: int) -> bool:
    """Only a certified death may shorten the wait, and only that of a process that was dead."""
    lived_from = history.joined[left.incarnation].seen_ns
    kills = [each for each in history.kills if each.client == left.node and lived_from < each.at_ns < seen_ns]
    return left.reason.value == "DIED" and bool(kills)


def _versions(history: History) -> Iterator[Violation]:
    newest: dict[str, tuple[int, Mapping[str, str]]] = {}
    for each in history.decided:
        if not isinstance(each.event, md.MetadataUpdateProposed):
            continue
        name, version, fields = each.event.type_name, each.event.version, dict(each.event.definition.fields)
        was, had = newest.get(name, (0, {}))
        newest[name] = (version, fields)
        if version != was + 1:
            yield Violation(Rule.VERSIONS, f"{name} goes from version {was} to {version} at {each.position}")
        request = history.requests.get(str(each.event.request))
        asked = dict(request.definition.fields) if isinstance(request, q.UpdateRequested) else {}
        if each.event.request and fields != {**asked, **had}:
            yield Violation(Rule.VERSIONS, f"{name} version {version} is not version {was} with what was asked")


def _folds(history: History) -> Iterator[Violation]:
    for stood in _of(Stood, history.lines):
        expected = history.state_hashes.get(stood.position)
        if expected is None and stood.position > max(history.state_hashes, default=-1):
            yield Violation(Rule.ONE_FOLD, f"{stood.client} stands at {stood.position}, behind the end of the log")
        elif expected != stood.state_hash:
            what = f"{stood.client} holds {stood.state_hash} at position {stood.position}, the log makes {expected}"
            yield Violation(Rule.ONE_FOLD, what)


def _ends(history: History) -> Iterator[Violation]:
    for ended in _of(Ended, history.lines):
        yield Violation(Rule.NO_END, f"{ended.client}: {ended.code}: {ended.message}")


def _of(kind: type[L], lines: Sequence[AnyLine]) -> Iterator[L]:
    return (line for line in lines if isinstance(line, kind))
