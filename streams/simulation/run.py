"""One seeded run: the world lives through its plan, every step of it is checked, and then it must come to rest."""

import hashlib
import random
from collections.abc import Sequence

import msgspec

from topolog.events.errors import TopologError
from topolog.events.terms import cluster
from topolog.events.topics import PARTITIONS
from topolog.streams.simulation.checks import Broken, Checks, Rule
from topolog.streams.simulation.faults import Act, Faults, describe, perform, plan
from topolog.streams.simulation.network import LATE_MS
from topolog.streams.simulation.processes import TERMS
from topolog.streams.simulation.timeline import NS_PER_MS
from topolog.streams.simulation.world import World

REST_MS_MAX = LATE_MS + 10 * (TERMS.fence_ms + TERMS.margin_ms)
"""Time to come to rest: the last late send may depose a leader, then takeover, lease waits and joins follow in turn."""

_STEPS_BETWEEN_LOOKS = 25


class Report(msgspec.Struct, frozen=True):
    """What one run has been through. `digest` is over every byte of the log: the same for the same seed."""

    seed: int
    steps: int
    acts: tuple[Act, ...]
    lived_ms: int
    rest_ms: int
    positions: int
    terms: int
    requests: int
    nodes_left: int
    digest: str


class Violation(AssertionError):
    """A rule is broken. The seed repeats the run; `acts` is the plan, of which a part may do."""

    def __init__(self, seed: int, step: int, rule: Rule, detail: str, acts: Sequence[Act], history: str) -> None:
        super().__init__(
            f"seed {seed}, step {step}: {rule.name}, «{rule.value}»\n  {detail}\n  ({describe(acts)})\n{history}"
        )
        self.seed = seed
        self.step = step
        self.rule = rule
        self.detail = detail
        self.acts = tuple(acts)


def simulate(seed: int, steps: int, budget: Faults, acts: Sequence[Act] | None = None) -> Report:
    """Run one seed for `steps` steps with faults and then until it is at rest; raises Violation.

    `acts` stands in for the plan that the seed draws, so that a failing plan can be shortened.
    """
    chance = random.Random(seed)
    drawn = plan(chance, budget, steps)
    return _Run(seed, World(chance), drawn if acts is None else list(acts)).through(steps)


class _Run:
    def __init__(self, seed: int, world: World, acts: Sequence[Act]) -> None:
        self._seed = seed
        self._world = world
        self._acts = acts
        self._checks = Checks(world)
        self._step = 0

    def through(self, steps: int) -> Report:
        try:
            for act in [*self._acts, None]:
                while self._step < (steps if act is None else act.at_step):
                    self._advance()
                if act is not None:
                    perform(self._world, act)
            healed_ms = self._world.timeline.now_ms
            self._come_to_rest()
        except Broken as broken:
            raise self._violation(broken.rule, broken.detail) from None
        except (TopologError, AssertionError, LookupError, ValueError, TypeError, AttributeError) as error:
            raise self._violation(Rule.RUNS_ON, repr(error)) from error
        return self._report(self._world.timeline.now_ms - healed_ms)

    def _advance(self) -> None:
        self._step += 1
        self._world.step()
        self._checks.look()

    def _come_to_rest(self) -> None:
        self._world.note("the faults are over")
        self._world.heal()
        deadline_ns = self._world.timeline.now_ns + REST_MS_MAX * NS_PER_MS
        while unrest := self._checks.unrest():
            if self._world.timeline.now_ns > deadline_ns:
                raise Broken(Rule.CONVERGES, unrest)
            for _ in range(_STEPS_BETWEEN_LOOKS):
                self._advance()

    def _violation(self, rule: Rule, detail: str) -> Violation:
        history = "\n".join(self._world.notes)
        return Violation(self._seed, self._step, rule, detail, self._acts, history)

    def _report(self, rest_ms: int) -> Report:
        ledger = self._checks.ledger
        return Report(
            seed=self._seed,
            steps=self._step,
            acts=tuple(self._acts),
            lived_ms=self._world.timeline.now_ms,
            rest_ms=rest_ms,
            positions=ledger.position + 1,
            terms=cluster(ledger.state).term,
            requests=len(self._checks.answered),
            nodes_left=len(self._checks.left),
            digest=_digest(self._world),
        )


def _digest(world: World) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for topic, count in PARTITIONS.items():
        for number in range(count):
            for entry in world.broker.log.entries(topic, number):
                digest.update(f"{topic.short_name} {number} {entry.appended_at_ms} ".encode())
                digest.update(entry.stamp or b"")
                digest.update(entry.value)
    return digest.hexdigest()
