"""When a node says that it has drained a hand-over: at once, whenever its last operation ends (EX14)."""

from collections.abc import Sequence

import pytest
from tests.unit.scenarios.world import World

from topolog.events.exchange import AffinitySwitched, HandOverPrepared, HandOverRow
from topolog.events.groups import GroupDefinition
from topolog.events.partitions import PartitionState
from topolog.events.state import Key
from topolog.streams.node.core import NodeCore


def moving() -> World:
    """n1 acts for all, and is busy; n2 has joined and is to load some."""
    world = World(["c1"], ["n1"])
    world.create_group("n1", GroupDefinition("orders", 16))
    world.settle()
    world.nodes["n1"].service.is_busy = True
    world.node("n2")
    return world


def test_the_last_operation_lets_the_hand_over_switch_without_time_passing() -> None:
    """The heartbeat that says so does not wait for its beat."""
    world = moving()
    world.nodes["n2"].finish(PartitionState.MOVING)
    world.settle()
    assert len(world.events(HandOverPrepared)) == 1
    assert not world.events(AffinitySwitched)
    world.nodes["n1"].service.is_busy = False
    assert world.nodes["n1"].session.core.look_at_drains()
    world.settle()
    assert len(world.events(AffinitySwitched)) == 1


def test_an_operation_may_end_while_the_hand_over_is_being_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the drain is no news yet: that it counts as applied is."""
    world = moving()
    service = world.nodes["n1"].service

    def adopt(core: NodeCore, keys: Sequence[Key]) -> None:
        if any(kind == HandOverRow.KIND for kind, _ in keys):
            service.is_busy = False
            assert not core.look_at_drains()

    monkeypatch.setattr(service, "adopt", adopt)
    world.nodes["n2"].finish(PartitionState.MOVING)
    world.settle()
    assert len(world.events(AffinitySwitched)) == 1
