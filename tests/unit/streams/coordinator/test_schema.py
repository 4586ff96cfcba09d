"""Schema change in the coordinator: one outcome for a request, one end for a change, whoever leads (K6, K7, TA14)."""

import msgspec
import pytest
from tests.unit.scenarios.world import PROCEED_MS, STEP_MS, World
from tests.unit.streams.coordinator.desk import LOG_ID, STARTED, Desk
from tests.unit.streams.rules.changing import (
    add,
    alter,
    cancellation,
    change,
    database,
    deletions,
    drop,
    retype,
    table,
)
from tests.unit.streams.rules.cluster import joiner

from topolog.events import membership as m
from topolog.events.asked import RequestId
from topolog.events.claims import line, line_row
from topolog.events.codec import CODEC
from topolog.events.fold import Fold
from topolog.events.ids import Position
from topolog.events.leases import FENCING
from topolog.events.object_definition import ColumnType, Statement
from topolog.events.objects import (
    ChangeRow,
    ChangeStatus,
    ObjectEvent,
    SchemaChangeCommitted,
    SchemaChangePrepared,
    SchemaChangeQueued,
    SchemaChangeRolledBack,
    change_row,
    object_row,
)
from topolog.events.snapshot_content import Content, Loader
from topolog.events.stamp import decode_stamp
from topolog.events.topics import Topic
from topolog.streams.coordinator.core import Core, Role


class Study(Desk):
    """A leader at the newest level, with the server n1, which has a lease."""

    @classmethod
    def of(cls, *nodes: str) -> "Study":
        desk = cls()
        desk.core.found(STARTED)
        desk.land()
        desk.core.claim()
        desk.land()
        for node in nodes or ("n1",):
            desk.join(node)
            desk.land()
            desk.hear_all(1, node)
            desk.land()
        return desk

    def join(self, node: str, incarnation: int = 1) -> m.JoinRequested:
        who = joiner(node, incarnation, capabilities=(FENCING,))
        request = m.JoinRequested(self.new_id(), LOG_ID, node, "", who)
        self.ask(request)
        return request

    def begin(self, *statements: Statement, deadline_ms: int | None = None) -> Position:
        """Ask for a change; gives its number."""
        request = msgspec.structs.replace(change(*statements, deadline_ms=deadline_ms), log_id=LOG_ID)
        self.ask(request)
        self.land()
        return line(self.core.state)[-1] if line(self.core.state) else Position(-1)

    def hear_all(self, sequence: int, *nodes: str, blocked: m.Blocked | None = None) -> None:
        """These servers have applied all that this leader has read back."""
        for node in nodes or ("n1",):
            beat = self.beat(sequence, self.core.confirmed.position, node=node)
            self.hear(msgspec.structs.replace(beat, blocked=blocked))

    def change(self, number: int) -> ChangeRow:
        row = change_row(self.core.state, number)
        assert row is not None
        return row

    def causes(self) -> list[tuple[str, str]]:
        """(cause, actor) of each decision about objects, as the stamps say."""
        found = []
        for entry in self.log.entries(Topic.DECISIONS):
            if isinstance(CODEC.decode(entry.value), ObjectEvent):
                assert entry.stamp is not None
                stamp = decode_stamp(entry.stamp)
                found.append((stamp.cause, stamp.actor))
        return found

    def successor(self, instance: str = "c2") -> "Study":
        """Another coordinator, which has read the log and leads."""
        desk = Study(self.log, instance, life=2)
        desk.sequence = self.sequence + 1_000
        desk.follow()
        desk.core.claim()
        desk.land()
        assert desk.role() is Role.LEADING
        return desk


def test_a_change_is_prepared_heard_of_and_committed() -> None:
    """TA15: one round trip; the stamp names the heartbeat that ended the wait."""
    desk = Study.of("n1", "n2")
    number = desk.begin(database())
    desk.hear_all(2, "n1")
    assert desk.core.outbox == []
    desk.hear_all(2, "n2")
    desk.land()
    assert desk.change(number).status is ChangeStatus.COMMITTED
    assert [cause.split(" ")[0].split("@")[0].split("/")[0] for cause, _ in desk.causes()] == [
        "operations",
        "heartbeats",
    ]
    assert desk.causes()[1][0].endswith(" n2")


def test_what_was_decided_ahead_is_not_evidence_before_it_is_read_back() -> None:
    """K9: a report about a position counts when the leader itself has read it."""
    desk = Study.of("n1")
    desk.ask(msgspec.structs.replace(change(database()), log_id=LOG_ID))
    held = desk.take()
    ahead = desk.core.ahead
    applied = m.Applied(LOG_ID, ahead.position, ahead.chain)
    desk.hear(desk.beat(2, applied=applied))
    assert line_row(desk.core.state).prepared
    desk.send(held)
    desk.follow()
    desk.core.settle()
    assert line(desk.core.state) == ()


def test_a_report_with_another_chain_is_no_evidence() -> None:
    """K9: who has read another log has not applied this change."""
    desk = Study.of("n1")
    number = desk.begin(database())
    at = desk.core.confirmed.position
    desk.hear(desk.beat(2, applied=m.Applied(LOG_ID, at, bytes(16))))
    assert desk.change(number).status is ChangeStatus.PREPARED


def test_every_request_has_exactly_one_outcome_however_often_it_is_read() -> None:
    """K7: repeats of changes, cancels and confirmations are passed over."""
    desk = Study.of("n1")
    first = msgspec.structs.replace(change(database(), table()), log_id=LOG_ID)
    number = desk.core.ahead.position + 1
    cancel = msgspec.structs.replace(cancellation(number), log_id=LOG_ID)
    for request in (first, first, cancel, first, cancel):
        desk.ask(request)
    desk.land()
    kinds = [type(CODEC.decode(each.value)).__name__ for each in desk.log.entries(Topic.DECISIONS)]
    assert kinds.count("SchemaChangePrepared") == kinds.count("SchemaChangeRolledBack") == 1
    assert [outcome.status.value for each in (first, cancel) if (outcome := desk.outcome(each))] == ["GRANTED"] * 2


def test_repeats_that_a_successor_reads_again_change_nothing() -> None:
    """K4, K7: the input is resumed behind the last set that landed, and what stood before it may be read twice."""
    desk = Study.of("n1")
    entry = desk.ask(msgspec.structs.replace(change(database()), log_id=LOG_ID))
    desk.land()
    after = desk.successor()
    after.core.ask(entry)
    assert after.core.outbox == []


def test_a_change_that_never_landed_is_decided_by_the_successor() -> None:
    """K6, K4: the deposed leader's word is nothing, its request is read again, and has one outcome."""
    desk = Study.of("n1")
    entry = desk.ask(msgspec.structs.replace(change(database()), log_id=LOG_ID))
    late = desk.take()
    after = desk.successor()
    after.core.ask(entry)
    after.land()
    after.send(late)
    after.follow()
    assert len(line(after.core.state)) == 1
    desk.follow()
    assert desk.role() is Role.DEPOSED
    assert desk.take() == []


def test_a_cancel_and_a_commit_that_meet_end_the_change_once() -> None:
    """TA14: what was decided first holds; the other is told so."""
    desk = Study.of("n1")
    number = desk.begin(database())
    desk.hear_all(2)
    cancel = msgspec.structs.replace(cancellation(number), log_id=LOG_ID)
    desk.ask(cancel)
    desk.land()
    outcome = desk.outcome(cancel)
    assert outcome is not None
    assert (outcome.code, desk.change(number).status) == ("CHANGE_COMMITTED", ChangeStatus.COMMITTED)


def test_who_cancelled_stands_in_the_stamp_and_in_the_row() -> None:
    """TA21: a rollback says who, or what."""
    desk = Study.of("n1")
    number = desk.begin(database())
    desk.ask(msgspec.structs.replace(cancellation(number), log_id=LOG_ID, actor="eve"))
    desk.land()
    assert desk.causes()[-1][1] == "eve"
    assert desk.change(number).message == f"Change {number} was cancelled by eve."


def test_a_block_names_the_heartbeat_that_said_so() -> None:
    """TA19."""
    desk = Study.of("n1", "n2")
    number = desk.begin(database())
    desk.hear_all(2, "n1")
    desk.hear_all(2, "n2", blocked=m.Blocked(number, "NO_CODEC", "cannot"))
    desk.land()
    assert desk.change(number).code == "BLOCKED"
    assert desk.causes()[-1][0].endswith(" n2")


def test_a_deadline_and_a_turn_stand_in_the_stamp() -> None:
    """K12: what made a decision due is told."""
    desk = Study.of("n1")
    first = desk.begin(database(), deadline_ms=1_000)
    desk.begin(database())
    key = f"change/{first}/deadline"
    assert key in desk.core.agenda.drain()
    desk.core.pass_deadline(key)
    desk.core.settle()
    desk.land()
    assert [cause for cause, _ in desk.causes()[-2:]] == [f"deadline {key}", "its turn"]
    assert desk.core.agenda.drain()[key] is None
    assert desk.core.agenda.late == set()


def test_a_change_in_line_that_has_nothing_left_to_do_says_that_it_was_its_turn() -> None:
    """TA13, IF NOT EXISTS: it had no verdict, so no heartbeat made it due."""
    desk = Study.of("n1")
    desk.begin(database())
    desk.begin(msgspec.structs.replace(database(), if_needed=True))
    desk.hear_all(2)
    desk.land()
    assert desk.causes()[-1][0] == "its turn"
    assert line(desk.core.state) == ()


def test_a_deadline_runs_anew_under_each_leader_and_no_leader_forgets_it() -> None:
    """TA20, TA14: the wait of a successor starts when it leads, which is the safe side."""
    desk = Study.of("n1")
    number = desk.begin(database(), deadline_ms=1_000)
    key = f"change/{number}/deadline"
    desk.core.pass_deadline(key)
    after = desk.successor()
    due = after.core.agenda.drain()[key]
    assert due is not None
    assert (due.position, due.after_ms) == (number, 1_000)
    assert after.core.agenda.late == set()
    after.core.pass_deadline(key)
    after.core.settle()
    after.land()
    assert after.change(number).code == "DEADLINE"


def every_kind_of_end(desk: Study) -> None:
    """A history with all decisions about objects in it, some of it still open."""
    desk.begin(database(), table())
    desk.begin(alter("shop.orders", add("a", ColumnType.INT32)))
    desk.begin(alter("shop.orders", retype("a", ColumnType.INT64)))
    desk.begin(alter("shop.orders", retype("b", ColumnType.INT64)))
    for sequence in range(2, 5):
        desk.hear_all(sequence)
        desk.land()
    cancelled = desk.begin(drop())
    desk.ask(msgspec.structs.replace(cancellation(cancelled), log_id=LOG_ID))
    desk.land()
    dropped = desk.begin(drop())
    desk.hear_all(5)
    desk.land()
    desk.ask(msgspec.structs.replace(deletions("n1", dropped), log_id=LOG_ID))
    desk.land()
    desk.begin(table())
    desk.begin(alter("shop.orders", add("c")), deadline_ms=1_000)
    desk.begin(alter("shop.orders", add("d")))


def test_a_coordinator_that_dies_between_any_two_decisions_leaves_a_state_that_goes_on() -> None:
    """TA14, crash after each step: a successor has the same state from each position on, and ends all changes."""
    desk = Study.of("n1")
    every_kind_of_end(desk)
    entries = desk.log.entries(Topic.DECISIONS)
    whole = Fold()
    kinds = set()
    for count, entry in enumerate(entries, 1):
        whole.read(entry.stamp, entry.value)
        kinds.add(type(CODEC.decode(entry.value)))
        after = Study(life=9, instance="c9")
        for each in entries[:count]:
            after.log.put(Topic.DECISIONS, "demo", each.value, each.headers)
        after.follow()
        if after.core.confirmed.log_id is None:
            continue
        assert after.core.state.hash() == whole.state.hash()
        after.core.claim()
        after.land()
        for sequence in range(1_000, 1_010):
            if line(after.core.state):
                after.hear_all(sequence)
                after.land()
        assert line(after.core.state) == ()
    assert kinds > {SchemaChangeQueued, SchemaChangePrepared, SchemaChangeCommitted, SchemaChangeRolledBack}


def test_a_coordinator_that_starts_from_a_snapshot_with_open_changes_goes_on_as_any_other() -> None:
    """K10: rows of the line are in the snapshot too, for they are not in the log's last part."""
    desk = Study.of("n1")
    every_kind_of_end(desk)
    cut = desk.core.cut()
    content, loader = Content(cut), Loader()
    for piece in content.pieces():
        if piece:
            loader.feed(piece)
    header, state = loader.finish(content.digest, content.state_hash)
    after = Study(desk.log, "c2", life=2)
    after.core = Core("c2", 2)
    after.core.begin_from(Fold(state, header))
    after.read = len(after.log.entries(Topic.DECISIONS))
    after.core.claim()
    after.land()
    assert after.role() is Role.LEADING
    assert line_row(after.core.state) == line_row(desk.core.state)
    for sequence in range(1_000, 1_005):
        after.hear_all(sequence)
        after.land()
    assert line(after.core.state) == ()
    row = object_row(after.core.state, "shop.orders")
    assert row is not None
    assert row.definition is not None
    assert [each.name for each in row.definition.columns] == ["id", "c", "d"]
    assert {key for key in after.core.agenda.drain() if key.startswith("change/")} != set()


def asked(world: World, *statements: Statement) -> RequestId:
    request = change(*statements)
    return world.ask(msgspec.structs.replace(request, id=world.operator_id(), log_id=world.log_id))


@pytest.mark.parametrize("after_ms", range(0, 400, 50))
def test_a_take_over_anywhere_in_a_change_ends_it_once(after_ms: int) -> None:
    """TA14: each preparation ends in exactly one commit or rollback, also across coordinators."""
    world = World(["c1", "c2"], ["n1", "n2"])
    asked(world, database(), table())
    world.settle()
    world.process("n2").paused = True
    for column in ("a", "b"):
        asked(world, alter("shop.orders", add(column)))
    world.run(after_ms)
    world.kill("c1")
    world.run(1_200)
    world.process("n2").paused = False
    world.run(PROCEED_MS + 10 * STEP_MS)
    ends = [each.changes for each in world.events(SchemaChangeCommitted) if isinstance(each, SchemaChangeCommitted)]
    numbers = [number for changes in ends for number in changes]
    assert len(numbers) == len(set(numbers)) == 3
    assert world.events(SchemaChangeRolledBack) == []
    assert line(world.state) == ()
