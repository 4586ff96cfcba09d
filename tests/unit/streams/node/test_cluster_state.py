"""What a node serves in each state of the cluster, by the real guards of the real client (docs/design/baseline.md)."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest
from tests.unit.streams.node.shard import Shard
from tests.unit.streams.node.shop import ORDERS, READ, Shop
from tests.unit.streams.rules.changing import drop, grant, view

from topolog.events.baseline import ClusterStateRow, StateChangeFinished, StateChangeStarted
from topolog.events.cluster_state import ClusterState, allows
from topolog.events.cluster_state import Operation as Act
from topolog.events.errors import BeingDeleted, NotActive, Refused, TopologError
from topolog.events.group_definition import GroupDefinition
from topolog.events.ids import Position
from topolog.events.object_definition import ObjectKind
from topolog.events.object_types import ObjectType
from topolog.streams.node.aio import AsyncNode
from topolog.streams.node.client import Node
from topolog.streams.node.core import NodeCore
from topolog.streams.node.deletions import Deletion
from topolog.streams.node.serving import Serving
from topolog.streams.node.testing import LocalCluster

ACTIVE, READ_ONLY, INACTIVE = ClusterState.ACTIVE, ClusterState.ACTIVE_READ_ONLY, ClusterState.INACTIVE
PATIENCE_S = 30.0


@contextmanager
def served(*names: str) -> Iterator[tuple[LocalCluster, list[Node]]]:
    """Nodes that share a group, at rest."""
    with LocalCluster() as cluster, ExitStack() as stack:
        nodes = [cluster.node(name) for name in names]
        for node in nodes:
            Shard(node)
            stack.enter_context(node)
        nodes[0].create_group(GroupDefinition("orders", 8, 0))
        cluster.advance(1)
        yield cluster, nodes


def own(node: Node) -> int:
    """A partition that it acts for."""
    return next(each.partition for each in node.partitions("orders") if each.primary == node.name)


def refusal_of(node: Node, *, writing: bool) -> NotActive | None:
    try:
        with node.acting("orders", own(node), writing=writing):
            return None
    except NotActive as error:
        return error


@pytest.mark.parametrize(
    ("state", "reads", "writes"), [(ACTIVE, True, True), (READ_ONLY, True, False), (INACTIVE, False, False)]
)
def test_each_state_lets_in_what_it_says(state: ClusterState, reads: bool, writes: bool) -> None:
    """BA1: on every node, once the change is finished; and all of it again once the cluster is active again."""
    with served("n1", "n2") as (cluster, nodes):
        cluster.change_state(state)
        for node in nodes:
            assert node.cluster_state().allowed is state
            for writing, is_allowed in ((False, reads), (True, writes)):
                refusal = refusal_of(node, writing=writing)
                assert (refusal is None) is is_allowed
                if refusal is not None:
                    assert refusal.state == state.value
                    assert state.value in refusal.message
                    assert "topolog cluster activate" in refusal.hint
        cluster.change_state(ACTIVE)
        assert [refusal_of(node, writing=True) for node in nodes] == [None, None]


def test_from_the_start_of_a_change_on_the_lesser_of_both_counts() -> None:
    """Somebody has not applied it yet, so it is not finished; who has applied it serves no more already."""
    with served("n1", "n2") as (cluster, (one, other)):
        with cluster.cut_off("n2"):
            cluster.change_state(INACTIVE)
            row = one.cluster_state()
            assert (row.state, row.target, row.allowed) == (ACTIVE, INACTIVE, INACTIVE)
            assert refusal_of(one, writing=False)
            assert not refusal_of(other, writing=True)
            assert cluster.decisions(StateChangeFinished) == []
        assert refusal_of(other, writing=False)
        assert len(cluster.decisions(StateChangeFinished)) == 1
        with cluster.cut_off("n2"):
            cluster.change_state(ACTIVE)
            assert one.cluster_state().target is ACTIVE
            assert refusal_of(one, writing=False), "others may refuse what this one would have stored"


@pytest.fixture
def shop() -> Iterator[Shop]:
    with LocalCluster(operators=("n1",)) as cluster, ExitStack() as stack:
        yield Shop(cluster, stack)


def is_let_in(guard: AbstractContextManager[object]) -> bool:
    try:
        with guard:
            return True
    except NotActive:
        return False


@pytest.mark.parametrize("state", [ACTIVE, READ_ONLY, INACTIVE])
def test_the_state_of_the_cluster_binds_tables_too(shop: Shop, state: ClusterState) -> None:
    """BA1: by the one table of states; whoever only asks is answered in all of them."""
    shop.cluster.change(view("shop.notes", ORDERS, "note"), grant(f"ada@{ORDERS}"))
    shop.cluster.change_state(state)
    for node in (shop.one, shop.two):
        assert is_let_in(node.using(ORDERS)) is allows(state, Act.READ)
        assert is_let_in(node.viewing("shop.notes")) is allows(state, Act.READ)
        assert is_let_in(node.writing(ORDERS)) is allows(state, Act.WRITE)
        assert is_let_in(node.deleting()) is allows(state, Act.DELETE)
        assert (node.ttl_ms(ORDERS) is not None) is allows(state, Act.EXPIRE)
        assert allows(state, Act.LOOK)
        assert node.table(ORDERS).name == ORDERS
        assert node.allows("ada", READ, ORDERS)
        assert node.types() == {}
        assert node.groups() == {}


@pytest.mark.parametrize(
    ("state", "writing", "is_over"), [(READ_ONLY, False, False), (READ_ONLY, True, True), (INACTIVE, False, True)]
)
def test_what_is_done_with_a_table_and_outlives_the_state_that_allowed_it_does_not_count(
    shop: Shop, state: ClusterState, writing: bool, is_over: bool
) -> None:
    """Not even if it is allowed again at its end."""
    used = (shop.one.writing if writing else shop.one.using)(ORDERS)
    used.__enter__()
    shop.cluster.change_state(state)
    shop.cluster.change_state(ACTIVE)
    if not is_over:
        used.__exit__(None, None, None)
        return
    with pytest.raises(NotActive, match="must not be acknowledged"):
        used.__exit__(None, None, None)


@pytest.mark.parametrize("state", [READ_ONLY, INACTIVE])
def test_nothing_is_defined_in_a_cluster_that_an_operator_has_stopped_and_rights_are_taken(
    shop: Shop, state: ClusterState
) -> None:
    """By node, kit and operator alike; what is there already costs no request."""
    shop.cluster.change(grant(f"ada@{ORDERS}"))
    shop.cluster.change_state(state)
    for ask in (
        lambda: shop.one.change(drop()),
        lambda: shop.cluster.change(drop()),
        lambda: shop.one.create_group(GroupDefinition("new", 8, 0)),
        lambda: shop.one.propose(ObjectType("T", {"id": "long"})),
    ):
        with pytest.raises(Refused, match="`topolog cluster activate` ends that") as refused:
            ask()
        assert refused.value.code == "NOT_ACTIVE"
    shop.cluster.change(drop(f"ada@{ORDERS}", ObjectKind.GRANT))
    assert not shop.one.allows("ada", READ, ORDERS)


@pytest.mark.parametrize("state", [READ_ONLY, INACTIVE])
def test_the_deletion_of_what_was_dropped_before_waits_and_goes_on_afterwards(shop: Shop, state: ClusterState) -> None:
    """The drop was committed, and the operator has stopped the cluster before the service came to its rows."""
    node = shop.cluster.node("n3")
    owed: list[Deletion] = []
    states: list[ClusterState] = []
    node.on_deletion(owed.append)
    node.on_cluster_state(lambda changed: states.append(changed.allowed))
    shop.enter(node)
    number = shop.cluster.change(drop())
    (deletion,) = owed
    shop.cluster.change_state(state)
    with pytest.raises(NotActive), node.deleting():
        raise AssertionError("it was let in")
    assert shop.row(number).undeleted == ("n3",)
    assert node.is_closed(deletion.tables[0].incarnation)
    shop.cluster.change_state(ACTIVE)
    assert states[-1] is ACTIVE
    with node.deleting():
        node.deleted(deletion.change)
    shop.cluster.settle()
    assert shop.row(number).undeleted == ()


def test_a_drop_that_is_open_when_the_cluster_is_stopped_is_taken_back(shop: Shop) -> None:
    """BA5: an operator stops the cluster because the wrong table is going; it is all there again, to be read."""
    with shop.cluster.cut_off("n2"):
        number = shop.cluster.change(drop(), wait=False)
        with pytest.raises(BeingDeleted):
            shop.one.table(ORDERS)
        shop.cluster.change_state(READ_ONLY)
        assert shop.row(number).code == "NOT_ACTIVE"
        with shop.one.using(ORDERS) as found:
            assert found.name == ORDERS


class Operation:
    """One that runs in a thread of its own until it is told to end."""

    def __init__(self, node: Node, *, writing: bool) -> None:
        self.error: TopologError | None = None
        self.is_acknowledged = False
        self._node = node
        self._writing = writing
        self._has_begun, self._may_end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._has_begun.wait(PATIENCE_S)

    def end(self) -> None:
        self._may_end.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._node.acting("orders", own(self._node), writing=self._writing):
                self._has_begun.set()
                assert self._may_end.wait(PATIENCE_S)
            self.is_acknowledged = True
        except TopologError as error:
            self.error = error


@pytest.mark.parametrize(
    ("state", "writing", "is_acknowledged"),
    [(INACTIVE, False, False), (INACTIVE, True, False), (READ_ONLY, False, True), (READ_ONLY, True, False)],
)
@pytest.mark.parametrize("is_active_again", [False, True])
def test_an_operation_that_outlives_what_allowed_it_is_not_acknowledged(
    state: ClusterState, writing: bool, is_acknowledged: bool, is_active_again: bool
) -> None:
    """Not even if it is allowed again at its end: in between somebody has relied on silence."""
    with served("n1") as (cluster, (node,)):
        operation = Operation(node, writing=writing)
        cluster.change_state(state)
        if is_active_again:
            cluster.change_state(ACTIVE)
        operation.end()
        assert operation.is_acknowledged is is_acknowledged
        if not is_acknowledged:
            assert isinstance(operation.error, NotActive)
            assert operation.error.state == (ACTIVE if is_active_again else state).value
            assert "must not be acknowledged" in operation.error.message


def test_an_operation_that_ends_before_its_node_has_applied_the_change_counts() -> None:
    """The change is not finished before it has: nobody could rely on it yet."""
    with served("n1") as (cluster, (node,)):
        operation = Operation(node, writing=True)
        with cluster.cut_off("n1"):
            cluster.change_state(INACTIVE)
            assert len(cluster.decisions(StateChangeStarted)) == 1
            operation.end()
        assert operation.is_acknowledged


def test_the_first_activation_ends_no_operation() -> None:
    """From ACTIVE to ACTIVE: it only begins a baseline."""
    with served("n1") as (cluster, (node,)):
        operation = Operation(node, writing=True)
        cluster.change_state(ACTIVE)
        operation.end()
        assert operation.is_acknowledged


def test_no_operation_is_let_in_behind_what_its_node_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the change counts as applied here, so that a heartbeat may say so, the guard refuses already; and when it is
    widened, not before it does."""
    with served("n1") as (cluster, (node,)):
        seen: list[tuple[ClusterState, bool]] = []
        finish = NodeCore.finish

        def watched(core: NodeCore) -> None:
            seen.append((node._hooks._cluster_state.allowed, not refusal_now(node)))
            finish(core)

        monkeypatch.setattr(NodeCore, "finish", watched)
        cluster.change_state(INACTIVE)
        cluster.change_state(ACTIVE)
        assert {allowed for allowed, _ in seen} == {INACTIVE, ACTIVE}
        assert all((allowed is ACTIVE) is lets_in for allowed, lets_in in seen)


def refusal_now(node: Node) -> bool:
    """Whether its guard would refuse a write; without a lock, for a thread that holds one."""
    try:
        node._hooks.serving.begin(writing=True)
    except NotActive:
        return True
    return False


def test_a_service_is_told_of_each_change_in_order() -> None:
    """What is no longer allowed is refused before it hears of it, what is again only when it has heard."""
    with LocalCluster() as cluster:
        node = cluster.node("n1")
        told: list[tuple[ClusterState, bool]] = []
        node.on_cluster_state(lambda row: told.append((row.allowed, refusal_now(node))))
        with node:
            cluster.change_state(READ_ONLY)
            cluster.change_state(INACTIVE)
            cluster.change_state(ACTIVE)
    states = [state for state, _ in told]
    assert [state for at, state in enumerate(states) if not at or states[at - 1] is not state] == [
        READ_ONLY,
        INACTIVE,
        ACTIVE,
    ]
    assert all(is_refused for _, is_refused in told[:-1])
    assert told[-1] == (ACTIVE, True)


def test_a_node_that_joins_an_inactive_cluster_refuses() -> None:
    """It finds the state in the log, as every other."""
    with served("n1") as (cluster, _):
        cluster.change_state(INACTIVE)
        with cluster.node("n2") as late:
            cluster.settle()
            assert late.cluster_state().state is INACTIVE
            assert refusal_now(late)


def test_what_an_operator_may_not_do_is_raised() -> None:
    """By the kit, as the cluster has refused it."""
    with LocalCluster() as cluster:
        cluster.settle()
        with pytest.raises(Refused) as refused:
            cluster.change_state(ACTIVE)
        assert refused.value.code == "NO_SERVERS"


def test_a_coroutine_is_guarded_as_well() -> None:
    """By the same guard."""

    async def scenario(cluster: LocalCluster, node: AsyncNode) -> None:
        async with node:
            await node.create_group(GroupDefinition("orders", 8, 0))
            await asyncio.to_thread(cluster.advance, 1)
            with pytest.raises(NotActive):
                async with node.acting("orders", 0):
                    await asyncio.to_thread(cluster.change_state, READ_ONLY)
            with pytest.raises(NotActive):
                async with node.acting("orders", 0):
                    raise AssertionError("it has begun")
            async with node.acting("orders", 0, writing=False):
                assert node.cluster_state().state is READ_ONLY

    with LocalCluster() as cluster:
        asyncio.run(scenario(cluster, cluster.async_node("n1")))


def row(state: ClusterState, target: ClusterState | None = None) -> ClusterStateRow:
    return ClusterStateRow(state, Position(1), target)


def test_a_state_that_nobody_knows_allows_nothing() -> None:
    """A newer build may write one."""
    serving = Serving()
    serving.narrow(row(ClusterState.UNKNOWN))
    for writing in (False, True):
        with pytest.raises(NotActive, match="serves nothing"):
            serving.begin(writing=writing)


@pytest.mark.parametrize("change", [Serving.narrow, Serving.widen])
def test_reads_run_through_what_ends_writes(change: Callable[[Serving, ClusterStateRow], None]) -> None:
    """ACTIVE to ACTIVE_READ_ONLY and back."""
    serving = Serving()
    read, write = serving.begin(writing=False), serving.begin(writing=True)
    for allowed in (row(ACTIVE, READ_ONLY), row(READ_ONLY), row(READ_ONLY, ACTIVE), row(ACTIVE)):
        serving.narrow(allowed)
        change(serving, allowed)
    serving.end(read, writing=False)
    with pytest.raises(NotActive):
        serving.end(write, writing=True)
