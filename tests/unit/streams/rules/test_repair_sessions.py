"""How sessions are opened, queued and refused (docs/design/repair.md)."""

import msgspec
import pytest
from tests.unit.streams.rules.repairing import (
    COLUMNS,
    PREVIEW,
    PULL,
    TABLE,
    UNION,
    World,
    changed,
    definition,
    row,
    rows,
    three,
)

from topolog.events import repair_requests as rr
from topolog.events.repair import (
    PairCompared,
    SessionEnded,
    SessionOpened,
    TaskAssigned,
)
from topolog.events.repair_definition import Order, Policy, SessionKind
from topolog.events.repair_tasks import TaskKind
from topolog.events.sessions import SessionStatus
from topolog.events.token_range import FULL, RING, TokenRange, parse
from topolog.events.tree_spec import Column, TokenMode

LOW, HIGH = TokenRange(0, RING // 2), TokenRange(RING // 2, RING)
MIDDLE = TokenRange(RING // 4, RING // 4 * 3)


# Ranges and placements.


def test_a_range_that_wraps_is_the_two_pieces_it_has() -> None:
    """RE12."""
    wrapped = three().finish(ranges=parse("c0000000..40000000"))
    pieces = three().finish(ranges=(TokenRange(0xC000_0000, RING), TokenRange(0, 0x4000_0000)))
    assert wrapped.covered == pieces.covered == (TokenRange(0, 0x4000_0000), TokenRange(0xC000_0000, RING))
    assert wrapped.rows_read == pieces.rows_read < three().finish().rows_read


def test_full_is_all_there_is_and_so_is_nothing_said() -> None:
    """RE12."""
    assert three().finish(ranges=()).covered == three().finish(ranges=parse("full")).covered == (FULL,)


def test_ranges_that_overlap_are_one() -> None:
    """RE12."""
    world = three()
    ended = world.finish(ranges=(HIGH, MIDDLE, LOW))
    assert ended.definition.ranges == ended.covered == (FULL,)


def test_a_single_token_can_be_compared() -> None:
    """RE12."""
    world = three(R2=changed())
    (token,) = world.finish().differing
    assert world.finish(ranges=(token,)).rows_found == 1
    assert world.finish(ranges=(TokenRange(token.end, token.end + 1),)).rows_found == 0


def sharded() -> World:
    """R1 and R2 hold the lower half, R2 and R3 the upper one; R4 has a quarter of it to itself."""
    held = {
        "R1": definition("R1", ranges=(LOW,)),
        "R2": definition("R2", ranges=(FULL,)),
        "R3": definition("R3", ranges=(HIGH,)),
    }
    return World({name: rows() for name in held}, **held)


def test_a_range_of_two_placements_is_refused() -> None:
    """RE10."""
    world = sharded()
    outcome = world.ask(rr.SessionRequested, msgspec.structs.replace(PREVIEW, ranges=(MIDDLE,)))
    assert outcome.code == "STRADDLES"
    assert outcome.facts == {"R1 R2": str(TokenRange(MIDDLE.start, LOW.end)), "R2 R3": "80000000..c0000000"}


def test_a_range_that_is_partly_held_by_fewer_is_refused() -> None:
    """RE10, CASSANDRA's imprecise: half of the replicas hold half of it."""
    held = {"R1": definition("R1"), "R2": definition("R2"), "R3": definition("R3", ranges=(LOW,))}
    world = World({name: rows() for name in held}, **held)
    assert world.refused(ranges=(MIDDLE,)) == "STRADDLES"


def test_a_range_of_one_placement_is_compared_by_its_replicas_only() -> None:
    """RE10."""
    world = sharded()
    assert world.finish(ranges=(TokenRange(1, LOW.end),)).status is SessionStatus.SUCCEEDED
    assert {each.task.replica for each in world.events(TaskAssigned)} == {"R1", "R2"}


def test_what_a_node_holds_is_cut_where_its_neighbours_change() -> None:
    """RE10."""
    world = sharded()
    ended = world.finish(node="R2")
    (opened,) = world.events(SessionOpened)
    assert [(each.ranges, each.replicas) for each in opened.segments] == [
        ((LOW,), ("R2", "R1")),
        ((HIGH,), ("R2", "R3")),
    ]
    assert (ended.status, ended.covered) == (SessionStatus.SUCCEEDED, (FULL,))


def test_what_only_one_holds_is_left() -> None:
    """RE10: compared with nobody is not compared."""
    held = {"R1": definition("R1"), "R2": definition("R2", ranges=(LOW,))}
    ended = World({name: rows() for name in held}, **held).finish(node="R1")
    assert (ended.status, ended.code) == (SessionStatus.PARTIAL, "NO_NEIGHBOURS")
    assert (ended.covered, ended.left) == ((LOW,), (HIGH,))


def test_one_replica_has_nobody_to_be_compared_with() -> None:
    """RE10: that is neither success nor failure."""
    ended = World({"R1": rows()}).finish()
    assert (ended.status, ended.code, ended.left) == (SessionStatus.SKIPPED, "NO_NEIGHBOURS", (FULL,))


def test_a_datacenter_is_compared_without_the_other() -> None:
    """RE11."""
    places = {name: definition(name, datacenter=name[0]) for name in ("a1", "a2", "b1", "b2")}
    world = World({name: rows() for name in places}, **places)
    ended = world.finish(datacenter="b")
    assert [(each.pair.left, each.pair.right) for each in world.events(PairCompared)] == [("b1", "b2")]
    assert ended.definition.datacenter == "b"
    assert world.refused(datacenter="c") == "BAD_REPLICAS"


def test_a_node_that_would_not_be_asked_is_refused() -> None:
    """RE11: what it holds is never called equal by others, who were compared without it."""
    places = {"R1": "ams", "R2": "ams", "R3": "fra"}
    held = {name: definition(name, datacenter=place) for name, place in places.items()}
    world = World({"R1": rows(), "R2": rows(), "R3": changed()}, **held)
    outcome = world.ask(rr.SessionRequested, msgspec.structs.replace(PREVIEW, node="R3", datacenter="ams"))
    assert (outcome.code, "'R3'" in outcome.message) == ("BAD_REPLICAS", True)
    assert world.refused(PREVIEW, initiator="R3", datacenter="ams") == "BAD_REPLICAS"
    assert world.finish(node="R3", datacenter="").rows_found == 1


def test_a_node_that_has_moved_away_while_its_session_waited_is_not_left_out() -> None:
    """RE11: the same is looked at when it begins."""
    held = {name: definition(name, datacenter="ams") for name in ("R1", "R2", "R3")}
    world = World({name: rows() for name in held}, **held)
    first = world.open(PULL)
    second = world.open(PULL, node="R3", datacenter="ams", queues=True)
    moved = definition("R3", datacenter="fra")
    world.ask(rr.ReplicaDeclarationRequested, moved, world.servers["R3"].life)
    world.table("R3").redefine(moved)
    world.ask(rr.SessionAbortRequested, first)
    ended = world.session(second)
    assert (ended.status, ended.code, ended.left) == (SessionStatus.FAILED, "BAD_REPLICAS", (FULL,))


# Order.


@pytest.mark.parametrize(
    ("order", "most"), [(Order.SEQUENTIAL, 1), (Order.DATACENTER_PARALLEL, 2), (Order.PARALLEL, 4)]
)
def test_so_many_scan_at_a_time(order: Order, most: int) -> None:
    """RE25: and all read points are fixed before the first scan."""
    places = {name: definition(name, datacenter=name[0]) for name in ("a1", "a2", "b1", "b2")}
    world = World({name: rows() for name in places}, **places)
    number = world.open(order=order)
    assert len(world.assigned(number)) == 4
    world.run_to(TaskKind.LEAVES, number)
    assert len(world.segment(number).cuts) == 4
    seen = 0
    while world.is_at(TaskKind.LEAVES, number):
        open_ = world.assigned(number)
        seen = max(seen, len(open_))
        assert len(open_) <= most
        if order is Order.DATACENTER_PARALLEL:
            assert len({name[0] for name in open_}) == len(open_)
        if open_:
            world.servers[open_[0]].step()
        else:
            world.turn()
    assert seen == most


# What can be asked for.


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"table": "none"}, "UNKNOWN_TABLE"),
        ({"table": ""}, "BAD_DEFINITION"),
        ({"replicas": ("R1", "R9")}, "UNKNOWN_REPLICA"),
        ({"node": "R9"}, "UNKNOWN_REPLICA"),
        ({"initiator": "R9"}, "UNKNOWN_REPLICA"),
        ({"kind": SessionKind.UNKNOWN}, "BAD_DEFINITION"),
        ({"kind": SessionKind.REPAIR}, "BAD_POLICY"),
        ({"policy": Policy.PULL}, "BAD_POLICY"),
        ({"policy": Policy.UNION}, "BAD_POLICY"),
        ({"policy": Policy.UNION, "version_column": "none"}, "NO_SUCH_COLUMN"),
        ({"columns": ("none",)}, "NO_SUCH_COLUMN"),
        ({"policy": Policy.UNION, "version_column": "at", "deletes_extra": True}, "BAD_POLICY"),
        ({"policy": Policy.UNION, "version_column": "at", "tombstone_column": "none"}, "NO_SUCH_COLUMN"),
        ({"policy": Policy.PULL, "source": "R1", "replicas": ("R2", "R3")}, "BAD_POLICY"),
        ({"mode": TokenMode.ORDERED}, "NO_BOUNDARIES"),
        ({"bits": 7}, "BAD_DEFINITION"),
        ({"bits": 17}, "BAD_DEFINITION"),
        ({"segments": 0}, "BAD_DEFINITION"),
        ({"segments": 1_025}, "BAD_DEFINITION"),
        ({"parallel": 0}, "BAD_DEFINITION"),
        ({"intensity": 0}, "BAD_DEFINITION"),
        ({"intensity": 101}, "BAD_DEFINITION"),
        ({"retries": 11}, "BAD_DEFINITION"),
        ({"stall_ms": 0}, "BAD_DEFINITION"),
        ({"deadline_ms": 0}, "BAD_DEFINITION"),
        ({"grace_ms": -1}, "BAD_DEFINITION"),
        ({"columns": ("id",) * 1_001}, "BAD_DEFINITION"),
        ({"columns": ("x" * 201,)}, "BAD_DEFINITION"),
        ({"columns": ("note", "note")}, "BAD_DEFINITION"),
        ({"reviewed_at_ms": -5}, "BAD_DEFINITION"),
        ({"reviewed_at_ms": 1 << 60}, "BAD_DEFINITION"),
        ({"node": "R3", "replicas": ("R1", "R2")}, "BAD_REPLICAS"),
        ({"initiator": "R3", "replicas": ("R1", "R2")}, "BAD_REPLICAS"),
        ({"preview": 4}, "NO_PREVIEW"),
    ],
)
def test_what_cannot_be_done_is_refused(changes: dict[str, object], code: str) -> None:
    """RE28: with a code, and without a session."""
    world = three()
    assert world.refused(PREVIEW, **changes) == code
    assert not world.events(SessionOpened)


def test_a_column_that_only_one_has_is_a_mismatch_of_schemas() -> None:
    """RE14."""
    wider = (*definition("R1").columns, Column("extra", "string"))
    held = {"R1": definition("R1", columns=wider), "R2": definition("R2")}
    ended = World({name: rows() for name in held}, **held).finish(columns=("extra",))
    assert (ended.status, ended.code) == (SessionStatus.FAILED, "SCHEMA_MISMATCH")


def test_a_repair_takes_a_replica_that_can_be_written_to() -> None:
    """RE2."""
    held = {name: definition(name, is_writable=False) for name in ("R1", "R2")}
    assert World({name: rows() for name in held}, **held).refused(PULL) == "BAD_POLICY"


def test_a_column_that_is_asked_for_twice_is_named() -> None:
    """RE13: a spec has each column once."""
    outcome = three().ask(rr.SessionRequested, msgspec.structs.replace(PREVIEW, columns=("at", "note", "note")))
    assert outcome.message == "Column 'note' is asked for more than once."


def test_a_part_of_a_table_is_declared_in_tokens_by_hash() -> None:
    """RE15: in the order of keys, or by a key of another type, the same tokens are other rows."""
    held = {name: definition(name, boundaries=("20",), ranges=(LOW,)) for name in ("R1", "R2")}
    held |= {name: definition(name, boundaries=("20",)) for name in ("R3", "R4")}
    wide = tuple(Column("id", "decimal(20,1)") if each.name == "id" else each for each in COLUMNS)
    held["R5"] = definition("R5", columns=wide)
    world = World({name: rows() for name in held}, **held)
    assert world.refused(mode=TokenMode.ORDERED, replicas=("R1", "R2", "R3"), ranges=(LOW,)) == "OTHER_TOKENS"
    assert world.refused(replicas=("R1", "R5"), ranges=(LOW,)) == "OTHER_TOKENS"
    assert world.finish(mode=TokenMode.ORDERED, replicas=("R3", "R4")).status is SessionStatus.SUCCEEDED
    assert world.finish(replicas=("R3", "R5")).status is SessionStatus.SUCCEEDED
    assert world.finish(replicas=("R1", "R2", "R3"), ranges=(LOW,)).status is SessionStatus.SUCCEEDED
    assert world.finish(node="R1", replicas=("R1", "R2")).status is SessionStatus.SUCCEEDED


def test_types_that_hold_each_other_are_compared_as_the_wider_one() -> None:
    """RE16."""
    narrow = tuple(Column("at", "decimal(10,2)") if each.name == "at" else each for each in COLUMNS)
    world = World({"R1": [row(1)], "R2": [row(1)]}, R2=definition("R2", columns=narrow))
    assert world.finish().status is SessionStatus.SUCCEEDED
    (opened,) = world.events(SessionOpened)
    assert Column("at", "decimal(21,2)") in opened.spec.columns


def test_a_comparison_by_another_spec_is_not_one_of_this_step() -> None:
    """RE13: pages name their spec, and whoever reads them by another finds none."""
    world = three(R2=changed())
    number = world.open()
    world.run_to(TaskKind.LEAVES, number)
    for server in world.servers.values():
        server.step()
    opened = world.session(number)
    assert opened.spec is not None
    other = msgspec.structs.replace(opened.spec, version_column="at")
    state = world.core.state
    state.put(f"{number:019d}", msgspec.structs.replace(opened, spec=other))
    assert not world.rendezvous.told(state, world.core.ahead.position)


def test_what_a_preview_has_found_can_be_repaired() -> None:
    """RE29: a repair of just the tokens that a preview names."""
    world = three(R2=changed())
    seen = world.finish()
    ended = world.finish(PULL, preview=seen.number)
    assert ended.definition.ranges == seen.differing
    assert ended.status is SessionStatus.SUCCEEDED
    assert world.contents() == [rows()] * 3
    nothing = world.finish()
    assert world.refused(PULL, preview=nothing.number) == "NOTHING_DIFFERS"
    assert world.refused(PULL, preview=ended.number) == "NO_PREVIEW"
    assert world.refused(PULL, preview=world.open()) == "NOT_ENDED"


def ordered() -> World:
    """Two replicas that have declared a sample of their keys."""
    held = {name: definition(name, boundaries=("20",)) for name in ("R1", "R2")}
    return World({"R1": rows(), "R2": changed()}, **held)


def test_what_a_preview_has_found_by_other_tokens_is_not_repaired() -> None:
    """RE15: the same ranges are other rows, and a repair of them would find all equal."""
    world = ordered()
    seen = world.finish(mode=TokenMode.ORDERED)
    assert world.refused(PULL, preview=seen.number) == "OTHER_TOKENS"
    ended = world.finish(PULL, preview=seen.number, mode=TokenMode.ORDERED)
    assert (ended.status, ended.rows_written) == (SessionStatus.SUCCEEDED, 1)


def test_a_queued_repair_whose_tokens_have_become_others_fails() -> None:
    """RE15: a sample of keys that is declared anew cuts the ring in other places."""
    world = ordered()
    seen = world.finish(mode=TokenMode.ORDERED)
    first = world.open(PULL)
    second = world.open(PULL, preview=seen.number, mode=TokenMode.ORDERED, queues=True)
    whole = world.open(PULL, mode=TokenMode.ORDERED, queues=True)
    for name in ("R1", "R2"):
        replica = definition(name, boundaries=("10",))
        world.ask(rr.ReplicaDeclarationRequested, replica, world.servers[name].life)
        world.table(name).redefine(replica)
    world.run()
    assert world.session(first).status is SessionStatus.SUCCEEDED
    assert (world.session(second).status, world.session(second).code) == (SessionStatus.FAILED, "OTHER_TOKENS")
    assert world.session(whole).status is SessionStatus.SUCCEEDED


def test_repairs_by_other_tokens_may_be_of_the_same_rows() -> None:
    """RE27, RE15: ranges that do not touch say nothing then."""
    world = ordered()
    first = world.open(PULL, ranges=(LOW,))
    asked = msgspec.structs.replace(PULL, ranges=(HIGH,), mode=TokenMode.ORDERED)
    outcome = world.ask(rr.SessionRequested, asked)
    assert (outcome.code, outcome.facts) == ("OVERLAP", {"session": str(first)})
    assert "in another way" in outcome.message
    assert world.session(world.open(PULL, ranges=(HIGH,))).status is SessionStatus.RUNNING
    second = world.open(asked, queues=True)
    world.run()
    assert world.session(second).status is SessionStatus.SUCCEEDED


def test_a_queued_session_of_a_node_takes_what_that_is_to_hold_when_it_begins() -> None:
    """RE10: it may have been given other tokens meanwhile."""
    world = three()
    first = world.open(PULL)
    second = world.open(PULL, node="R1", queues=True)
    for name in ("R1", "R2"):
        replica = definition(name, ranges=(LOW,))
        world.ask(rr.ReplicaDeclarationRequested, replica, world.servers[name].life)
        world.table(name).redefine(replica)
    world.ask(rr.SessionAbortRequested, first)
    assert world.session(second).definition.ranges == (LOW,)
    world.run()
    assert world.session(second).covered == (LOW,)


# Overlap and queue.


def test_repairs_of_the_same_tokens_do_not_run_at_once() -> None:
    """RE27: refused with the number of the one that runs, or queued."""
    world = three()
    first = world.open(PULL, ranges=(LOW,))
    outcome = world.ask(rr.SessionRequested, msgspec.structs.replace(PULL, ranges=(MIDDLE,)))
    assert (outcome.code, outcome.facts) == ("OVERLAP", {"session": str(first)})
    second = world.open(PULL, ranges=(MIDDLE,), queues=True)
    assert world.session(second).status is SessionStatus.QUEUED
    world.run()
    assert [world.session(each).status for each in (first, second)] == [SessionStatus.SUCCEEDED] * 2
    order = [type(each).__name__ for each in world.decisions() if isinstance(each, SessionOpened | SessionEnded)]
    assert order == ["SessionOpened", "SessionEnded"] * 2


def test_others_run_at_once() -> None:
    """RE27: ranges that only touch do not overlap, previews stand in nobody's way, nor does another table."""
    world = three()
    for name in ("R1", "R2"):
        world.add(definition(name, table="others"))
    numbers = [
        world.open(PULL, ranges=(LOW,)),
        world.open(PULL, ranges=(HIGH,)),
        world.open(PREVIEW),
        world.open(PREVIEW),
        world.open(PULL, table="others"),
    ]
    assert {world.session(each).status for each in numbers} == {SessionStatus.RUNNING}


def test_the_queue_is_kept_in_order() -> None:
    """RE27: who waits for both that run keeps those behind it waiting, and nobody else."""
    world = three()
    low, high = world.open(PULL, ranges=(LOW,)), world.open(PULL, ranges=(HIGH,))
    both = world.open(PULL, queues=True)
    behind = world.open(PULL, ranges=(LOW,), queues=True)
    world.ask(rr.SessionAbortRequested, low)
    assert [world.session(each).status for each in (both, behind)] == [SessionStatus.QUEUED] * 2
    world.ask(rr.SessionAbortRequested, high)
    assert world.session(both).status is SessionStatus.RUNNING
    assert world.session(behind).status is SessionStatus.QUEUED
    world.run()
    assert world.session(behind).status is SessionStatus.SUCCEEDED
    assert [each.session for each in world.events(SessionOpened)[2:]] == [both, behind]


def test_a_queued_session_that_cannot_begin_any_more_fails() -> None:
    """RE27: its outcome was granted; its end says why."""
    world = three()
    first = world.open(PULL)
    second = world.open(PULL, queues=True)
    world.ask(rr.ReplicaWithdrawalRequested, TABLE, "R1")
    world.ask(rr.SessionAbortRequested, first)
    ended = world.session(second)
    assert (ended.status, ended.code) == (SessionStatus.FAILED, "UNKNOWN_REPLICA")
    assert (ended.covered, ended.left) == ((), (FULL,))


def test_a_queued_session_that_is_paused_does_not_begin() -> None:
    """RE26: a pause is no less one for being said early."""
    world = three()
    first = world.open(PULL)
    second = world.open(PULL, queues=True)
    world.ask(rr.SessionAlterationRequested, second, paused=True)
    world.run()
    assert world.session(first).status is SessionStatus.SUCCEEDED
    assert world.session(second).status is SessionStatus.QUEUED
    world.ask(rr.SessionAlterationRequested, second, paused=False)
    world.run()
    assert world.session(second).status is SessionStatus.SUCCEEDED


def test_a_queued_session_reviews_what_is_forgotten_when_it_begins() -> None:
    """RE23: it may have waited for longer than tombstones are kept."""
    world = three()
    first = world.open(UNION)
    second = world.open(UNION, queues=True, reviewed_at_ms=2_000)
    world.core.at_ms = 9_000
    world.ask(rr.SessionAbortRequested, first)
    assert world.session(second).definition.reviewed_at_ms == 9_000


def test_there_are_only_so_many_sessions_at_a_time() -> None:
    """RE28."""
    world = three()
    for _ in range(64):
        world.open()
    assert world.refused() == "TOO_MANY_SESSIONS"
