"""docs/services.md is right: its code runs in the order of the page, on a real broker, and does what the text says."""

import re
from pathlib import Path
from typing import Any

import pytest

from topolog.events.errors import Fenced, TopologError
from topolog.events.object_types import ObjectType

PAGE = Path(__file__).parents[4] / "docs" / "services.md"
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


def test_every_error_on_the_page_exists() -> None:
    """The table names classes, not memories of them."""
    table = PAGE.read_text().split("| error | what to do |")[1]
    names = set(
        re.findall(r"`([A-Z]\w+)`", " ".join(row.split("|")[1] for row in table.splitlines() if "|" in row[1:]))
    )
    assert len(names) == 7
    assert names <= {kind.__name__ for kind in _family(TopologError)}


def _family(kind: type[TopologError]) -> set[type[TopologError]]:
    return {kind}.union(*(_family(child) for child in kind.__subclasses__()))
