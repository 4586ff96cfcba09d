"""Who may ask for what: by the topic, by the name of the requester, by the number (K20, K21, K22)."""

import msgspec
import pytest
from tests.unit.streams.coordinator.desk import LOG_ID, Desk
from tests.unit.streams.rules.cluster import joiner

from topolog.events import groups as g
from topolog.events import metadata as md
from topolog.events import repair_requests as rr
from topolog.events import requests as q
from topolog.events.asked import Request, RequestId
from topolog.events.ids import Position
from topolog.events.leases import NodeRow
from topolog.events.membership import JoinRequested, NodeRemovalRequested
from topolog.events.object_requests import DeletionsConfirmed
from topolog.events.operations import CODE
from topolog.events.repair_tasks import TaskId
from topolog.events.requesters import AHEAD_MAX, joining, operating, requester_of
from topolog.events.topics import Topic
from topolog.projections.refusals import remedy

REQUESTS = Topic.REQUESTS
N1, N2 = requester_of("n1", 1), requester_of("n2", 2)


def desk() -> Desk:
    """A coordinator with two members, which have asked for that themselves."""
    desk = Desk.leading()
    for name, requester in (("n1", N1), ("n2", N2)):
        join = JoinRequested(RequestId(joining(requester), 1), LOG_ID, name, "", joiner(name))
        desk.ask(join, REQUESTS)
        assert status_of(desk, join) is q.Status.GRANTED
    return desk


def status_of(desk: Desk, request: Request) -> q.Status | None:
    row = desk.outcome(request)
    return row.status if row else None


def propose(requester: str, number: int, actor: str, node: str | None = None) -> md.UpdateRequested:
    definition = md.ObjectType("T", {f"f{number}": "long"})
    life = None if node is None else 1
    return md.UpdateRequested(RequestId(requester, number), LOG_ID, actor, "", definition, 0, node, life)


def group(requester: str, number: int, actor: str) -> g.GroupCreationRequested:
    return g.GroupCreationRequested(RequestId(requester, number), LOG_ID, actor, "", g.GroupDefinition("G", 4))


def reasons(desk: Desk) -> list[str]:
    return [each.reason for each in desk.core.dead]


def test_a_removal_that_a_node_writes_is_refused_and_that_of_the_api_is_done() -> None:
    """A lying node must not take another out of the cluster: the code says which topic it is taken from."""
    desk_ = desk()
    forged = NodeRemovalRequested(RequestId(N1, 1), LOG_ID, "n1", "mine now", "n2")
    desk_.ask(forged, REQUESTS)
    row = desk_.outcome(forged)
    assert row is not None
    assert (row.status, row.code, row.rule) == (q.Status.REFUSED, CODE, "K20")
    assert row.facts == {"topic": "operations"}
    assert "topolog" in row.message
    members = {row.node for _, row in desk_.core.state.rows(NodeRow) if row.is_member}
    assert members == {"n1", "n2"}
    asked = msgspec.structs.replace(forged, id=RequestId("api-0000000001", 1), actor="ann@token")
    desk_.ask(asked)
    assert status_of(desk_, asked) is q.Status.GRANTED


def test_nobody_asks_in_the_name_of_an_operator() -> None:
    """The log would say that ann had asked. No outcome: it would count among the numbers of whom it was forged for."""
    desk_ = desk()
    for requester, actor in ((N1, "ann"), ("ci/nightly", "n1"), ("ann", "ann"), (N2, "n1"), (operating(N1), "n1")):
        request = group(requester, 1, actor)
        desk_.ask(request, REQUESTS)
        assert desk_.outcome(request) is None
        assert desk_.core.state.get(q.RequesterRow, requester) is None
    assert len(reasons(desk_)) == 5
    assert reasons(desk_)[0] == f"{N1!r} is no requester of 'ann', in whose name it asks"


@pytest.mark.parametrize(
    "request_",
    [
        propose(N1, 1, "n1", node="n2"),
        DeletionsConfirmed(RequestId(N1, 1), LOG_ID, "n1", "", "n2", 1, (5,)),
        JoinRequested(RequestId(joining(N1), 2), LOG_ID, "n1", "", joiner("n3")),
    ],
    ids=lambda each: type(each).__name__,
)
def test_nobody_says_of_another_what_each_says_of_itself(request_: Request) -> None:
    """A proposal, a deletion that is done, a joining: each names its node, which is its sender."""
    desk_ = desk()
    desk_.ask(request_, REQUESTS)
    assert desk_.outcome(request_) is None
    assert len(reasons(desk_)) == 1


def test_one_request_with_a_huge_number_silences_nobody() -> None:
    """All that the node asks behind it would be older than what is kept, for ever."""
    desk_ = desk()
    first = propose(N1, 1, "n1", node="n1")
    desk_.ask(first, REQUESTS)
    forged = propose(N1, 1 << 62, "n1", node="n1")
    desk_.ask(forged, REQUESTS)
    second = propose(N1, 2, "n1", node="n1")
    desk_.ask(second, REQUESTS)
    assert [status_of(desk_, each) for each in (first, forged, second)] == [q.Status.GRANTED, None, q.Status.GRANTED]
    assert reasons(desk_) == [
        f"request {N1}/{1 << 62} is {(1 << 62) - 1} above the last of its requester, and at most {AHEAD_MAX} are open"
    ]


def test_a_name_that_has_not_asked_yet_is_not_used_up_before() -> None:
    """The names of further lanes can be guessed: `.1` behind that of the first."""
    desk_ = desk()
    desk_.ask(propose(f"{N1}.1", AHEAD_MAX + 1, "n1", node="n1"), REQUESTS)
    last, first = (propose(f"{N1}.1", number, "n1", node="n1") for number in (AHEAD_MAX, 1))
    for each in (last, first):
        desk_.ask(each, REQUESTS)
    assert [status_of(desk_, each) for each in (last, first)] == [q.Status.GRANTED] * 2
    assert len(reasons(desk_)) == 1


def test_operators_number_as_they_like() -> None:
    """A date, the number of a build: the API lets each use up only numbers of their own."""
    desk_ = desk()
    asked = [group("ci/nightly", number, "ci") for number in (20_270_131, 20_270_201)]
    found = []
    for each in asked:
        desk_.ask(each)
        found.append(status_of(desk_, each))
    assert found == [q.Status.GRANTED, q.Status.UNCHANGED]


def test_who_was_never_a_member_declares_nothing() -> None:
    """It is told so, for the name and the number are its own."""
    desk_ = desk()
    request = group(requester_of("n9", 9), 1, "n9")
    desk_.ask(request, REQUESTS)
    row = desk_.outcome(request)
    assert row is not None
    assert (row.status, row.code, row.rule) == (q.Status.REFUSED, "NEVER_JOINED", "K21")
    assert row.message == "'n9' is not a node that has ever joined this cluster. It joins first."
    assert remedy(row.code, row.rule)


def test_a_validator_is_no_node_and_is_heard() -> None:
    """Validators and the rendezvous are no members: what they report is judged by the number of their life."""
    desk_ = desk()
    id_ = RequestId(requester_of("validator", 5), 1)
    report = rr.TaskReported(id_, LOG_ID, "validator", "", TaskId(Position(7), 0, 0, "R1", 1), 5, 0, 0, "", "")
    desk_.ask(report, REQUESTS)
    row = desk_.outcome(report)
    assert row is not None
    assert row.code not in ("NEVER_JOINED", CODE)
    assert reasons(desk_) == []


def test_a_long_name_has_requesters_too() -> None:
    name = "n" * 200
    join = JoinRequested(RequestId(joining(requester_of(name, 1)), 1), LOG_ID, name, "", joiner(name))
    desk_ = desk()
    desk_.ask(join, REQUESTS)
    assert status_of(desk_, join) is q.Status.GRANTED
