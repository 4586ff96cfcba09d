"""docs/services.md is right: its code runs in the order of the page, on a real broker, and does what the text says."""

import re
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from tests.unit.streams.rules.changing import TEXT, alter, database, drop, drop_column, rename_column, table

from topolog.events.errors import Fenced, NotFound, Retriable, TopologError
from topolog.events.group_definition import GroupDefinition
from topolog.events.object_types import ObjectType
from topolog.events.objects import DataDeletionConfirmed
from topolog.streams.node.client import Node
from topolog.streams.node.testing import LocalCluster

ACCOUNTS = GroupDefinition("accounts", partitions=8, backups=1)
PAGE = Path(__file__).parents[3] / "docs" / "services.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def page(coordinated: tuple[str, dict[str, str]]) -> dict[str, Any]:
    """What the page's code has defined, all of it run in order; its last `node` is not entered yet."""
    cluster, kafka = coordinated
    names: dict[str, Any] = {}
    for snippet in SNIPPETS:
        here = snippet.replace('"demo"', f'"{cluster}"').replace("127.0.0.1:19092", kafka["bootstrap.servers"])
        exec(compile(here, str(PAGE), "exec"), names)
    return names


def test_the_page_does_what_it_says(page: dict[str, Any]) -> None:
    """Groups, guard, read, token, hook and the outcomes of agreement, each by the page's own code."""
    node, receiver = page["node"], page["Receiver"]()
    assert page["outcome"].accepted
    with node:
        assert node.groups()["accounts"].definition == page["accounts"]
        page["write"](18, "Grace")
        assert (page["read"](17), page["read"](18)) == ("Ada", "Grace")
        page["write_to"](receiver, 17, "Ada")
        assert receiver.highest == {"accounts-1": page["own_token"]()}
        assert page["agree"](node, ObjectType("Account", {"email": "String"}, affinity_key="id")) == "version 2"
        conflict = page["agree"](node, ObjectType("Account", {"id": "int"}, affinity_key="id"))
        assert conflict == "field id: long, not int"
    with pytest.raises(Fenced):
        page["write"](19, "x")
    with pytest.raises(Fenced):
        page["read"](17)
    with pytest.raises(Fenced):
        page["write_to"](receiver, 17, "x")
    seen = [page["changes"].get_nowait() for _ in range(3)]
    assert [(name, metadata.version) for name, metadata in seen] == [("Account", 1), ("Ledger", 1), ("Account", 2)]


def test_a_write_of_a_former_life_is_refused(page: dict[str, Any], coordinated: tuple[str, dict[str, str]]) -> None:
    """Each joining has a higher position, so the storage can tell the lives of one node apart."""
    cluster, kafka = coordinated
    receiver, tokens = page["Receiver"](), []
    for life in ("first", "second"):
        with page["Node"](cluster, "n1", kafka=kafka) as page["node"]:
            page["write_to"](receiver, 17, life)
            tokens.append(page["own_token"]())
    with pytest.raises(page["TokenTooLow"]):
        receiver.write("n1", tokens[0], 17, "late")
    assert receiver.rows == {17: "second"}


def test_the_test_on_the_page_passes(page: dict[str, Any]) -> None:
    """What a service developer would copy: without Kafka, and in a moment."""
    page["test_a_node_that_is_cut_off_stops_serving"]()


class Copies:
    """Nodes in memory, each with the page's Shard; time and the shards' own steps go on together."""

    def __init__(self, cluster: LocalCluster, stack: ExitStack) -> None:
        (snippet,) = (each for each in SNIPPETS if "class Shard" in each)
        names: dict[str, Any] = {"Node": Node, "Group": GroupDefinition}
        exec(compile(snippet, str(PAGE), "exec"), names)
        self.shards: dict[str, Any] = {}
        self._kind = names["Shard"]
        self._cluster = cluster
        self._stack = stack

    def join(self, name: str) -> Node:
        node = self._cluster.node(name, endpoint=name)
        self.shards[name] = self._kind(node, ACCOUNTS, self.shards)
        return self._stack.enter_context(node)

    def kill(self, name: str) -> None:
        del self.shards[name]
        self._cluster.kill(name)

    def go_on(self, times: int = 1) -> None:
        for _ in range(times):
            for shard in list(self.shards.values()):
                shard.step()
            self._cluster.advance(0.2)

    def ask(self, what: str, key: str, *value: str) -> Any:
        """Where the key is served, again and again until it is done."""
        for _ in range(50):
            try:
                shard = self.shards[next(iter(self.shards.values())).node.route("accounts", key).node]
                return getattr(shard, what)(key, *value)
            except (Retriable, KeyError):
                self.go_on()
        raise AssertionError(f"{what} {key} is not done")

    def are_equal(self) -> bool:
        """Whether all copies of each partition are, two of each."""
        held = [[shard.rows[number] for shard in self.shards.values() if number in shard.rows] for number in range(8)]
        return all(len(each) == 2 and each[0] == each[1] for each in held)


def test_the_shards_on_the_page_lose_nothing_that_they_acknowledged() -> None:
    """Through joins, hand-overs, a death and a return: every row is read again, and copies are equal at rest."""
    with LocalCluster() as cluster, ExitStack() as stack:
        copies = Copies(cluster, stack)
        copies.join("a")
        copies.join("b").create_group(ACCOUNTS)
        cluster.settle()
        written: dict[str, str] = {}

        def write(count: int) -> None:
            for number in range(len(written), len(written) + count):
                copies.ask("write", f"k{number}", f"{number}")
                written[f"k{number}"] = f"{number}"
                copies.go_on(number % 3 == 0)

        write(10)
        copies.join("c")
        write(20)
        assert {copies.shards["c"].node.route("accounts", key).node for key in written} == {"a", "b", "c"}
        copies.kill("b")
        write(20)
        copies.join("b")
        write(10)
        copies.go_on(20)
        assert {key: copies.ask("read", key) for key in written} == written
        assert copies.are_equal()
        assert copies.shards["a"].node.moves("accounts") == []


def test_every_error_on_the_page_exists() -> None:
    """The table names classes, not memories of them."""
    table = PAGE.read_text().split("| error | what to do |")[1]
    names = set(
        re.findall(r"`([A-Z]\w+)`", " ".join(row.split("|")[1] for row in table.splitlines() if "|" in row[1:]))
    )
    assert len(names) == 11
    assert names <= {kind.__name__ for kind in _family(TopologError)}


def _family(kind: type[TopologError]) -> set[type[TopologError]]:
    return {kind}.union(*(_family(child) for child in kind.__subclasses__()))


def test_the_rows_on_the_page_belong_to_their_table_and_not_to_its_name() -> None:
    """A renamed column keeps its values, a dropped one is deleted, and a new table of the name is empty."""
    (snippet,) = (each for each in SNIPPETS if "class Rows" in each)
    names: dict[str, Any] = {"Node": Node, "SimpleQueue": SimpleQueue}
    exec(compile(snippet, str(PAGE), "exec"), names)
    with LocalCluster() as cluster:
        rows = names["Rows"](cluster.node("a"))
        with rows.node as node:
            cluster.change(database(), table(note=TEXT, city=TEXT))
            rows.write("shop.orders", "1", {"note": "x", "city": "y"})
            cluster.change(alter("shop.orders", rename_column("note", "remark"), drop_column("city")))
            assert rows.read("shop.orders", "1") == {"id": None, "remark": "x"}
            rows.step()
            assert list(rows.kept.values()) == [{"1": {2: "x"}}]
            number = cluster.change(drop())
            with pytest.raises(NotFound):
                rows.read("shop.orders", "1")
            cluster.change(table(remark=TEXT))
            assert rows.read("shop.orders", "1") == {"id": None, "remark": None}
            assert rows.kept != {}
            rows.step()
            assert rows.kept == {}
            cluster.settle()
            assert number in cluster.decisions(DataDeletionConfirmed)[-1].changes
            assert node.failure is None
