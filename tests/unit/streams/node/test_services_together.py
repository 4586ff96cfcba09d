"""Several services in one cluster: one that hangs, and holds nothing of a group, delays nobody who does."""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from topolog import Affinity, Group, Node, PartitionView
from topolog.errors import Fenced
from topolog.events.exchange import ExchangeCompleted
from topolog.testing import LocalCluster, NodeJoined, NodeLeft

PAGE = Path(__file__).parents[4] / "docs" / "services.md"
ORDERS = Group("orders", partitions=8, backups=1, affinity=Affinity(node_filter={"service": "orders"}))


class Services:
    """Nodes of the service `orders`, and one of another, which holds nothing."""

    def __init__(self, cluster: LocalCluster, nodes: ExitStack) -> None:
        self.cluster = cluster
        self._nodes = nodes
        self.reports = cluster.node("reports", attributes={"service": "reports"})

    def join(self, name: str) -> Node:
        return self._nodes.enter_context(self.cluster.node(name, attributes={"service": "orders"}))


@pytest.fixture
def services() -> Iterator[Services]:
    with LocalCluster() as cluster, ExitStack() as nodes:
        yield Services(cluster, nodes)


def primaries(node: Node, group: str = "orders") -> set[str | None]:
    return {each.primary for each in node.partitions(group)}


def test_the_test_on_the_page_passes() -> None:
    """What docs/services.md shows: what a dead node acted for is served elsewhere in no time."""
    (snippet,) = (each for each in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if ".hung(" in each)
    names: dict[str, Any] = {"Affinity": Affinity, "Group": Group}
    exec(compile(snippet, str(PAGE), "exec"), names)
    names["test_a_service_that_hangs_delays_no_other"]()


def test_whatever_befalls_a_group_goes_on_without_a_stranger_that_hangs(services: Services) -> None:
    """Its creation, a join and a death: none of them waits for a millisecond."""
    with services.reports:
        a = services.join("a")
        with services.cluster.hung("reports"):
            began_ns = services.cluster.clock.monotonic_ns()
            a.create_group(ORDERS)
            services.cluster.settle()
            assert primaries(a) == {"a"}
            services.join("b")
            services.cluster.settle()
            assert {len(each.copies) for each in a.partitions("orders")} == {2}
            services.cluster.kill("b")
            assert {len(each.copies) for each in a.partitions("orders")} == {1}
            assert services.cluster.clock.monotonic_ns() == began_ns


def test_a_hook_that_really_blocks_delays_no_other_either(services: Services) -> None:
    """The same with a hook of the service's own, which hangs where it is told of partitions."""
    hanging, goes_on = threading.Event(), threading.Event()

    def hang(_: Sequence[PartitionView]) -> None:
        hanging.set()
        goes_on.wait()

    services.reports.on_map(hang)
    with services.reports, ExitStack() as ending:
        ending.callback(goes_on.set)
        a = services.join("a")
        services.join("b")
        services.cluster.settle()
        a.create_group(ORDERS)
        assert hanging.wait(30)
        with services.cluster.hung("reports"):
            services.cluster.settle()
            assert primaries(a) == {"a", "b"}
            services.cluster.kill("b")
            assert primaries(a) == {"a"}
            goes_on.set()


def test_who_hangs_beats_until_its_lease_is_over_and_comes_back(services: Services) -> None:
    """LE14: it is renewed as long as it may still catch up; then it is out like any other, and joins anew."""
    with services.reports as reports:
        with services.cluster.hung("reports"):
            a = services.join("a")
            services.cluster.advance(1.5)
            assert reports.lease.is_valid
            services.cluster.advance(6)
            with pytest.raises(Fenced):
                reports.lease.require()
            a.lease.require()
            assert [each.node for each in services.cluster.decisions(NodeLeft)] == ["reports"]
        services.cluster.advance(0.4)
        reports.lease.require()
    joined = [each.joiner.node for each in services.cluster.decisions(NodeJoined)]
    assert joined == ["reports", "a", "reports"]


def test_who_goes_on_after_a_while_has_applied_what_it_missed(services: Services) -> None:
    """Inside it knows nothing of what is decided, and gets no copy that writes would wait for; behind it both."""
    with services.reports as reports:
        a = services.join("a")
        with services.cluster.hung("reports"):
            a.create_group(Group("orders", partitions=8, backups=1))
            for _ in range(50):
                services.cluster.advance(0.2)
                if any(view.copies for view in a.partitions("orders")):
                    break
            assert "orders" not in reports.groups()
            assert [each.node for view in a.partitions("orders") for each in view.copies] == ["a"] * 8
        services.cluster.settle()
        assert all(each.copy_of("reports") for each in reports.partitions("orders"))


def test_who_hangs_goes_on_hanging_behind_an_inner_hang(services: Services) -> None:
    """What one part of a test does inside ends nothing that another part has begun."""
    with services.reports as reports:
        with services.cluster.hung("reports"):
            with services.cluster.hung("reports"):
                pass
            services.join("a").create_group(ORDERS)
            services.cluster.settle()
            assert "orders" not in reports.groups()
        assert "orders" in reports.groups()


def test_a_new_life_hears_nothing_of_what_the_former_was_asked(services: Services) -> None:
    """It reads of exchanges that were completed without a former life before it joins: they ask nothing of it."""
    a = services.join("a")
    with services.cluster.node("b", attributes={"service": "orders"}), services.cluster.hung("b"):
        a.create_group(ORDERS)
        services.cluster.advance(1)
        assert [each.unheard for each in services.cluster.decisions(ExchangeCompleted)][-1] == ("b",)
        services.cluster.kill("b")
    came_back = services.cluster.node("b", attributes={"service": "orders"})
    asked_after: list[int] = []
    came_back.on_exchange(lambda: asked_after.append(len(services.cluster.decisions(NodeJoined))))
    with came_back:
        services.cluster.settle()
        assert {len(each.copies) for each in a.partitions("orders")} == {2}
    assert set(asked_after) == {3}
