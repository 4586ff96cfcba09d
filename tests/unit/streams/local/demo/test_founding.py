"""The store makes its tables itself: once, by whichever node, and none again that somebody has dropped."""

import threading
from collections.abc import Iterator, Mapping

import msgspec
import pytest
from tests.broker.conftest import eventually
from tests.unit.streams.rules.changing import drop

from topolog.events.errors import Refused
from topolog.events.leases import NodeKind
from topolog.events.object_definition import Column, ColumnType
from topolog.events.objects import SchemaChangeCommitted, SchemaChangePrepared, SchemaChangeQueued
from topolog.streams.local.demo import clients
from topolog.streams.local.demo.founding import column_names, found_tables, table_name
from topolog.streams.node.testing import LocalCluster


class File(msgspec.Struct, frozen=True):
    table: str
    key: str
    types: Mapping[str, str]


ORDERS = File("shop.orders", "orderkey", {"orderkey": "int", "totalprice": "decimal", "orderdate": "Date"})
FILES = [ORDERS, File("shop.parts", "id", {"name": "String"})]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def test_whichever_node_is_first_makes_all_tables_and_the_rest_find_them(cluster: LocalCluster) -> None:
    """One change; the columns are wide enough for what other files of the same rows say."""
    with cluster.node("n1") as one, cluster.node("n2") as two:
        for node in (one, two, one):
            found_tables(node, FILES)
            cluster.settle()
        assert len(cluster.decisions(SchemaChangeCommitted)) == 1
        orders, parts = two.table("shop.orders"), two.table("shop.parts")
    assert [(each.name, each.type) for each in orders.columns] == [
        ("orderkey", ColumnType.INT64),
        ("totalprice", ColumnType.DOUBLE),
        ("orderdate", ColumnType.DATE),
    ]
    assert (orders.key, parts.key) == ("orderkey", "id")
    assert parts.column("id") == Column("id", ColumnType.STRING, 1), "a key that no row has a value of"


def test_a_table_that_was_dropped_stays_dropped(cluster: LocalCluster) -> None:
    """However often a node starts."""
    with cluster.node("n1") as node:
        found_tables(node, FILES)
        cluster.change(drop("shop.parts"))
        found_tables(node, FILES)
        assert [each.name for each in node.tables()] == ["shop.orders"]


def test_files_that_can_be_no_tables_are_refused(cluster: LocalCluster) -> None:
    with cluster.node("n1") as node, pytest.raises(Refused, match="twice"):
        found_tables(node, [File("shop.a", "a b", {"a b": "int", "a_b": "int"})])


def test_names_that_are_no_names_of_tables_become_some() -> None:
    assert table_name("2024-sales") == "shop._2024_sales"
    assert column_names(["orderkey", "größe", "a b"]) == {"orderkey": "orderkey", "größe": "gr__e", "a b": "a_b"}


class Looking(threading.Event):
    """Nobody is told to stop; `looks` counts how often somebody asked."""

    looks = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.looks += 1
        return super().wait(timeout)


def test_clients_ask_for_their_table_once_however_long_a_server_hangs(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TA17: each further request would stand in the log for ever, and wait behind the first."""
    monkeypatch.setattr(clients, "CHANGE_S", 0.05)
    monkeypatch.setattr(clients, "LOOK_S", 0.01)
    with cluster.node("n1"), cluster.node("c", kind=NodeKind.CLIENT) as client:
        stopping = Looking()
        making = threading.Thread(target=clients.Cluster(client).make_table, args=(stopping,))
        with cluster.cut_off("n1"):
            making.start()
            eventually(lambda: stopping.looks > 20)
        making.join()
        assert len(cluster.decisions(SchemaChangePrepared)) == 1
        assert not cluster.decisions(SchemaChangeQueued)
        assert client.table(clients.TABLE).key == "id"
