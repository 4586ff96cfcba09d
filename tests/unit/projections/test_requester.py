"""The sender of requests: what it may still learn about each of its ids, and what it says when it learns nothing."""

import pytest
from tests.unit.projections.chronicle import LOG_ID

from topolog.events.asked import RequestId
from topolog.events.asking import encode_request
from topolog.events.errors import NotAllowed, OutcomeUnknown, Unreachable
from topolog.events.log import InMemoryLog, InMemoryWriter
from topolog.events.metadata import TypeRemovalRequested
from topolog.events.topics import Topic
from topolog.projections.requester import Requester


@pytest.fixture
def writer() -> InMemoryWriter:
    return InMemoryLog().writer(prompt=False)


@pytest.fixture
def requester(writer: InMemoryWriter) -> Requester:
    return Requester(writer, "api-1", "broker:9092")


def removal(name: RequestId) -> TypeRemovalRequested:
    return TypeRemovalRequested(name, LOG_ID, "ann", "", "Customer")


def test_an_id_is_open_until_nothing_more_can_be_learned_about_it(requester: Requester, writer: InMemoryWriter) -> None:
    """K7: an id stands in the window while a copy of its request may be decided, and no longer."""
    name = requester.next_id()
    for _ in range(2):
        requester.send(removal(name), encode_request(removal(name)))
    writer.fail(1)
    requester.serve()
    requester.close_unsent(name)
    assert list(requester.open) == [name], "the other copy may still arrive"
    writer.fail()
    requester.serve()
    assert not requester.open
    assert requester.in_flight == 0


def test_what_has_reached_the_log_is_open_until_its_outcome_is_known(
    requester: Requester, writer: InMemoryWriter
) -> None:
    name = requester.next_id()
    delivered = requester.send(removal(name), encode_request(removal(name)))
    writer.land()
    requester.serve()
    requester.close_unsent(name)
    assert (delivered.done(), list(requester.open)) == (True, [name])
    requester.close(name)
    assert not requester.open


def test_a_request_that_the_producer_gave_up_may_have_arrived(requester: Requester, writer: InMemoryWriter) -> None:
    """A confirmation can be lost as well as a request: nobody may send it as a new one."""
    name = requester.next_id()
    delivered = requester.send(removal(name), encode_request(removal(name)))
    writer.fail()
    requester.serve()
    error = delivered.exception()
    assert isinstance(error, OutcomeUnknown)
    assert error.request_id == "api-1/1"


def test_ids_it_may_still_give_out_are_its_own(requester: Requester) -> None:
    """Others may repeat what it has sent, and send nothing it might send."""
    first = requester.next_id()
    assert not requester.may_issue(first)
    assert requester.may_issue(RequestId("api-1", 2))
    assert requester.may_issue(RequestId("api-1.3", 1)), "its further lanes"
    assert not requester.may_issue(RequestId("api-10", 1))


def test_what_the_broker_does_not_let_this_process_write_is_not_allowed(
    requester: Requester, writer: InMemoryWriter
) -> None:
    """The log has not taken it, so nobody need ask what became of it: neither of a request nor of a replay."""
    denied = NotAllowed(
        "The broker at broker:9092 does not let api use topic topolog.demo.operations.", hint="Grant it."
    )
    name = requester.next_id()
    sent = requester.send(removal(name), encode_request(removal(name)))
    replayed = requester.send_again(Topic.REQUESTS, "k", b"v", ())
    writer.fail(error=denied)
    requester.serve()
    assert (sent.exception(), replayed.exception()) == (denied, denied)
    assert (requester.in_flight, requester.open) == (0, ())


def test_a_replay_that_the_producer_gave_up_is_unreachable(requester: Requester, writer: InMemoryWriter) -> None:
    replayed = requester.send_again(Topic.REQUESTS, "k", b"v", ())
    writer.fail()
    requester.serve()
    assert isinstance(replayed.exception(), Unreachable)
