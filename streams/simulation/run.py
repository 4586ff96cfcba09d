"""One seeded run: the world lives through its plan, every step of it is checked, and then it must come to rest."""

import hashlib
import itertools
from collections.abc import Sequence

import msgspec

from topolog.events.errors import TopologError
from topolog.events.terms import cluster
from topolog.events.topics import PARTITIONS
from topolog.streams.simulation.faults import Act, Faults, describe, plan
from topolog.streams.simulation.histories import Histories
from topolog.streams.simulation.network import LATE_MS
from topolog.streams.simulation.processes import TERMS
from topolog.streams.simulation.rules import Broken, Rule
from topolog.streams.simulation.timeline import NS_PER_MS
from topolog.streams.simulation.world import World

REST_MS_MAX = LATE_MS + 10 * (TERMS.fence_ms + TERMS.margin_ms)
"""Time to come to rest: the last late send may depose a leader, then takeover, lease waits and joins follow in turn."""

_STEPS_BETWEEN_LOOKS = 25


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a run depends on: the seed makes the world, the acts befall it within `span_ms` of its time."""

    seed: int
    span_ms: int
    acts: tuple[Act, ...]


class Report(msgspec.Struct, frozen=True):
    """What one run has been through. `restored`: how many processes started from a snapshot.

    `digest` is over every byte of the log: the same for the same case.
    """

    case: Case
    steps: int
    rest_ms: int
    positions: int
    terms: int
    requests: int
    nodes_left: int
    restored: int
    digest: str


class Violation(AssertionError):
    """A rule is broken, `at_ms` after the case's beginning. The case repeats it; a part of its acts may do."""

    def __init__(self, case: Case, at_ms: int, rule: Rule, detail: str, history: str) -> None:
        super().__init__(
            f"seed {case.seed}, after {at_ms} ms: {rule.name}, «{rule.value}»\n"
            f"  {detail}\n  ({describe(case.acts)})\n{history}"
        )
        self.case = case
        self.at_ms = at_ms
        self.rule = rule
        self.detail = detail

    @property
    def seed(self) -> int:
        return self.case.seed


def drawn(seed: int, span_ms: int, budget: Faults) -> Case:
    """The case of a seed: what befalls its world is drawn within the budget."""
    return Case(seed, span_ms, tuple(plan(seed, budget, span_ms)))


def simulate(seed: int, span_ms: int, budget: Faults) -> Report:
    """Run one seed for `span_ms` with faults and then until it is at rest; raises Violation."""
    return replay(drawn(seed, span_ms, budget))


def replay(case: Case) -> Report:
    """Run exactly this case; raises Violation."""
    return _Run(case).through()


class _Run:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._histories = Histories(case.seed, case.acts)
        self._timeline = self._histories.worlds[0].timeline
        self._steps = 0

    def through(self) -> Report:
        try:
            for act in self._case.acts:
                self._live_until(act.at_ms)
                self._histories.perform(act)
            self._live_until(self._case.span_ms)
            healed_ms = self._timeline.now_ms
            self._come_to_rest()
        except Broken as broken:
            raise self._violation(broken.rule, broken.detail) from None
        except (TopologError, AssertionError, LookupError, ValueError, TypeError, AttributeError) as error:
            raise self._violation(Rule.RUNS_ON, repr(error)) from error
        return self._report(self._timeline.now_ms - healed_ms)

    def _live_until(self, at_ms: int) -> None:
        while self._timeline.next_ns <= at_ms * NS_PER_MS:
            self._advance()

    def _advance(self) -> None:
        self._steps += 1
        self._histories.step()

    def _come_to_rest(self) -> None:
        self._histories.worlds[0].note("the faults are over")
        self._histories.heal()
        deadline_ns = self._timeline.now_ns + REST_MS_MAX * NS_PER_MS
        while unrest := self._histories.unrest():
            if self._timeline.now_ns > deadline_ns:
                raise Broken(Rule.CONVERGES, unrest)
            for _ in range(_STEPS_BETWEEN_LOOKS):
                self._advance()
        self._histories.check_rest()

    def _violation(self, rule: Rule, detail: str) -> Violation:
        return Violation(self._case, self._timeline.now_ms, rule, detail, self._histories.worlds[0].history())

    def _report(self, rest_ms: int) -> Report:
        first, *_ = checks = self._histories.checks
        ledger = first.ledger
        return Report(
            case=self._case,
            steps=self._steps,
            rest_ms=rest_ms,
            positions=sum(each.ledger.position + 1 for each in checks),
            terms=cluster(ledger.state).term,
            requests=sum(len(each.answered) for each in checks),
            nodes_left=sum(len(each.left) for each in checks),
            restored=sum(len(each.restored) for each in checks),
            digest=_digest(self._histories.worlds),
        )


def _digest(worlds: Sequence[World]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for world, (topic, count) in itertools.product(worlds, PARTITIONS.items()):
        for number in range(count):
            for entry in world.broker.log.entries(topic, number):
                digest.update(f"{topic.short_name} {number} {entry.appended_at_ms} ".encode())
                digest.update(entry.stamp or b"")
                digest.update(entry.value)
    return digest.hexdigest()
