"""The simulation of replicas has teeth: each of DS1-DS9, left out, is caught by some seed (docs/demo-store.md).

`DEFECTS` is the table: what is left out, the seed that caught it when it was last looked for, and by which rule. A
change of the code moves the seeds; the test then looks a bounded number of seeds further. `RARE` is what a schedule of
its own shows.

Not in the table, because no history of this world can show it: that loads do not count while an exchange is open (DS6),
which keeps the answers of an exchange about one state, and that surplus is cleared only when all that are wanted own
(DS6), which costs a copy and loses no row while the others live; both are tested by `rules/test_copies.py`.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from tests.unit.streams.local.demo import test_replication as schedules
from tests.unit.streams.local.demo.replicating import Process, Rule, Violation, World
from tests.unit.streams.rules import test_copies as log_schedules

from topolog.events import ownership
from topolog.events.ids import NodeId, Position
from topolog.events.ownership_columns import NOBODY, Columns, OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.streams.local.demo.replication import messages as m
from topolog.streams.local.demo.replication.content import Content
from topolog.streams.local.demo.replication.following import Following
from topolog.streams.local.demo.replication.leading import Leading, Pending
from topolog.streams.local.demo.replication.partition import Life, Partition
from topolog.streams.local.demo.replication.replica import Replica
from topolog.streams.node.copies import PartitionId
from topolog.streams.node.views import CopyView, PartitionView
from topolog.streams.rules import copies, exchange
from topolog.streams.rules import outcome as outcomes
from topolog.streams.rules.outcome import Ask
from topolog.streams.rules.outcomes import _Situations

SEEDS_MORE = 400

Defect = Callable[[pytest.MonkeyPatch], None]
Budget = Mapping[str, Any]
Schedule = Callable[[], None]


# What the log says: DS1, DS2, DS6.


def a_returning_copy_owns(patch: pytest.MonkeyPatch) -> None:
    """DS1: a copy that comes back owns because its node says so, though another has acted meanwhile."""
    outcome = outcomes.outcome

    def believed(before: Any, wanted: Any, present: Any, ask: Any) -> ownership.Change:
        after = outcome(before, wanted, present, ask)
        copies_of = tuple(
            ownership.Copy(copy.node, PartitionState.OWNING, copy.wanted)
            if copy.state is PartitionState.MOVING and copy.node in present and present[copy.node].has_whole_copy
            else copy
            for copy in after.copies
        )
        return ownership.Change(after.partition, copies_of, after.acting, after.is_lost)

    patch.setattr(exchange, "outcome", believed)
    patch.setattr(_Situations, "_may_matter", lambda each: each._is_member)
    a_copy_that_left_the_row_is_claimed(patch)


def absent_owners_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """DS1: NodeLeft takes the node's copies out of the owner row also where nobody acts."""

    def without(row: OwnershipRow, node: int, place: Any) -> OwnershipRow | None:
        columns = Columns(row, writable=True)
        acted = columns.acting == node
        columns.acting[acted], columns.tokens[acted] = NOBODY, place.position
        goes = columns.holders == node
        columns.holders[goes], columns.states[goes], columns.since[goes] = NOBODY, 0, 0
        return columns.row(row)

    patch.setattr(ownership, "without", lambda rows, node, place: [without(row, node, place) for row in rows])


def a_loss_begins_empty(patch: pytest.MonkeyPatch) -> None:
    """DS2: where no owner is present the wanted nodes begin an empty partition."""
    outcome = outcomes.outcome
    patch.setattr(exchange, "outcome", lambda before, wanted, present, _: outcome(before, wanted, present, Ask(True)))


def any_token_loads(patch: pytest.MonkeyPatch) -> None:
    """DS6: the report of a load under another token makes the copy an owner."""
    changed = copies._changed

    def believed(state: Any, report: Any, found: Any) -> Any:
        if isinstance(report, copies.Loaded):
            row = ownership.row_of(state, report.group, report.partition)
            token = ownership.ownership(row, report.partition).token
            report = copies.Loaded(report.node, report.group, report.partition, report.since, token)
        return changed(state, report, found)

    patch.setattr(copies, "_changed", believed)


def any_listing_is_loaded(patch: pytest.MonkeyPatch) -> None:
    """DS6: the report of a load of a former listing makes the copy an owner."""
    changed = copies._changed

    def believed(state: Any, report: Any, found: Any) -> Any:
        if isinstance(report, copies.Loaded):
            row = ownership.row_of(state, report.group, report.partition)
            number = ownership.number_of(state, report.node)
            copy = ownership.ownership(row, report.partition).copy_of(number) if number is not None else None
            since = copy.since if copy else report.since
            report = copies.Loaded(report.node, report.group, report.partition, since, report.token)
        return changed(state, report, found)

    patch.setattr(copies, "_changed", believed)


def a_copy_acts_before_it_owns(patch: pytest.MonkeyPatch) -> None:
    """DS6, EX13: a hand-over does not wait until the wanted copies own."""
    patch.setattr(ownership, "_all_wanted_own", lambda columns: (columns.holders >= 0).any(axis=1))


# When a write is acknowledged: DS3.


def loading_copies_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """DS3: a write is acknowledged when all that are OWNING have it."""
    missing = Leading._missing

    def owners(leading: Leading, pending: Pending) -> list[CopyView]:
        return [copy for copy in missing(leading, pending) if copy.state is PartitionState.OWNING]

    patch.setattr(Leading, "_missing", owners)


def the_map_of_the_beginning_counts(patch: pytest.MonkeyPatch) -> None:
    """DS3: a copy that is listed while a write runs neither gets it nor is waited for."""
    missing, write, adopt = Leading._missing, Leading._write, Leading.adopt

    def begun(leading: Leading, operation: m.Write) -> None:
        known = {copy.node for copy in leading.others()}
        leading.__dict__.setdefault("known", {})[leading._number + 1] = known
        write(leading, operation)

    def of_the_beginning(leading: Leading, pending: Pending) -> list[CopyView]:
        number = next(number for number, each in leading._pending.items() if each is pending)
        known = leading.__dict__.get("known", {}).get(number, set())
        return [copy for copy in missing(leading, pending) if copy.node in known]

    def adopted(leading: Leading, view: PartitionView) -> None:
        pending, leading._pending = leading._pending, {}
        adopt(leading, view)
        leading._pending = {**pending, **leading._pending}
        leading._settle()

    patch.setattr(Leading, "_write", begun)
    patch.setattr(Leading, "_missing", of_the_beginning)
    patch.setattr(Leading, "adopt", adopted)


def any_listing_confirms(patch: pytest.MonkeyPatch) -> None:
    """DS3: what a copy stored under a former listing counts for the present one."""

    def missing(leading: Leading, pending: Pending) -> list[CopyView]:
        nodes = {copy.node for copy in pending.stored}
        return [copy for copy in leading.others() if copy.node not in nodes]

    patch.setattr(Leading, "_missing", missing)
    _listings_do_not_matter(patch)


def _listings_do_not_matter(patch: pytest.MonkeyPatch) -> None:
    def listed(partition: Partition, node: NodeId, since: Position) -> CopyView | None:
        copy = partition.view.copy_of(node) if partition.view else None
        return copy if copy is not None and copy.state.is_written else None

    patch.setattr(Partition, "_listed", listed)
    patch.setattr(Partition, "_follows", lambda partition, _: partition.following is not None)
    patch.setattr(Partition, "_is_ahead", lambda *_: False)


def demands_are_served_before_their_map(patch: pytest.MonkeyPatch) -> None:
    """DS3: a supplier serves a demander that the primary's map does not list yet."""
    receive = Partition.receive

    def served(partition: Partition, sender: NodeId, message: m.AnyMessage) -> None:
        leading = partition.leading
        if (
            partition._is_in
            and isinstance(message, m.Ask)
            and leading
            and leading.token == message.token
            and leading.is_ready
        ):
            leading.asked(CopyView(sender, PartitionState.MOVING, message.since), message)
        else:
            receive(partition, sender, message)

    patch.setattr(Partition, "receive", served)
    init = Replica.__init__
    patch.setattr(Replica, "__init__", lambda replica, node, **_: init(replica, node, supplier=_primary))


def _primary(view: PartitionView) -> NodeId:
    assert view.primary is not None
    return view.primary


# The beginning of a token: DS4. Loads: DS5, DS7.


def tokens_begin_without_reconciliation(patch: pytest.MonkeyPatch) -> None:
    """DS4: the other owners are taken for equal to the new primary."""
    patch.setattr(Leading, "_unsynced", lambda _: [])
    init = Following.__init__

    def synced(following: Following, view: Any, own: CopyView, content: Any, fresh: Any, out: Any) -> None:
        init(following, view, own, content, fresh, out)
        following.is_synced = own.state is PartitionState.OWNING

    patch.setattr(Following, "__init__", synced)


def serving_does_not_wait_for_reconciliation(patch: pytest.MonkeyPatch) -> None:
    """DS4: the new primary reads and writes at once, while the other owners are being reconciled."""
    patch.setattr(Leading, "_unsynced", lambda _: [])
    patch.setattr(Leading, "resend", _resend_all)


def _resend_all(leading: Leading) -> None:
    for number, pending in leading._pending.items():
        for copy in leading._missing(pending):
            leading._replicate(copy, number, pending)


def unreconciled_copies_supply(patch: pytest.MonkeyPatch) -> None:
    """DS4: an owner supplies others before it has been reconciled itself."""
    asked = Leading.asked

    def at_once(leading: Leading, copy: CopyView, ask: m.Ask) -> bool:
        is_ready, leading.is_ready = leading.is_ready, True
        answered = asked(leading, copy, ask)
        leading.is_ready = is_ready
        return answered

    patch.setattr(Leading, "asked", at_once)
    patch.setattr(Following, "_may_supply", lambda following: following.own.state is PartitionState.OWNING)


def unreconciled_copies_store(patch: pytest.MonkeyPatch) -> None:
    """DS4: an owner stores and confirms writes of a token under which it has not been reconciled."""
    patch.setattr(Leading, "_unsynced", lambda _: [])
    store = Following.store

    def at_once(following: Following, message: m.Replicate) -> bool:
        is_synced, following.is_synced = following.is_synced, following.own.state is PartitionState.OWNING
        stored = store(following, message)
        following.is_synced = is_synced
        return stored

    patch.setattr(Following, "store", at_once)


def a_new_token_does_not_begin_the_load_anew(patch: pytest.MonkeyPatch) -> None:
    """DS5: a load goes on under the next token."""
    goes_on = Following.goes_on

    def carried(following: Following, view: PartitionView, own: CopyView) -> bool:
        if own.since == following.own.since and own.state is PartitionState.MOVING and view.primary is not None:
            is_new = following.token != view.token
            following.token, following._primary = view.token, view.primary
            if is_new and following.is_synced:
                following._out(m.Loaded(view.group, view.partition, own.since, view.token))
        return goes_on(following, view, own)

    patch.setattr(Following, "goes_on", carried)
    _following_outlives_its_primary(patch)


def a_new_listing_does_not_begin_the_load_anew(patch: pytest.MonkeyPatch) -> None:
    """DS5: what was loaded for a former listing counts for the present one."""
    patch.setattr(Following, "goes_on", lambda following, view, _: view.token == following.token)
    _following_outlives_its_primary(patch)


def _following_outlives_its_primary(patch: pytest.MonkeyPatch) -> None:
    follow = Partition._follow

    def kept(partition: Partition, view: PartitionView) -> None:
        before = partition.following
        follow(partition, view)
        if partition.following is None and before is not None and partition.leading is None:
            partition.following = before

    patch.setattr(Partition, "_follow", kept)


def a_load_merges(patch: pytest.MonkeyPatch) -> None:
    """DS7: what a copy holds and its supplier does not stays."""

    def merged(following: Following) -> Content:
        fresh = following._fresh
        for key, cell in following.content.rows():
            if fresh.get(key) is None:
                fresh.put(key, cell)
        return fresh

    patch.setattr(Following, "_replaced", merged)


# Tokens: DS8, DS9.


def operations_outlive_their_token(patch: pytest.MonkeyPatch) -> None:
    """DS8: what runs when the token goes is done under the next one that the same node gets."""
    lead = Partition._lead

    def kept(partition: Partition, view: PartitionView) -> None:
        before = partition.leading
        lead(partition, view)
        after = partition.leading
        carried = partition.__dict__.setdefault("carried", {})
        if before is not None and before is not after:
            carried.update(before._pending)
        if after is not None and after is not before and carried:
            after._pending, after._number = dict(carried), max(carried)
            carried.clear()

    def close(leading: Leading) -> None:
        for pending in leading._pending.values():
            for read in pending.reads:
                leading._out(m.Failed(read))
            pending.reads.clear()
        for operation in leading._waiting:
            leading._out(m.Failed(operation))

    patch.setattr(Partition, "_lead", kept)
    patch.setattr(Leading, "close", close)


def operations_begin_under_any_token(patch: pytest.MonkeyPatch) -> None:
    """DS8: a primary that has been told to stop, or that acts no more, begins operations all the same."""
    lead = Partition._lead

    def kept(partition: Partition, view: PartitionView) -> None:
        before = partition.leading
        lead(partition, view)
        if partition.leading is None:
            partition.leading = before

    def token(world: World, process: Process, place: PartitionId) -> Position | None:
        partition = process.replica.partition(place)
        return partition.leading.token if partition and partition.leading and not process.is_fenced else None

    patch.setattr(Partition, "_lead", kept)
    patch.setattr(World, "_token", token)


def a_former_primary_does_not_stop(patch: pytest.MonkeyPatch) -> None:
    """DS8: HandOverPrepared keeps nobody from beginning."""
    token = World._token

    def kept(world: World, process: Process, place: PartitionId) -> Position | None:
        entry = process.entry
        if entry is not None:
            process.entry = entry._replace(leaving=frozenset())
        found = token(world, process, place)
        process.entry = entry
        return found

    patch.setattr(World, "_token", kept)


def lower_tokens_are_stored(patch: pytest.MonkeyPatch) -> None:
    """DS9: a copy takes writes of a token that acts no more."""

    def accepted(partition: Partition, message: m.AnyMessage) -> bool:
        if partition.view is None:
            return False
        return message.token == partition.view.token or isinstance(message, m.Replicate)

    patch.setattr(Partition, "_is_of_the_acting_token", accepted)
    patch.setattr(
        Following, "_cell", lambda _, message: m.Cell(m.Version(message.token, message.number), message.value)
    )


def writes_are_taken_before_their_map(patch: pytest.MonkeyPatch) -> None:
    """DS9: a copy takes, and confirms, a write of a token or for a listing that it has not applied."""
    receive = Partition.receive

    def taken(partition: Partition, sender: NodeId, message: m.AnyMessage) -> None:
        is_early = partition._is_ahead(message.token) or partition._is_ahead(message.since)
        if partition._is_in and isinstance(message, m.Replicate) and is_early:
            version = m.Version(message.token, message.number)
            partition.content.put(message.key, m.Cell(version, message.value))
            stored = m.Stored(*message.place, message.token, message.since, message.number)
            partition._out(m.Send(sender, stored))
        else:
            receive(partition, sender, message)

    patch.setattr(Partition, "receive", taken)


# What the design leaves to the store.


def reads_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    """A read returns what is not acknowledged yet."""

    def read(leading: Leading, read: m.Read) -> None:
        cell = leading._content.get(read.key)
        is_there = cell is not None and cell.value is not None
        leading._out(m.Answered(read.id, cell.version if cell and is_there else None, cell.value if cell else None))

    patch.setattr(Leading, "_read", read)


def writes_are_settled_out_of_order(patch: pytest.MonkeyPatch) -> None:
    """A write is acknowledged before the one that it replaces."""

    def settle(leading: Leading) -> None:
        for number, pending in list(leading._pending.items()):
            if not leading._missing(pending):
                del leading._pending[number]
                leading._acknowledge(m.Version(leading.token, number), pending)
        leading._settled = min(leading._pending, default=leading._number + 1) - 1
        leading._content.forget_deletions(leading.token, leading._settled)

    patch.setattr(Leading, "_settle", settle)


def deletions_are_forgotten_at_once(patch: pytest.MonkeyPatch) -> None:
    """A copy keeps no marker of a deletion, though an older write of the row may be on its way."""
    put = Content.put

    def unmarked(content: Content, key: str, cell: m.Cell) -> None:
        put(content, key, cell)
        if content._markers.pop(key, None):
            del content._cells[key]

    patch.setattr(Content, "put", unmarked)


def an_abandoned_write_is_dropped(patch: pytest.MonkeyPatch) -> None:
    """When its client has gone a write goes to no more copies."""
    abandon = Leading.abandon

    def dropped(leading: Leading, operation: int) -> None:
        gone = [number for number, pending in leading._pending.items() if pending.operation == operation]
        abandon(leading, operation)
        for number in gone:
            for read in leading._pending.pop(number).reads:
                leading._out(m.Failed(read))

    patch.setattr(Leading, "abandon", dropped)


def a_process_takes_part_in_its_former_life(patch: pytest.MonkeyPatch) -> None:
    """What the log says of a node's former incarnation is taken for one's own."""
    init = Life.__init__

    def entered(life: Life, node: NodeId) -> None:
        init(life, node)
        life.entered_at = Position(0)

    patch.setattr(Life, "__init__", entered)
    patch.setattr(Replica, "enter", lambda _: [])


def a_copy_that_left_the_row_is_claimed(patch: pytest.MonkeyPatch) -> None:
    """A node says that each copy of which it has rows is whole."""

    def whole(replica: Replica) -> dict[int, dict[int, int]]:
        return {1: {place[1]: 1 for place, _ in replica.partitions()}}

    patch.setattr(Replica, "whole", whole)


ANY: Budget = {}
THREE: Budget = {"backups": 2, "partitions": 1, "starters": 3, "steps": 1500, "crashes": 0, "lapses": 8, "resend": 1}
FOUR: Budget = {**THREE, "starters": 4, "keys": 2}
HAND_OVERS: Budget = {"backups": 0, "partitions": 2, "starters": 2, "steps": 1500, "crashes": 0, "lapses": 8}

DEFECTS: Sequence[tuple[Defect, Budget, int, Rule]] = (
    (a_returning_copy_owns, ANY, 0, Rule.HELD),
    (absent_owners_are_forgotten, ANY, 2, Rule.HELD),
    (a_loss_begins_empty, ANY, 72, Rule.HELD),
    (loading_copies_are_not_waited_for, ANY, 3, Rule.HELD),
    (tokens_begin_without_reconciliation, THREE, 1, Rule.AHEAD),
    (serving_does_not_wait_for_reconciliation, THREE, 5, Rule.HELD),
    (unreconciled_copies_store, ANY, 24, Rule.HELD),
    (a_new_token_does_not_begin_the_load_anew, THREE, 3, Rule.AHEAD),
    (a_copy_acts_before_it_owns, ANY, 3, Rule.LEGAL),
    (a_load_merges, ANY, 33, Rule.AHEAD),
    (operations_outlive_their_token, THREE, 4, Rule.HELD),
    (operations_begin_under_any_token, HAND_OVERS, 6, Rule.READS),
    (a_former_primary_does_not_stop, HAND_OVERS, 90, Rule.READS),
    (lower_tokens_are_stored, THREE, 2, Rule.AHEAD),
    (reads_do_not_wait, ANY, 0, Rule.HELD),
    (deletions_are_forgotten_at_once, ANY, 1, Rule.AHEAD),
    (an_abandoned_write_is_dropped, ANY, 1, Rule.HELD),
    (a_process_takes_part_in_its_former_life, ANY, 0, Rule.HELD),
    (a_copy_that_left_the_row_is_claimed, ANY, 0, Rule.HELD),
)


RARE: Sequence[tuple[Defect, Schedule]] = (
    (any_token_loads, log_schedules.test_a_load_under_a_former_token_changes_nothing),
    (any_listing_is_loaded, log_schedules.test_a_report_of_another_life_of_the_copy_changes_nothing),
    (the_map_of_the_beginning_counts, schedules.test_a_copy_listed_while_a_write_runs_gets_it_too),
    (any_listing_confirms, schedules.test_what_was_stored_under_a_former_listing_does_not_count),
    (demands_are_served_before_their_map, schedules.test_a_demand_waits_until_the_primary_knows_the_demander),
    (a_new_listing_does_not_begin_the_load_anew, schedules.test_a_load_begins_anew_for_a_new_listing),
    (unreconciled_copies_supply, schedules.test_a_supplier_holds_what_the_primary_holds),
    (writes_are_taken_before_their_map, schedules.test_a_write_for_a_listing_that_is_not_applied_yet_waits),
    (writes_are_settled_out_of_order, schedules.test_a_deletion_is_not_settled_before_the_write_it_deletes),
)
"""What takes hundreds of seeds, and the schedule that shows it at once."""


def caught(seeds: Iterable[int], budget: Budget) -> Iterator[Violation]:
    """What those of these seeds report that notice anything."""
    for seed in seeds:
        try:
            World(seed, **budget).run()
        except Violation as violation:
            yield violation


@pytest.mark.parametrize(
    ("defect", "budget", "seed", "rule"), DEFECTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_rule_that_is_left_out_is_caught(
    defect: Defect, budget: Budget, seed: int, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed of the table catches the defect by the rule of the table, or another one within bounds does.

    What other rules notice on the way does not count: a row would pass by any of them once its seed has moved.
    """
    defect(monkeypatch)
    passed_over: Counter[Rule] = Counter()
    for violation in caught(itertools.chain([seed], range(SEEDS_MORE)), budget):
        if violation.rule is rule:
            return
        passed_over[violation.rule] += 1
    pytest.fail(f"no seed below {SEEDS_MORE} catches by {rule} that {defect.__doc__} Others: {dict(passed_over)}")


@pytest.mark.parametrize(("defect", "schedule"), RARE, ids=lambda value: getattr(value, "__name__", ""))
def test_a_rare_rule_that_is_left_out_is_caught(
    defect: Defect, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a schedule that is sound without it."""
    schedule()
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        schedule()
