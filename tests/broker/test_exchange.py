"""Partitions shared out on a real broker: joins, kills, a coordinator that dies, everybody at once."""

import signal

from tests.broker.conftest import Process, Site, eventually
from tests.unit.streams.node.shard import Shard

from topolog.events.exchange import ExchangeStarted
from topolog.events.group_definition import GroupDefinition
from topolog.events.partitions import PartitionState
from topolog.streams.node.client import Node

PARTITIONS = 64
ORDERS = GroupDefinition("orders", PARTITIONS, 1)


def is_at_rest(node: Node, *members: str) -> bool:
    """All copies are whole, and just where they should be, on members only; one acts for each partition."""
    found = node.partitions("orders")
    copies = [copy for each in found for copy in each.copies]
    return (
        {copy.state for copy in copies} == {PartitionState.OWNING}
        and len(copies) == 2 * PARTITIONS
        and {each.primary for each in found} == set(members)
        and all(each.copies[0].node == each.primary for each in found)
    )


def acting(process: Process) -> set[int]:
    """Nothing while it holds no lease, as on a machine so busy that its heartbeats come late."""
    process.tell(do="acts", group="orders")
    return set(process.hear("acts", "error").get("partitions", ()))


def is_shared_out(one: Shard, *others: Process) -> bool:
    """Somebody acts for each partition, nobody beside another."""
    shares = [one.acts_for(), *map(acting, others)]
    return sorted(partition for share in shares for partition in share) == list(range(PARTITIONS))


def test_partitions_move_to_who_joins_and_from_who_dies(site: Site) -> None:
    """EX13, EX12, EX25: by the guards of real processes; the log is one fold for all."""
    site.coordinator("c1")
    node = site.node("n1")
    one = Shard(node)
    with node:
        two = site.member("n2")
        node.create_group(ORDERS)
        eventually(lambda: is_at_rest(node, "n1", "n2"), "the group to be shared out")
        three = site.member("n3")
        eventually(lambda: is_at_rest(node, "n1", "n2", "n3"), "the joiner to have its share")
        eventually(lambda: is_shared_out(one, two, three), "one to act for each partition")
        two.kill()
        eventually(lambda: is_at_rest(node, "n1", "n3"), "the others to have taken over")
        eventually(lambda: is_shared_out(one, three), "one to act for each partition")
        assert site.agrees_with(node)


def test_an_exchange_outlives_its_coordinator(site: Site) -> None:
    """EX23: killed while it waits for a server that is stopped; the next one hears all maps again and completes."""
    first = site.coordinator("c1")
    node = site.node("n1")
    one = Shard(node)
    with node:
        two = site.member("n2")
        node.create_group(ORDERS)
        eventually(lambda: is_at_rest(node, "n1", "n2"), "the group to be shared out")
        site.coordinator("c2")
        before = started(site)
        two.send(signal.SIGSTOP)
        three = site.member("n3")
        eventually(lambda: started(site) > before, "the exchange of the join")
        first.kill()
        two.send(signal.SIGCONT)
        eventually(lambda: is_at_rest(node, "n1", "n2", "n3"), "all to be shared out again")
        eventually(lambda: is_shared_out(one, two, three), "one to act for each partition")


def started(site: Site) -> int:
    return sum(isinstance(each.event, ExchangeStarted) for each in site.told().decisions)
