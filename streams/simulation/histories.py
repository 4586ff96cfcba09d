"""One log, or two: a copy of the first that goes live beside it, each with the checks that judge it.

Both share true time and the machines: a node is started in one of them at a time, and its disk goes with it. Behind the
place where they part they have nothing in common but that.
"""

import random
from collections.abc import Sequence
from functools import partial

from topolog.events.topics import Topic
from topolog.streams.simulation.checks import Checks
from topolog.streams.simulation.disks import SimulatedDisk
from topolog.streams.simulation.faults import OF_DISKS, Act, Kind, perform
from topolog.streams.simulation.operations import begin_work, insist, let_go, vouch
from topolog.streams.simulation.schemas import begin_schema
from topolog.streams.simulation.timeline import between
from topolog.streams.simulation.world import World

_DECISIONS_ONLY = 0.3
_CUT_SHORT = 0.4
_CUT_MAX = 40
_LET_GO = 0.5
_OPENS = 0.8
"""How often the cluster is activated, and has a persistent group, soon after it has begun."""

_OPENING_MS = (200.0, 1_500.0)
_UNFENCED = 0.2
"""How often one of the nodes does not fence itself, where definitions are changed."""


class Histories:
    """All worlds of a run."""

    def __init__(self, seed: int, acts: Sequence[Act]) -> None:
        kinds = self._kinds = {act.kind for act in acts}
        unfenced = _draw_unfenced(random.Random(f"{seed} unfenced")) if Kind.CHANGE in kinds else None
        self.worlds = [World(seed, is_durable=not kinds.isdisjoint(OF_DISKS), unfenced=unfenced)]
        self.checks = [Checks(self.worlds[0])]
        self._chance = random.Random(f"{seed} histories")
        world = self.worlds[0]
        if world.is_durable and self._chance.random() < _OPENS:
            world.timeline.after(between(self._chance, *_OPENING_MS), partial(begin_work, world, self._chance))
        if Kind.CHANGE in kinds:
            world.timeline.after(between(random.Random(f"{seed} schema"), *_OPENING_MS), partial(begin_schema, world))

    def step(self) -> None:
        """The next thing that happens, and what must hold behind it."""
        for world in self.worlds:
            world.forget_step()
        self.worlds[0].timeline.advance()
        for checks in self.checks:
            checks.look()

    def perform(self, act: Act) -> None:
        draw = random.Random(f"{act.draw} world")
        match act.kind:
            case Kind.COPY:
                if len(self.worlds) == 1 and self.checks[0].ledger.position > 0:
                    self._copy(draw)
            case Kind.MOVE:
                if len(self.worlds) > 1:
                    self._move(act, draw)
            case _:
                perform(draw.choice(self.worlds), act)

    def heal(self) -> None:
        """No fault lasts beyond this moment; half of the time an operator lets each cluster serve."""
        for world in self.worlds:
            world.heal()
            vouch(world)
            if world.is_durable and self._chance.random() < _LET_GO:
                let_go(world)
            if Kind.STATE in self._kinds:
                insist(world)

    def unrest(self) -> str:
        """Why one of them is not at rest yet; nothing if all are."""
        return next((found for checks in self.checks if (found := checks.unrest())), "")

    def check_rest(self) -> None:
        for checks in self.checks:
            checks.check_rest()

    def _copy(self, draw: random.Random) -> None:
        """All topics as they are, or decisions only; some are cut short."""
        world, checks = self.worlds[0], self.checks[0]
        count = len(world.broker.log.entries(Topic.DECISIONS))
        topics = {Topic.DECISIONS} if draw.random() < _DECISIONS_ONLY else set(Topic)
        kept = max(1, count - draw.randint(1, _CUT_MAX)) if draw.random() < _CUT_SHORT else count
        cut = "" if kept == count else f", but for the last {count - kept} decisions"
        world.note_deed(f"COPY of {'all topics' if len(topics) > 1 else 'decisions'}{cut}")
        copy = world.copy(world.broker.copy(topics, kept))
        judge = Checks(copy)
        judge.begin_with(
            [
                each
                for each in world.broker.history
                if each.entry.topic is not Topic.DECISIONS or each.entry.offset < kept
            ],
            None if cut else checks,
        )
        if len(topics) == 1:
            judge.forget_inputs()
        copy.common[world.name] = world.common[copy.name] = judge.ledger.position
        if not cut:
            for disk in self._disks(world):
                disk.fork(world.name, copy.name)
        self.worlds.append(copy)
        self.checks.append(judge)

    def _disks(self, world: World) -> set[SimulatedDisk]:
        site = world.site
        return {*site.disks.values(), *site.backups.values(), *(life.disk for life in site.lives)}

    def _move(self, act: Act, draw: random.Random) -> None:
        """A node is stopped, with or without a word, and started in the other world."""
        name = draw.choice(self.worlds[0].node_names)
        here = next((each for each in self.worlds if each.on(name)), None)
        if here is None:
            return
        there = self.worlds[1 - self.worlds.index(here)]
        there.site.homes[name] = there
        here.note_deed(f"MOVE {name} to {there.name}")
        here.move_out(name, act.duration_ms, in_order=draw.random() < 0.5)


def _draw_unfenced(chance: random.Random) -> int | None:
    return chance.randrange(3) if chance.random() < _UNFENCED else None
