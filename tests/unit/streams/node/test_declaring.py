"""A service declares its groups: created once, found by all, refused with what differs."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from topolog.events import groups as g
from topolog.events.errors import BadInput, Fenced, OutcomeUnknown, Refused, Unreachable
from topolog.events.leases import NodeKind
from topolog.events.object_definition import Column, ColumnType, Definition, ObjectKind, Statement, Verb
from topolog.events.objects import SchemaChangeCommitted
from topolog.events.topics import Topic
from topolog.streams.node.testing import LocalCluster

ORDERS = g.GroupDefinition("orders", 64, 1, g.Affinity(backup_filter="rack"))


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def asked(cluster: LocalCluster) -> int:
    return len(cluster.log.entries(Topic.REQUESTS))


def test_every_process_of_a_service_declares_the_same_and_one_group_comes_of_it(cluster: LocalCluster) -> None:
    """Idempotent, whoever is first."""
    with cluster.node("n1") as one, cluster.node("n2") as two, cluster.node("c", kind=NodeKind.CLIENT) as client:
        rows = [each.create_group(ORDERS, reason="start") for each in (one, two, client)]
        assert [row.definition for row in rows] == [ORDERS] * 3
        assert [row.number for row in rows] == [1] * 3
        cluster.settle()
        assert one.groups() == two.groups() == client.groups() == {"orders": rows[0]}
        assert len(cluster.decisions(g.GroupCreated)) == 1


def test_what_is_known_to_hold_is_not_asked_for(cluster: LocalCluster) -> None:
    """A server knows by its lease that it is up to date enough; a client asks."""
    with cluster.node("n1") as node, cluster.node("c", kind=NodeKind.CLIENT) as client:
        node.create_group(ORDERS)
        cluster.settle()
        before = asked(cluster)
        node.create_group(ORDERS)
        assert asked(cluster) == before
        client.create_group(ORDERS)
        assert asked(cluster) == before + 1


def test_another_group_of_the_name_is_refused_with_what_differs(cluster: LocalCluster) -> None:
    with cluster.node("n1") as node:
        node.create_group(ORDERS)
        with pytest.raises(Refused, match="partitions 64, asked for: 128") as refused:
            node.create_group(g.GroupDefinition("orders", 128, 1, ORDERS.affinity))
        assert refused.value.code == "GROUP_EXISTS"
        assert node.groups()["orders"].partitions == 64


SHOP = Statement(Verb.CREATE, ObjectKind.DATABASE, "shop", Definition(), if_needed=True)
PARTS = Statement(
    Verb.CREATE,
    ObjectKind.TABLE,
    "shop.parts",
    Definition((Column("id", ColumnType.INT64),), "id"),
    if_needed=True,
)


def test_every_process_of_a_service_declares_the_same_tables_and_one_change_comes_of_it(
    cluster: LocalCluster,
) -> None:
    """TA5: the first gets the number of a change that is committed, the others hear that all is so."""
    with cluster.node("n1") as one, cluster.node("n2") as two, cluster.node("c", kind=NodeKind.CLIENT) as client:
        numbers = [each.change(SHOP, PARTS) for each in (one, two, client)]
        (committed,) = cluster.decisions(SchemaChangeCommitted)
        assert numbers == [committed.changes[0], None, None]


def test_a_change_that_is_not_committed_in_time_is_refused_with_what_has_rolled_it_back(cluster: LocalCluster) -> None:
    """TA20: a server is silent for longer than the asker waits."""
    with cluster.node("n1") as one, cluster.node("n2"), cluster.cut_off("n2"):
        asking = ThreadPoolExecutor(1).submit(one.change, SHOP, deadline_s=1)
        while not asking.done():
            cluster.advance(0.2)
        with pytest.raises(Refused, match="not committed within 1000 ms") as refused:
            asking.result()
        assert refused.value.code == "DEADLINE"


def test_what_cannot_be_a_group_is_not_sent(cluster: LocalCluster) -> None:
    with cluster.node("n1") as node:
        before = asked(cluster)
        with pytest.raises(BadInput, match="70000 partitions"):
            node.create_group(g.GroupDefinition("orders", 70_000))
        assert asked(cluster) == before


def test_without_a_coordinator_the_caller_is_told_that_nobody_knows(cluster: LocalCluster) -> None:
    """The same call again finds the group, created once."""
    with cluster.node("n1") as node:
        cluster.stop_coordinator()
        with pytest.raises(OutcomeUnknown, match="nobody knows if the group is there") as unknown:
            node.create_group(ORDERS, timeout_s=0.02)
        assert unknown.value.request_id.startswith("n1-")
        cluster.start_coordinator()
        assert node.create_group(ORDERS).number == 1
        cluster.settle()
        assert len(cluster.decisions(g.GroupCreated)) == 1


def test_a_fenced_server_shows_no_groups(cluster: LocalCluster) -> None:
    """It may have missed that one was dropped."""
    with cluster.node("n1") as node:
        with cluster.leases_expired(), pytest.raises(Fenced):
            node.groups()
        cluster.kill("n1")
        with pytest.raises(Unreachable, match="was killed"):
            node.create_group(ORDERS)


def test_a_service_of_asyncio_awaits_the_same(cluster: LocalCluster) -> None:
    async def main() -> None:
        async with cluster.async_node("n1") as node:
            rows = await asyncio.gather(node.create_group(ORDERS), node.create_group(g.GroupDefinition("carts")))
            assert sorted(row.number for row in rows) == [1, 2]
            assert node.groups()["carts"].partitions == 1024

    asyncio.run(main())


def test_what_is_lost_is_given_up_by_a_service_too() -> None:
    """EX19, decided once: where nothing is lost nothing changes; a group that is not there is refused."""
    with LocalCluster(operators=("n1", "n2")) as cluster:
        _give_up(cluster)


def _give_up(cluster: LocalCluster) -> None:
    with cluster.node("n1") as node:
        node.create_group(ORDERS)
        cluster.settle()
        before = node.groups()
        node.reset_group("orders", reason="nobody comes back")
        assert node.groups() == before
        with pytest.raises(Refused, match="There is no group 'nothing'"):
            node.reset_group("nothing")
        cluster.stop_coordinator()
        with pytest.raises(OutcomeUnknown, match="nobody knows if the loss is given up"):
            node.reset_group("orders", timeout_s=0.02)

    async def main() -> None:
        async with cluster.async_node("n2") as node:
            await node.reset_group("orders")

    cluster.start_coordinator()
    asyncio.run(main())
