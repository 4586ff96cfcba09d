"""Somebody sets the clock, of the broker's machine and of everybody's: nothing rests on the time of day."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.broker.conftest import Site, eventually
from tests.soak.wall_clock import NO_COMPILER, WallClock, library

from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.membership import NodeLeft
from topolog.events.metadata import ObjectType
from topolog.events.terms import TermStarted
from topolog.events.topics import Topic
from topolog.streams.local.broker import LocalBroker
from topolog.streams.node.client import Node

DAY_S = 86_400
BEATS = 6  # of a quarter of the fence each: a stand-by that heard nothing would have lost its patience


def test_clocks_that_are_set_end_no_lease_and_no_term(
    tmp_path: Path, cluster: str, unused_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases and take-overs run on monotonic clocks: a day back and a day ahead moves nothing."""
    made = library(tmp_path)
    if made is None:
        pytest.skip(NO_COMPILER)
    clock = WallClock(made, tmp_path / "clock")
    broker = LocalBroker(tmp_path / "broker", port=unused_port())
    with monkeypatch.context() as environment:
        for name, value in clock.environment.items():
            environment.setenv(name, value)
        broker.start(ready=_usable)
        with closing(Site(broker.bootstrap, cluster)) as site:
            site.coordinator("c1")
            site.coordinator("c2")
            with site.node("n1") as node:
                incarnation = node.incarnation
                for step_s in (-DAY_S, DAY_S, -DAY_S, 0):
                    clock.step(step_s)
                    position = node.propose(ObjectType("Customer", {f"f{step_s}".replace("-", "m"): "long"})).position
                    eventually(partial(_has_passed, node, position + BEATS), "some beats of the leader")
                    assert node.lease.is_valid
                assert node.incarnation == incarnation
                times = [entry.appended_at_ms for entry in site.entries(Topic.DECISIONS)]
                assert max(times) - min(times) > 2 * DAY_S * 1000 - 120_000, "the clock was set indeed"
                decisions = site.told().decisions
                assert not [each for each in decisions if isinstance(each.event, NodeLeft)]
                assert sum(isinstance(each.event, TermStarted) for each in decisions) == 1
    broker.stop()


def _usable(bootstrap: str) -> None:
    KafkaAdmin({"bootstrap.servers": bootstrap}).wait_until_usable()


def _has_passed(node: Node, position: int) -> bool:
    return node.position > position
