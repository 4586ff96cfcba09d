"""An exchange waits for nobody whom it does not need (DS10-DS17), on a real broker.

Of one service a hook hangs, as that of a service which waits for something that never comes: it applies nothing more,
and its heartbeats go on. Another one cannot send maps.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import pytest
from tests.broker.actor import GROUP
from tests.broker.conftest import FENCE_MS, MARGIN_MS, Site, eventually
from tests.unit.streams.node.shard import Shard

from topolog.events.errors import LeftCluster, NotAllowed
from topolog.events.exchange import ExchangeCompleted, ExchangeOverdue, ExchangeStarted
from topolog.events.group_definition import Affinity, GroupDefinition
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.leases import LeaveReason
from topolog.events.log import Headers, OnDelivery
from topolog.events.membership import LeaseStopped, NodeLeft
from topolog.events.partitions import PartitionState
from topolog.events.topics import Topic
from topolog.streams.node.client import Node

E = TypeVar("E")

PARTITIONS = 16
OTHER = "other"
WAITS = {"TOPOLOG_EXCHANGE__WARN": "300ms", "TOPOLOG_EXCHANGE__EVICT": "1500ms"}
LEASE_OVER_S = (FENCE_MS + MARGIN_MS) / 1_000
"""So long the partitions of who has died are unserved where an exchange waits for whoever hangs, and longer."""


class Hanging:
    """A service in this process. Once it `hangs`, the next hook about partitions does not return before `go`."""

    def __init__(self, site: Site, name: str, role: str) -> None:
        self.hangs = threading.Event()
        self.is_in_hook = threading.Event()
        self.go = threading.Event()
        self.node = Node(
            site.cluster, name, kafka=site.kafka, attributes={"role": role}, join_timeout_s=30, sentinel=False
        )
        Shard(self.node)
        self.node.on_map(lambda _: self._note())

    def _note(self) -> None:
        if self.hangs.is_set():
            self.is_in_hook.set()
            self.go.wait()

    @contextlib.contextmanager
    def running(self) -> Iterator["Hanging"]:
        with self.node:
            try:
                yield self
            finally:
                self.go.set()


def _wait(event: threading.Event) -> None:
    event.wait()


@contextlib.contextmanager
def sharing(site: Site, backups: int) -> Iterator[Node]:
    """A member in this process, of a cluster whose coordinator has little patience; it makes the group."""
    site.coordinator("c1", {**os.environ, **WAITS})
    node = site.node("n1")
    Shard(node)
    with node:
        node.create_group(GroupDefinition(GROUP, PARTITIONS, backups))
        yield node


def is_at_rest(node: Node, *members: str, group: str = GROUP) -> bool:
    found = node.partitions(group)
    copies = [copy for each in found for copy in each.copies]
    return (
        {copy.state for copy in copies} == {PartitionState.OWNING}
        and {copy.node for copy in copies} == {each.primary for each in found} == set(members)
        and all(each.copies[0].node == each.primary for each in found)
    )


def decided(site: Site, kind: type[E]) -> list[E]:
    return [each.event for each in site.told().decisions if isinstance(each.event, kind)]


@pytest.mark.parametrize("holds", [False, True], ids=["without a copy", "with copies of another group"])
def test_partitions_of_who_dies_are_served_at_once_while_a_stranger_hangs(site: Site, *, holds: bool) -> None:
    """DS10: a hook of an unrelated service that took 20 s had left 12 partitions without a primary for 18.9 s."""
    site.coordinator("c1")
    node = Node(site.cluster, "n1", kafka=site.kafka, attributes={"role": "store"}, join_timeout_s=30)
    shard = Shard(node)
    stranger = Hanging(site, "stranger", OTHER)
    with node, stranger.running():
        node.create_group(GroupDefinition(GROUP, PARTITIONS, 1, Affinity(node_filter={"role": "store"})))
        if holds:
            node.create_group(GroupDefinition("carts", 4, 0, Affinity(node_filter={"role": OTHER})))
            eventually(lambda: is_at_rest(node, "stranger", group="carts"), "it to have its own")
        victim = site.member("n2", role="store")
        eventually(lambda: is_at_rest(node, "n1", "n2"), "the group to be shared out")
        stranger.hangs.set()
        node.create_group(GroupDefinition("bait", 1, 0, Affinity(node_filter={"role": OTHER})))
        assert stranger.is_in_hook.wait(30)
        killed = time.monotonic()
        victim.kill()
        eventually(lambda: shard.acts_for() == set(range(PARTITIONS)), "the other to act for all", every_s=0.002)
        took_s = time.monotonic() - killed
        assert took_s < LEASE_OVER_S  # 0.15 s where nothing else runs
        assert not any(each.node == "stranger" for each in decided(site, ExchangeStarted)[-1].awaited)
        stranger.go.set()
        eventually(lambda: stranger.node.position >= node.position, "it to have read all that it missed")
        assert site.agrees_with(stranger.node)


def test_who_holds_copies_and_hangs_keeps_its_own_and_delays_no_others(site: Site) -> None:
    """DS14, DS16: n3 joins and has its share of what the others have; what n2 acts for stays its own until its lease
    is over, for it applies nothing; then the others have it all."""
    with sharing(site, backups=1) as node:
        stuck = Hanging(site, "n2", "store")
        with stuck.running():
            eventually(lambda: is_at_rest(node, "n1", "n2"), "the group to be shared out")
            stuck.hangs.set()
            site.member("n3")
            eventually(lambda: is_at_rest(node, "n1", "n3"), "the others to have it all")
            left = [(each.node, each.reason) for each in decided(site, NodeLeft)]
            assert left == [("n2", LeaveReason.FENCED)]
            joined = [each for each in decided(site, ExchangeStarted) if "n3" in {one.node for one in each.awaited}]
            assert joined
            assert not any("n2" in {one.node for one in each.awaited} for each in joined)
            assert site.agrees_with(node)


class Mute(KafkaWriter):
    """Of a node that may not write to `maps`: a broker refuses each single map."""

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if topic is not Topic.MAPS:
            super().append(topic, key, value, headers, on_delivery)
        elif on_delivery:
            on_delivery(NotAllowed("The broker does not let n2 use topic maps."), None)


def test_a_member_that_can_send_no_map_is_stopped_and_says_why(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """It applies the log and beats, so its lease goes on; after `exchange.warn` the log names it, after
    `exchange.evict` it is stopped as STUCK, and releases its lease when it reads that."""
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


def unheard(site: Site) -> list[tuple[str, ...]]:
    """Whom exchanges were completed without."""
    return [each.unheard for each in decided(site, ExchangeCompleted) if each.unheard]


def test_who_is_listed_nowhere_for_its_silence_has_its_share_when_it_answers(site: Site) -> None:
    """DS15, DS17: the exchange of its joining ends without it, and its answer starts the next one."""
    with sharing(site, backups=0) as node, ThreadPoolExecutor() as pool:
        slow = Node(site.cluster, "n2", kafka=site.kafka, join_timeout_s=60)
        Shard(slow)
        may_answer = threading.Event()
        slow.on_exchange(partial(_wait, may_answer))
        entering = pool.submit(slow.__enter__)
        try:
            assert eventually(partial(unheard, site), "the exchange to end without it") == [("n2",)]
            assert is_at_rest(node, "n1")
        finally:
            may_answer.set()
        with contextlib.ExitStack() as stack:
            stack.push(entering.result(60))
            eventually(lambda: is_at_rest(node, "n1", "n2"), "both to have their share")
            assert not decided(site, LeaseStopped)
            assert not node.lost(GROUP)
            assert site.agrees_with(node)
