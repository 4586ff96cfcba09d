"""What operators ask of the baseline and of the cluster's state, drawn at random: some of it cannot be."""

import random
from collections.abc import Callable
from functools import partial

from topolog.events import requests as q
from topolog.events.asked import Request, RequestId
from topolog.events.baseline import cluster_state
from topolog.events.baseline_requests import (
    AutoAdjustRequested,
    BaselineChangeRequested,
    BaselineVerb,
    ClusterStateRequested,
    HoldRequested,
    WarmRequested,
)
from topolog.events.cluster_state import ClusterState
from topolog.events.drains import DrainRequested
from topolog.events.group_definition import GroupDefinition
from topolog.events.groups import GroupCreationRequested
from topolog.events.ids import TopologyVersion
from topolog.events.lease_terms import LeaseTermsRequested
from topolog.events.leases import FENCING
from topolog.events.membership import NodeRemovalRequested
from topolog.events.topics import REQUEST_TOPICS
from topolog.streams.coordinator.core import Role
from topolog.streams.node.core import Phase
from topolog.streams.rules import requesters
from topolog.streams.simulation.world import World

Head = tuple[RequestId, bytes, str, str]

_ACTIVE, _READ_ONLY, _INACTIVE = ClusterState.ACTIVE, ClusterState.ACTIVE_READ_ONLY, ClusterState.INACTIVE
_FENCES_MS = (1_000, 1_000, 1_500, 3_000)
"""The shortest that five heartbeats allow, and longer ones. A tenth of it pays for two clocks, as in `TERMS`."""


_VOUCHES_MS = 1_500
_BACK_MS = (100, 2_000)
"""How long after it is forgotten a request of it comes again."""

_SOFT_MS, _HARD_MS = (200, 600, 1_500), (600, 2_500)


def operate(world: World, draw: random.Random) -> None:
    """One request; nothing before anybody knows the log."""
    if log_id_of(world) is not None:
        asked = draw.choice(_CHOICE)(_head(world), world, draw)
        world.note_deed(f"OPERATE {_told(asked)}")
        world.operator.send(asked)


def change_terms(world: World, draw: random.Random) -> None:
    """One change of lease terms, or some in a row: lowered, raised, both, taken back."""
    if log_id_of(world) is not None:
        for _ in range(draw.choice((1, 1, 2, 3))):
            fence_ms = draw.choice(_FENCES_MS)
            margin_ms = fence_ms // draw.choice((10, 10, 5))
            world.note_deed(f"TERMS fence {fence_ms} ms, margin {margin_ms} ms")
            world.operator.send(LeaseTermsRequested(*_head(world), fence_ms, margin_ms))


def let_a_day_pass(world: World, draw: random.Random) -> None:
    """An operator has asked for nothing for a day, as far as who leads can tell, so it is forgotten. Then one of its
    requests comes again."""
    name = draw.choice([each.operator.name for each in world.site.worlds])
    for core in (each.driver.core for each in world.coordinators):
        row = core.state.get(q.RequesterRow, name) if core.role is Role.LEADING else None
        for deadline in requesters.deadlines(name, row) if row else ():
            world.note_deed(f"IDLE {name}, up to {name}/{row.highest if row else 0}")
            core.pass_deadline(deadline.key)
    asked = [each for topic in REQUEST_TOPICS for each in world.broker.log.entries(topic) if each.key == name]
    if asked:
        entry = draw.choice(asked)
        again = partial(world.operator.writer.append, entry.topic, name, entry.value)
        world.timeline.after(draw.randint(*_BACK_MS), again)


def begin_work(world: World, chance: random.Random) -> None:
    """What most clusters begin with: they are activated, and share something out."""
    if log_id_of(world) is not None:
        world.note_deed("BEGIN with a baseline and group P0")
        world.operator.send(ClusterStateRequested(*_head(world), _ACTIVE))
        group = GroupDefinition("P0", 16, chance.randint(0, 2), persistent=True)
        world.operator.send(GroupCreationRequested(*_head(world), group))


def change_state(world: World, draw: random.Random) -> None:
    """An operator stops the cluster, or what writes, or lets it serve again."""
    if log_id_of(world) is not None:
        target = draw.choice((_ACTIVE, _ACTIVE, _READ_ONLY, _INACTIVE))
        world.note_deed(f"STATE {target.value}")
        world.operator.send(ClusterStateRequested(*_head(world), target))


def insist(world: World) -> None:
    """Ask for an active cluster, and again until some node knows of one: while no server is there it is refused. What
    nodes know at first may be older than the last change that was asked for."""
    let_go(world)
    world.timeline.after(_VOUCHES_MS, partial(_insist, world))


def _insist(world: World) -> None:
    states = [cluster_state(node.session.core.state) for node in world.nodes if node.session.core.phase is Phase.MEMBER]
    if not any(row.state is _ACTIVE and row.target is None for row in states):
        insist(world)


def let_go(world: World) -> None:
    """The cluster is to serve again, with whoever is there."""
    if log_id_of(world) is not None:
        world.operator.send(ClusterStateRequested(*_head(world), _ACTIVE))
        world.operator.send(HoldRequested(*_head(world), False))
        world.operator.send(WarmRequested(*_head(world)))


def vouch(world: World) -> None:
    """Nothing ends the lease of a process that does not fence itself: an operator says that its former life is over."""
    for node in world.nodes:
        if not node.fences and node.session.core.phase is Phase.JOINING and log_id_of(world) is not None:
            world.operator.send(NodeRemovalRequested(*_head(world), node.name))
    if any(FENCING not in joiner.capabilities for joiner in world.site.joiners.values()):
        world.timeline.after(_VOUCHES_MS, partial(vouch, world))


def log_id_of(world: World) -> bytes | None:
    """The log's identity, if any process knows it by now."""
    known = (node.session.core.log_id for node in world.nodes)
    led = (each.driver.core.confirmed.log_id for each in world.coordinators if world.is_durable)
    return next((log_id for log_id in (*known, *led) if log_id), None)


def _head(world: World) -> Head:
    log_id = log_id_of(world)
    assert log_id is not None, "it has been asked for"
    return world.operator.next_id(), log_id, "op", "drill"


def _state(head: Head, _: World, draw: random.Random) -> Request:
    return ClusterStateRequested(*head, draw.choice((_ACTIVE, _ACTIVE, _ACTIVE, _READ_ONLY, _INACTIVE)))


def _baseline(head: Head, world: World, draw: random.Random) -> Request:
    verb = draw.choice((BaselineVerb.SET, BaselineVerb.ADD, BaselineVerb.REMOVE, BaselineVerb.VERSION))
    accepts_loss = draw.random() < 0.2
    if verb is BaselineVerb.VERSION:
        version = TopologyVersion(draw.randint(1, 12), 0)
        return BaselineChangeRequested(*head, verb, (), version=version, accepts_loss=accepts_loss)
    names = world.node_names
    count = draw.randint(1, len(names)) if verb is BaselineVerb.SET else 1
    return BaselineChangeRequested(*head, verb, tuple(draw.sample(names, k=count)), accepts_loss=accepts_loss)


def _adjust(head: Head, _: World, draw: random.Random) -> Request:
    enabled = draw.choice((True, True, False, None))
    return AutoAdjustRequested(*head, enabled, draw.choice(_SOFT_MS), draw.choice(_HARD_MS))


def _hold(head: Head, _: World, draw: random.Random) -> Request:
    return HoldRequested(*head, draw.random() < 0.4)


def _warm(head: Head, _: World, __: random.Random) -> Request:
    return WarmRequested(*head)


def _drain(head: Head, world: World, draw: random.Random) -> Request:
    return DrainRequested(*head, draw.choice(world.node_names), draw.random() < 0.3)


_CHOICE: tuple[Callable[[Head, World, random.Random], Request], ...] = (
    _state,
    _state,
    _state,
    _baseline,
    _baseline,
    _adjust,
    _hold,
    _warm,
    _drain,
)


def _told(asked: Request) -> str:
    fields = [str(getattr(asked, name)) for name in asked.__struct_fields__[4:]]
    return f"{type(asked).__name__} {' '.join(fields)}".strip()
