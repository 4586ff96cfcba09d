"""Questions about one thing: what they find by name or id, and that they read no others for it."""

from collections.abc import Iterator

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_projector import eventful

from topolog.events.asked import RequestId, RequestRef
from topolog.events.errors import NotFound
from topolog.events.leases import NodeRow
from topolog.events.object_types import type_id
from topolog.events.requests import OUTCOMES_KEPT, RequestersForgotten
from topolog.events.state import Row
from topolog.projections import explain, explain_request, forgotten_outcomes, queries
from topolog.projections.projector import Projector
from topolog.projections.store import Reading


@pytest.fixture
def reading(chronicle: Chronicle, projector: Projector) -> Iterator[Reading]:
    eventful(chronicle)
    projector.step()
    with projector.reading() as reading:
        yield reading


def test_one_is_what_the_list_has_of_it(reading: Reading) -> None:
    for node in queries.nodes(reading, 0):
        assert queries.node(reading, 0, node.node) == node
    for lease in queries.leases(reading, 0):
        assert queries.lease(reading, 0, lease.node) == lease
    for each in queries.types(reading):
        assert queries.type_named(reading, each.name) == each


def test_one_is_found_without_reading_the_others(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question about one thing costs the same in a cluster of any size; a node's number is its place among nodes."""
    scanned: list[type[Row]] = []
    rows = Reading.rows

    def noted(self: Reading, kind: type[Row]) -> Iterator[tuple[str, Row]]:
        scanned.append(kind)
        return rows(self, kind)

    monkeypatch.setattr(Reading, "rows", noted)
    queries.lease(reading, 0, "n1")
    queries.type_named(reading, "Order")
    assert not forgotten_outcomes.is_forgotten(reading, RequestId("cli-1", 1))
    assert scanned == []
    queries.node(reading, 0, "n1")
    assert set(scanned) == {NodeRow}


def test_explaining_reads_the_newest_decisions_only(
    chronicle: Chronicle, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    chronicle.join("n1")
    first = chronicle.ref()
    chronicle.propose("Customer", {"id": "long"}, ref=first)
    for number in range(200):
        chronicle.propose("Customer", {"id": "long", f"f{number}": "int"})
    projector.step()
    read: list[int] = []
    decision = Reading.decision

    def noted(self: Reading, position: int) -> object:
        read.append(position)
        return decision(self, position)

    monkeypatch.setattr(Reading, "decision", noted)
    with projector.reading() as reading:
        explain.explain_type(reading, "Customer")
        assert len(read) < 150
        read.clear()
        causes = explain_request.explain_request(reading, 0, RequestId(first.requester, first.sequence)).causes
    assert len(read) < 50
    assert len(causes) == 20
    assert causes[0].event == "MetadataUpdateProposed"
    assert causes[0].position == min(each.position for each in causes)


def test_a_name_with_the_id_of_another_type_is_not_that_type(reading: Reading) -> None:
    """ME4: two names may have one id; `order` and `Order` have."""
    assert type_id("order") == type_id("Order")
    with pytest.raises(NotFound, match="no type 'order'") as raised:
        queries.type_named(reading, "order")
    assert raised.value.hint == "Did you mean Order?"
    assert queries.type_named(reading, str(type_id("Order"))).name == "Order"
    with pytest.raises(NotFound):
        explain.explain_type(reading, "order")


def test_an_id_behind_the_window_is_forgotten(chronicle: Chronicle, projector: Projector) -> None:
    """K7: coordinators keep the last outcomes of a requester."""
    for _ in range(OUTCOMES_KEPT + 2):
        chronicle.propose("Customer", {"id": "long"}, ref=chronicle.ref("cli-9"))
    projector.step()
    with projector.reading() as reading:
        old = [forgotten_outcomes.is_forgotten(reading, RequestId("cli-9", sequence)) for sequence in (2, 3)]
        assert old == [True, False]
        assert not forgotten_outcomes.is_forgotten(reading, RequestId("cli-10", 1))


def test_a_request_of_a_forgotten_requester_is_said_to_be_over(chronicle: Chronicle, projector: Projector) -> None:
    """K7: one whose outcome was read here is told as ever; of one in between nobody knows whether it had one, and that
    it has none yet would be a lie. One above is new."""
    chronicle.propose("Customer", {"id": "long"}, ref=RequestRef("ci", 2, b"digest"))
    chronicle.decide(RequestersForgotten(("ci",)))
    projector.step()
    known, over, new = RequestId("ci", 2), RequestId("ci", 1), RequestId("ci", 3)
    with projector.reading() as reading:
        assert queries.request(reading, known).status == "GRANTED"
        for ask in (queries.request, lambda reading, name: explain_request.explain_request(reading, 0, name)):
            with pytest.raises(NotFound, match="ci/1 is so old that its outcome is no longer kept") as raised:
                ask(reading, over)
            assert "not carried out any more" in raised.value.hint
        with pytest.raises(NotFound, match="ci/3 has no outcome at position"):
            queries.request(reading, new)
        refusal = forgotten_outcomes.refusal(reading, over)
    assert (refusal.code, refusal.facts, "ci/3 is the next" in refusal.hint) == (
        "OUTCOME_FORGOTTEN",
        {"forgotten_to": "2"},
        True,
    )
