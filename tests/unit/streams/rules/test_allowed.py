"""What the state of the cluster allows to be decided: «operation x state», for every request there is (BA1)."""

import copy
import typing
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.unit.streams.rules.changing import (
    LONG,
    add,
    alter,
    cancellation,
    change,
    database,
    deletions,
    drop,
    grant,
    rename,
    table,
    view,
)
from tests.unit.streams.rules.cluster import join_request, joiner, new_id, node_removal, type_removal, update
from tests.unit.streams.rules.counted import (
    FOR_PEOPLE,
    Counted,
    activation,
    adjust,
    drain,
    hold,
    remove,
    warm,
)
from tests.unit.streams.rules.repairing import PREVIEW, UNION, definition

from topolog.events import repair_requests as rr
from topolog.events import requests as q
from topolog.events.asked import Request
from topolog.events.cluster_state import LEAST, ClusterState, Operation, allows
from topolog.events.codec import REQUESTS
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.exchange_requests import ExchangeRequested, LossResetRequested
from topolog.events.group_definition import GroupDefinition
from topolog.events.groups import GroupAlterationRequested, GroupCreationRequested, GroupDropRequested
from topolog.events.ids import NodeId, Position
from topolog.events.lease_terms import LeaseTermsRequested
from topolog.events.leases import members
from topolog.events.levels import LevelRaiseRequested
from topolog.events.metadata import MetadataUpdateAccepted
from topolog.events.object_definition import ObjectKind, Privilege, Statement, Verb
from topolog.events.object_types import DeclaredType, ObjectType
from topolog.events.objects import (
    ChangeStatus,
    SchemaChangePrepared,
    SchemaChangeRolledBack,
    change_row,
    object_row,
)
from topolog.events.repair import SessionOpened
from topolog.events.repair_tasks import Findings, Pair, TaskId
from topolog.events.schedules import SchedulePostponed, ScheduleRow
from topolog.events.sessions import SessionStatus, session
from topolog.streams.rules import metadata, objects, repair

ACTIVE, READ_ONLY, INACTIVE = ClusterState.ACTIVE, ClusterState.ACTIVE_READ_ONLY, ClusterState.INACTIVE
STATES = (ACTIVE, READ_ONLY, INACTIVE)
READ, WRITE = Privilege.READ, Privilege.WRITE
PAIR, FINDINGS = Pair("R1", "R2", (), 0, 0, 0, 0), Findings(0, (), {}, (), {}, 0, b"")
TASK = TaskId(Position(1), 0, 0, "R1", 1)


class Busy(Counted):
    """A cluster with something of everything, whose servers apply at once."""

    def __init__(self) -> None:
        super().__init__("n1", "n2", "n3")
        self.create("orders")
        self.create("frail", backups=0, persistent=False)
        self.rest()
        self.ask(update(ObjectType("T", {"a": "long"})))
        self.accept()
        self.define(database(), table("shop.t", a=LONG), table("shop.u"), view("shop.v", "shop.t"))
        self.define(grant("ada@shop.t", READ, WRITE), grant("bob@shop.t", READ))
        for life, name in enumerate(("R1", "R2"), start=1):
            self.ask(rr.ReplicaDeclarationRequested(new_id(), *FOR_PEOPLE, definition(name), life))
        self.ask(rr.ScheduleRequested(new_id(), *FOR_PEOPLE, "nightly", UNION, 3_600_000, False))

    def define(self, *statements: Statement) -> Position:
        """Change, and let all servers apply it; gives the number of the change."""
        self.ask(change(*statements))
        number = self.position
        self.commit()
        return number

    def applied(self) -> Mapping[NodeId, tuple[object, Position]]:
        return {row.node: (row.incarnation, self.position) for row in members(self.state)}

    def commit(self) -> list[Decision]:
        """All that follows for definitions, everybody having applied everything."""
        followed: list[Decision] = []
        while decided := objects.settle(self.state, self.applied(), {}, self.position, ()):  # type: ignore[arg-type]
            self.log(*decided)
            followed += decided
        return followed

    def accept(self) -> list[Decision]:
        """As `commit`, for types."""
        decided = metadata.settle(self.state, self.applied(), self.position)  # type: ignore[arg-type]
        self.log(*decided)
        return decided

    def copied(self) -> "Busy":
        return copy.deepcopy(self)

    def turn(self, state: ClusterState) -> "Busy":
        self.ask(activation(state))
        self.settle()
        assert self.state_row.allowed is state
        return self


def lost(found: Busy) -> Request:
    """n3 is away, and some of a group that has no backups with it."""
    found.leave("n3")
    found.rest()
    return LossResetRequested(new_id(), *FOR_PEOPLE, "frail")


def away(found: Busy) -> Request:
    """n3 is away, and others have all that it had."""
    found.leave("n3")
    found.rest()
    return remove("n3")


def alone(found: Busy) -> Request:
    """n3 is away, and owned something alone."""
    found.create("single", backups=0)
    found.rest()
    found.leave("n3")
    found.rest()
    return remove("n3", accepts_loss=True)


def shrunk(found: Busy) -> Request:
    return change(Statement(Verb.ALTER, ObjectKind.GRANT, "ada@shop.t", privileges=(READ,)))


def grown(found: Busy) -> Request:
    return change(Statement(Verb.ALTER, ObjectKind.GRANT, "bob@shop.t", privileges=(READ, WRITE)))


def dropping(name: str, kind: ObjectKind) -> Request:
    return change(drop(name, kind))


def joining(*types: ObjectType) -> Request:
    return join_request(joiner("n9", types=tuple(DeclaredType(each, 0) for each in types)))


def with_a_session(found: Busy) -> Request:
    found.ask(rr.SessionRequested(new_id(), *FOR_PEOPLE, PREVIEW))
    return rr.SessionAlterationRequested(new_id(), *FOR_PEOPLE, found.position, True)


ASKED: tuple[tuple[str, Operation, Callable[[Busy], Request]], ...] = (
    ("a table is created", Operation.DEFINE, lambda _: change(table("shop.new"))),
    ("a table is altered", Operation.DEFINE, lambda _: change(alter("shop.t", add("b")))),
    ("a table is renamed", Operation.DEFINE, lambda _: change(rename("shop.u", "shop.w"))),
    ("a table is dropped", Operation.DEFINE, lambda _: change(drop("shop.u"))),
    ("a view is created", Operation.DEFINE, lambda _: change(view("shop.w", "shop.t"))),
    ("a view is dropped", Operation.DEFINE, lambda _: dropping("shop.v", ObjectKind.VIEW)),
    ("a database is created", Operation.DEFINE, lambda _: change(database("more"))),
    ("a database is dropped", Operation.DEFINE, lambda _: dropping("shop", ObjectKind.DATABASE)),
    ("a right is given", Operation.DEFINE, lambda _: change(grant("eve@shop.t"))),
    ("a right is widened", Operation.DEFINE, grown),
    ("a right is taken, and a table", Operation.DEFINE, lambda _: change(grant_drop(), drop("shop.u"))),
    ("a right is taken", Operation.REVOKE, lambda _: change(grant_drop())),
    ("a part of a right is taken", Operation.REVOKE, shrunk),
    ("a change is cancelled", Operation.REVOKE, lambda found: cancellation(found.position)),
    ("it is said what was deleted", Operation.RUN, lambda found: deletions("n1", found.position)),
    ("a group is created", Operation.GROUP, lambda _: creation("new")),
    (
        "a group is altered",
        Operation.GROUP,
        lambda _: GroupAlterationRequested(new_id(), *FOR_PEOPLE, "orders", backups=2),
    ),
    ("a group is dropped", Operation.GROUP, lambda _: GroupDropRequested(new_id(), *FOR_PEOPLE, "orders")),
    ("a loss is given up", Operation.GROUP, lost),
    ("a type is proposed", Operation.TYPE, lambda _: update(ObjectType("N", {"a": "long"}))),
    ("a type is removed", Operation.TYPE, lambda _: type_removal("T")),
    ("a server with a new type joins", Operation.TYPE, lambda _: joining(ObjectType("N", {"a": "long"}))),
    ("a server with a known type joins", Operation.RUN, lambda _: joining(ObjectType("T", {"a": "long"}))),
    ("a server joins", Operation.RUN, lambda _: joining()),
    ("a server is removed", Operation.RUN, lambda _: node_removal("n3")),
    ("a member leaves the baseline", Operation.COUNT, away),
    ("its last copies go with it", Operation.GROUP, alone),
    ("a server is drained", Operation.COUNT, lambda _: drain("n3")),
    ("the baseline is held", Operation.RUN, lambda _: hold()),
    ("the baseline follows the servers", Operation.RUN, lambda _: adjust()),
    ("a cold cluster goes on", Operation.RUN, lambda _: warm()),
    ("the state is changed", Operation.RUN, lambda _: activation()),
    ("an exchange is asked for", Operation.RUN, lambda _: ExchangeRequested(new_id(), *FOR_PEOPLE)),
    ("lease terms are changed", Operation.RUN, lambda _: LeaseTermsRequested(new_id(), *FOR_PEOPLE, 4_000)),
    ("the feature level is raised", Operation.RUN, lambda _: LevelRaiseRequested(new_id(), *FOR_PEOPLE, 2)),
    ("replicas are repaired", Operation.REPAIR, lambda _: rr.SessionRequested(new_id(), *FOR_PEOPLE, UNION)),
    ("replicas are compared", Operation.COMPARE, lambda _: rr.SessionRequested(new_id(), *FOR_PEOPLE, PREVIEW)),
    ("a session is altered", Operation.RUN, with_a_session),
    ("sessions are aborted", Operation.RUN, lambda _: rr.SessionAbortRequested(new_id(), *FOR_PEOPLE)),
    ("a task is over", Operation.RUN, lambda _: rr.TaskReported(new_id(), *FOR_PEOPLE, TASK, 1, 0, 0, "IO", "")),
    (
        "trees are compared",
        Operation.RUN,
        lambda _: rr.ComparisonReported(
            new_id(), *FOR_PEOPLE, Position(1), 0, 0, (TASK,), Pair("R1", "R2", (), 0, 0, 0, 0)
        ),
    ),
    (
        "rows are compared",
        Operation.RUN,
        lambda _: rr.FindingsReported(
            new_id(), *FOR_PEOPLE, Position(1), 0, 0, (TASK,), Findings(0, (), {}, (), {}, 0, b"")
        ),
    ),
    (
        "a replica is declared",
        Operation.RUN,
        lambda _: rr.ReplicaDeclarationRequested(new_id(), *FOR_PEOPLE, definition("R3"), 3),
    ),
    (
        "a replica is withdrawn",
        Operation.RUN,
        lambda _: rr.ReplicaWithdrawalRequested(new_id(), *FOR_PEOPLE, "orders", "R1"),
    ),
    (
        "a schedule is set",
        Operation.RUN,
        lambda _: rr.ScheduleRequested(new_id(), *FOR_PEOPLE, "weekly", PREVIEW, 3_600_000, False),
    ),
    ("a schedule is dropped", Operation.RUN, lambda _: rr.ScheduleDropRequested(new_id(), *FOR_PEOPLE, "nightly")),
)
"""What is asked, by what the table of states calls it."""


def grant_drop(name: str = "bob@shop.t") -> Statement:
    return drop(name, ObjectKind.GRANT)


def creation(name: str) -> Request:
    return GroupCreationRequested(new_id(), *FOR_PEOPLE, GroupDefinition(name, 8, 1))


@pytest.fixture(scope="module")
def busy() -> Busy:
    """Made once; whoever changes it takes a copy."""
    return Busy()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("operation", "make"), [each[1:] for each in ASKED], ids=[each[0] for each in ASKED])
def test_a_request_is_refused_just_where_the_table_of_states_says_so(
    operation: Operation, make: Callable[[Busy], Request], state: ClusterState, busy: Busy
) -> None:
    """BA1: by one code, with the command that ends the state; in every other state it is answered as ever."""
    found = busy.copied()
    asked = make(found)
    found.turn(state)
    refusal = refusal_of(found, asked)
    if allows(state, operation):
        assert refusal is None or refusal.code != "NOT_ACTIVE"
        return
    assert refusal is not None
    assert (refusal.code, refusal.rule, refusal.facts["state"]) == ("NOT_ACTIVE", "BA1", state.value)
    assert not allows(state, Operation[refusal.facts["operation"]])
    assert state.value in refusal.message
    assert refusal.hint == "`topolog cluster activate` ends that."


def refusal_of(found: Busy, asked: Request) -> Refused | None:
    try:
        found.decide(asked)
    except Refused as refusal:
        return refusal
    return None


def test_every_request_there_is_stands_in_the_table(busy: Busy) -> None:
    """One that is new must say what the state of the cluster has to do with it."""
    asked = {type(make(busy.copied())) for _, _, make in ASKED}
    assert asked == set(REQUESTS)


def test_every_operation_that_is_decided_is_asked_for_here() -> None:
    """The others are nodes' own: they are asked in `streams/node`."""
    decided = {operation for _, operation, _ in ASKED}
    assert set(Operation) - decided == {
        Operation.READ,
        Operation.WRITE,
        Operation.EXPIRE,
        Operation.DELETE,
        Operation.LOOK,
    }


@pytest.mark.parametrize("state", [READ_ONLY, INACTIVE])
def test_from_the_start_of_a_change_of_the_state_on_the_lesser_of_both_counts(state: ClusterState, busy: Busy) -> None:
    """Somebody is silent, so it is not finished; an operator who asked for it may rely on its start."""
    found = busy.copied()
    found.silent = {"n2"}
    found.ask(activation(state))
    found.settle()
    assert found.state_row.target is state
    with pytest.raises(Refused, match=f"on its way to {state.value}") as refused:
        found.decide(change(drop("shop.u")))
    assert refused.value.code == "NOT_ACTIVE"


@pytest.mark.parametrize("state", [READ_ONLY, INACTIVE])
def test_what_holds_already_is_said_so_in_every_state(state: ClusterState, busy: Busy) -> None:
    """A service declares the same at each of its starts."""
    found = busy.copied().turn(state)
    there = Statement(Verb.CREATE, ObjectKind.DATABASE, "shop", database().definition, if_needed=True)
    orders = GroupDefinition("orders", 16, 1, persistent=True)
    for request in (
        change(there),
        GroupCreationRequested(new_id(), *FOR_PEOPLE, orders),
        update(ObjectType("T", {"a": "long"})),
    ):
        (unchanged,) = found.decide(request)
        assert isinstance(unchanged, q.RequestUnchanged)


@pytest.mark.parametrize("state", [READ_ONLY, INACTIVE])
@pytest.mark.parametrize("is_queued", [False, True])
def test_an_open_change_is_rolled_back_when_the_state_forbids_it(
    state: ClusterState, is_queued: bool, busy: Busy
) -> None:
    """Who stops the cluster because the wrong table is being dropped has stopped the drop: until its commit nothing is
    lost."""
    found = busy.copied()
    found.ask(change(alter("shop.u", add("b")) if is_queued else drop("shop.u")))
    number = found.position
    if is_queued:
        found.ask(change(drop("shop.u")))
    later = found.position
    found.ask(activation(state))
    started_at = found.position
    ended = found.commit()
    assert [type(each) for each in ended] == [SchemaChangeRolledBack] * (1 + is_queued)
    for each in (number, later):
        row = change_row(found.state, each)
        assert row is not None
        assert (row.status, row.code, row.rule) == (ChangeStatus.ROLLED_BACK, "NOT_ACTIVE", "BA1")
        assert row.closed_at is not None
        assert row.closed_at > started_at
    assert object_row(found.state, "shop.u") is not None
    found.settle()
    found.turn(ACTIVE)
    assert found.define(drop("shop.u"))
    assert object_row(found.state, "shop.u") is None


def test_a_revocation_waits_behind_nothing_while_the_cluster_is_read_only(busy: Busy) -> None:
    """It is in line behind a change of the table that the state ends; and one that was open is committed."""
    found = busy.copied()
    found.ask(change(alter("shop.t", add("b"))))
    found.ask(change(grant_drop("bob@shop.t")))
    queued = found.position
    row = change_row(found.state, queued)
    assert row is not None
    assert row.status is ChangeStatus.QUEUED
    found.ask(activation(READ_ONLY))
    kinds = [type(each).__name__ for each in found.commit()]
    assert kinds == ["SchemaChangeRolledBack", "SchemaChangePrepared", "SchemaChangeCommitted"]
    assert object_row(found.state, "bob@shop.t") is None
    found.settle()
    (prepared,) = found.ask(change(grant_drop("ada@shop.t")))
    assert isinstance(prepared, SchemaChangePrepared)
    found.commit()
    assert object_row(found.state, "ada@shop.t") is None


def test_what_was_committed_before_is_still_confirmed_as_deleted(busy: Busy) -> None:
    """The deletion itself waits at the nodes (`node/test_cluster_state.py`); the log forgets no debt."""
    found = busy.copied()
    number = found.define(drop("shop.u"))
    found.turn(READ_ONLY)
    row = change_row(found.state, number)
    assert row is not None
    assert row.undeleted == ("n1", "n2", "n3")


def test_a_type_that_is_proposed_is_still_accepted(busy: Busy) -> None:
    """Its readers wait until it is: they may read in READ_ONLY."""
    found = busy.copied()
    found.ask(update(ObjectType("T", {"b": "long"})))
    found.ask(activation(READ_ONLY))
    (accepted,) = found.accept()
    assert isinstance(accepted, MetadataUpdateAccepted)


@pytest.mark.parametrize(
    ("state", "wanted", "goes_on"),
    [(READ_ONLY, UNION, False), (READ_ONLY, PREVIEW, True), (INACTIVE, UNION, False), (INACTIVE, PREVIEW, False)],
    ids=["repair read-only", "preview read-only", "repair inactive", "preview inactive"],
)
def test_a_session_that_is_open_begins_nothing_that_the_state_forbids(
    state: ClusterState, wanted: typing.Any, goes_on: bool, busy: Busy
) -> None:
    """As one that is paused; it goes on when the state is over."""
    found = busy.copied()
    found.ask(rr.SessionRequested(new_id(), *FOR_PEOPLE, wanted))
    number = found.position
    found.turn(state)
    assert bool(repair.settle(found.state, (), found.position, 1)) is goes_on
    found.turn(ACTIVE)
    assert repair.settle(found.state, (), found.position, 1)
    row = session(found.state, number)
    assert row is not None
    assert row.status is SessionStatus.RUNNING


def test_a_loss_is_not_given_up_behind_the_start_of_what_forbids_it(busy: Busy) -> None:
    """The exchange that was asked for ends in a cluster that is read-only: who has what is lost may still come."""
    found = busy.copied()
    reset = lost(found)

    def is_lost() -> bool:
        return any(each.is_lost for group, each in found.all() if group == "frail")

    found.ask(reset)
    found.turn(READ_ONLY)
    found.rest()
    assert is_lost()
    found.turn(ACTIVE)
    found.rest()
    assert is_lost(), "it is to be asked for again, as all that was open is"
    found.ask(LossResetRequested(new_id(), *FOR_PEOPLE, "frail"))
    found.rest()
    assert not is_lost()


def test_a_schedule_that_is_due_is_postponed_while_the_state_forbids_it(busy: Busy) -> None:
    """And runs when it is looked at again."""
    found = busy.copied().turn(READ_ONLY)
    row = found.state.get(ScheduleRow, "nightly")
    assert row is not None
    (deadline,) = repair.deadlines(found.state, row)
    (postponed,) = repair.settle(found.state, {deadline.key}, found.position, 1)
    assert isinstance(postponed, SchedulePostponed)
    assert (postponed.code, postponed.name) == ("NOT_ACTIVE", "nightly")
    found.turn(ACTIVE)
    opened, *_ = repair.settle(found.state, {deadline.key}, found.position, 1)
    assert isinstance(opened, SessionOpened)


def test_each_operation_needs_a_state() -> None:
    """The table has no hole; what a state allows a wider one does."""
    assert set(LEAST) == set(Operation)
    for operation in Operation:
        assert allows(ACTIVE, operation)
        assert allows(READ_ONLY, operation) or not allows(INACTIVE, operation)


def test_the_table_of_states_stands_in_the_docs() -> None:
    """docs/baseline.md shows it as it is in force, row by row."""
    page = (Path(__file__).parents[4] / "docs" / "baseline.md").read_text(encoding="utf-8")
    _, _, below = page.partition("| operation | ACTIVE | ACTIVE_READ_ONLY | INACTIVE |\n|---|---|---|---|\n")
    shown, _, _ = below.partition("\n\n")
    cells = [[each.value, *("yes" if allows(state, each) else "no" for state in STATES)] for each in Operation]
    assert shown.splitlines() == [f"| {' | '.join(row)} |" for row in cells]
