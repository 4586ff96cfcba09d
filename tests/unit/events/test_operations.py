"""Which requests are operators', and by which names and numbers processes ask."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events import repair_requests as rr
from topolog.events.asked import UNNUMBERED
from topolog.events.baseline_requests import (
    AutoAdjustRequested,
    BaselineChangeRequested,
    ClusterStateRequested,
    HoldRequested,
    WarmRequested,
)
from topolog.events.codec import REQUESTS
from topolog.events.drains import DrainRequested
from topolog.events.exchange_requests import ExchangeRequested, LossResetRequested
from topolog.events.groups import GroupAlterationRequested, GroupDropRequested
from topolog.events.lease_terms import LeaseTermsRequested
from topolog.events.levels import LevelRaiseRequested
from topolog.events.membership import JoinRequested, NodeRemovalRequested
from topolog.events.metadata import TypeRemovalRequested
from topolog.events.object_definition import (
    Column,
    ColumnAction,
    ColumnType,
    ColumnVerb,
    Definition,
    ObjectKind,
    Privilege,
    Statement,
    Verb,
)
from topolog.events.object_requests import ChangeCancellationRequested, SchemaChangeRequested
from topolog.events.operations import _FROM_REQUESTS, _Sender, is_operation, topic_of
from topolog.events.repair_definition import SessionDefinition, SessionKind
from topolog.events.requesters import is_of, joining, operating, requester_of, requester_of_api
from topolog.events.topics import ACLS, Topic

HEAD = (UNNUMBERED, bytes(16), "n1", "")
TABLE, VIEW, GRANT = ObjectKind.TABLE, ObjectKind.VIEW, ObjectKind.GRANT
COLUMN = Column("a", ColumnType.INT32)

OPERATORS = {
    NodeRemovalRequested,
    TypeRemovalRequested,
    LevelRaiseRequested,
    GroupAlterationRequested,
    GroupDropRequested,
    LossResetRequested,
    ExchangeRequested,
    ClusterStateRequested,
    BaselineChangeRequested,
    HoldRequested,
    AutoAdjustRequested,
    WarmRequested,
    DrainRequested,
    LeaseTermsRequested,
    ChangeCancellationRequested,
    rr.SessionAlterationRequested,
    rr.SessionAbortRequested,
    rr.ScheduleRequested,
    rr.ScheduleDropRequested,
}


def test_each_request_is_an_operator_s_or_any_process_s() -> None:
    """Who adds one decides here; until then it is an operator's."""
    assert set(REQUESTS) - set(_FROM_REQUESTS) == OPERATORS


def test_who_need_not_have_joined_is_listed_once() -> None:
    """One who joins has not yet; validators and the rendezvous never do, and what they report would be refused for
    ever. Every other request is a node's."""
    others = {each for each, taken in _FROM_REQUESTS.items() if taken.sender is _Sender.PROCESS}
    assert others == {JoinRequested, *get_args(rr.RepairRequest)} - OPERATORS - {rr.SessionRequested}


@pytest.mark.parametrize(
    ("statement", "is_operators"),
    [
        (Statement(Verb.CREATE, TABLE, "s.t", Definition((COLUMN,), "a", 1)), False),
        (Statement(Verb.RENAME, TABLE, "s.t", new_name="s.u"), True),
        (Statement(Verb.ALTER, TABLE, "s.t", columns=(ColumnAction(ColumnVerb.ADD, "b", ColumnType.BLOB),)), False),
        (Statement(Verb.ALTER, TABLE, "s.t", columns=(ColumnAction(ColumnVerb.RENAME, "a", new_name="b"),)), True),
        (Statement(Verb.ALTER, TABLE, "s.t", columns=(ColumnAction(ColumnVerb.DROP, "a"),)), True),
        (Statement(Verb.ALTER, TABLE, "s.t", columns=(ColumnAction(ColumnVerb.RETYPE, "a", ColumnType.INT64),)), True),
        (Statement(Verb.ALTER, TABLE, "s.t", columns=(ColumnAction(ColumnVerb.UNKNOWN, "a"),)), True),
        (Statement(Verb.ALTER, TABLE, "s.t", properties={"a": "b"}), True),
        (Statement(Verb.ALTER, TABLE, "s.t", ttl_ms=0), True),
        (Statement(Verb.ALTER, TABLE, "s.t", ttl_ms=1), True),
        (Statement(Verb.DROP, TABLE, "s.t"), True),
        (Statement(Verb.DROP, ObjectKind.DATABASE, "s"), True),
        (Statement(Verb.DROP, VIEW, "s.v"), True),
        (Statement(Verb.ALTER, VIEW, "s.v", Definition(over="s.u")), True),
        (Statement(Verb.ALTER, TABLE, "s.t", unset=("owner",)), True),
        (Statement(Verb.DROP, GRANT, "ada@s"), True),
        (Statement(Verb.CREATE, GRANT, "ada@s", Definition(privileges=(Privilege.READ,))), True),
        (Statement(Verb.CREATE, ObjectKind.UNKNOWN, "s"), True),
        (Statement(Verb.UNKNOWN, TABLE, "s.t"), True),
    ],
)
def test_what_touches_what_is_there_is_an_operator_s(statement: Statement, *, is_operators: bool) -> None:
    request = SchemaChangeRequested(*HEAD, (Statement(Verb.CREATE, VIEW, "s.w"), statement))
    assert is_operation(request) is is_operators
    assert topic_of(request) is (Topic.OPERATIONS if is_operators else Topic.REQUESTS)


@pytest.mark.parametrize("kind", SessionKind)
def test_nodes_compare_and_do_not_repair(kind: SessionKind) -> None:
    """A repair writes over rows of others, and so may what this build does not know."""
    request = rr.SessionRequested(*HEAD, SessionDefinition("s.t", kind))
    assert is_operation(request) is (kind is not SessionKind.PREVIEW)


@pytest.mark.parametrize(("life", "is_operators"), [(5, False), (None, True)])
def test_a_validator_withdraws_its_own_replica(life: int | None, *, is_operators: bool) -> None:
    assert is_operation(rr.ReplicaWithdrawalRequested(*HEAD, "s.t", "R1", life)) is is_operators


def test_nobody_but_the_api_writes_operations() -> None:
    """The access that `topolog cluster init --plan` prints."""
    writers = {each.role for each in ACLS if each.topic is Topic.OPERATIONS and "Write" in each.operations}
    assert writers == {"projector"}
    assert not any("Write" in each.operations for each in ACLS if each.topic is None and not each.begins)


names = st.text(min_size=1, max_size=200)
numbers = st.integers(0, (1 << 64) - 1)


@given(names, numbers)
def test_a_process_asks_by_requesters_of_its_own(name: str, number: int) -> None:
    own = requester_of(name, number)
    for requester in (own, joining(own), f"{own}.7", f"{own}.12"):
        assert is_of(requester, name)
    for requester in (operating(own), f"{own}.", f"{own}/x", own[:-1], own[:-8], f"{own}xjoin", name):
        assert not is_of(requester, name)


@given(names.map(lambda name: name[:100]), names.map(lambda name: name[:100]), numbers)
def test_no_two_processes_have_a_requester_in_common(one: str, other: str, number: int) -> None:
    """Also where the one is called as the other begins: `a` and `a-b`."""
    assert is_of(requester_of(one, number), other) is (one == other)


@given(st.integers(0, (1 << 40) - 1))
def test_no_process_is_called_so_that_it_asks_as_the_api(number: int) -> None:
    assert not is_of(requester_of_api(number), "api")
