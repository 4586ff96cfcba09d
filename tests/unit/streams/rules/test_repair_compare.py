"""What a comparison finds, and in which steps it comes to that (RE21, RE20).

The world is real but for its rendezvous, its broker and its tables: see `repairing.py`.
"""

import msgspec
import pytest
from tests.unit.streams.rules.meeting import Report
from tests.unit.streams.rules.repairing import (
    COLUMNS,
    PREVIEW,
    PULL,
    UNION,
    World,
    changed,
    definition,
    row,
    rows,
    three,
)

from topolog.events import repair_requests as rr
from topolog.events.errors import ReplicaFailed
from topolog.events.repair import PairCompared, RowsCompared, SegmentEnded, StepStarted, TaskAssigned
from topolog.events.repair_definition import Order, Rendezvous, SessionDefinition
from topolog.events.repair_tasks import Pair, Purpose, TaskKind
from topolog.events.replica import ReplicaDefinition
from topolog.events.requests import Status
from topolog.events.sessions import SegmentStatus, SessionStatus
from topolog.events.token_range import FULL, TokenRange, cells
from topolog.events.tree_spec import Column
from topolog.streams.rules import repair_steps


def steps(world: World) -> list[tuple[TaskKind, Purpose]]:
    return [(each.step.kind, each.step.purpose) for each in world.events(StepStarted)]


def outcome(world: World) -> SegmentEnded:
    (ended,) = world.events(SegmentEnded)
    return ended


def test_equal_tables_are_equal_whatever_the_order_of_their_rows() -> None:
    """RE17."""
    world = three(R2=rows()[::-1])
    ended = world.finish()
    assert (ended.status, ended.covered, ended.left, ended.differing) == (SessionStatus.SUCCEEDED, (FULL,), (), ())
    assert steps(world) == [(TaskKind.PREPARE, Purpose.COMPARE), (TaskKind.LEAVES, Purpose.COMPARE)]
    assert ended.rows_found == 0


def test_a_row_that_differs_is_found_in_its_leaf_and_nowhere_else() -> None:
    """RE21."""
    world = three(R2=changed())
    ended = world.finish()
    assert (ended.status, ended.rows_found) == (SessionStatus.SUCCEEDED, 1)
    pairs = {(each.pair.left, each.pair.right): each.pair for each in world.events(PairCompared)}
    assert pairs["R1", "R3"].leaves == 0
    assert pairs["R1", "R2"].leaves == pairs["R2", "R3"].leaves == 1
    assert pairs["R1", "R2"].ranges == pairs["R2", "R3"].ranges
    (found,) = world.events(RowsCompared)
    assert found.found.kinds == {"CHANGED": 1}
    assert cells(ended.differing) == 1


def test_a_row_that_one_replica_lacks_is_missing_there() -> None:
    """RE21."""
    world = three(R2=[each for each in rows() if each["id"] != 7])
    world.finish()
    assert world.events(RowsCompared)[0].found.kinds == {"MISSING": 1}


def test_a_row_that_one_replica_has_more_is_told_and_never_deleted() -> None:
    """RE2."""
    world = three(R2=[*rows(), row(2000)])
    before = world.contents()
    ended = world.finish()
    assert world.events(RowsCompared)[0].found.kinds == {"EXTRA": 1}
    assert (ended.status, world.contents()) == (SessionStatus.SUCCEEDED, before)
    left = world.finish(PULL)
    assert (left.status, left.code, world.contents()) == (SessionStatus.PARTIAL, "UNRESOLVED", before)
    assert "EXTRA" in left.message
    assert left.left == left.differing != ()


def test_a_key_that_is_there_twice_is_left_to_people() -> None:
    """RE2."""
    world = three()
    world.table("R2").add(row(7, "once more"))
    before = world.contents()
    ended = world.finish(UNION)
    assert (ended.status, ended.code) == (SessionStatus.PARTIAL, "UNRESOLVED")
    assert "DUPLICATE_KEY" in ended.message
    assert cells(ended.left) == 1
    assert world.contents() == before


def test_rows_of_a_table_without_key_are_counted() -> None:
    """RE17: what is there twice does not cancel itself out."""
    keyless = {name: msgspec.structs.replace(definition(name), key=()) for name in ("R1", "R2")}
    world = World({"R1": [row(1), row(1)], "R2": [row(2), row(2)]}, **keyless)
    ended = world.finish()
    assert ended.rows_found == 2
    assert world.refused(PULL) == "BAD_POLICY"


def test_empty_tables_are_equal() -> None:
    """RE17."""
    ended = three(R1=[], R2=[], R3=[]).finish()
    assert (ended.status, ended.rows_read, ended.covered) == (SessionStatus.SUCCEEDED, 0, (FULL,))


def test_where_most_leaves_differ_no_finer_ones_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """RE21."""
    monkeypatch.setattr(repair_steps, "LEAF_ROWS", 0)
    world = three(R2=[])
    ended = world.finish()
    assert (TaskKind.LEAVES, Purpose.COMPARE) in steps(world)
    assert [step for step in steps(world) if step[0] is TaskKind.LEAVES] == [(TaskKind.LEAVES, Purpose.COMPARE)]
    assert ended.rows_found == 40


def test_where_too_many_rows_differ_a_full_copy_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """RE21: it is said and not tried; a preview has looked at all of it, a repair has repaired nothing."""
    monkeypatch.setattr(repair_steps, "DIGESTS_MAX", 20)
    world = three(R2=[])
    told = world.finish()
    assert (told.status, outcome(world).code, outcome(world).status) == (
        SessionStatus.SUCCEEDED,
        "FULL_COPY",
        SegmentStatus.DIFFERENT,
    )
    assert told.differing
    repaired = world.finish(PULL)
    assert (repaired.status, repaired.code, repaired.left) == (SessionStatus.PARTIAL, "FULL_COPY", told.differing)
    assert not [step for step in steps(world) if step[0] is TaskKind.DIGESTS]


@pytest.mark.parametrize(("most", "code"), [(120, ""), (119, "FULL_COPY")])
def test_the_digests_of_all_replicas_together_are_bounded(
    most: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RE21: forty rows on each of three; who compares them has only so much room."""
    monkeypatch.setattr(repair_steps, "DIGESTS_MAX", most)
    world = three(R2=[])
    world.finish()
    assert outcome(world).code == code


def test_all_rows_that_would_be_sent_count_and_not_those_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """RE21: pairs differ in different places, and each replica is asked for the rows in all of these."""
    monkeypatch.setattr(repair_steps, "DIGESTS_MAX", 3 * 30)
    low = [each for each in rows() if int(str(each["id"])) <= 20]
    high = [each for each in rows() if int(str(each["id"])) > 20]
    world = three(R2=low, R3=high)
    world.finish(rendezvous=Rendezvous.EARLY)
    assert max(each.pair.rows for each in world.events(PairCompared)) <= 30
    assert outcome(world).code == "FULL_COPY"


def test_very_many_rows_of_one_token_are_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """RE21: a heap in which a row is there again and again; no tree is fine enough to tell these apart."""
    monkeypatch.setattr(repair_steps, "DIGESTS_MAX", 40)
    keyless = {name: msgspec.structs.replace(definition(name), key=()) for name in ("R1", "R2")}
    world = World({"R1": [row(1)] * 30, "R2": [row(1)] * 21}, **keyless)
    ended = world.finish()
    assert (outcome(world).code, outcome(world).status) == ("HOT_KEY", SegmentStatus.DIFFERENT)
    assert "30 rows" in outcome(world).message
    assert cells(ended.differing) == 1
    assert TaskKind.DIGESTS not in [step for step, _ in steps(world)]


def test_a_full_leaf_whose_rows_have_keys_of_their_own_is_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    """RE21: finer leaves spread them, and then only few have to be sent."""
    monkeypatch.setattr(repair_steps, "DIGESTS_MAX", 2)
    world = World({"R1": rows(), "R2": changed()})
    ended = world.finish(ranges=(TokenRange(0, 1 << 31), TokenRange(1 << 31, 1 << 32)))
    assert (ended.status, ended.rows_found, outcome(world).code) == (SessionStatus.SUCCEEDED, 1, "")


@pytest.mark.parametrize("limit", ["LEAF_ROWS", "REFINED_ROWS"])
def test_leaves_of_many_rows_are_refined_as_long_as_it_pays(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """RE21: 8 bits more each time over what differs only, until most of it differs, then the rows. Many
    are those of one leaf, or of all that differ together."""
    many = rows(2_000)
    plain = World({"R1": many, "R2": [row(7, "another"), *many[:6], *many[7:]]})
    found = plain.finish().differing
    monkeypatch.setattr(repair_steps, limit, 0)
    refined = World({"R1": many, "R2": [row(7, "another"), *many[:6], *many[7:]]})
    assert refined.finish().differing == found
    asked = [each.step for each in refined.events(StepStarted) if each.step.kind is TaskKind.LEAVES]
    assert [(each.bits, cells(each.ranges)) for each in asked] == [(8, 1 << 32), (16, 1 << 24), (24, 1 << 16)]
    (scan,) = [ranges for what, ranges in refined.table("R1").scans if what == "digests"]
    assert cells(scan) == 1 << 8


def test_other_bits_find_the_same_rows() -> None:
    """RE21."""
    found = {three(R2=changed(), R3=changed(9)).finish(bits=bits).differing for bits in (8, 12, 16)}
    assert len(found) == 1


def two_schemas() -> World:
    wider = definition("R2", columns=(*COLUMNS, Column("more", "string")))
    return World({"R1": rows(), "R2": [{**each, "more": "x"} for each in rows()]}, R2=wider)


def test_replicas_of_other_columns_are_not_scanned_and_both_schemas_are_told() -> None:
    """RE14."""
    world = two_schemas()
    ended = world.finish()
    assert (ended.status, ended.code) == (SessionStatus.FAILED, "SCHEMA_MISMATCH")
    assert "R1: key id; id long" in ended.message
    assert "R2: key id; more string, id long" in ended.message
    assert (ended.covered, ended.left) == ((), (FULL,))
    assert not world.events(TaskAssigned)


def test_columns_that_both_have_can_be_compared() -> None:
    """RE14."""
    assert two_schemas().finish(columns=("note",)).status is SessionStatus.SUCCEEDED
    assert two_schemas().finish(ignored=("more",)).status is SessionStatus.SUCCEEDED


def test_schemas_of_many_columns_still_say_what_is_not_the_same() -> None:
    """RE14: what not all have comes first, for a message has an end."""
    many = tuple(Column(f"column_{number}", "string") for number in range(400))
    world = World(
        {"R1": [], "R2": []},
        R1=definition("R1", columns=(*COLUMNS, *many)),
        R2=definition("R2", columns=(*COLUMNS, *many, Column("extra", "date"))),
    )
    ended = world.finish()
    assert "R2: key id; extra date" in ended.message
    assert len(ended.message) < 2_100


def test_a_column_that_comes_before_the_scan_ends_the_session_without_one() -> None:
    """RE14: the validator finds it when it prepares."""
    world = three()
    number = world.open()
    world.table("R2").redefine(definition("R2", columns=(*COLUMNS, Column("more", "string"))))
    world.run()
    ended = world.session(number)
    assert (ended.status, ended.code) == (SessionStatus.FAILED, "SCHEMA_MISMATCH")
    assert not [each for each in world.servers.values() if each.table.scans]


def test_a_read_point_that_is_lost_in_mid_scan_begins_the_segment_anew() -> None:
    """RE14: the tree is of no use, and new read points are fixed."""
    world = three(R2=changed())
    world.table("R2").broken["digests"] = [ReplicaFailed("CUT_LOST", "The schema has changed.")]
    ended = world.finish()
    assert (ended.status, ended.rows_found) == (SessionStatus.SUCCEEDED, 1)
    assert steps(world)[2:4] == [(TaskKind.DIGESTS, Purpose.COMPARE), (TaskKind.PREPARE, Purpose.COMPARE)]


def test_a_read_point_that_is_lost_again_and_again_ends_it() -> None:
    """RE14."""
    world = three()
    world.table("R2").broken["leaves"] = [ReplicaFailed("CUT_LOST", "Gone.")] * 3
    ended = world.finish(retries=2, halves=True)
    assert (ended.status, ended.code) == (SessionStatus.FAILED, "CUT_LOST")
    assert steps(world).count((TaskKind.PREPARE, Purpose.COMPARE)) == 3


@pytest.mark.parametrize("order", [("R1", "R2", "R3"), ("R3", "R2", "R1"), ("R2", "R1", "R3")])
@pytest.mark.parametrize("rendezvous", [Rendezvous.EARLY, Rendezvous.ALL])
def test_trees_may_come_in_any_order(order: tuple[str, ...], rendezvous: Rendezvous) -> None:
    """RE22."""
    world = three(R2=changed(), R3=changed(9))
    number = world.open(rendezvous=rendezvous)
    world.run_to(TaskKind.LEAVES, number)
    for name in order:
        world.servers[name].step()
        world.turn_of_the_rendezvous()
        compared = {(each.pair.left, each.pair.right) for each in world.events(PairCompared)}
        done = order[: order.index(name) + 1]
        if rendezvous is Rendezvous.EARLY:
            assert compared == {("R1", each) for each in done if "R1" in done and each != "R1"}
        else:
            assert bool(compared) is (len(done) == 3)
    world.run()
    assert world.session(number).rows_found == 2


@pytest.mark.parametrize(("replicas", "pairs"), [(2, 1), (3, 3), (5, 10)])
def test_all_compares_each_two_once_all_are_in(replicas: int, pairs: int) -> None:
    """RE22."""
    world = World({f"R{number}": rows() for number in range(replicas)})
    number = world.open(rendezvous=Rendezvous.ALL)
    world.run_to(TaskKind.LEAVES, number)
    last = f"R{replicas - 1}"
    world.servers[last].is_up = False
    world.run()
    assert not world.events(PairCompared)
    world.servers[last].is_up = True
    world.run()
    compared = [(each.pair.left, each.pair.right) for each in world.events(PairCompared)]
    assert len(compared) == len(set(compared)) == pairs
    assert world.session(number).status is SessionStatus.SUCCEEDED


def test_a_pair_that_is_told_before_the_last_tree_counts() -> None:
    """RE22: a rendezvous that reports a pair too early has it counted: both trees are answers of the log."""
    world = three()
    number = world.open()
    world.run_to(TaskKind.LEAVES, number)
    for name in ("R1", "R2"):
        world.servers[name].step()
    both = (world.task("R1", number), world.task("R2", number))
    pair = Pair("R1", "R2", (), 0, 37, 0, 0)
    assert world.ask(rr.ComparisonReported, number, 0, 2, both, pair).status is Status.GRANTED
    world.run()
    assert len(world.events(PairCompared)) == 3
    assert world.session(number).status is SessionStatus.SUCCEEDED


def test_a_replica_without_read_point_that_is_equal_is_equal() -> None:
    """RE19."""
    world = World({"R1": rows(), "R2": rows()}, R2=definition("R2", gives_cuts=False))
    assert world.finish().status is SessionStatus.SUCCEEDED


def test_a_difference_without_read_point_is_inconclusive() -> None:
    """RE19: it is never called different, and nothing is done about it."""
    world = World({"R1": rows(), "R2": changed()}, R2=definition("R2", gives_cuts=False))
    before = world.contents()
    for asked, recheck in ((PREVIEW, True), (PREVIEW, False), (PULL, True), (PULL, False)):
        ended = world.finish(asked, recheck=recheck)
        assert (ended.status, ended.code) == (SessionStatus.PARTIAL, "NO_CUT")
        assert (ended.covered, ended.left, ended.differing) == ((), (FULL,), ())
    assert {each.status for each in world.events(SegmentEnded)} == {SegmentStatus.INCONCLUSIVE}
    assert world.contents() == before


def test_a_read_point_that_is_not_to_be_had_at_the_recheck_leaves_it_inconclusive() -> None:
    """RE19."""
    world = three(R2=changed())
    number = world.open(PULL)
    world.run_to(TaskKind.DIGESTS, number)
    world.table("R3").redefine(definition("R3", gives_cuts=False))
    world.run()
    assert (world.session(number).status, world.session(number).code) == (SessionStatus.PARTIAL, "NO_CUT")


def test_a_difference_that_is_gone_at_the_recheck_is_transient_and_not_counted() -> None:
    """RE20."""
    world = three(R2=changed())
    number = world.open()
    world.run_to(TaskKind.DIGESTS, number)
    for name in ("R1", "R3"):
        world.table(name).put(row(7, "another", 2))
    world.run()
    ended = world.session(number)
    assert (ended.status, ended.rows_found, ended.differing) == (SessionStatus.SUCCEEDED, 0, ())
    assert (outcome(world).status, outcome(world).code) == (SegmentStatus.EQUAL, "TRANSIENT")


def test_a_row_that_differs_only_later_is_not_told_by_this_session() -> None:
    """RE20: the recheck looks at what was found, and at its tokens only."""
    world = three(R2=changed())
    number = world.open()
    world.run_to(TaskKind.DIGESTS, number)
    world.table("R2").put(row(9, "later", 3))
    world.run()
    assert world.session(number).rows_found == 1
    assert [step for step in steps(world) if step[1] is Purpose.RECHECK] == [
        (TaskKind.PREPARE, Purpose.RECHECK),
        (TaskKind.DIGESTS, Purpose.RECHECK),
    ]


def test_what_is_read_at_the_same_read_points_is_not_read_again() -> None:
    """RE20: the recheck has new read points, or nothing to look at."""
    world = three(R2=changed())
    world.finish()
    assert (TaskKind.DIGESTS, Purpose.RECHECK) not in steps(world)
    world.finish(recheck=False)
    assert steps(world)[-1] == (TaskKind.DIGESTS, Purpose.COMPARE)


def test_leaves_that_differ_and_rows_that_do_not_are_no_comparison() -> None:
    """RE19: whoever reads something else at the same read point can be compared with nobody."""
    world = three(R2=changed())
    number = world.open()
    world.run_to(TaskKind.DIGESTS, number)
    world.rendezvous.distort = _without_rows
    world.run()
    assert (world.session(number).status, world.session(number).code) == (SessionStatus.PARTIAL, "UNSTABLE")


def _without_rows(report: Report) -> Report:
    assert isinstance(report, rr.FindingsReported)
    bare = msgspec.structs.replace(report.findings, rows=0, ranges=(), kinds={}, copies=(), unresolved={})
    return msgspec.structs.replace(report, findings=bare)


def test_a_deletion_is_carried_as_long_as_it_cannot_be_forgotten() -> None:
    """RE23: R1 has purged the row, R2 has its tombstone, R3 has it alive."""
    world = stamped(tombstone=True)
    ended = world.finish(UNION_OF_TIMES, grace_ms=10_000, reviewed_at_ms=15_000)
    assert ended.status is SessionStatus.SUCCEEDED
    assert [[each["gone"] for each in world.table(name).content] for name in ("R1", "R2", "R3")] == [[True]] * 3


def test_a_row_that_may_have_been_deleted_does_not_come_back_silently() -> None:
    """RE23: the tombstone is purged everywhere, and one replica still has the row."""
    world = stamped(tombstone=False)
    ended = world.finish(UNION_OF_TIMES, grace_ms=10_000, reviewed_at_ms=60_000)
    assert (ended.status, ended.code) == (SessionStatus.PARTIAL, "UNRESOLVED")
    assert "RESURRECTION_RISK" in ended.message
    assert world.table("R1").content == world.table("R2").content == []


def test_a_tombstone_that_some_have_purged_is_no_difference() -> None:
    """RE23, CASSANDRA-8979: nobody gets it again, and the replicas count as equal."""
    world = stamped(tombstone=True)
    (deleted,) = world.table("R2").content
    world.table("R3").put(deleted)
    ended = world.finish(UNION_OF_TIMES, grace_ms=10_000, reviewed_at_ms=60_000)
    assert (ended.status, ended.rows_found, ended.covered) == (SessionStatus.SUCCEEDED, 0, (FULL,))
    (segment,) = world.events(SegmentEnded)
    assert (segment.status, segment.code) == (SegmentStatus.EQUAL, "PURGED")
    assert [len(world.table(name).content) for name in ("R1", "R2", "R3")] == [0, 1, 1]


def test_whoever_does_not_say_when_has_asked_now() -> None:
    """RE23: a review at the beginning of time would call nothing forgotten."""
    ended = stamped(tombstone=False).finish(UNION_OF_TIMES, grace_ms=0, reviewed_at_ms=0)
    assert ended.definition.reviewed_at_ms == 1_000


UNION_OF_TIMES = msgspec.structs.replace(UNION, tombstone_column="gone")


def stamped(*, tombstone: bool) -> World:
    """Row 1 is alive on R3 since second 5; it was deleted in second 8. Canonical times are microseconds."""
    columns = (Column("id", "long"), Column("note", "string"), Column("at", "timestamp"), Column("gone", "boolean"))
    declared: dict[str, ReplicaDefinition] = {name: definition(name, columns=columns) for name in ("R1", "R2", "R3")}
    deleted = [row(1, "", 8_000_000, gone=True)] if tombstone else []
    return World({"R1": [], "R2": deleted, "R3": [row(1, at=5_000_000)]}, **declared)


def test_no_range_that_is_reported_lies_outside_of_what_was_asked_for() -> None:
    """RE12, CASSANDRA-13052: a leaf at the edge of the request is told only as far as it was asked for."""
    world = three(R2=[])
    asked = (TokenRange(0x1000_0001, 0x1FFF_FFF1), TokenRange(0x8000_0000, 0x8000_0003))
    number = world.open(ranges=asked)
    world.run()
    ended = world.session(number)
    assert (ended.covered, ended.status) == (asked, SessionStatus.SUCCEEDED)
    for compared in world.events(PairCompared):
        assert all(
            any(one.start <= each.start and each.end <= one.end for one in asked) for each in compared.pair.ranges
        )


@pytest.mark.parametrize(
    "definition",
    [msgspec.structs.replace(PREVIEW, order=order) for order in Order if order is not Order.UNKNOWN],
)
def test_all_orders_find_the_same(definition: SessionDefinition) -> None:
    """RE25."""
    world = three(R2=changed(), R3=changed(9))
    assert world.finish(definition).rows_found == 2


@pytest.mark.parametrize("asked_ms", [0, 1, 999_999])
def test_a_clock_that_is_behind_brings_nothing_back(asked_ms: int) -> None:
    """RE23: by the later of two clocks, that of whoever asks and that of the log."""
    world = stamped(tombstone=False)
    world.now_ms = 1_000_000
    ended = world.finish(UNION_OF_TIMES, grace_ms=10_000, reviewed_at_ms=asked_ms)
    assert ended.definition.reviewed_at_ms == 1_000_000
    assert (ended.status, ended.code, ended.rows_written) == (SessionStatus.PARTIAL, "UNRESOLVED", 0)
    assert "RESURRECTION_RISK" in ended.message


def test_an_old_tombstone_still_deletes_a_row_that_is_alive() -> None:
    """RE23: R1 has removed it, and gets it again once, for R3 has never heard of it."""
    world = stamped(tombstone=True)
    assert world.finish(UNION_OF_TIMES, grace_ms=10_000, reviewed_at_ms=60_000).status is SessionStatus.SUCCEEDED
    assert [[each["gone"] for each in world.table(name).content] for name in ("R1", "R2", "R3")] == [[True]] * 3
