"""What the store does with each answer of the cluster, with a node that answers as the test says."""

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from topolog.events.errors import BadInput, Fenced, MergeConflict, OutcomeUnknown
from topolog.events.object_types import ObjectType, merge
from topolog.streams.local.demo.agreement import Agreement, Shape
from topolog.streams.local.demo.serving import Request, answer
from topolog.streams.local.demo.shards import Shards
from topolog.streams.local.demo.store import Store
from topolog.streams.node.client import Metadata, Node

ORDER = Shape("Order", "id", (("id", "long"), ("price", "double")))


class ObedientLease:
    def __init__(self) -> None:
        self.is_valid = True

    def require(self) -> None:
        if not self.is_valid:
            raise Fenced("No lease.", retry_after_ms=1200)


class OwnShards:
    """Rows of which this node has all, and acts for all."""

    def __init__(self, lease: ObedientLease) -> None:
        self.rows: dict[str, bytes] = {}
        self._lease = lease

    def read(self, key: str) -> bytes | None:
        self._lease.require()
        return self.rows.get(key)

    def write(self, key: str, value: bytes | None, *, if_absent: bool = False) -> bool:
        self._lease.require()
        if if_absent and key in self.rows:
            return False
        self.rows[key] = value or b""
        return True

    def keys(self, **_: bool) -> list[str]:
        return list(self.rows)

    def states(self) -> Counter[str]:
        return Counter(ACTING=1)

    refused = states


class ObedientNode:
    """A node whose cluster agrees to what merges. `loses` answers are not read in time."""

    def __init__(self) -> None:
        self.lease = ObedientLease()
        self.agreed: ObjectType | None = None
        self.loses = 0
        self.refusals = 0
        self.asked: list[str] = []

    def on_type(self, hook: Callable[[str, Metadata | None], None]) -> None:
        self.hook = hook

    def propose(self, definition: ObjectType, **_: object) -> None:
        self.asked.append("propose")
        self.refusals += 1
        self.agreed = merge(self.agreed, definition)
        self.refusals -= 1
        self._answer()

    def outcome(self, request_id: str, **_: object) -> None:
        self.asked.append(f"outcome {request_id}")
        self._answer()

    def metadata(self, _name: str, **_options: object) -> Metadata | None:
        return Metadata(self.agreed, 1) if self.agreed else None

    def _answer(self) -> None:
        if self.loses:
            self.loses -= 1
            raise OutcomeUnknown("Not settled.", request_id="n1/7")


@pytest.fixture
def node() -> ObedientNode:
    return ObedientNode()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def agreement(node: ObedientNode, said: list[str]) -> Agreement:
    return Agreement(cast(Node, node), said.append)


@pytest.fixture
def store(node: ObedientNode, agreement: Agreement) -> Store:
    return Store(cast(Shards, OwnShards(node.lease)), agreement)


def put(store: Store, document: dict[str, Any]) -> None:
    assert store.put("Order", str(document["id"]), msgspec.json.encode(document))


def get(store: Store, path: str) -> tuple[int, object]:
    found = answer(store, Request("GET", path))
    return found.status, found.body


def test_what_the_cluster_has_agreed_on_is_adopted_and_never_contradicted(
    node: ObedientNode, store: Store, said: list[str]
) -> None:
    """Each shape asks what there is before it proposes: no proposal is refused, and what is adopted is said once."""
    node.agreed = ObjectType("Order", {"id": "long", "price": "String"}, affinity_key="id")
    put(store, {"id": 1, "price": 1.5})
    put(store, {"id": 2, "price": 2.5, "note": "new"})
    assert node.asked == ["propose", "propose"]
    assert node.refusals == 0
    assert said == ["Order: field price is String in the cluster, double in our rows; we store what is agreed"]


def test_what_was_refused_is_not_proposed_again(node: ObedientNode, agreement: Agreement) -> None:
    """It stands until the type changes: each row of the shape would be one more refusal in everybody's lists."""
    node.agreed = ObjectType("Order", {}, affinity_key="id", is_enum=True, enum={"NEW": 0})
    for _ in range(3):
        with pytest.raises(MergeConflict):
            agreement.conversions(ORDER)
    assert node.asked == ["propose"]
    node.hook("Order", Metadata(node.agreed, 2))
    with pytest.raises(MergeConflict):
        agreement.conversions(ORDER)
    assert node.asked == ["propose", "propose"]


def test_a_shape_is_proposed_once(node: ObedientNode, store: Store) -> None:
    """However many rows have it; another set of fields is another shape."""
    for key in range(3):
        put(store, {"id": key, "price": 1.5})
    assert node.asked == ["propose"]
    put(store, {"id": 3})
    assert node.asked == ["propose", "propose"]
    assert store.counts()["rows"] == {"Order": 4}


def test_the_clusters_word_counts_in_a_conflict(node: ObedientNode, store: Store, said: list[str]) -> None:
    """Both sides are said, values are stored as agreed, and what is new in the rows is proposed all the same."""
    node.agreed = ObjectType("Order", {"id": "String", "price": "decimal"}, affinity_key="id")
    put(store, {"id": 1, "price": 1.5, "clerk": "Bo"})
    assert store.get("Order", "1") == b'{"id":"1","price":"1.5","clerk":"Bo"}'
    assert node.agreed.fields["clerk"] == "String"
    put(store, {"id": 2, "price": 1.5})
    assert node.asked == ["propose", "propose"], "what the cluster has is asked before, and not contradicted"
    assert node.refusals == 0
    assert said == [
        f"Order: field {field} is {theirs} in the cluster, {ours} in our rows; we store what is agreed"
        for field, theirs, ours in (("id", "String", "long"), ("price", "decimal", "double"))
    ]


def test_a_conflict_that_no_conversion_mends_is_raised(node: ObedientNode, agreement: Agreement) -> None:
    """A type that is an enum for the others holds no rows of ours."""
    node.agreed = ObjectType("Order", {}, affinity_key="id", is_enum=True, enum={"NEW": 0})
    with pytest.raises(MergeConflict, match="enum flag"):
        agreement.conversions(ORDER)


def test_another_affinity_key_is_adopted(node: ObedientNode, agreement: Agreement) -> None:
    """It says where rows belong, not what they are."""
    node.agreed = ObjectType("Order", {"customer": "long"}, affinity_key="customer")
    agreement.conversions(ORDER)
    assert node.agreed.affinity_key == "customer"
    assert node.agreed.fields["price"] == "double"


def test_a_type_that_nothing_becomes_is_a_clear_error(node: ObedientNode, agreement: Agreement) -> None:
    """The rows are put aside with a sentence, not stored as something else."""
    node.agreed = ObjectType("Order", {"price": "UUID"}, affinity_key="id")
    with pytest.raises(BadInput, match="Order: a double cannot become a UUID"):
        agreement.conversions(ORDER)


def test_a_value_that_does_not_fit_is_put_aside(node: ObedientNode, store: Store) -> None:
    """It is named with its field; rows that fit go on being stored."""
    node.agreed = ObjectType("Order", {"price": "int"}, affinity_key="id")
    with pytest.raises(BadInput, match=r"Order.price: 1.5 is no whole number of 32 bits"):
        put(store, {"id": 1, "price": 1.5})
    put(store, {"id": 2, "price": 2.0})
    assert store.counts()["rows"] == {"Order": 1}


def test_an_unknown_outcome_is_asked_for_and_never_proposed_anew(node: ObedientNode, agreement: Agreement) -> None:
    """The first proposal may still be granted; the request id leads back to it, as often as it takes."""
    node.loses = 2
    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            agreement.conversions(ORDER)
    agreement.conversions(ORDER)
    assert node.asked == ["propose", "outcome n1/7", "outcome n1/7"]


def test_a_removed_type_is_proposed_again(node: ObedientNode, agreement: Agreement) -> None:
    """What was agreed ends with the type; the next row brings it back."""
    agreement.conversions(ORDER)
    node.hook("Order", None)
    agreement.conversions(ORDER)
    assert node.asked == ["propose", "propose"]


def test_a_fenced_node_neither_writes_nor_answers(node: ObedientNode, store: Store) -> None:
    """Nothing is stored or proposed; a read says 503 and when to come back, in whole seconds."""
    put(store, {"id": 1, "price": 1.5})
    node.lease.is_valid = False
    with pytest.raises(Fenced):
        put(store, {"id": 2, "price": 1.5})
    refused = answer(store, Request("GET", "/rows/Order/1"))
    assert (refused.status, refused.headers) == (503, {"Retry-After": "2"})
    node.lease.is_valid = True
    assert get(store, "/rows/Order/1") == (200, b'{"id":1,"price":1.5}')
    assert [get(store, path)[0] for path in ("/counts", "/rows/Order/2", "/rows/Order", "/")] == [200, 404, 404, 404]


def test_a_row_by_hand_is_stored_as_agreed(node: ObedientNode, store: Store) -> None:
    """Its key is the field that is agreed on, and its values are converted like a loader's."""
    put(store, {"id": 1, "price": 1.5})
    node.agreed = ObjectType("Order", {"number": "long", "price": "decimal"}, affinity_key="number")
    assert store.put("Order", "7", b'{"price": "2.50", "note": null}')
    assert store.get("Order", "7") == b'{"price":"2.50","number":7}'
    assert not store.put("Order", "7", b'{"price": "9"}', if_absent=True)
