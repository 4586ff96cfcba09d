"""What becomes of a session when replicas, rendezvous or coordinator fail (RE5, RE6, RE30, RE7, RE4)."""

import msgspec
import pytest
from tests.unit.streams.rules.repairing import (
    COLUMNS,
    PREVIEW,
    PULL,
    TABLE,
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
from topolog.events.log import Entry
from topolog.events.repair import (
    PairCompared,
    SegmentEnded,
    SessionEnded,
    TaskAssigned,
    TaskCompleted,
    TaskFailed,
)
from topolog.events.repair_definition import Order
from topolog.events.repair_tasks import Result, TaskKind, TaskStatus
from topolog.events.requests import Status
from topolog.events.sessions import SessionStatus
from topolog.events.token_range import FULL
from topolog.events.tree_spec import Column
from topolog.streams.rules import repair
from topolog.streams.rules.deadlines import Deadline

# Reports.


def test_an_answer_that_overtakes_the_record_of_its_question_counts() -> None:
    """RE5, CASSANDRA-3400: whoever has read ahead of the leader's own reading may answer."""
    world = three()
    world.is_eager = False
    number = 5
    log_id = world.core.ahead.log_id
    assert log_id is not None
    world.put("t", CODEC.encode(rr.SessionRequested(world.desk.new_id(), log_id, "ada", "", PREVIEW)))
    for entry in world.requests():
        world.core.ask(entry)
    world.core.settle()
    assert world.core.unread > 0
    task = world.task("R1", number)
    world.put("t", CODEC.encode(report(world, task, Result())))
    world.decide()
    assert [each.status for each in world.segment(number).tasks if each.replica == "R1"] == [TaskStatus.DONE]


def report(world: World, task: object, result: Result) -> rr.TaskReported:
    log_id = world.core.ahead.log_id
    assert log_id is not None
    return rr.TaskReported(world.desk.new_id(), log_id, "", "", task, world.servers["R1"].life, 0, 0, "", "", result)  # type: ignore[arg-type]


def test_an_answer_that_comes_again_changes_nothing() -> None:
    """RE5."""
    world = three()
    number = at_leaves(world)
    task, tree = world.task("R1", number), Result(digest=bytes(32), pages=1, rows=40)
    assert world.report(task, result=tree).status is Status.GRANTED
    before = world.core.state.hash()
    again = world.report(task, result=tree)
    assert again.status is Status.UNCHANGED
    assert before != world.core.state.hash()  # the outcome itself
    assert world.segment(number).rows_read == 40


def test_two_trees_for_one_attempt_end_the_session() -> None:
    """RE5: one read point has one tree; smaller segments would be no better."""
    world = three()
    number = at_leaves(world, halves=True)
    task = world.task("R1", number)
    world.report(task, result=Result(digest=bytes(32), pages=1))
    assert world.report(task, result=Result(digest=b"\1" * 32, pages=1)).status is Status.GRANTED
    ended = world.session(number)
    assert (ended.status, ended.code) == (SessionStatus.FAILED, "TREE_CONFLICT")


def test_the_first_answer_counts() -> None:
    """RE5: whatever is not a tree may not be read twice the same, and the first that is there has won."""
    world = three()
    number = world.open()
    task = world.task("R1", number)
    world.report(task, result=Result())
    assert world.report(task, result=Result(worked_ms=5)).code == "LATE_FACT"
    assert world.report(task, code="IO").code == "LATE_FACT"
    assert world.segment(number).worked_ms == 0


def test_an_answer_for_a_session_that_has_ended_is_late() -> None:
    """RE6: it is in the log, and changes nothing."""
    world = three()
    number = at_leaves(world)
    task = world.task("R1", number)
    world.ask(rr.SessionAbortRequested, number)
    ended = world.session(number)
    assert world.report(task, result=Result(digest=bytes(32), pages=1)).code == "LATE_FACT"
    assert world.session(number) == ended


def test_an_answer_for_a_session_that_never_was_is_refused() -> None:
    """RE6."""
    world = three()
    number = at_leaves(world)
    task = world.task("R1", number)
    for changes in ({"session": 999}, {"session": -1}):
        assert world.report(msgspec.structs.replace(task, **changes), result=Result()).code == "UNKNOWN_SESSION"
    for changes in ({"segment": 1}, {"segment": -1}, {"step": 1}, {"step": 3}, {"attempt": 0}, {"attempt": 2}):
        assert world.report(msgspec.structs.replace(task, **changes), result=Result()).code == "LATE_FACT"


def test_an_answer_of_an_older_attempt_is_late() -> None:
    """RE6."""
    world = three()
    number = at_leaves(world)
    task = world.task("R1", number)
    world.expire("task/", "/R1")
    assert world.task("R1", number).attempt == 2
    assert world.report(task, result=Result(digest=bytes(32), pages=1)).code == "LATE_FACT"


def test_another_process_of_the_replica_answers_no_longer() -> None:
    """RE9: the life that was declared last, and after a withdrawal nobody."""
    world = three()
    number = at_leaves(world)
    task, old = world.task("R1", number), world.servers["R1"].life
    world.restart("R1")
    tree = Result(digest=bytes(32), pages=1)
    assert world.report(task, result=tree, life=old).code == "SUPERSEDED"
    assert world.report(task, rows=1, life=old).code == "SUPERSEDED"
    assert world.report(task, result=tree).status is Status.GRANTED
    other = msgspec.structs.replace(tree, digest=b"\1" * 32)
    assert world.report(task, result=other, life=old).code == "SUPERSEDED"


# Replicas that fail.


def test_a_replica_that_is_down_fails_a_repair_before_any_tree() -> None:
    """RE30."""
    world = three(R2=changed())
    world.servers["R3"].is_up = False
    number = world.open(PULL, allow_partial=True, halves=True)
    world.run()
    world.expire("task/")
    ended = world.session(number)
    assert (ended.status, ended.code, ended.left) == (SessionStatus.FAILED, "REPLICA_DOWN", (FULL,))
    assert not attempts(world, TaskKind.LEAVES)
    assert causes(world, TaskFailed)[0].startswith("deadline task/")


def test_a_preview_may_go_on_without_replicas_that_are_down() -> None:
    """RE30: it says without whom, and is no success."""
    world = World({name: changed() if name == "R2" else rows() for name in ("R1", "R2", "R3", "R4", "R5")})
    for name in ("R1", "R4"):
        world.servers[name].is_up = False
    number = world.open(allow_partial=True)
    world.run()
    world.expire("task/")
    world.run()
    ended = world.session(number)
    assert (ended.status, ended.code, ended.covered) == (SessionStatus.PARTIAL, "REPLICA_DOWN", (FULL,))
    assert ended.rows_found == 1
    pairs = "R1-R2, R1-R3, R1-R4, R1-R5, R2-R4, R3-R4, R4-R5"
    assert ended.message == f"Compared without R1, R4, which did not answer; not compared: {pairs}."
    compared = {(each.pair.left, each.pair.right) for each in world.events(PairCompared)}
    assert compared == {("R2", "R3"), ("R2", "R5"), ("R3", "R5")}
    assert attempts(world, TaskKind.PREPARE)[5:8] == [("R2", 1), ("R3", 1), ("R5", 1)]


def test_two_of_three_that_are_down_leave_nothing_to_compare() -> None:
    """RE30."""
    world = three()
    world.servers["R2"].is_up = world.servers["R3"].is_up = False
    number = world.open(allow_partial=True)
    world.run()
    world.expire("task/")
    assert world.session(number).code == "REPLICA_DOWN"


def test_a_tree_that_does_not_come_is_asked_for_again_and_then_given_up() -> None:
    """RE7: a new attempt each time."""
    world = three()
    number = at_leaves(world, retries=2)
    world.servers["R2"].is_up = False
    world.run()
    for _ in range(3):
        world.expire("task/", "/R2")
    ended = world.session(number)
    assert (ended.status, ended.code) == (SessionStatus.FAILED, "TREE_TIMEOUT")
    assert [each for each in attempts(world, TaskKind.LEAVES) if each[0] == "R2"] == [("R2", 1), ("R2", 2), ("R2", 3)]
    assert not world.due()


def test_a_deadline_begins_anew_only_while_progress_grows() -> None:
    """RE7."""
    world = three()
    number = at_leaves(world)
    task = world.task("R1", number)
    (first,) = [key for key in world.due("task/") if key.endswith("/R1")]
    assert world.report(task, rows=10, size=100).status is Status.GRANTED
    (second,) = [key for key in world.due("task/") if key.endswith("/R1")]
    assert second != first
    for rows_, size in ((10, 100), (9, 99), (0, 0), (-5, -5)):
        assert world.report(task, rows=rows_, size=size).status is Status.UNCHANGED
    assert [key for key in world.due("task/") if key.endswith("/R1")] == [second]
    assert world.report(task, rows=9, size=101).status is Status.GRANTED
    found = next(each for each in world.segment(number).tasks if each.replica == "R1")
    assert (found.rows, found.bytes) == (10, 101)
    positions = [place for place, each in enumerate(world.decisions()) if isinstance(each, TaskAssigned)]
    assert found.assigned_at in positions
    assert found.grown_at > max(positions)


def test_a_slow_session_ends_at_its_deadline_whatever_progress_it_makes() -> None:
    """RE7."""
    world = three()
    number = at_leaves(world, deadline_ms=60_000, segments=2)
    world.report(world.task("R1", number), rows=10)
    world.expire("session/")
    ended = world.session(number)
    assert (ended.status, ended.code) == (SessionStatus.EXPIRED, "DEADLINE")
    assert causes(world, SessionEnded) == [f"deadline session/{number}/deadline"]


def test_a_replica_that_restarts_answers_what_is_still_asked() -> None:
    """RE4: its tree stays valid, and what it had not answered it does again, under the same attempt."""
    world = three(R2=changed())
    number = world.open(PULL)
    for kind in (TaskKind.PREPARE, TaskKind.LEAVES, TaskKind.DIGESTS, TaskKind.SEND, TaskKind.WRITE):
        world.run_to(kind, number)
        world.restart("R2")
    world.run()
    assert world.session(number).status is SessionStatus.SUCCEEDED
    assert world.contents() == [rows()] * 3
    assert {attempt for kind in TaskKind for _, attempt in attempts(world, kind)} == {1}


@pytest.mark.parametrize("code", ["CORRUPT", "LEAF_TOO_LARGE", "UNSUPPORTED", "SOMETHING_NEW"])
def test_a_tree_that_cannot_be_read_fails_the_session_with_its_code(code: str) -> None:
    """RE7, RE17: at once; nobody waits."""
    world = three()
    world.table("R2").broken["leaves"] = [ReplicaFailed(code, "part-0007.parquet is damaged.")]
    ended = world.finish()
    assert (ended.status, ended.code) == (SessionStatus.FAILED, code)
    assert ended.message == "Replica R2: part-0007.parquet is damaged."
    assert causes(world, SegmentEnded) == [f"failure of {ended.number}/0/2/R2/1 ({code})"]
    assert not world.due()


@pytest.mark.parametrize("code", ["IO", "INTERRUPTED"])
@pytest.mark.parametrize("what", ["cut", "leaves", "digests", "rows", "write"])
def test_what_may_be_better_next_time_is_asked_for_again(what: str, code: str) -> None:
    """RE7: by policy, under a new attempt."""
    world = three(R2=changed())
    for name in ("R1", "R2"):
        world.table(name).broken[what] = [ReplicaFailed(code, "not now")] * 2
    assert world.finish(PULL, retries=2).status is SessionStatus.SUCCEEDED
    failed = [each.task for each in world.events(TaskFailed)]
    assert {each.attempt for each in failed} == {1, 2}
    assert world.contents() == [rows()] * 3


def test_a_task_is_asked_for_as_often_as_the_session_says() -> None:
    """RE7."""
    for retries in (0, 1, 10):
        world = three()
        world.table("R2").broken["leaves"] = [ReplicaFailed("IO", "no")] * 20
        assert world.finish(retries=retries).code == "IO"
        assert len([each for each in attempts(world, TaskKind.LEAVES) if each[0] == "R2"]) == retries + 1


def waits(world: World, number: int, prefix: str) -> list[Deadline]:
    found = repair.deadlines(world.core.state, world.segment(number))
    return [each for each in found if each.key.startswith(prefix)]


def test_a_task_that_has_failed_rests_twice_as_long_each_time() -> None:
    """RE7: and is not asked for before."""
    world = three()
    world.table("R2").broken["leaves"] = [ReplicaFailed("IO", "no")] * 8
    number = world.open(retries=8)
    rests = []
    for attempt in range(1, 9):
        world.run(lambda: bool(world.due("retry/")))
        rests += [each.after_ms for each in waits(world, number, "retry/")]
        for server in world.servers.values():
            server.step()
        world.core.settle()
        world.desk.land()
        assert [each for each in attempts(world, TaskKind.LEAVES) if each[0] == "R2"][-1] == ("R2", attempt)
        world.expire("retry/")
    assert rests == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    world.run()
    assert world.session(number).status is SessionStatus.SUCCEEDED


def test_the_wait_for_the_rendezvous_begins_with_the_last_answer() -> None:
    """RE7: it cannot compare what is not there."""
    world = three()
    world.rendezvous.is_down = True
    number = at_leaves(world)
    world.run()
    answers = [place for place, each in enumerate(world.decisions()) if isinstance(each, TaskCompleted)]
    (wait,) = waits(world, number, "task/")
    assert wait.position == answers[-1] > answers[-3]


def test_of_copies_that_fail_the_one_that_somebody_can_mend_is_told() -> None:
    """RE24: not that another one is not there."""
    world = three(R2=changed(), R3=changed(9))
    world.table("R3").broken["write"] = [ReplicaFailed("NOT_WRITABLE", "It is read-only today.")]
    number = world.open(PULL)
    world.run_to(TaskKind.WRITE, number)
    world.servers["R2"].is_up = False
    world.ask(rr.ReplicaWithdrawalRequested, TABLE, "R2")
    world.run()
    ended = world.session(number)
    assert (ended.code, ended.message) == ("NOT_WRITABLE", "Replica R3: It is read-only today.")


def test_a_difference_that_no_page_has_room_for_fails_by_its_name() -> None:
    """RE8: nobody waits, nor is sent to look for a rendezvous that runs."""
    columns = tuple(Column("at", "string") if each.name == "at" else each for each in COLUMNS)
    texts = {name: name[1] * 400_000 for name in ("R1", "R2", "R3")}
    tables = {name: [{**row(key), "at": text if key == 7 else "1"} for key in range(9)] for name, text in texts.items()}
    world = World(tables, **{name: definition(name, columns=columns) for name in tables})
    ended = world.finish(UNION)
    assert (ended.status, ended.code) == (SessionStatus.FAILED, "ROW_TOO_LARGE")
    assert "A row takes 12" in ended.message


def test_a_replica_that_is_withdrawn_is_not_waited_for() -> None:
    """RE9: a participant that leaves fails the session, once; a preview may go on without it."""
    world = three()
    number = at_leaves(world)
    world.ask(rr.ReplicaWithdrawalRequested, TABLE, "R2")
    ended = world.session(number)
    assert (ended.status, ended.code) == (SessionStatus.FAILED, "WITHDRAWN")
    assert causes(world, TaskFailed) == ["nobody serves the replica any more"]
    world = three(R2=changed())
    number = world.open(allow_partial=True)
    world.ask(rr.ReplicaWithdrawalRequested, TABLE, "R3")
    world.run()
    assert (world.session(number).status, world.session(number).rows_found) == (SessionStatus.PARTIAL, 1)


def test_a_replica_that_is_withdrawn_while_it_waits_for_its_turn_is_found_out() -> None:
    """RE25: nobody is asked who is not there."""
    world = three()
    number = at_leaves(world, order=Order.SEQUENTIAL)
    world.ask(rr.ReplicaWithdrawalRequested, TABLE, "R3")
    world.servers["R3"].is_up = False
    world.run()
    assert world.session(number).code == "WITHDRAWN"


# The coordinator.


@pytest.mark.parametrize("kind", list(TaskKind)[1:])
def test_a_coordinator_that_takes_over_waits_for_just_the_same(kind: TaskKind) -> None:
    """RE4: the same state, and nobody is asked twice."""
    world = three(R2=changed())
    number = world.open(PULL)
    world.run_to(kind, number)
    first, *_ = world.assigned(number)
    world.servers[first].step()
    before, due = world.core.state.hash(), sorted(world.due())
    asked = world.events(TaskAssigned)
    world.crash()
    assert world.events(TaskAssigned) == asked
    assert sorted(world.due()) == due
    assert before != world.core.state.hash()  # the term
    world.run()
    assert world.session(number).status is SessionStatus.SUCCEEDED
    assert {each.task.attempt for each in world.events(TaskAssigned)} == {1}
    assert len({each.task for each in world.events(TaskAssigned)}) == len(world.events(TaskAssigned))


def test_what_was_decided_and_not_written_is_decided_again() -> None:
    """RE4: between two trees, the second is in `requests` and its decision lost."""
    world = three()
    number = at_leaves(world)
    for name in ("R1", "R2"):
        world.servers[name].step()
    world.is_eager = False
    world.servers["R3"].step()
    entries: list[Entry] = list(world.requests())
    assert entries
    for entry in entries:
        world.core.ask(entry)
    world.core.settle()
    world.is_eager = True
    world.crash()
    world.run()
    assert world.session(number).status is SessionStatus.SUCCEEDED
    assert {each.task.attempt for each in world.events(TaskAssigned)} == {1}
