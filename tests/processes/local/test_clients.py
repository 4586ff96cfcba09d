"""The clients of the demo beside real stores over HTTP, with the cluster's log in memory: what they find, and that they
find what is wrong."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest
from tests.broker.conftest import eventually

from topolog.events.errors import BadInput, NotFound, TopologError
from topolog.events.leases import NodeKind
from topolog.streams.clock import SystemClock
from topolog.streams.local.demo import clients
from topolog.streams.local.demo.agreement import Agreement
from topolog.streams.local.demo.clients import run_clients
from topolog.streams.local.demo.ledger import Ledger
from topolog.streams.local.demo.serving import Listener
from topolog.streams.local.demo.shards import ATTRIBUTES, GROUP, Shards
from topolog.streams.local.demo.store import Store
from topolog.streams.local.demo.table_rows import spread_by
from topolog.streams.node.testing import LocalCluster

IN_MEMORY = msgspec.structs.replace(GROUP, persistent=False)
PATIENCE_S = 60.0
LOST_FOR_S = 3.0
UNDECIDED_S = 2.0
HARDLY_S = 0.3


IN_MEMORY = msgspec.structs.replace(GROUP, persistent=False)
"""What went with its last copy is gone for good, and the store begins anew by itself."""


class Stores:
    """Nodes of the store, and clients of theirs in a thread."""

    def __init__(self, local: LocalCluster) -> None:
        self.local = local
        self.by_name: dict[str, Shards] = {}
        self.store: dict[str, Store] = {}
        self.said: list[str] = []
        self.ledger: Ledger | None = None
        self.failure: TopologError | None = None
        self._stacks: dict[str, ExitStack] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self, *names: str) -> None:
        for name in names:
            stack = self._stacks[name] = ExitStack()
            listener = stack.enter_context(Listener())
            node = self.local.node(name, endpoint=listener.endpoint, attributes=ATTRIBUTES)
            shards = self.by_name[name] = Shards(node, IN_MEMORY)
            store = self.store[name] = Store(shards, Agreement(node, lambda _: None))
            stack.enter_context(node)
            listener.serve(store, shards)
            stack.enter_context(shards)

    def kill(self, name: str) -> None:
        self.local.kill(name)
        del self.by_name[name]
        self._stacks.pop(name).close()

    def visit(self, count: int = 2) -> None:
        node = self.client = self.local.node("load", kind=NodeKind.CLIENT)

        def run() -> None:
            try:
                self.ledger = run_clients(node, count, self._stopping, self.said.append)
            except TopologError as error:
                self.failure = error

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def held(self) -> int:
        """Rows of the clients that some node has."""
        return len({key for shards in self.by_name.values() for key in shards.keys(acting_only=True)})

    def at_rest(self) -> bool:
        found = [shards.states() for shards in self.by_name.values()]
        return sum(each["OWNING"] for each in found) == 128 and sum(each["ACTING"] for each in found) == 64

    def end(self) -> Ledger:
        self._stopping.set()
        if self._thread:
            self._thread.join(PATIENCE_S)
        if self.failure:
            raise self.failure
        assert self.ledger is not None
        return self.ledger

    def close(self) -> None:
        self._stopping.set()
        if self._thread:
            self._thread.join(PATIENCE_S)
        for stack in self._stacks.values():
            stack.close()


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stores]:
    """They visit a row every millisecond, and wait for no reading of the log that is behind: there is none here."""
    monkeypatch.setattr(clients, "VISIT_PAUSE_S", 0.001)
    monkeypatch.setattr(clients, "HEARSAY_S", 0.2)
    with LocalCluster(clock=SystemClock(), operators=("n1", "n2", "n3")) as local:
        found = Stores(local)
        try:
            yield found
        finally:
            found.close()


def test_nothing_is_lost_while_nodes_join_and_die(stores: Stores) -> None:
    """Every partition is written by every client; a third node joins, the first one dies, the rest goes on."""
    stores.open("n1", "n2")
    stores.visit()
    eventually(lambda: stores.held() >= 128)
    stores.open("n3")
    eventually(stores.at_rest)
    stores.kill("n1")
    eventually(stores.at_rest)
    ledger = stores.end()
    assert (ledger.lost, ledger.gone, ledger.unread) == ({}, 0, 0)
    assert ledger.writes >= 128
    assert ledger.reads >= 128, "each was read back"
    assert ledger.longest.seconds > 0


def test_a_store_that_forgets_is_found_out(stores: Stores) -> None:
    """A copy loses rows behind everybody's back: the clients name them, with what was acknowledged. But for one, if it
    was just between its client's read of it and the next write."""
    stores.open("n1")
    stores.visit(count=1)
    eventually(lambda: stores.held() >= 64)
    shards = stores.by_name["n1"]
    forgotten = shards.keys(acting_only=True)[:8]
    for key in forgotten:
        shards.write(key, None)
    ledger = stores.end()
    assert len(ledger.lost) >= 4
    assert set(ledger.lost) <= {spread_by(key) for key in forgotten}
    assert all("was acknowledged, nothing is there" in told for told in ledger.lost.values())


def test_what_went_with_its_last_copy_is_gone_and_not_lost(stores: Stores) -> None:
    """The only node dies: the log says that all is lost, the next one begins anew, the clients write on. The time until
    then is no pause of the store's."""
    stores.open("n1")
    stores.visit(count=1)
    eventually(lambda: stores.held() >= 64)
    stores.kill("n1")
    time.sleep(LOST_FOR_S)
    stores.open("n2")
    eventually(lambda: stores.held() >= 64)
    ledger = stores.end()
    assert (ledger.lost, ledger.unread) == ({}, 0)
    assert ledger.gone >= 64
    assert len(ledger.gone_with) == 64
    assert ledger.longest.seconds < LOST_FOR_S


def test_a_pause_with_a_loss_in_it_counts_without_the_loss(stores: Stores) -> None:
    """Nobody decides for a while after the only node has died; only what follows is a loss by the log."""
    stores.open("n1")
    stores.visit(count=1)
    eventually(lambda: stores.held() >= 64)
    stores.local.stop_coordinator()
    begun = time.monotonic()
    stores.kill("n1")
    time.sleep(UNDECIDED_S)
    stores.local.start_coordinator()
    eventually(lambda: len(stores.client.lost("rows")) == 64)
    time.sleep(LOST_FOR_S)
    stores.open("n2")
    eventually(lambda: stores.held() >= 64)
    longest, whole_s = stores.end().longest.seconds, time.monotonic() - begun
    assert UNDECIDED_S - HARDLY_S < longest < whole_s - LOST_FOR_S + HARDLY_S


def test_what_is_not_answered_in_the_end_is_said(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is there any more and nothing is lost by the log: then nobody knows."""
    monkeypatch.setattr(clients, "CHECK_S", 0.2)
    stores.open("n1")
    stores.visit(count=1)
    eventually(lambda: stores.held() >= 64)
    stores.local.stop_coordinator()
    stores.kill("n1")
    ledger = stores.end()
    assert ledger.lost == {}
    assert ledger.unread >= 64


def test_a_store_that_refuses_what_makes_sense_ends_the_clients(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> bool:
        raise BadInput("That is no row.")

    stores.open("n1")
    monkeypatch.setattr(stores.store["n1"], "put", refuse)
    stores.visit(count=1)
    eventually(lambda: stores.failure is not None)
    with pytest.raises(BadInput, match="That is no row"):
        stores.end()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_client_that_fails_is_no_client_that_found_nothing(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are not read back: that is not «none lost»."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    stores.open("n1")
    monkeypatch.setattr(clients.Client, "_check", fail)
    stores.visit(count=1)
    eventually(lambda: stores.held() >= 1)
    with pytest.raises(TopologError, match="ZeroDivisionError"):
        stores.end()


def test_they_end_by_themselves_after_their_time(stores: Stores) -> None:
    stores.open("n1")
    node = stores.local.node("load", kind=NodeKind.CLIENT)
    ledger = run_clients(node, 1, threading.Event(), stores.said.append, for_s=0.5)
    assert stores.said[-1] == "reading back every acknowledged write"
    assert ledger.lost == {}


def test_without_a_store_there_is_nothing_to_find(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """«0 acknowledged, none lost» would be true, and of no use."""
    monkeypatch.setattr(clients, "GROUP_S", 0.0)
    node = stores.local.node("load", kind=NodeKind.CLIENT)
    with pytest.raises(NotFound, match="There is no group 'rows'"):
        run_clients(node, 1, threading.Event(), stores.said.append)
    assert stores.said == []
