"""The rules of sessions, each broken on purpose, are caught by the test that stands beside it.

A defect is one place in the text of a module, and what stands there instead. What is broken is put into the running
functions, so that whoever has imported them has the broken ones.
"""

import inspect
import types
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest
from tests.unit.streams.rules import test_repair_compare as compare
from tests.unit.streams.rules import test_repair_copies as copies
from tests.unit.streams.rules import test_repair_failures as failures
from tests.unit.streams.rules import test_repair_hostile as hostile
from tests.unit.streams.rules import test_repair_pace as pace
from tests.unit.streams.rules import test_repair_schedules as schedule
from tests.unit.streams.rules import test_repair_sessions as sessions
from tests.unit.streams.rules import test_repair_sizes as sizes
from tests.unit.streams.rules import test_repair_turns as turns

from topolog.events import repair as events
from topolog.events import repair_turns
from topolog.events import sessions as rows
from topolog.events.errors import Undecodable
from topolog.events.repair_definition import Order, Rendezvous
from topolog.events.repair_tasks import Copy, TaskKind
from topolog.events.replica import Cut
from topolog.events.token_range import RING, TokenRange
from topolog.streams.rules import (
    repair,
    repair_reports,
    repair_sessions,
    repair_spec,
    repair_steps,
    replicas,
    schedules,
)

Caught = Callable[[pytest.MonkeyPatch], object]


def by(test: Callable[..., object], *arguments: Any) -> Caught:
    """The test that must fail; one that takes `monkeypatch` first gets it."""
    wants = "monkeypatch" in inspect.signature(test).parameters
    return lambda patch: test(*((patch,) if wants else ()), *arguments)


OUTSIDE = {"ranges": (TokenRange(RING // 2, RING // 2 + 1),)}

DEFECTS: dict[str, tuple[ModuleType, str, str, Caught]] = {
    # Reports.
    "a later answer wins": (
        repair_reports,
        "    if task.status is not TaskStatus.ASSIGNED:\n        return [_repeated(request, ref, row, task)]\n",
        "",
        by(failures.test_the_first_answer_counts),
    ),
    "two trees of one attempt are one": (
        repair_reports,
        "request.result.digest != task.result.digest",
        "False",
        by(failures.test_two_trees_for_one_attempt_end_the_session),
    ),
    "an equal repeat is late": (
        repair_reports,
        "if request.result == task.result:",
        "if False:",
        by(failures.test_an_answer_that_comes_again_changes_nothing),
    ),
    "an older attempt answers": (
        rows,
        "(each.replica, each.attempt) == (task.replica, task.attempt)",
        "each.replica == task.replica",
        by(failures.test_an_answer_of_an_older_attempt_is_late),
    ),
    "another life answers": (
        repair_reports,
        "row is None or row.life != request.life",
        "row is None",
        by(failures.test_another_process_of_the_replica_answers_no_longer),
    ),
    "another step is answered": (
        repair_reports,
        "if row.step.number != step:",
        "if False:",
        by(hostile.test_a_comparison_of_other_trees_than_it_names_is_late),
    ),
    "progress that does not grow renews the wait": (
        repair_reports,
        "if told_rows <= task.rows and request.bytes <= task.bytes:",
        "if False:",
        by(failures.test_a_deadline_begins_anew_only_while_progress_grows),
    ),
    "ranges outside of the request are reported": (
        repair_reports,
        "if not is_set or not contains(row.step.ranges, ranges):",
        "if not is_set:",
        by(hostile.test_a_comparison_that_cannot_be_right_is_refused, OUTSIDE),
    ),
    "a comparison need not name its trees": (
        repair_reports,
        "sorted(attempts) != sorted(wanted)",
        "not set(attempts) <= wanted",
        by(hostile.test_a_comparison_of_other_trees_than_it_names_is_late),
    ),
    "findings of some stand for all": (
        repair_reports,
        "TaskKind.DIGESTS, present(row))",
        "TaskKind.DIGESTS, {each.replica for each in request.attempts})",
        by(hostile.test_findings_without_one_of_the_replicas_are_late),
    ),
    "anybody may be the source": (
        repair_reports,
        "is_right = definition.policy is not Policy.PULL or copy.source == definition.source",
        "is_right = True",
        by(hostile.test_findings_that_cannot_be_right_are_refused, {"copies": (Copy("R2", "R3", 1),)}),
    ),
    "rows that are extra may be deleted unasked": (
        repair_reports,
        "and (definition.deletes_extra or not copy.deletes)",
        "",
        by(hostile.test_findings_that_cannot_be_right_are_refused, {"copies": (Copy("R1", "R2", 1, 1),)}),
    ),
    "a tree brings a read point": (
        repair_reports,
        "(kind is TaskKind.PREPARE and",
        "(kind is not None and",
        by(hostile.test_a_result_that_cannot_be_right_is_refused, {"cut": Cut("other", bytes(8))}),
    ),
    "a recheck finds what it likes": (
        repair_reports,
        "and findings.gone == (0 if before is None else before - findings.rows)",
        "",
        by(hostile.test_a_recheck_neither_finds_more_rows_nor_forgets_any),
    ),
    # Steps.
    "early compares neighbours": (
        repair_steps,
        "[(names[0], name) for name in names[1:]]",
        "[(names[at], names[at + 1]) for at in range(len(names) - 1)]",
        by(compare.test_trees_may_come_in_any_order, ("R1", "R2", "R3"), Rendezvous.EARLY),
    ),
    "all compares with the first only": (
        repair_steps,
        "return list(combinations(names, 2))",
        "return [(names[0], name) for name in names[1:]]",
        by(compare.test_all_compares_each_two_once_all_are_in, 3, 3),
    ),
    "what was written is checked at the old read points": (
        repair_steps,
        "return [_start(row, TaskKind.PREPARE, Purpose.VERIFY, _found(row))]",
        "return [_start(row, TaskKind.LEAVES, Purpose.VERIFY, _found(row), bits=_spec(session).bits)]",
        by(copies.test_a_deletion_is_carried_only_if_the_session_says_so),
    ),
    "what was written is not checked": (
        repair_steps,
        "    if not ranges:\n        return _ended(row, SegmentStatus.REPAIRED)\n",
        "    return _ended(row, SegmentStatus.REPAIRED)\n",
        by(copies.test_a_row_that_has_changed_since_is_not_written_over_and_still_differs),
    ),
    "a preview repairs": (
        repair_steps,
        "if session.definition.kind is SessionKind.PREVIEW:\n        return [_ended",
        "if False:\n        return [_ended",
        by(pace.test_a_preview_changes_nothing, Rendezvous.ALL),
    ),
    "without read points it differs": (
        repair_steps,
        "    if _blind(row):\n        return [_inconclusive(row)]\n    finer = ",
        "    finer = ",
        by(compare.test_a_difference_without_read_point_is_inconclusive),
    ),
    "without read points it still differs": (
        repair_steps,
        "    if _blind(row):\n        return [_inconclusive(row)]\n    if row.cuts",
        "    if row.cuts",
        by(compare.test_a_read_point_that_is_not_to_be_had_at_the_recheck_leaves_it_inconclusive),
    ),
    "nothing is looked at again": (
        repair_steps,
        "if row.cuts == row.former_cuts:",
        "if True:",
        by(compare.test_a_difference_that_is_gone_at_the_recheck_is_transient_and_not_counted),
    ),
    "the same is read twice": (
        repair_steps,
        "if row.cuts == row.former_cuts:",
        "if False:",
        by(compare.test_what_is_read_at_the_same_read_points_is_not_read_again),
    ),
    "leaves are refined although most differ": (
        repair_steps,
        "is_much and is_few",
        "is_much and bool(is_few + 1)",
        by(compare.test_where_most_leaves_differ_no_finer_ones_are_asked_for),
    ),
    "leaves are never refined": (
        repair_steps,
        "if _pays(row) and finer > row.step.bits:",
        "if False:",
        by(compare.test_leaves_of_many_rows_are_refined_as_long_as_it_pays, "LEAF_ROWS"),
    ),
    "any number of rows is compared": (
        repair_steps,
        "* len(present(row)) > DIGESTS_MAX:\n        told",
        "> 1 << 60:\n        told",
        by(compare.test_where_too_many_rows_differ_a_full_copy_is_offered),
    ),
    "only what differs is counted, and not what is asked for with it": (
        repair_steps,
        "-(-pair.rows * cells(ranges) // cells(pair.ranges))",
        "pair.rows",
        by(compare.test_all_rows_that_would_be_sent_count_and_not_those_that_differ),
    ),
    "a hot key is a full copy": (
        repair_steps,
        "(is_much and is_few) or is_hot",
        "is_much and is_few",
        by(compare.test_very_many_rows_of_one_token_are_told_as_such),
    ),
    "leaves that differ without rows are equal": (
        repair_steps,
        "if not row.found.rows and purpose is Purpose.COMPARE:",
        "if False:",
        by(compare.test_leaves_that_differ_and_rows_that_do_not_are_no_comparison),
    ),
    "a retry has the attempt it had": (
        repair_steps,
        "attempt = tasks[name].attempt + 1 if name in tasks else 1",
        "attempt = 1",
        by(failures.test_a_tree_that_does_not_come_is_asked_for_again_and_then_given_up),
    ),
    "there is one retry more": (
        repair_steps,
        "task.attempt <= session.definition.retries",
        "task.attempt <= session.definition.retries + 1",
        by(failures.test_a_task_is_asked_for_as_often_as_the_session_says),
    ),
    "what is corrupt is read again": (
        repair_steps,
        "task.code in RETRYABLE and not is_down",
        "not is_down",
        by(failures.test_a_tree_that_cannot_be_read_fails_the_session_with_its_code, "CORRUPT"),
    ),
    "sequential asks all": (
        repair_turns,
        '    if order is Order.SEQUENTIAL:\n        return ""\n',
        "",
        by(sessions.test_so_many_scan_at_a_time, Order.SEQUENTIAL, 1),
    ),
    "a replica has several tasks at a time": (
        repair_steps,
        "replica_key(session.definition.table, name) not in occupied",
        "True",
        by(turns.test_a_segment_behind_a_slow_scan_waits_without_a_deadline),
    ),
    "each segment has turns of its own": (
        repair_turns,
        "for row in running(state, owner)",
        "for row in running(state, owner)[-1:]",
        by(turns.test_one_scans_at_a_time_in_all_segments_together, Order.SEQUENTIAL, 1),
    ),
    "what is done at one time counts for each": (
        repair_turns,
        "max(spent.values(), default=0)",
        "sum(spent.values())",
        by(schedule.test_what_replicas_do_at_one_time_counts_once, Order.PARALLEL, 20),
    ),
    "datacenters wait for each other": (
        repair_turns,
        'return f"datacenter {declared.definition.datacenter}" if declared else ""',
        'return ""',
        by(sessions.test_so_many_scan_at_a_time, Order.DATACENTER_PARALLEL, 2),
    ),
    "who is withdrawn is waited for": (
        repair_steps,
        "if replica(state, session.definition.table, task.replica) is None:",
        "if False:",
        by(failures.test_a_replica_that_is_withdrawn_is_not_waited_for),
    ),
    "a repair goes on without a replica": (
        repair_steps,
        "session.definition.allow_partial and session.definition.kind is SessionKind.PREVIEW",
        "session.definition.allow_partial",
        by(failures.test_a_replica_that_is_down_fails_a_repair_before_any_tree),
    ),
    "read points may be lost without end": (
        repair_steps,
        "if code == CUT_LOST and row.restarts < session.definition.retries:",
        "if code == CUT_LOST:",
        by(compare.test_a_read_point_that_is_lost_again_and_again_ends_it),
    ),
    "a copy that fails ends the others": (
        repair_steps,
        "return len(_done(row)) + len(lost) < len(asked(row)) or bool(_done(row))",
        "return bool(_done(row))",
        by(copies.test_another_copy_is_tried_again_although_one_has_failed_for_good),
    ),
    "a source that cannot send ends what others have sent": (
        repair_steps,
        "return len(_done(row)) + len(lost) < len(asked(row)) or bool(_done(row))",
        "return len(_done(row)) + len(lost) < len(asked(row))",
        by(copies.test_what_others_have_sent_is_written_although_one_source_cannot_send),
    ),
    "whoever has sent nothing is waited for by its targets": (
        repair_steps,
        "if copy.source not in unsent]",
        "]",
        by(copies.test_what_others_have_sent_is_written_although_one_source_cannot_send),
    ),
    "one mode's tokens are another's": (
        repair_sessions,
        'if definition.tokens not in ("", tokens) and definition.ranges != (FULL,):',
        "if False:",
        by(sessions.test_what_a_preview_has_found_by_other_tokens_is_not_repaired),
    ),
    "a node's tokens are those of when it was asked": (
        repair_sessions,
        "_named(state, _placed(state, row.definition))",
        "row.definition",
        by(sessions.test_a_queued_session_of_a_node_takes_what_that_is_to_hold_when_it_begins),
    ),
    "what fails as a whole is halved": (
        repair_steps,
        "and code not in _WHOLE",
        "",
        by(failures.test_two_trees_for_one_attempt_end_the_session),
    ),
    "segments are halved without end": (
        repair_steps,
        "or session.segments + len(halves) > SEGMENTS_MAX",
        "",
        by(copies.test_a_session_has_only_so_many_segments_with_those_that_come_from_halving),
    ),
    "the rendezvous has one wait for all pairs": (
        repair_steps,
        "/compare/{len(row.pairs)}",
        "/compare/",
        by(copies.test_a_rendezvous_that_is_slow_is_waited_for_while_it_moves),
    ),
    "the rendezvous is waited for without end": (
        repair_steps,
        "    if _compare_key(row) not in passed:\n        return []\n",
        "    return []\n",
        by(copies.test_a_rendezvous_that_never_answers_is_given_up, TaskKind.LEAVES, Rendezvous.EARLY),
    ),
    "a pause stops what has failed only": (
        repair_steps,
        "if ended or stands_still(state, session):",
        "if ended:",
        by(pace.test_a_session_that_is_paused_finishes_its_tasks_and_begins_nothing),
    ),
    # Sessions.
    "an abort is a success": (
        repair_sessions,
        'concluded(state, row, SessionStatus.ABORTED, "ABORTED"',
        'concluded(state, row, SessionStatus.SUCCEEDED, "ABORTED"',
        by(pace.test_an_abort_is_no_success_and_nothing_is_written_after_it, TaskKind.LEAVES),
    ),
    "an end may be aborted": (
        repair_sessions,
        '    if row.status.is_end:\n        raise Refused("SESSION_ENDED"',
        '    if False:\n        raise Refused("SESSION_ENDED"',
        by(pace.test_an_abort_after_the_end_is_refused),
    ),
    "what failed is covered": (
        repair_sessions,
        "for each in without(part.ranges, part.left)",
        "for each in part.ranges",
        by(copies.test_a_segment_that_fails_is_halved_until_what_is_bad_is_alone),
    ),
    "what is halved is covered": (
        repair_sessions,
        "part.status.is_end and part.status is not SegmentStatus.HALVED",
        "part.status.is_end",
        by(copies.test_a_segment_that_fails_is_halved_until_what_is_bad_is_alone),
    ),
    "without a replica it is a success": (
        repair_sessions,
        "if left or any(each.absent for each in parts):",
        "if left:",
        by(failures.test_a_preview_may_go_on_without_replicas_that_are_down),
    ),
    "what touches overlaps": (
        repair_sessions,
        "or overlap(row.definition.ranges, definition.ranges))",
        "or any(a.start <= b.end and b.start <= a.end for a in row.definition.ranges for b in definition.ranges))",
        by(sessions.test_others_run_at_once),
    ),
    "repairs overlap": (
        repair_sessions,
        "or overlap(row.definition.ranges, definition.ranges))",
        "or False)",
        by(sessions.test_repairs_of_the_same_tokens_do_not_run_at_once),
    ),
    "the queue is not kept in order": (
        repair_sessions,
        "and (before is None or row.number < before)",
        "and (before is None or row.status is SessionStatus.RUNNING)",
        by(sessions.test_the_queue_is_kept_in_order),
    ),
    "a queued session is of its own time": (
        repair_sessions,
        "max(definition.reviewed_at_ms, at_ms)",
        "definition.reviewed_at_ms",
        by(sessions.test_a_queued_session_reviews_what_is_forgotten_when_it_begins),
    ),
    "what is inconclusive differs": (
        repair_sessions,
        "in (SegmentStatus.EQUAL, SegmentStatus.INCONCLUSIVE)",
        "is SegmentStatus.EQUAL",
        by(compare.test_a_difference_without_read_point_is_inconclusive),
    ),
    "an end says all that it has": (
        repair_sessions,
        "coarsened(without(asked, _covered(parts)), RANGES_MAX, asked)",
        "without(asked, _covered(parts))",
        by(sizes.test_an_end_of_very_many_pieces_is_told_as_fewer_that_are_no_less),
    ),
    "a session may be of any size": (
        repair_sessions,
        "    _check_size(begun)\n",
        "",
        by(sizes.test_a_session_that_would_not_fit_is_refused),
    ),
    "placements are not looked at": (
        repair_spec,
        "if not definition.node and (len(placed) > 1 or any(set(names) != holders for names in placed)):",
        "if False:",
        by(sessions.test_a_range_of_two_placements_is_refused),
    ),
    "other columns are compared": (
        repair_spec,
        "if others or columns is None:",
        "if columns is None:",
        by(pace.test_a_key_that_is_another_is_a_mismatch_of_schemas),
    ),
    "names are counted in characters": (
        replicas,
        "len(definition.name.encode())",
        "len(definition.name)",
        by(pace.test_a_replica_that_cannot_be_right_is_refused, {"name": "ä" * 21}),
    ),
    # Pace, schedules, and what is kept.
    "there is no rest": (
        repair,
        " or _rests(row, passed)",
        "",
        by(schedule.test_behind_work_there_is_a_pause_in_proportion, 50, 20),
    ),
    "a rest takes the place of the one before": (
        events,
        "row.worked_ms + ended.worked_ms",
        "ended.worked_ms",
        by(schedule.test_segments_that_end_one_after_the_other_add_up_their_pauses),
    ),
    "all segments run at once": (
        repair,
        "len(row.running) >= row.definition.parallel",
        "False",
        by(pace.test_segments_run_so_many_at_a_time),
    ),
    "a paused session leaves the queue": (
        repair,
        "return [] if stands_still(state, row) else repair_sessions.from_queue(state, row, at_ms)",
        "return repair_sessions.from_queue(state, row, at_ms)",
        by(sessions.test_a_queued_session_that_is_paused_does_not_begin),
    ),
    "a schedule runs twice at once": (
        schedules,
        "if before is not None and any(",
        "if before is None and any(",
        by(schedule.test_a_schedule_whose_session_has_not_ended_is_postponed),
    ),
    "a schedule has no limit": (
        schedules,
        "        repair_sessions.check_room(state)\n",
        "",
        by(schedule.test_a_schedule_says_that_there_is_no_room),
    ),
    "the oldest sessions are forgotten first": (
        events,
        "(each.ended_at, key) for key",
        "(key, key) for key",
        by(pace.test_a_long_session_that_ends_is_not_forgotten_for_being_old),
    ),
    "what was found is kept when all begins anew": (
        events,
        "found=None, found_in=0, ",
        "",
        by(pace.test_what_was_found_before_it_began_anew_is_not_counted),
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_caught(name: str) -> None:
    module, right, wrong, caught = DEFECTS[name]
    with pytest.MonkeyPatch.context() as patch:
        caught(patch)
    with pytest.MonkeyPatch.context() as patch:
        break_(patch, module, right, wrong)
        with pytest.MonkeyPatch.context() as inner, pytest.raises((AssertionError, KeyError, ValueError, Undecodable)):
            caught(inner)


def break_(patch: pytest.MonkeyPatch, module: ModuleType, right: str, wrong: str) -> None:
    """Give the module's functions the code that they would have with this text in the place of that."""
    text = inspect.getsource(module)
    assert text.count(right) == 1, f"{right!r} is there {text.count(right)} times"
    broken = compile(text.replace(right, wrong), inspect.getfile(module), "exec")
    for code in functions(broken):
        function = getattr(module, code.co_name, None)
        if isinstance(function, FunctionType) and function.__module__ == module.__name__:
            patch.setattr(function, "__code__", code)


def functions(code: types.CodeType) -> Iterator[types.CodeType]:
    """Those at the top of a module."""
    return (each for each in code.co_consts if isinstance(each, types.CodeType))
