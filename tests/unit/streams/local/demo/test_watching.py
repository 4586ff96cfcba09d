"""Who reads the tables all the while, beside real stores over HTTP: it finds nothing, and finds what is wrong."""

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.broker.conftest import eventually
from tests.unit.streams.local.demo.shops import Shops
from tests.unit.streams.rules.changing import TEXT, add, alter, database, drop, drop_column, rename, table

from topolog.events.errors import NotFound
from topolog.events.leases import NodeKind
from topolog.streams.local.demo import watching
from topolog.streams.local.demo.watching import Watcher
from topolog.streams.node.client import Node
from topolog.streams.node.testing import LocalCluster

ORDERS = "shop.orders"
KEYS = [str(number) for number in range(watching.KEYS)]


class Watched:
    """Two nodes of the store with shop.orders, and who reads it."""

    def __init__(self, shops: Shops, node: Node) -> None:
        self.shops = shops
        self.local = shops.local
        self._stopping = threading.Event()
        self.watcher = Watcher(node, self._stopping)

    def fill(self, name: str = ORDERS) -> None:
        for key in KEYS:
            assert self.shops.ask("PUT", name, key, clerk="Ada")[0] == 204

    def read_on(self) -> None:
        """Until whoever reads has seen more."""
        before = self.watcher.found.rows
        eventually(lambda: self.watcher.found.rows > before + 5)

    def answer(self, reply: Callable[[str, str], bytes]) -> None:
        """From now on every node answers so to a read."""
        for shop in self.shops.by_name.values():
            shop.store.get = reply  # type: ignore[method-assign, assignment]

    def stop(self) -> None:
        self._stopping.set()
        self.watcher.join()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """It waits for no reading of the log that is behind: there is none here."""
    monkeypatch.setattr(watching, "PAUSE_S", 0.001)
    monkeypatch.setattr(watching, "HEARSAY_S", 0.2)
    with LocalCluster() as local:
        shops = Shops(local)
        try:
            shops.open("n1", "n2")
            node = local.node("load", kind=NodeKind.CLIENT)
            found = Watched(shops, node)
            with node:
                local.change(database(), table(clerk=TEXT))
                shops.rest()
                found.fill()
                found.watcher.start()
                found.read_on()
                yield found
                found.stop()
        finally:
            shops.close()


def test_tables_are_answered_as_they_are_defined_while_they_change(watched: Watched) -> None:
    """Columns come and go, tables get names and lose them, one is made anew: whatever was committed before a question
    shows in its answer."""
    local = watched.local
    local.change(alter(ORDERS, add("note")))
    watched.read_on()
    local.change(alter(ORDERS, drop_column("clerk")))
    watched.read_on()
    local.change(alter(ORDERS, add("clerk")))
    watched.read_on()
    local.change(rename(ORDERS, "shop.sales"))
    watched.read_on()
    local.change(drop("shop.sales"))
    eventually(lambda: watched.watcher.found.gone == {ORDERS, "shop.sales"})
    local.change(table(clerk=TEXT))
    watched.fill()
    watched.read_on()
    watched.stop()
    assert watched.watcher.failure is None
    assert watched.watcher.found.wrong == {}
    assert watched.watcher.found.tables == {ORDERS, "shop.sales"}


def test_a_column_that_is_committed_and_missing_is_found(watched: Watched) -> None:
    watched.answer(lambda *_: b'{"id": 1}')
    eventually(lambda: bool(watched.watcher.found.wrong))
    assert "shows id; defined is ['clerk, id']" in next(iter(watched.watcher.found.wrong.values()))


def test_a_column_that_is_dropped_and_shown_is_found(watched: Watched) -> None:
    watched.local.change(alter(ORDERS, drop_column("clerk")))
    watched.answer(lambda *_: b'{"id": 1, "clerk": "Ada"}')
    eventually(lambda: bool(watched.watcher.found.wrong))


def test_a_row_of_a_dropped_table_is_found(watched: Watched) -> None:
    watched.local.change(drop())
    eventually(lambda: ORDERS in watched.watcher.found.gone)
    assert not watched.watcher.found.wrong
    watched.answer(lambda *_: b'{"id": 1, "clerk": "Ada"}')
    eventually(lambda: bool(watched.watcher.found.wrong))
    assert "no such table" in next(iter(watched.watcher.found.wrong.values()))


def test_a_node_that_knows_nothing_of_a_table_that_is_committed_is_found(watched: Watched) -> None:
    def deny(name: str, _: str) -> bytes:
        raise NotFound(f"There is no table {name!r}.")

    watched.answer(deny)
    eventually(lambda: ORDERS in watched.watcher.found.wrong)
