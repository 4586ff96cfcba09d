"""Copies that fail, a rendezvous that does, and segments that are halved (RE2, RE24, RE7, RE31)."""

from collections.abc import Callable, Sequence

import msgspec
import pytest
from tests.unit.streams.rules.repairing import (
    PULL,
    UNION,
    World,
    at_leaves,
    attempts,
    causes,
    changed,
    definition,
    row,
    rows,
    three,
)

from topolog.events import repair_requests as rr
from topolog.events.codec import CODEC
from topolog.events.errors import ReplicaFailed
from topolog.events.repair import (
    SegmentEnded,
    SegmentHalved,
    SessionOpened,
    TaskFailed,
)
from topolog.events.repair_definition import Rendezvous
from topolog.events.repair_tasks import TaskId, TaskKind
from topolog.events.requests import Status
from topolog.events.sessions import SegmentStatus, SessionStatus, rows_written
from topolog.events.token_range import FULL, Ranges, TokenRange, cells, contains, overlap, union, without
from topolog.events.tree_pages import PAGE_BYTES_MAX
from topolog.streams.rules import repair_steps
from topolog.streams.validator.trees import Trees
from topolog.streams.validator.worker import Worker

# Copies.


def test_copies_that_fail_leave_the_session_partial_and_a_rerun_does_the_rest() -> None:
    """RE24: other copies go on, and the rerun touches the rest only."""
    world = three(R2=changed(), R3=changed(9))
    world.table("R2").broken["write"] = [ReplicaFailed("NOT_WRITABLE", "It is read-only today.")]
    first = world.finish(PULL)
    assert (first.status, first.code) == (SessionStatus.PARTIAL, "NOT_WRITABLE")
    assert cells(first.left) == 1
    assert world.table("R3").content == rows()
    assert world.table("R2").content == changed()
    assert not overlap(first.covered, first.left)
    second = world.finish(PULL, ranges=first.left)
    assert (second.status, second.rows_written) == (SessionStatus.SUCCEEDED, 1)


def test_another_copy_is_tried_again_although_one_has_failed_for_good() -> None:
    """RE24."""
    world = three(R2=changed(), R3=changed(9))
    world.table("R2").broken["write"] = [ReplicaFailed("NOT_WRITABLE", "no")]
    world.table("R3").broken["write"] = [ReplicaFailed("IO", "not now")]
    assert world.finish(PULL).code == "NOT_WRITABLE"
    assert world.table("R3").content == rows()


def test_what_others_have_sent_is_written_although_one_source_cannot_send() -> None:
    """RE24: of two that have newer rows one fails; what is left is its row, and the rerun sends just that."""
    world = three(R1=changed(7), R2=changed(9))
    world.table("R2").broken["rows"] = [ReplicaFailed("CORRUPT", "A page is damaged.")]
    first = world.finish(UNION)
    assert (first.status, first.code, first.rows_written) == (SessionStatus.PARTIAL, "CORRUPT", 2)
    assert first.message == "Replica R2: A page is damaged."
    both = [row(7, "another", 2) if each["id"] == 7 else each for each in changed(9)]
    assert world.contents() == [changed(7), both, changed(7)]
    assert attempts(world, TaskKind.WRITE) == [("R2", 1), ("R3", 1)]
    assert (cells(first.left), cells(first.differing)) == (1, 2)
    (task,) = {each.task for each in world.events(TaskFailed)}
    assert task.replica == "R2"
    second = world.finish(UNION, ranges=first.left)
    assert (second.status, second.rows_written) == (SessionStatus.SUCCEEDED, 2)
    assert world.contents() == [both] * 3


def test_a_target_that_has_died_is_told_as_the_copy_that_failed() -> None:
    """RE24: the check behind it cannot ask it either, and then all that was found is left."""
    world = three(R2=changed(), R3=changed(9))
    number = world.open(PULL, retries=0)
    world.run_to(TaskKind.WRITE, number)
    world.servers["R3"].is_up = False
    world.run()
    world.expire("task/")
    world.run()
    world.expire("task/")
    ended = world.session(number)
    assert (ended.status, ended.code, cells(ended.left)) == (SessionStatus.PARTIAL, "COPY_TIMEOUT", 2)
    assert world.table("R2").content == rows()


def test_rows_that_cannot_be_sent_are_not_written() -> None:
    """RE24."""
    world = three(R2=changed())
    world.table("R1").broken["rows"] = [ReplicaFailed("CORRUPT", "no")]
    ended = world.finish(PULL)
    assert (ended.status, ended.code, cells(ended.left)) == (SessionStatus.PARTIAL, "CORRUPT", 1)
    assert not world.table("R2").write_calls


def test_a_row_that_has_changed_since_is_not_written_over_and_still_differs() -> None:
    """RE24: what was compared is what is written over; the check behind it says what is left."""
    world = three(R2=changed())
    number = world.open(PULL)
    world.run_to(TaskKind.WRITE, number)
    world.table("R2").put(row(7, "by a user", 9))
    world.run()
    ended = world.session(number)
    assert (ended.status, ended.code) == (SessionStatus.PARTIAL, "STILL_DIFFERENT")
    assert "1 had changed since" in ended.message
    assert world.table("R2").content == changed(7, "by a user", 9)


# What was written.


def breaking(*after: int, code: str = "IO") -> World:
    """Eight rows differ. Each time that R2 has written so many it fails; what it writes it writes one by one."""
    world = World({"R1": [{**each, "note": "good"} for each in rows(8)], "R2": rows(8)})
    server = world.servers["R2"]
    trees = Trees(world.log.writer(), world.log.reader, server.life)
    server.worker = Worker(server.table, lambda: trees, world.clock, batch_rows=1)
    left, written = list(after), [0]

    def on_write(_: str) -> None:
        if left and written[0] == left[0]:
            written[0] = 0
            left.pop(0)
            raise ReplicaFailed(code, "so it is")
        written[0] += 1

    server.table.on_write = on_write
    return world


def good(world: World) -> int:
    """So many rows of R2 are as they should be."""
    return sum(each["note"] == "good" for each in world.table("R2").content)


@pytest.mark.parametrize(("after", "retries", "told"), [((3,), 0, 3), ((3, 5), 1, 5), ((5, 3), 1, 5), ((0,), 0, 0)])
def test_rows_that_a_copy_has_written_count_although_it_fails(after: Sequence[int], retries: int, told: int) -> None:
    """RE24: each of them once, though each attempt begins at the first row."""
    world = breaking(*after)
    ended = world.finish(PULL, retries=retries)
    assert (ended.status, ended.code, ended.rows_written) == (SessionStatus.PARTIAL, "IO", told)
    assert good(world) == max(after)


def test_a_copy_that_comes_to_its_end_at_last_counts_once() -> None:
    """RE24."""
    ended = breaking(3, 5).finish(PULL, retries=2)
    assert (ended.status, ended.rows_written) == (SessionStatus.SUCCEEDED, 8)


def test_what_a_copy_has_told_counts_at_an_end_that_came_before_its_own() -> None:
    """RE3: an abort, a deadline, a validator that is not heard of again."""
    ends_early: Sequence[tuple[Callable[[World, int], object], SessionStatus]] = (
        (lambda world, number: world.ask(rr.SessionAbortRequested, number), SessionStatus.ABORTED),
        (lambda world, _: world.expire("session/"), SessionStatus.EXPIRED),
        (lambda world, _: world.expire("task/"), SessionStatus.PARTIAL),
    )
    for ends, status in ends_early:
        world = breaking()
        number = world.open(PULL, deadline_ms=60_000, retries=0)
        world.run_to(TaskKind.WRITE, number)
        world.report(world.task("R2", number), rows=3)
        assert rows_written(world.segment(number)) == 3
        world.servers["R2"].is_up = False
        ends(world, number)
        assert (world.session(number).status, world.session(number).rows_written) == (status, 3)


def test_rows_that_are_skipped_are_none_that_are_written() -> None:
    """RE24: nor while the copy goes on, and it is seen to move."""
    world = breaking()
    number = world.open(PULL)
    world.run_to(TaskKind.WRITE, number)
    for key in (1, 2):
        world.table("R2").put(row(key, "by a user", 9))
    told: list[tuple[TaskId, int, int] | None] = []
    worker = world.servers["R2"].worker
    world.table("R2").on_write = lambda _: told.append(worker.progress)
    world.run()
    assert world.session(number).rows_written == 6
    sizes = [each[2] for each in told if each]
    assert sizes == sorted(set(sizes))
    assert max(each[1] for each in told if each) <= 6


# Rows that are too large.


LARGE = "x" * (PAGE_BYTES_MAX + 1)


def test_a_row_that_no_page_has_room_for_is_left_and_all_others_are_repaired() -> None:
    """RE24, RE31: with its reason, and a rerun comes to the same."""
    right = [row(each["id"], "good") if each["id"] in (3, 9, 11) else each for each in changed(7, LARGE)]
    world = three(R1=right)
    first = world.finish(PULL)
    assert (first.status, first.code, first.rows_written) == (SessionStatus.PARTIAL, "UNRESOLVED", 6)
    assert first.message == "Rows are left as they are: 1 ROW_TOO_LARGE."
    assert cells(first.left) == 1
    as_is = [row(7) if each["id"] == 7 else each for each in right]
    assert world.table("R2").content == world.table("R3").content == as_is
    second = world.finish(PULL)
    assert (second.code, second.rows_found, second.rows_written) == ("UNRESOLVED", 1, 0)
    assert second.left == first.left
    assert not world.events(TaskFailed)


def test_a_check_that_fails_calls_nothing_repaired() -> None:
    """RE24: SUCCEEDED is what was seen to be equal."""
    world = three(R2=changed())
    number = world.open(PULL, retries=0)
    world.run_to(TaskKind.WRITE, number)
    world.table("R3").broken["leaves"] = [ReplicaFailed("IO", "no")]
    world.run()
    assert (world.session(number).status, world.session(number).code) == (SessionStatus.PARTIAL, "IO")


def test_a_deletion_is_carried_only_if_the_session_says_so() -> None:
    """RE2: what the declared source lacks."""
    world = three(R2=[*rows(), row(2000)])
    assert world.finish(PULL, deletes_extra=True).status is SessionStatus.SUCCEEDED
    assert world.contents() == [rows()] * 3


# The rendezvous.


@pytest.mark.parametrize("kind", [TaskKind.LEAVES, TaskKind.DIGESTS])
@pytest.mark.parametrize("rendezvous", [Rendezvous.EARLY, Rendezvous.ALL])
def test_a_rendezvous_that_never_answers_is_given_up(kind: TaskKind, rendezvous: Rendezvous) -> None:
    """RE7: each wait has an owner; smaller segments would not wake it."""
    world = three(R2=changed())
    number = world.open(rendezvous=rendezvous, halves=True)
    world.run_to(kind, number)
    world.rendezvous.is_down = True
    world.run()
    (key,) = world.due("task/")
    assert "/compare/" in key
    world.expire("task/")
    ended = world.session(number)
    assert (ended.status, ended.code) == (SessionStatus.FAILED, "RENDEZVOUS_DOWN")
    assert causes(world, SegmentEnded) == [f"deadline {key}"]


def test_a_rendezvous_that_is_slow_is_waited_for_while_it_moves() -> None:
    """RE7: the wait begins anew with each pair."""
    world = three()
    number = at_leaves(world)
    world.rendezvous.is_down = True
    world.run()
    world.rendezvous.is_down = False
    seen = []
    for told in world.rendezvous.told(world.core.state, world.core.ahead.position):
        seen += world.due("task/")
        world.put("rendezvous", told)
    assert len(set(seen)) == 3
    assert world.session(number).status is SessionStatus.SUCCEEDED


def test_a_rendezvous_that_says_the_same_again_changes_nothing() -> None:
    """RE5: it carries no safety, and may have been restarted."""
    world = three(R2=changed())
    number = at_leaves(world)
    world.rendezvous.is_down = True
    world.run()
    world.rendezvous.is_down = False
    first, *others = world.rendezvous.told(world.core.state, world.core.ahead.position)
    world.put("rendezvous", first)
    compared = CODEC.decode(first)
    assert isinstance(compared, rr.ComparisonReported)
    fields = [getattr(compared, name) for name in compared.__struct_fields__[4:]]
    assert world.ask(rr.ComparisonReported, *fields).status is Status.UNCHANGED
    other = msgspec.structs.replace(compared.pair, rows=compared.pair.rows + 1)
    assert world.ask(rr.ComparisonReported, *fields[:-1], other).code == "LATE_FACT"
    for each in others:
        world.put("rendezvous", each)
    world.run()
    assert world.session(number).rows_found == 1


# Halving.


def poisoned(token: int) -> World:
    """R2 cannot read what is at this token."""
    world = three()

    def poison(ranges: Ranges) -> ReplicaFailed | None:
        is_hit = contains(ranges, [TokenRange(token, token + 1)])
        return ReplicaFailed("CORRUPT", "A page is damaged.") if is_hit else None

    world.table("R2").poison = poison
    return world


def test_a_segment_that_fails_is_halved_until_what_is_bad_is_alone() -> None:
    """RE31: the halves cover it exactly, and the rest is compared."""
    world = poisoned(0x1234_5678)
    ended = world.finish(halves=True, segments=3)
    assert (ended.status, ended.code) == (SessionStatus.PARTIAL, "CORRUPT")
    assert ended.left == (TokenRange(0x1200_0000, 0x1300_0000),)
    assert ended.covered == without((FULL,), ended.left)
    (opened,) = world.events(SessionOpened)
    ranges = {index: plan.ranges for index, plan in enumerate(opened.segments)}
    for halved in world.events(SegmentHalved):
        parts = [half.ranges for half in halved.halves]
        assert union(each for part in parts for each in part) == ranges[halved.segment]
        assert not overlap(*parts)
        ranges |= {len(ranges) + place: part for place, part in enumerate(parts)}
    statuses = [each.status for each in world.events(SegmentEnded)]
    assert statuses.count(SegmentStatus.FAILED) == 1


def test_a_segment_is_halved_only_if_that_was_asked_for() -> None:
    """RE31."""
    ended = poisoned(0x1234_5678).finish()
    assert (ended.status, ended.left) == (SessionStatus.FAILED, (FULL,))


def test_a_session_has_only_so_many_segments_with_those_that_come_from_halving(monkeypatch: pytest.MonkeyPatch) -> None:
    """RE31: a replica that can read nothing does not make leaves without end."""
    monkeypatch.setattr(repair_steps, "SEGMENTS_MAX", 21)
    world = three()
    world.table("R2").poison = lambda _: ReplicaFailed("CORRUPT", "All of it.")
    number = world.open(halves=True, segments=4)
    world.run(until=lambda: world.session(number).segments > 21)
    ended = world.session(number)
    assert (ended.status, ended.code, ended.segments) == (SessionStatus.FAILED, "CORRUPT", 20)
    assert len(world.events(SegmentHalved)) == 8


def test_a_table_of_another_definition_is_not_asked_for() -> None:
    """RE10, wrong scope: a replica that no longer holds the tokens says so when it prepares."""
    world = three()
    number = world.open(halves=True)
    world.table("R2").redefine(definition("R2", ranges=(TokenRange(0, 5),)))
    world.run()
    assert (world.session(number).status, world.session(number).code) == (SessionStatus.FAILED, "RANGE")
