"""A history of a cluster: what clients did and were told, and the log that arbitrates; and what can be broken of it."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

import msgspec
from tests.soak.operations import AnyLine, Asked, Held, Line

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events.asked import Request, RequestRef
from topolog.events.fold import Event

L = TypeVar("L", bound=Line)
NS_PER_MS = 1_000_000


class Rule(Enum):
    ONE_OUTCOME = "every request has exactly one outcome"
    TOLD_THE_TRUTH = "what a client is told stands in the log"
    REAL_TIME = "what was asked after an answer stands behind what was answered"
    FRESH_READ = "no read shows less than was accepted, or read by anybody, before it began"
    TRUE_READ = "a read shows an accepted version with its content"
    FRESH_LEASE = "whoever holds a lease has applied all that is older than the fence"
    ACCEPTED = "accepted means applied or fenced, everywhere"
    MEMBER_LEASE = "no node outside the membership holds a lease"
    LEGAL_LEAVING = "a node is put out only when its lease is provably over"
    ONE_LIFE = "a node is a member in one life at a time"
    VERSIONS = "versions rise by one and hold exactly what was asked on top of what was there"
    ACCEPTANCES = "versions are accepted in their order, each once"
    REFUSALS = "a proposal is refused as a contradiction only if it is one"
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
    """`requests`: those that stand on their topic, the first of each id. `state_hashes`: the auditor's, by position.

    `released_ms`, `certified_ms`: when, by the broker's clock, an incarnation first said that it stops, and when its
    death certificate came.
    """

    fence_ms: int
    margin_ms: int
    decided: Sequence[Decided] = ()
    requests: Mapping[str, Request] = {}
    digests: Mapping[str, bytes] = {}
    released_ms: Mapping[int, int] = {}
    certified_ms: Mapping[int, int] = {}
    state_hashes: Mapping[int, str] = {}
    lines: Sequence[AnyLine] = ()
    kills: Sequence[Kill] = ()

    @cached_property
    def outcomes(self) -> dict[str, list[Decided]]:
        """The decisions that give each request an outcome."""
        found: dict[str, list[Decided]] = defaultdict(list)
        for each in self.decided:
            ref = getattr(each.event, "request", None)
            if isinstance(ref, RequestRef):
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
    def accepted(self) -> dict[str, int]:
        """The highest version of each type that was ever accepted; an acceptance covers all before it."""
        highest: dict[str, int] = defaultdict(int)
        for each in self.decided:
            if isinstance(each.event, md.MetadataUpdateAccepted):
                highest[each.event.type_name] = max(highest[each.event.type_name], each.event.version)
        return highest

    @cached_property
    def asked(self) -> dict[tuple[str, int, int], Asked]:
        """What was about to be proposed, by client, life and operation."""
        return {(each.client, each.life, each.operation): each for each in of(Asked, self.lines)}

    @cached_property
    def held(self) -> set[int]:
        """The incarnations that ever passed a lease check."""
        return {each.incarnation for each in of(Held, self.lines)}

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


def of(kind: type[L], lines: Sequence[AnyLine]) -> Iterator[L]:
    return (line for line in lines if isinstance(line, kind))
