"""What operators ask of the baseline and of the cluster's state, drawn at random: some of it cannot be."""

import random
from collections.abc import Callable
from typing import Any

from topolog.events import requests as q
from topolog.events.cluster_state import ClusterState
from topolog.events.ids import TopologyVersion
from topolog.streams.simulation.world import World

Head = tuple[q.RequestId, bytes, str, str]

_ACTIVE, _READ_ONLY, _INACTIVE = ClusterState.ACTIVE, ClusterState.ACTIVE_READ_ONLY, ClusterState.INACTIVE
_SOFT_MS, _HARD_MS = (200, 600, 1_500), (600, 2_500)


def operate(world: World, draw: random.Random, log_id: bytes | None) -> None:
    """One request; nothing before anybody knows the log."""
    if log_id is not None:
        asked = draw.choice(_CHOICE)((world.operator.next_id(), log_id, "op", "drill"), world, draw)
        world.note_deed(f"OPERATE {_told(asked)}")
        world.operator.send(asked)


def let_go(world: World, log_id: bytes | None) -> None:
    """The cluster is to serve again, with whoever is there."""
    if log_id is None:
        return
    requests: tuple[tuple[type[Any], Any], ...] = ((q.ClusterStateRequested, _ACTIVE), (q.HoldRequested, False))
    for kind, value in requests:
        world.operator.send(kind(world.operator.next_id(), log_id, "op", "drill", value))
    world.operator.send(q.WarmRequested(world.operator.next_id(), log_id, "op", "drill"))


def _state(head: Head, _: World, draw: random.Random) -> q.AnyRequest:
    return q.ClusterStateRequested(*head, draw.choice((_ACTIVE, _ACTIVE, _ACTIVE, _READ_ONLY, _INACTIVE)))


def _baseline(head: Head, world: World, draw: random.Random) -> q.AnyRequest:
    verb = draw.choice((q.BaselineVerb.SET, q.BaselineVerb.ADD, q.BaselineVerb.REMOVE, q.BaselineVerb.VERSION))
    accepts_loss = draw.random() < 0.2
    if verb is q.BaselineVerb.VERSION:
        version = TopologyVersion(draw.randint(1, 12), 0)
        return q.BaselineChangeRequested(*head, verb, (), version=version, accepts_loss=accepts_loss)
    names = world.node_names
    count = draw.randint(1, len(names)) if verb is q.BaselineVerb.SET else 1
    return q.BaselineChangeRequested(*head, verb, tuple(draw.sample(names, k=count)), accepts_loss=accepts_loss)


def _adjust(head: Head, _: World, draw: random.Random) -> q.AnyRequest:
    enabled = draw.choice((True, True, False, None))
    return q.AutoAdjustRequested(*head, enabled, draw.choice(_SOFT_MS), draw.choice(_HARD_MS))


def _hold(head: Head, _: World, draw: random.Random) -> q.AnyRequest:
    return q.HoldRequested(*head, draw.random() < 0.4)


def _warm(head: Head, _: World, __: random.Random) -> q.AnyRequest:
    return q.WarmRequested(*head)


def _drain(head: Head, world: World, draw: random.Random) -> q.AnyRequest:
    return q.DrainRequested(*head, draw.choice(world.node_names), draw.random() < 0.3)


_CHOICE: tuple[Callable[[Head, World, random.Random], q.AnyRequest], ...] = (
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


def _told(asked: q.AnyRequest) -> str:
    fields = [str(getattr(asked, name)) for name in asked.__struct_fields__[4:]]
    return f"{type(asked).__name__} {' '.join(fields)}".strip()
