"""How long an exchange waits for a service that hangs though it beats (DESIGN §4.3.9), on a real broker.

Of one member a hook hangs, as that of a service which waits for something that never comes: it applies nothing more, so
its lease will not be renewed for ever, but a coordinator with less patience is quicker. Another one cannot send maps.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from tests.broker.actor import GROUP
from tests.broker.conftest import Process, Site, eventually
from tests.unit.streams.node.shard import Shard

from topolog.events.errors import LeftCluster
from topolog.events.exchange import ExchangeCompleted, ExchangeOverdue
from topolog.events.group_definition import GroupDefinition
from topolog.events.ids import NodeId, Position
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.log import Headers, OnDelivery
from topolog.events.membership import LeaseStopped, LeaveReason, NodeLeft
from topolog.events.partitions import PartitionState
from topolog.events.topics import Topic
from topolog.projections.exchanges import NEWEST
from topolog.projections.explain_exchange import explain_exchange
from topolog.projections.projector import Projector
from topolog.projections.resources import Explanation
from topolog.streams.node.client import Node

E = TypeVar("E")

PARTITIONS = 16
WAITS = {"TOPOLOG_EXCHANGE__WARN": "300ms", "TOPOLOG_EXCHANGE__EVICT": "1500ms"}


def hanging(site: Site, name: str, folder: Path) -> Process:
    """A member that will not answer the next exchange."""
    command = [sys.executable, "-m", "tests.broker.actor", site.cluster, name, site.bootstrap, str(folder)]
    process = site.started(command)
    process.tell(do="enter")
    process.hear("member")
    return process


@contextlib.contextmanager
def sharing(site: Site, backups: int) -> Iterator[Node]:
    """A member in this process, of a cluster whose coordinator has little patience; it makes the group."""
    site.coordinator("c1", {**os.environ, **WAITS})
    node = site.node("n1")
    Shard(node)
    with node:
        node.create_group(GroupDefinition(GROUP, PARTITIONS, backups))
        yield node


def is_at_rest(node: Node, *members: str) -> bool:
    found = node.partitions(GROUP)
    copies = [copy for each in found for copy in each.copies]
    return (
        {copy.state for copy in copies} == {PartitionState.OWNING}
        and {copy.node for copy in copies} == {each.primary for each in found} == set(members)
        and all(each.copies[0].node == each.primary for each in found)
    )


def decided(site: Site, kind: type[E]) -> list[E]:
    return [each.event for each in site.told().decisions if isinstance(each.event, kind)]


def test_a_member_whose_hook_hangs_is_named_then_stopped_and_the_others_go_on(site: Site, tmp_path: Path) -> None:
    """After `exchange.warn` the log names it, after `exchange.evict` its lease is stopped as STUCK; once that is over
    the exchange completes without it, and the others have its partitions."""
    with sharing(site, backups=1) as node:
        stuck = hanging(site, "n2", tmp_path)
        eventually(lambda: is_at_rest(node, "n1", "n2"), "the group to be shared out")
        stuck.tell(do="hold")
        stuck.hear("holds")
        site.member("n3")
        eventually(lambda: is_at_rest(node, "n1", "n3"), "the others to have it all")
        overdue = next(each for each in site.told().decisions if isinstance(each.event, ExchangeOverdue))
        assert overdue.event == ExchangeOverdue((NodeId("n2"),))
        stopped = [(each.node, each.reason) for each in decided(site, LeaseStopped)]
        left = [(each.node, each.reason) for each in decided(site, NodeLeft)]
        assert stopped == left == [("n2", LeaveReason.STUCK)]
        assert site.agrees_with(node)
        explained = explain_as_of(site, overdue.place.position, tmp_path / "store")
        assert "n2" in explained.sentence
        assert "n2" in {each.node for each in explained.waiting_for}
        assert (
            explained.facts["overdue"]
            == f"n2: named at position {overdue.place.position}; the others that were asked had answered by then"
        )
        stuck.tell(do="go")
        assert stuck.hear("out")["reason"] == "STUCK", "when it reads on it learns why it is out"


def unheard(site: Site) -> list[tuple[NodeId, ...]]:
    """Whom exchanges were completed without."""
    return [each.unheard for each in decided(site, ExchangeCompleted) if each.unheard]


class Mute(KafkaWriter):
    """Of a node that may not write to `maps`: a broker refuses each single map."""

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if topic is not Topic.MAPS:
            super().append(topic, key, value, headers, on_delivery)
        elif on_delivery:
            on_delivery("Broker: Topic authorization failed", None)


def test_a_member_that_can_send_no_map_is_stopped_and_says_why(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """It applies the log and beats, so its lease goes on; it releases it when it reads that it is stopped."""
    with sharing(site, backups=1) as node:
        mute = Node(
            site.cluster, "n2", connect=lambda: (KafkaReader(site.kafka, site.cluster), Mute(site.kafka, site.cluster))
        )
        Shard(mute)
        with mute:
            eventually(lambda: mute.failure, "it to be out")
            assert isinstance(mute.failure, LeftCluster)
            assert "STUCK" in str(mute.failure)
        assert caplog.text.count("n2 cannot send its single map, and goes on trying") == 1, (
            "once, however often it tries"
        )
        eventually(lambda: is_at_rest(node, "n1"), "the other to have it all")
        assert [each.awaited for each in decided(site, ExchangeOverdue)] == [("n2",)]
        assert [(each.node, each.reason) for each in decided(site, NodeLeft)] == [("n2", LeaveReason.STUCK)]


def test_who_holds_the_last_copy_is_not_stopped_and_heard_when_it_answers(site: Site, tmp_path: Path) -> None:
    """The last-copy guard: the exchange completes without its map, and another one takes its word when it comes."""
    with sharing(site, backups=0) as node:
        stuck = hanging(site, "n2", tmp_path)
        eventually(lambda: is_at_rest(node, "n1", "n2"), "the group to be shared out")
        stuck.tell(do="hold")
        stuck.hear("holds")
        site.member("n3")
        assert eventually(partial(unheard, site), "the exchange to end without it") == [("n2",)]
        stuck.tell(do="go")
        eventually(lambda: is_at_rest(node, "n1", "n2", "n3"), "all three to have their share")
        assert not decided(site, LeaseStopped)
        assert not node.lost(GROUP)
        assert site.agrees_with(node)


def explain_as_of(site: Site, position: Position, folder: Path) -> Explanation:
    """What `topolog explain exchange` says of the one that was open there."""
    with contextlib.closing(KafkaReader(site.kafka, site.cluster)) as reader:
        projector = Projector(reader, folder, site.cluster)
        with contextlib.closing(projector):
            eventually(lambda: projector.step(0.1) >= 0 and projector.meta.position >= position, "the projection")
            with projector.reading() as reading:
                return explain_exchange(reading.as_of(position), 0, NEWEST)
