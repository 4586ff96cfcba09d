"""AsyncNode: the same member, awaited; whatever is cancelled, the node goes on or ends whole, its lease released."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.broker.conftest import eventually

from topolog.events.errors import (
    BadInput,
    Fenced,
    MergeConflict,
    Moved,
    NotCaughtUp,
    NotPrimary,
    OutcomeUnknown,
    Unreachable,
)
from topolog.events.group_definition import GroupDefinition
from topolog.events.leases import LeaveReason
from topolog.events.membership import NodeLeft
from topolog.events.object_types import ObjectType
from topolog.streams.node.aio import AsyncNode
from topolog.streams.node.testing import LocalCluster

CUSTOMER = ObjectType("Customer", {"id": "long"})
NAMED = ObjectType("Customer", {"name": "String"})


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def reasons(cluster: LocalCluster) -> list[LeaveReason]:
    return [each.reason for each in cluster.decisions(NodeLeft)]


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("topolog n")]


def test_two_of_them_agree_in_one_event_loop(cluster: LocalCluster) -> None:
    """Proposals of both run at once; each answer is that of the blocking node."""

    async def main() -> None:
        async with cluster.async_node("n1") as one, cluster.async_node("n2") as two:
            outcomes = await asyncio.gather(one.propose(CUSTOMER), two.propose(NAMED))
            assert sorted(each.version for each in outcomes) == [1, 2]
            metadata = await one.metadata("Customer")
            assert metadata is not None
            assert set(metadata.definition.fields) == {"id", "name"}
            assert await one.metadata("Other") is None
            with pytest.raises(MergeConflict):
                await two.propose(ObjectType("Customer", {"id": "String"}))
            assert [each.node for each in one.members()] == ["n1", "n2"]
            one.lease.require()

    asyncio.run(main())
    assert reasons(cluster) == [LeaveReason.LEFT, LeaveReason.LEFT]
    assert own_threads() == []


def test_a_wait_that_is_too_long_ends_with_the_error_of_the_blocking_node(cluster: LocalCluster) -> None:
    """OutcomeUnknown with an id to ask about, NotCaughtUp where nothing was sent."""

    async def main() -> None:
        async with cluster.async_node("n1") as node, cluster.async_node("n2"):
            with cluster.cut_off("n2"):
                with pytest.raises(OutcomeUnknown) as unknown:
                    await node.propose(CUSTOMER, timeout_s=0.05)
                with pytest.raises(NotCaughtUp):
                    await node.metadata("Customer", timeout_s=0.05)
            assert (await node.outcome(unknown.value.request_id)).version == 1

    asyncio.run(main())


def test_a_cancelled_wait_gives_up_the_wait_and_not_the_node(cluster: LocalCluster) -> None:
    """What it has sent stands: the proposal is accepted although nobody waits for it."""

    async def main() -> None:
        async with cluster.async_node("n1") as node, cluster.async_node("n2"):
            with cluster.cut_off("n2"):
                waiting = asyncio.create_task(node.propose(CUSTOMER))
                await asyncio.to_thread(cluster.settle)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                node.lease.require()
            metadata = await node.metadata("Customer")
            assert metadata is not None
            assert (await node.propose(NAMED)).version == 2

    asyncio.run(main())


def test_a_task_that_is_cancelled_inside_releases_the_lease(cluster: LocalCluster) -> None:
    """Nobody has to wait for the lease of a task that was cancelled."""
    inside = threading.Event()

    async def serve() -> None:
        async with cluster.async_node("n1"):
            inside.set()
            await asyncio.sleep(3600)

    async def main() -> None:
        task = asyncio.create_task(serve())
        await asyncio.to_thread(inside.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert reasons(cluster) == [LeaveReason.LEFT]
    assert own_threads() == []


def test_a_task_that_is_cancelled_again_while_it_leaves_still_leaves(cluster: LocalCluster) -> None:
    """An impatient caller cancels twice; the second time interrupts only the waiting."""
    inside = threading.Event()

    async def serve() -> None:
        async with cluster.async_node("n1"):
            inside.set()
            await asyncio.sleep(3600)

    async def main() -> None:
        task = asyncio.create_task(serve())
        await asyncio.to_thread(inside.wait, 30)
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)

    asyncio.run(main())
    eventually(lambda: own_threads() == [])
    assert reasons(cluster) == [LeaveReason.LEFT]
    assert own_threads() == []


def test_a_task_that_is_cancelled_while_it_joins_leaves_nothing_behind(cluster: LocalCluster) -> None:
    """Nobody answers its join; cancelled, it ends its threads."""
    cluster.stop_coordinator()

    async def main() -> None:
        task = asyncio.create_task(cluster.async_node("n1").__aenter__())
        await asyncio.to_thread(eventually, own_threads)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert own_threads() == []


def test_a_join_that_nobody_answers_ends_in_time(cluster: LocalCluster) -> None:
    """Unreachable, with the reason, and no thread is left."""
    cluster.stop_coordinator()

    async def main() -> None:
        with pytest.raises(Unreachable, match="no coordinator"):
            async with cluster.async_node("n1", join_timeout_s=0.1):
                pass

    asyncio.run(main())
    assert own_threads() == []


def test_a_node_is_entered_once_and_the_second_time_harms_nobody(cluster: LocalCluster) -> None:
    """BadInput; the node that was entered before goes on."""

    async def main() -> None:
        node: AsyncNode = cluster.async_node("n1")
        async with node:
            with pytest.raises(BadInput, match="entered before"):
                await node.__aenter__()
            node.lease.require()
            assert (await node.propose(CUSTOMER)).accepted

    asyncio.run(main())


def test_the_event_loop_is_free_while_a_task_waits(cluster: LocalCluster) -> None:
    """Nothing of the node blocks the loop: others run on while it joins, proposes and leaves."""
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        ticking = asyncio.create_task(tick())
        async with cluster.async_node("n1") as node:
            await node.propose(CUSTOMER)
        ticking.cancel()

    asyncio.run(main())
    assert turns > 100


@asynccontextmanager
async def sharing(cluster: LocalCluster) -> AsyncIterator[tuple[AsyncNode, AsyncNode]]:
    """Two nodes that share eight partitions, at rest."""
    one, two = cluster.async_node("n1", endpoint="http://n1"), cluster.async_node("n2", endpoint="http://n2")
    async with one, two:
        await one.create_group(GroupDefinition("orders", 8, 1))
        await asyncio.to_thread(cluster.advance, 1)
        yield one, two


def test_partitions_are_there_too(cluster: LocalCluster) -> None:
    """Who serves what needs no waiting; the guard is one for `async with`, and for `with`."""

    async def main() -> None:
        async with sharing(cluster) as (one, two):
            assert (one.lost("orders"), one.moves("orders")) == ([], [])
            views = one.partitions("orders")
            assert {view.primary for view in views} == {"n1", "n2"}
            mine = next(view.partition for view in views if view.primary == "n1")
            assert two.owners("orders", mine).primary == "n1"
            assert two.route("orders", "a").endpoint in ("http://n1", "http://n2")
            async with one.acting("orders", mine) as token:
                await asyncio.sleep(0)
                assert token == views[mine].token
            with one.acting("orders", mine, writing=False) as token:
                assert token == views[mine].token
            with pytest.raises(NotPrimary) as refused:
                async with two.acting("orders", mine):
                    pass
            assert refused.value.endpoint == "http://n1"

    asyncio.run(main())


def test_what_has_moved_meanwhile_fails_at_the_end_of_its_guard(cluster: LocalCluster) -> None:
    """DS8: a lease that ends inside is an operation that must not be acknowledged."""

    async def main() -> None:
        async with sharing(cluster) as (one, _):
            mine = next(view.partition for view in one.partitions("orders") if view.primary == "n1")

            async def serve() -> None:
                async with one.acting("orders", mine):
                    with cluster.cut_off("n1"):
                        await asyncio.to_thread(cluster.advance, 3)

            with pytest.raises((Fenced, Moved)):
                await serve()

    asyncio.run(main())


def test_a_task_that_is_cancelled_inside_a_guard_ends_its_operation(cluster: LocalCluster) -> None:
    """Otherwise no hand-over of the partition would ever drain."""

    async def main() -> None:
        async with sharing(cluster) as (one, _):
            mine = next(view.partition for view in one.partitions("orders") if view.primary == "n1")
            inside = asyncio.Event()

            async def serve() -> None:
                async with one.acting("orders", mine):
                    inside.set()
                    await asyncio.sleep(3600)

            task = asyncio.create_task(serve())
            await inside.wait()
            assert ("orders", mine) in one._hooks.acting._running
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ("orders", mine) not in one._hooks.acting._running

    asyncio.run(main())
