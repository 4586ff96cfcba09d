"""A cluster in memory with two nodes and a table, for tests of how a service sees tables change."""

from contextlib import ExitStack

from tests.unit.streams.rules.changing import TEXT, database, table

from topolog.events.object_definition import Privilege
from topolog.events.objects import ChangeRow, change_row
from topolog.streams.node.client import Node
from topolog.streams.node.objects import Table
from topolog.streams.node.testing import LocalCluster

ORDERS = "shop.orders"
READ = Privilege.READ


class Shop:
    """A cluster with two nodes and a table."""

    def __init__(self, cluster: LocalCluster, stack: ExitStack) -> None:
        self.cluster = cluster
        self._stack = stack
        self.one, self.two = self.join("n1"), self.join("n2")
        cluster.change(database(), table(note=TEXT))

    def join(self, name: str, **options: object) -> Node:
        return self.enter(self.cluster.node(name, **options))

    def enter(self, node: Node) -> Node:
        self._stack.enter_context(node)
        self.cluster.settle()
        return node

    def row(self, change: int) -> ChangeRow:
        with self.one._session.folding:
            row = change_row(self.one._state, change)
        assert row is not None
        return row


def columns(found: Table) -> list[str]:
    return [each.name for each in found.columns]
