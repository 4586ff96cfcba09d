"""The rules of schema change, each broken on purpose, are caught by some seed; how, `test_teeth.py` says.

Not in the table, because no history of this simulation can show it, but proved elsewhere:

- A node that goes on using what a change alters that it cannot apply itself: whether the simulated service could is
  drawn, and what it makes of it nobody sees (`node/test_schema.py`).
- A second commit, a rollback behind a commit: the fold stops at these (asserted in `events/objects.py`).
- Claims taken in another order than the log's: who waits too long still comes to his turn
  (`rules/test_schema_histories.py`).
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from tests.simulation.test_teeth import Defect, run_row

from topolog.events import objects as ob
from topolog.events.evidence import Evidence
from topolog.events.ids import Position
from topolog.events.leases import NodeKind, NodeRow
from topolog.events.object_definition import ObjectKind, Verb
from topolog.events.objects import ChangeRow, ChangeStatus, ObjectRow, ObjectStatus
from topolog.events.state import State
from topolog.streams.coordinator.reports import Reports
from topolog.streams.node import objects as node_objects
from topolog.streams.node.core import NodeCore
from topolog.streams.node.deletions import ClosedTable, Deletion
from topolog.streams.node.guards import LeaseGuard
from topolog.streams.node.object_hooks import ObjectHooks
from topolog.streams.node.objects import Published
from topolog.streams.node.schema import Schema
from topolog.streams.node.serving import Serving
from topolog.streams.rules import allowed, object_plan, objects
from topolog.streams.rules.verdict import Verdict, verdict
from topolog.streams.simulation import Faults, Rule, histories, tables
from topolog.streams.simulation.store import Store, StoredRow

# The coordinator's side.


def committed_without_verdict(patch: pytest.MonkeyPatch) -> None:
    """What is prepared is committed at once, whoever has applied it."""
    patch.setattr(objects, "verdict_on", lambda *_: Verdict(Evidence()))


def the_verdict_is_that_of_the_request(patch: pytest.MonkeyPatch) -> None:
    """Who has applied the change's number counts, although it was prepared behind that."""

    def early(state: State, row: ChangeRow, reports: Any, _: object, waited_through: Position) -> Verdict:
        return verdict(state, row.number, reports, waited=row.number <= waited_through)

    patch.setattr(objects, "verdict_on", early)


def the_position_before_is_enough(patch: pytest.MonkeyPatch) -> None:
    """Who has applied all but the preparation counts."""

    def early(state: State, row: ChangeRow, reports: Any, _: object, waited_through: Position) -> Verdict:
        assert row.prepared_at is not None
        short = {node: (incarnation, Position(at + 1)) for node, (incarnation, at) in reports.items()}
        return verdict(state, row.prepared_at, short, waited=row.prepared_at <= waited_through)

    patch.setattr(objects, "verdict_on", early)


def members_that_came_in_the_line_are_not_asked(patch: pytest.MonkeyPatch) -> None:
    """Who joined behind the change's number is taken to have applied it, even before it was prepared."""

    def forgetful(state: State, row: ChangeRow, reports: Any, _: object, waited_through: Position) -> Verdict:
        assert row.prepared_at is not None
        found = verdict(state, row.prepared_at, reports, waited=row.prepared_at <= waited_through)
        rows = {each.node: each for _, each in state.rows(NodeRow)}
        return Verdict(found.evidence, tuple(node for node in found.open if rows[node].joined_at < row.number))

    patch.setattr(objects, "verdict_on", forgetful)


def nobody_waits_for_the_silent(patch: pytest.MonkeyPatch) -> None:
    """A silent server is presumed fenced at once."""

    def hasty(state: State, row: ChangeRow, reports: Any, _: object, __: Position) -> Verdict:
        assert row.prepared_at is not None
        return verdict(state, row.prepared_at, reports, waited=True)

    patch.setattr(objects, "verdict_on", hasty)


def who_never_fences_is_presumed_fenced(patch: pytest.MonkeyPatch) -> None:
    """The capability is not looked at (TA16); here one server never has it."""
    patch.setattr(histories, "_draw_unfenced", lambda _: 0)

    def blind(state: State, row: ChangeRow, reports: Any, _: object, waited_through: Position) -> Verdict:
        assert row.prepared_at is not None
        found = verdict(state, row.prepared_at, reports, waited=row.prepared_at <= waited_through)
        if found.proceed or row.prepared_at > waited_through:
            return found
        return Verdict(msgspec.structs.replace(found.evidence, presumed_fenced=found.open))

    patch.setattr(objects, "verdict_on", blind)


def who_cannot_apply_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    """What a heartbeat says of it is dropped, and the node has reported the position."""
    patch.setattr(Reports, "blocks", lambda _: {})


def changes_of_one_object_run_side_by_side(patch: pytest.MonkeyPatch) -> None:
    """Nobody waits for an earlier change."""
    patch.setattr(objects, "must_wait", lambda *_: False)


def a_rollback_leaves_the_marker(patch: pytest.MonkeyPatch) -> None:
    """The object stays as the change has prepared it (TA22)."""
    patch.setattr(ob, "_roll_back_step", lambda *_: None)


def numbers_of_columns_are_given_again(patch: pytest.MonkeyPatch) -> None:
    """A new column has the number behind the highest that is in use."""
    standing = object_plan._standing

    def forgetful(row: ObjectRow) -> object_plan.Standing | None:
        found = standing(row)
        if found is None:
            return None
        return msgspec.structs.replace(found, columns_ever=max([0, *(c.number for c in found.definition.columns)]))

    patch.setattr(object_plan, "_standing", forgetful)


def numbers_of_objects_are_given_again(patch: pytest.MonkeyPatch) -> None:
    """A new object has the number behind the highest that is in use."""

    def reused(state: State) -> int:
        given = [0, *(row.incarnation for _, row in state.rows(ObjectRow))]
        return 1 + max(given)

    patch.setattr(ob, "_next_object", reused)


# The server's side.


def reads_go_by_the_committed_definition(patch: pytest.MonkeyPatch) -> None:
    """Until the commit is heard."""
    patch.setattr(node_objects, "_read_by", lambda row: row.definition)


def writes_need_suit_the_new_definition_only(patch: pytest.MonkeyPatch) -> None:
    """What the open change is to make of the table decides."""
    patch.setattr(node_objects, "_common", lambda _, after: iter(after.columns))


def a_drop_takes_effect_at_its_commit(patch: pytest.MonkeyPatch) -> None:
    """What is being dropped is served on."""
    _served_as(patch, ObjectStatus.PRE_DELETE)


def a_rename_takes_effect_at_its_commit(patch: pytest.MonkeyPatch) -> None:
    """What is getting another name is served under the old one."""
    _served_as(patch, ObjectStatus.PRE_RENAME)


def a_table_is_served_before_it_is_created(patch: pytest.MonkeyPatch) -> None:
    """What is prepared is served."""
    _served_as(patch, ObjectStatus.PRE_CREATE)


def what_is_created_is_unknown_till_the_commit_is_heard(patch: pytest.MonkeyPatch) -> None:
    """A server says that there is none, instead of that it is being created."""
    adopting = Published.adopting

    def hidden(before: Published, *given: Any) -> Published:
        now = adopting(before, *given)
        rows = {name: row for name, row in now.rows.items() if row.status is not ObjectStatus.PRE_CREATE}
        return _showing(now, rows)

    patch.setattr(Published, "adopting", hidden)


def a_right_is_honoured_when_it_is_prepared(patch: pytest.MonkeyPatch) -> None:
    """Of both definitions the more generous one."""

    def generous(now: Published, grant: str) -> frozenset[object]:
        row = now.rows.get(grant)
        given = [each for each in (row.definition, row.pending) if each] if row else []
        return frozenset(privilege for each in given for privilege in each.privileges)

    patch.setattr(Published, "privileges", generous)


def a_right_is_honoured_till_its_end_is_heard(patch: pytest.MonkeyPatch) -> None:
    """The committed definition decides, whatever an open change takes away."""

    def committed(now: Published, grant: str) -> frozenset[object]:
        row = now.rows.get(grant)
        return frozenset(row.definition.privileges if row and row.definition else ())

    patch.setattr(Published, "privileges", committed)


def data_expires_by_the_shorter_time(patch: pytest.MonkeyPatch) -> None:
    """Of both definitions."""

    def shorter(row: ObjectRow) -> int:
        both = [each.ttl_ms or 0 for each in (row.definition, row.pending) if each is not None]
        return min([each for each in both if each] or [0])

    patch.setattr(node_objects, "_ttl_ms", shorter)


def data_expires_while_fenced(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks for the lease."""

    def unguarded(schema: Schema, name: str) -> int | None:
        found = schema._published.usable_table(name)
        return found.ttl_ms if found else None

    patch.setattr(Schema, "ttl_ms", unguarded)


def definitions_are_not_looked_at_again(patch: pytest.MonkeyPatch) -> None:
    """Behind a read or a write only the lease is."""
    patch.setattr(Schema, "_check_still", lambda *_: None)


def nothing_is_checked_behind_a_read(patch: pytest.MonkeyPatch) -> None:
    """Neither the lease nor the definition."""
    patch.setattr(LeaseGuard, "reading", _checked_before_only)
    definitions_are_not_looked_at_again(patch)


def nobody_asks_for_a_lease(patch: pytest.MonkeyPatch) -> None:
    """A server answers from what it has applied, and deletes nothing by age."""
    patch.setattr(LeaseGuard, "require", lambda _: None)
    patch.setattr(Schema, "ttl_ms", lambda *_: None)


def preparations_count_as_applied_before_they_are(patch: pytest.MonkeyPatch) -> None:
    """What a server uses is that of the set before."""
    adopt = ObjectHooks.adopt
    held = dict[ObjectHooks, Sequence[Any]]()

    def late(hooks: ObjectHooks, core: NodeCore, keys: Sequence[Any]) -> None:
        before, held[hooks] = held.get(hooks, ()), keys
        if before:
            adopt(hooks, core, before)

    patch.setattr(ObjectHooks, "adopt", late)


def a_client_honours_what_it_knows_for_ever(patch: pytest.MonkeyPatch) -> None:
    """It is not looked at when it has last heard of the cluster."""
    answering = Schema._answering

    def trusting(schema: Schema, *given: Any) -> contextlib.AbstractContextManager[int | None]:
        return contextlib.nullcontext() if schema._kind is NodeKind.CLIENT else answering(schema, *given)

    patch.setattr(Schema, "_answering", trusting)


# The state of the cluster.


def what_the_state_forbids_is_decided(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks for the state before a request is granted."""
    patch.setattr(allowed, "check", lambda *_: None)
    patch.setattr(objects, "_forbidden", lambda *_: [])


def an_open_change_is_committed_in_any_state(patch: pytest.MonkeyPatch) -> None:
    """What was prepared before the cluster was stopped goes on."""
    patch.setattr(objects, "_forbidden", lambda *_: [])


def a_table_is_used_in_any_state(patch: pytest.MonkeyPatch) -> None:
    """Reads and writes of tables do not ask for the state."""
    patch.setattr(Serving, "begin", lambda *_, **__: 0)
    patch.setattr(Serving, "end", lambda *_, **__: None)


def data_expires_and_is_deleted_in_any_state(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks for the state before a piece of it."""
    patch.setattr(Serving, "require", lambda *_: None)


# Data.


def rows_are_found_by_the_name_of_their_table(patch: pytest.MonkeyPatch) -> None:
    """No row says of which table of that name it is."""

    def of(store: Store, incarnation: int) -> list[StoredRow]:
        names = {each.table for each in store.rows if each.incarnation == incarnation}
        return [each for each in store.rows if each.table in names]

    patch.setattr(Store, "of", of)


def data_is_deleted_when_a_drop_is_prepared(patch: pytest.MonkeyPatch) -> None:
    """The hook is called with the preparation."""
    ask = ObjectHooks._ask

    def hasty(hooks: ObjectHooks, core: NodeCore, number: Position, change: ChangeRow | None) -> None:
        ask(hooks, core, number, change)
        if change is None or change.status is not ChangeStatus.PREPARED:
            return
        steps = [each for each in change.steps if each.verb is Verb.DROP and each.kind is ObjectKind.TABLE]
        rows = [row for step in steps if (row := core.state.get(ObjectRow, step.name))]
        closed = tuple(ClosedTable(row.name, row.incarnation) for row in rows)
        for hook in hooks.on_deletion if closed else ():
            hook(Deletion(number, closed, ()))

    patch.setattr(ObjectHooks, "_ask", hasty)


def what_is_being_dropped_counts_as_closed(patch: pytest.MonkeyPatch) -> None:
    """Whoever sweeps his disk deletes it."""

    def closed(now: Published, state: State, incarnation: int, column: int | None) -> bool:
        rows = [row for _, row in state.rows(ObjectRow) if row.incarnation == incarnation]
        return column is None and all(row.status is ObjectStatus.PRE_DELETE for row in rows)

    patch.setattr(Published, "is_closed", closed)


def deletions_are_said_before_they_are_done(patch: pytest.MonkeyPatch) -> None:
    """Without anything having been deleted."""
    patch.setattr(tables.SimulatedTables, "_delete", lambda *_: None)


def _checked_before_only(guard: LeaseGuard) -> Any:
    guard.require()
    return contextlib.nullcontext()


def _served_as(patch: pytest.MonkeyPatch, status: ObjectStatus) -> None:
    """Objects of this status are taken for ones at rest."""
    adopting = Published.adopting

    def served(before: Published, *given: Any) -> Published:
        now = adopting(before, *given)
        return _showing(now, {name: _at_rest(row, status) for name, row in now.rows.items()})

    patch.setattr(Published, "adopting", served)


def _showing(now: Published, rows: Mapping[str, ObjectRow]) -> Published:
    """The same, with other rows."""
    readable = {name: row for name, row in rows.items() if row.status in node_objects.READABLE}
    found = {name: node_objects._table(row) for name, row in readable.items() if row.kind is ObjectKind.TABLE}
    return Published(rows, found, now.names, now.blocked)


def _at_rest(row: ObjectRow, status: ObjectStatus) -> ObjectRow:
    if row.status is not status:
        return row
    definition = row.definition or row.pending
    return msgspec.structs.replace(row, status=ObjectStatus.USING, definition=definition, pending=None, change=None)


NOTHING = Faults(**dict.fromkeys(Faults.__struct_fields__, 0))
CHANGES = msgspec.structs.replace(NOTHING, changes=120)
ANY = Faults.of_schema()
LAGS = msgspec.structs.replace(CHANGES, slow_reads=12, pauses=12, cuts=8)
OUTAGES = msgspec.structs.replace(CHANGES, cuts=16, pauses=16, crashes=6)
RESTARTS = msgspec.structs.replace(CHANGES, crashes=16, leaves=6)
SUSPENDS = msgspec.structs.replace(CHANGES, suspends=14)
STATES = msgspec.structs.replace(CHANGES, states=10, pauses=6)
CUT_CLIENTS = msgspec.structs.replace(CHANGES, cuts=30, pauses=10)

DEFECTS: Sequence[tuple[Defect, Faults, int, Rule]] = (
    (committed_without_verdict, LAGS, 0, Rule.TWO_ADJACENT),
    (the_verdict_is_that_of_the_request, LAGS, 1, Rule.TWO_ADJACENT),
    (the_position_before_is_enough, LAGS, 0, Rule.TWO_ADJACENT),
    (members_that_came_in_the_line_are_not_asked, RESTARTS, 551, Rule.TWO_ADJACENT),
    (nobody_waits_for_the_silent, LAGS, 0, Rule.PRESUMED_IN_TIME),
    (who_never_fences_is_presumed_fenced, OUTAGES, 0, Rule.PRESUMED_IN_TIME),
    (who_cannot_apply_is_not_heard, CHANGES, 0, Rule.NACK),
    (changes_of_one_object_run_side_by_side, CHANGES, 0, Rule.RUNS_ON),
    (a_rollback_leaves_the_marker, CHANGES, 0, Rule.RUNS_ON),
    (numbers_of_columns_are_given_again, CHANGES, 0, Rule.INCARNATIONS),
    (numbers_of_objects_are_given_again, CHANGES, 1, Rule.INCARNATIONS),
    (reads_go_by_the_committed_definition, LAGS, 1, Rule.NO_STALE_DEFINITION),
    (writes_need_suit_the_new_definition_only, LAGS, 22, Rule.WRITES_SUIT_BOTH),
    (a_drop_takes_effect_at_its_commit, LAGS, 0, Rule.TWO_ADJACENT),
    (a_rename_takes_effect_at_its_commit, LAGS, 1, Rule.TWO_ADJACENT),
    (a_table_is_served_before_it_is_created, LAGS, 0, Rule.NO_STALE_DEFINITION),
    (what_is_created_is_unknown_till_the_commit_is_heard, LAGS, 0, Rule.NO_STALE_DEFINITION),
    (a_right_is_honoured_when_it_is_prepared, LAGS, 0, Rule.RIGHTS),
    (a_right_is_honoured_till_its_end_is_heard, LAGS, 25, Rule.RIGHTS),
    (data_expires_by_the_shorter_time, LAGS, 1, Rule.TTL),
    (data_expires_while_fenced, OUTAGES, 0, Rule.TTL),
    (definitions_are_not_looked_at_again, CHANGES, 1, Rule.CLOSED_STAYS_CLOSED),
    (nothing_is_checked_behind_a_read, OUTAGES, 1, Rule.CLOSED_STAYS_CLOSED),
    (nobody_asks_for_a_lease, OUTAGES, 0, Rule.NO_STALE_DEFINITION),
    (preparations_count_as_applied_before_they_are, CHANGES, 0, Rule.TWO_ADJACENT),
    (rows_are_found_by_the_name_of_their_table, CHANGES, 5, Rule.CLOSED_STAYS_CLOSED),
    (data_is_deleted_when_a_drop_is_prepared, CHANGES, 0, Rule.DELETE_AFTER_CLOSE),
    (what_is_being_dropped_counts_as_closed, RESTARTS, 7, Rule.DELETE_AFTER_CLOSE),
    (deletions_are_said_before_they_are_done, CHANGES, 0, Rule.DELETE_AFTER_CLOSE),
    (a_client_honours_what_it_knows_for_ever, CUT_CLIENTS, 388, Rule.HEARD),
    (what_the_state_forbids_is_decided, STATES, 0, Rule.STATE_BINDS),
    (an_open_change_is_committed_in_any_state, STATES, 0, Rule.STATE_BINDS),
    (a_table_is_used_in_any_state, STATES, 0, Rule.STATE_BINDS),
    (data_expires_and_is_deleted_in_any_state, STATES, 0, Rule.STATE_BINDS),
)


@pytest.mark.parametrize(
    ("defect", "budget", "seed", "rule"), DEFECTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_broken_rule_of_schema_change_is_caught(
    defect: Defect, budget: Faults, seed: int, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `test_teeth.py`: by the seed of the table, or by another one within bounds."""
    run_row(defect, budget, seed, rule, monkeypatch)
