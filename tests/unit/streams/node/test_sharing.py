"""Partitions as a service of the real node client sees them: guards, hooks, routes, reports."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.streams.node.shard import Shard

from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.errors import Fenced, HookFailed, Moved, NotFound, NotPrimary, PartitionLost, Refused
from topolog.events.exchange import HandOverRow
from topolog.events.group_definition import GroupDefinition, LossPolicy
from topolog.events.groups import GroupDropRequested
from topolog.events.ids import Position
from topolog.events.partitions import PartitionState
from topolog.events.single_maps import UpdateCounter
from topolog.events.stamp import decode_stamp
from topolog.events.state import Key, State
from topolog.events.topics import Topic
from topolog.streams.node.client import Node
from topolog.streams.node.copies import Disk, Held, NodeCopies
from topolog.streams.node.core import NodeCore
from topolog.streams.node.hooks import Hooks
from topolog.streams.node.testing import LocalCluster
from topolog.streams.node.views import PartitionView

PARTITIONS = 32


@contextmanager
def shared(
    *names: str,
    partitions: int = PARTITIONS,
    backups: int = 1,
    loss: LossPolicy = LossPolicy.READ_WRITE_SAFE,
    folders: Path | None = None,
) -> Iterator["Cluster"]:
    """A cluster in memory whose nodes share the group `orders`, at rest; each may have a folder of its own."""
    with LocalCluster() as local, ExitStack() as stack:
        cluster = Cluster(local, stack, folders)
        for name in names:
            cluster.join(name)
        group = GroupDefinition("orders", partitions, backups, loss_policy=loss)
        cluster.shards[names[0]].node.create_group(group)
        cluster.rest()
        yield cluster


class Cluster:
    def __init__(self, local: LocalCluster, stack: ExitStack, folders: Path | None = None) -> None:
        self.local = local
        self.shards: dict[str, Shard] = {}
        self._stack = stack
        self._folders = folders

    def join(self, name: str, *, is_slow: bool = False, whole: tuple[int, ...] = ()) -> Shard:
        folder = self._folders / name if self._folders else None
        node = self.local.node(name, endpoint=f"http://{name}", folder=folder)
        node.holds(lambda: {1: dict.fromkeys(whole, UpdateCounter(0, 1))} if whole else {})
        shard = self.shards[name] = Shard(node)
        shard.is_slow = is_slow
        self._stack.enter_context(node)
        self.local.settle()
        return shard

    def kill(self, name: str) -> None:
        """As `kill -9`; with its process the lock of its folder goes."""
        node = self.shards.pop(name).node
        self.local.kill(name)
        node.__exit__()

    def rest(self) -> None:
        """Until nothing moves any more."""
        self.local.advance(4)

    def primaries(self) -> dict[int, str | None]:
        node = next(iter(self.shards.values())).node
        return {each.partition: each.primary for each in node.partitions("orders")}


def handed_over(newcomer: Shard, former: str) -> int:
    """A partition that this node gives to the newcomer: it acts, the newcomer is wanted first."""
    name = newcomer.node.name
    found = newcomer.node.partitions("orders")
    return next(each.partition for each in found if each.primary == former and each.copies[0].node == name)


def test_every_partition_has_one_node_that_acts() -> None:
    """EX12: by the guards themselves, and as everybody is told."""
    with shared("n1", "n2", "n3") as cluster:
        acts = {name: shard.acts_for() for name, shard in cluster.shards.items()}
        assert sorted(partition for each in acts.values() for partition in each) == list(range(PARTITIONS))
        assert {p: name for name, each in acts.items() for p in each} == cluster.primaries()
        assert all(shard.asked == 1 for shard in cluster.shards.values())
        for shard in cluster.shards.values():
            assert {each.partition for each in shard.assigned} == {
                each.partition for each in shard.node.partitions("orders") if each.copy_of(shard.node.name)
            }


def test_a_joiner_loads_takes_over_and_the_rest_is_cleared() -> None:
    """EX13, EX16: it is told what to hold, acts when it has loaded; who is no longer needed is told to clear."""
    with shared("n1", "n2", "n3") as cluster:
        before = cluster.primaries()
        newcomer = cluster.join("n4", is_slow=True)
        cluster.rest()
        assert cluster.primaries() == before, "a join moves no primary"
        moves = newcomer.node.moves("orders")
        assert {move.demander for move in moves} == {"n4"}
        assert {move.supplier for move in moves} <= {"n1", "n2", "n3"}
        newcomer.is_slow = False
        newcomer.load()
        cluster.rest()
        assert newcomer.acts_for()
        assert newcomer.node.moves("orders") == []
        assert any(shard.released for name, shard in cluster.shards.items() if name != "n4")
        copies = [copy for each in newcomer.node.partitions("orders") for copy in each.copies]
        assert {copy.state for copy in copies} == {PartitionState.OWNING}
        assert len(copies) == 2 * PARTITIONS


def test_what_a_joiner_reports_costs_as_much_as_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a thousand loads are reported at once: each look is at one copy, not at all that were finished before."""
    looks = 0
    own = NodeCopies._own

    def counted(copies: NodeCopies, state: State, group: str, partition: int) -> Held | None:
        nonlocal looks
        looks += 1
        return own(copies, state, group, partition)

    with shared("n1", partitions=512) as cluster:
        monkeypatch.setattr(NodeCopies, "_own", counted)
        newcomer = cluster.join("n2")
        cluster.rest()
        assert len({each.partition for each in newcomer.assigned}) == 512
        assert looks < 20 * 512, looks


def test_a_hand_over_waits_for_what_runs_and_lets_nothing_begin() -> None:
    """EX14: the guard's end is the drain; meanwhile the former primary refuses, and the next one does not act yet."""
    with shared("n1", "n2") as cluster:
        newcomer = cluster.join("n3", is_slow=True)
        partition = handed_over(newcomer, "n1")
        former = cluster.shards["n1"].node
        token = former.owners("orders", partition).token
        with former.acting("orders", partition) as held:
            assert held == token
            newcomer.is_slow = False
            newcomer.load()
            cluster.local.advance(0.4)
            with pytest.raises(NotPrimary), former.acting("orders", partition):
                pass
            assert former.owners("orders", partition).primary == "n1"
            with pytest.raises(NotPrimary), newcomer.node.acting("orders", partition):
                pass
        cluster.local.settle()  # no time passes: the last operation's end is told at once
        with newcomer.node.acting("orders", partition) as taken:
            assert taken > token
        with pytest.raises(NotPrimary) as refused, former.acting("orders", partition):
            pass
        assert (refused.value.node, refused.value.endpoint) == ("n3", "http://n3")


def test_what_begins_while_a_hand_over_is_being_applied_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """EX14: an operation of a former hand-over ends between the folding of the next one and its adoption, and asks
    what has drained; then one begins that this next one must wait for."""
    with shared("n1", "n2") as cluster:
        newcomer = cluster.join("n3", is_slow=True)
        partition = handed_over(newcomer, "n1")
        former = cluster.shards["n1"].node
        began: list[AbstractContextManager[Position]] = []
        adopt = Hooks.adopt

        def late(hooks: Hooks, core: NodeCore, keys: Sequence[Key]) -> None:
            if core.node == "n1" and any(kind == HandOverRow.KIND for kind, _ in keys) and not began:
                core.look_at_drains()
                began.append(former.acting("orders", partition))
                began[0].__enter__()
            adopt(hooks, core, keys)

        monkeypatch.setattr(Hooks, "adopt", late)
        newcomer.is_slow = False
        newcomer.load()
        cluster.local.advance(0.4)
        assert began
        with pytest.raises(NotPrimary), newcomer.node.acting("orders", partition):
            pass
        began[0].__exit__(None, None, None)
        cluster.rest()
        assert partition in newcomer.acts_for()


def test_an_operation_that_outlives_the_wait_has_not_happened() -> None:
    """EX15, DS8: after proceed_ms the next primary acts, and the former one's guard says so at its end."""
    with shared("n1", "n2") as cluster:
        newcomer = cluster.join("n3", is_slow=True)
        partition = handed_over(newcomer, "n1")
        operation = cluster.shards["n1"].node.acting("orders", partition)
        operation.__enter__()
        newcomer.is_slow = False
        newcomer.load()
        cluster.local.advance(4)
        assert partition in newcomer.acts_for()
        with pytest.raises(Moved):
            operation.__exit__(None, None, None)


def test_when_a_node_dies_others_act_at_once() -> None:
    """EX25: nobody is asked for a map; what it acted for, its backups act for under new tokens."""
    with shared("n1", "n2", "n3") as cluster:
        gone = {partition for partition, primary in cluster.primaries().items() if primary == "n2"}
        asked = cluster.shards["n1"].asked
        cluster.kill("n2")
        cluster.local.settle()
        assert cluster.shards["n1"].asked == asked
        acts = cluster.shards["n1"].acts_for() | cluster.shards["n3"].acts_for()
        assert gone <= acts == set(range(PARTITIONS))


def test_what_is_lost_refuses_whoever_comes() -> None:
    """DS2: no write begins it empty, and an owner that returns without its copies ends nothing."""
    with shared("n1", "n2", backups=0) as cluster:
        gone = tuple(partition for partition, primary in cluster.primaries().items() if primary == "n2")
        survivor = cluster.shards["n1"].node
        cluster.kill("n2")
        cluster.rest()
        assert survivor.lost("orders") == list(gone)
        with pytest.raises(PartitionLost), survivor.acting("orders", gone[0]):
            pass
        kept = next(partition for partition in range(PARTITIONS) if partition not in gone)
        with survivor.acting("orders", kept):
            pass
        bare = cluster.join("n2")
        cluster.rest()
        assert bare.assigned == [], "what the log lists of its former life is not its own"
        assert survivor.lost("orders") == list(gone)


@pytest.mark.parametrize("has_folder", [True, False])
def test_an_owner_that_returns_with_its_copies_ends_the_loss(has_folder: bool, tmp_path: Path) -> None:
    """DS2: they are told to it as its own once an outcome has confirmed them; without a folder they are not known to be
    those of its last life."""
    with shared("n1", "n2", backups=0, folders=tmp_path if has_folder else None) as cluster:
        gone = tuple(partition for partition, primary in cluster.primaries().items() if primary == "n2")
        survivor = cluster.shards["n1"].node
        cluster.kill("n2")
        cluster.rest()
        back = cluster.join("n2", whole=gone)
        cluster.rest()
        assert {each.partition for each in back.assigned} == back.acts_for() == (set(gone) if has_folder else set())
        assert survivor.lost("orders") == ([] if has_folder else list(gone))


def test_read_only_safe_refuses_all_writes_while_anything_is_lost() -> None:
    """EX18: reads of others go on."""
    with shared("n1", "n2", backups=0, loss=LossPolicy.READ_ONLY_SAFE) as cluster:
        gone = {partition for partition, primary in cluster.primaries().items() if primary == "n2"}
        survivor = cluster.shards["n1"].node
        cluster.kill("n2")
        cluster.rest()
        kept = next(partition for partition in range(PARTITIONS) if partition not in gone)
        with pytest.raises(PartitionLost), survivor.acting("orders", kept):
            pass
        with survivor.acting("orders", kept, writing=False):
            pass


def test_a_key_is_routed_to_who_serves_it() -> None:
    """The same partition as Ignite's, its primary, its endpoint, its token; from any node."""
    with shared("n1", "n2") as cluster:
        for key in ("a", "b", 7):
            routes = {shard.node.route("orders", key) for shard in cluster.shards.values()}
            (route,) = routes
            assert cluster.primaries()[route.partition] == route.node
            assert route.endpoint == f"http://{route.node}"
            with cluster.shards[route.node].node.acting("orders", route.partition) as token:
                assert token == route.token


def test_a_fenced_node_acts_for_nothing() -> None:
    """LE9: the guard asks the lease before and after."""
    with shared("n1", "n2") as cluster:
        node = cluster.shards["n1"].node
        partition = next(iter(cluster.shards["n1"].acts_for()))
        operation = node.acting("orders", partition)
        operation.__enter__()
        with cluster.local.leases_expired():
            with pytest.raises(Fenced):
                operation.__exit__(None, None, None)
            with pytest.raises(Fenced), node.acting("orders", partition):
                pass


def test_unknown_groups_and_partitions_are_said_to_be() -> None:
    """No KeyError, no wrong answer."""
    with shared("n1") as cluster:
        node = cluster.shards["n1"].node
        for ask in (
            lambda: node.owners("orders", PARTITIONS),
            lambda: node.owners("items", 0),
            lambda: node.partitions("items"),
            lambda: node.route("items", "a"),
            lambda: node.lost("items"),
        ):
            with pytest.raises(NotFound):
                ask()
        with pytest.raises(NotFound), node.acting("items", 0):
            pass


def test_of_a_group_that_is_dropped_a_service_hears_that_nobody_holds_it() -> None:
    """EX8: there is no copy left to be cleared; a store that heard nothing would keep its rows for ever."""
    with shared("a", "b") as cluster:
        told: list[PartitionView] = []
        node = cluster.shards["a"].node
        node.on_map(told.extend)
        log_id = decode_stamp(cluster.local.log.entries(Topic.DECISIONS, 0)[0].stamp or b"").log_id
        drop = GroupDropRequested(RequestId("ada", 1), log_id, "ada", "", "orders")
        cluster.local.log.put(Topic.OPERATIONS, "ada", CODEC.encode(drop))
        cluster.rest()
        assert {each.partition for each in told} == set(range(PARTITIONS))
        assert all(not each.copies and each.primary is None and each.group_number == 1 for each in told)


def fail() -> Disk:
    raise OSError("the disk is gone")


@pytest.mark.parametrize(
    ("whole", "told"),
    [
        (lambda: {1: {0: 7}}, "7 for partition 0 of group 1, which is no UpdateCounter"),
        (lambda: {1: [0]}, r"\[0\] for group 1, which is no mapping"),
        (lambda: {"orders": {}}, "'orders' for a group, which is not its number"),
        (lambda: {1: {-1: UpdateCounter(0, 1)}}, "partition -1 of group 1, which there is not"),
        (lambda: {1: {0: UpdateCounter(2, 1)}}, "does not count up"),
        (lambda: None, "None, which is no mapping"),
        (fail, "A hook failed of `holds`: OSError"),
    ],
)
def test_what_holds_says_wrongly_ends_the_node_with_the_name_of_the_hook(
    whole: Callable[[], Any], told: str, tmp_path: Path
) -> None:
    """HookFailed as for every other hook: it is the service's mistake, and not a defect of the library."""
    with shared("n1", folders=tmp_path) as cluster:
        node = cluster.local.node("n2", endpoint="http://n2", folder=tmp_path / "n2")
        node.holds(whole)
        with pytest.raises(HookFailed, match=told) as raised, node:
            pytest.fail("it is let in")
        assert "holds" in str(raised.value)


def test_what_holds_says_of_a_partition_that_there_is_not_ends_the_member(tmp_path: Path) -> None:
    """Only of a member it is the service's mistake: what it has is of this history."""
    with shared("n1", folders=tmp_path) as cluster:
        node = cluster.local.node("n2", endpoint="http://n2", folder=tmp_path / "n2")
        node.holds(lambda: {1: {PARTITIONS: UpdateCounter(0, 1)}})
        with pytest.raises(HookFailed, match=f"partition {PARTITIONS} of group 1, which there is not"):
            serve(cluster, node)


def test_what_a_join_says_of_a_partition_that_there_is_not_is_nobodys(tmp_path: Path) -> None:
    """The history that it is of is known behind the join."""
    with shared("n1", folders=tmp_path) as cluster:
        node = cluster.local.node("n2", endpoint="http://n2", folder=tmp_path / "n2")
        said = iter([{1: {PARTITIONS: UpdateCounter(0, 1)}}])
        node.holds(lambda: next(said, {}))
        serve(cluster, node)


def serve(cluster: Cluster, node: Node) -> None:
    """Until nothing moves any more; raises what ends the node."""
    with node:
        cluster.rest()
        assert len(node.partitions("orders")) == PARTITIONS


def test_a_folder_of_another_cluster_is_refused_whatever_its_copies_are_of(tmp_path: Path) -> None:
    """Groups have numbers of their own there: that a partition is none of here is no mistake of the hook (seed 55)."""
    with shared("n1", "n2", folders=tmp_path) as cluster:
        cluster.kill("n2")
    with shared("n1") as other:
        node = other.local.node("n2", endpoint="http://n2", folder=tmp_path / "n2")
        node.holds(lambda: {1: {PARTITIONS: UpdateCounter(0, 1)}})
        with pytest.raises(Refused) as raised, node:
            pytest.fail("it is let in")
        assert raised.value.code == "FOREIGN"
