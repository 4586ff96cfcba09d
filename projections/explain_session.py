"""Why a session of anti-entropy is where it is: what it waits for and until when, why it ended so, what it covers."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from topolog.events.ids import Position
from topolog.events.repair import SessionAltered
from topolog.events.repair_definition import SessionKind
from topolog.events.repair_tasks import Purpose, TaskKind
from topolog.events.sessions import SegmentRow, SegmentStatus, SessionRow, SessionStatus, session_key
from topolog.events.token_range import overlap
from topolog.projections import differences, sessions
from topolog.projections.durations import ago
from topolog.projections.explain import last_causes, with_next
from topolog.projections.explain_words import LEFT_ALONE, REMEDIES, rows
from topolog.projections.layout import Decided
from topolog.projections.repair_resources import Session, SessionTask
from topolog.projections.resources import Awaited, Explanation
from topolog.projections.sentences import listed
from topolog.projections.session_totals import segments_of
from topolog.projections.store import Reading

_ALTERED_MAX = 5
_SEGMENTS_MAX = 8


def explain_session(reading: Reading, name: str) -> Explanation:
    """What it compares; whom it waits for, how far they are and when they are given up; how it ended, and of which
    tokens that is true."""
    row = sessions.surely(reading, name)
    found = sessions.session(reading, name)
    segments = segments_of(reading, row)
    facts = {
        **dict(_asked(found)),
        **dict(_waits(found)),
        **dict(_found(found)),
        **dict(_kept(reading, found, segments)),
        **dict(_segments(segments)),
        **dict(_ended(found)),
        **dict(_next(found)),
    }
    sentence = f"Session {row.number} ({_does(found)}) {_state(reading, row, found)}"
    explained = Explanation(sentence, facts, last_causes(_decisions(reading, row)), _awaited(reading, row, found))
    return with_next(explained, f"topolog get trees --session {row.number}", f"topolog history session {row.number}")


def _does(found: Session) -> str:
    """`preview of orders`, `repair of orders by PULL from R1`."""
    way = f" by {found.policy}" if found.kind == SessionKind.REPAIR.value else ""
    source = f" from {found.source}" if way and found.source else ""
    return f"{found.kind.lower()} of {found.table}{way}{source}"


def _state(reading: Reading, row: SessionRow, found: Session) -> str:
    match row.status:
        case SessionStatus.QUEUED:
            return f"waits {ago(found.age_ms)} {_behind(reading, row)}."
        case SessionStatus.RUNNING:
            return f"{_running(found)}."
        case _:
            return f"{_ENDS[row.status].format(ago(found.age_ms))}{_why(found)}"


_ENDS: Mapping[SessionStatus, str] = {
    SessionStatus.SUCCEEDED: "succeeded after {0}",
    SessionStatus.PARTIAL: "ended after {0} and is true of a part only",
    SessionStatus.FAILED: "failed after {0}",
    SessionStatus.ABORTED: "was aborted after {0}",
    SessionStatus.EXPIRED: "was over its deadline after {0}",
    SessionStatus.SKIPPED: "compared nothing",
}


def _why(found: Session) -> str:
    code = f" ({found.code})" if found.code and found.code != found.state else ""
    message = f": {found.message}" if found.message else ""
    said = f"{code}{message}"
    words = _VERDICTS.get(found.verdict or "", "")
    if found.verdict == "DIFFER" and found.kind == SessionKind.REPAIR.value:
        words = "The replicas still differ; {0.rows_written} of {0.to_copy} copies were written."
    if found.verdict == "DIFFER" and not found.rows_differ:
        words = "The replicas differ in whole leaves, whose rows were not looked at."
    told = words.format(found, differ=rows(found.rows_differ), written=rows(found.rows_written))
    verdict = f" {told}" if words else ""
    return f"{said}{'' if said.endswith('.') else '.'}{verdict}"


_VERDICTS: Mapping[str, str] = {
    "AGREE": "The replicas agree.",
    "DIFFER": "The replicas differ: {differ}.",
    "REPAIRED": "The replicas agree now: {written} written.",
    "INCONCLUSIVE": "The replicas differ, but a replica had no read point: rows may have changed in between.",
}


def _behind(reading: Reading, row: SessionRow) -> str:
    """The repairs of some of its tokens that come first (RE27)."""
    ahead = [
        f"session {each.number}"
        for each in sessions.opened(reading)
        if each.number < row.number
        and each.definition.table == row.definition.table
        and each.definition.kind is SessionKind.REPAIR
        and overlap(each.definition.ranges, row.definition.ranges)
    ]
    return f"behind {listed(ahead)}, which repairs some of its tokens" if ahead else "for its turn, which has come"


def _running(found: Session) -> str:
    awaited = [each for each in found.tasks if each.state == "ASSIGNED"]
    paused = "is paused" if found.paused else ""
    if awaited:
        whom = listed([_task_in_words(each) for each in awaited], 3)
        waits = f"waits for {whom}"
        return f"{paused}, and {waits}" if paused else waits
    if paused:
        return f"{paused}: no segment begins until it is resumed"
    rests = [each for each in found.tasks if each.state == "FAILED"]
    if rests:
        return f"waits a moment before {listed([_again_in_words(each) for each in rests], 3)}"
    if any(each.kind in ("LEAVES", "DIGESTS") and each.state == "RUNNING" for each in found.parts):
        return "waits for the rendezvous to compare what is in"
    if found.intensity < 100 and found.segments_done < found.segments:
        return f"rests: it works {found.intensity} % of the time, and {_left_over(found)}"
    return f"goes on: {_left_over(found)}"


def _left_over(found: Session) -> str:
    return f"{found.segments_done} of {found.segments} segments have ended"


_TASKS: Mapping[str, str] = {
    TaskKind.PREPARE.value: "to fix a read point",
    TaskKind.LEAVES.value: "to send its tree",
    TaskKind.DIGESTS.value: "to send the digests of rows",
    TaskKind.SEND.value: "to send rows that others lack",
    TaskKind.WRITE.value: "to write rows",
}
_PURPOSES: Mapping[str, str] = {
    Purpose.RECHECK.value: ", to see if differences last",
    Purpose.VERIFY.value: ", to see if what was written is equal",
}


def _task_in_words(task: SessionTask) -> str:
    far = f", {task.percent} % of about {task.rows_expected} rows" if task.percent is not None else ""
    attempt = f", attempt {task.attempt}" if task.attempt > 1 else ""
    return f"{task.replica} {_TASKS.get(task.kind, '')}{_PURPOSES.get(task.purpose, '')}{far}{attempt}"


def _again_in_words(task: SessionTask) -> str:
    return f"{task.replica} is asked again {_TASKS.get(task.kind, '')} ({task.code}: {task.message})"


def _asked(found: Session) -> Iterator[tuple[str, str]]:
    who = f" by {found.actor}" if found.actor else ""
    schedule = f" by schedule {found.schedule}" if found.schedule else ""
    why = f": {found.reason}" if found.reason else ""
    yield "asked for", f"{found.time}{who}{schedule}{why}"
    yield "compares", f"{listed(found.replicas, 16) or 'nothing'}, tokens {listed(found.ranges, 4)}"
    if found.preview is not None:
        yield "rests on", f"what preview {found.preview} has found to differ"


def _waits(found: Session) -> Iterator[tuple[str, str]]:
    for task in found.tasks:
        if task.state == "ASSIGNED" and task.silent_ms is not None and task.at_most_ms is not None:
            about = f"segment {task.segment}: {task.replica}"
            rest = f", done in about {ago(task.eta_ms)}" if task.eta_ms is not None else ""
            yield (
                about,
                f"came further {ago(task.silent_ms)} ago, is given up in {ago(task.at_most_ms)} unless it does{rest}",
            )
        if task.state == "FAILED":
            yield f"segment {task.segment}: {task.replica} failed", f"{task.code}: {task.message}"


def _found(found: Session) -> Iterator[tuple[str, str]]:
    if found.rows_read:
        yield "read", f"{found.rows_read} rows, {found.bytes_read} bytes"
    if found.rows_differ:
        kinds = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items())
        yield "rows that differ", f"{found.rows_differ}{f' ({kinds})' if kinds else ''}"
    if found.to_copy:
        deletes = f", {found.to_delete} of them deletions" if found.to_delete else ""
        yield "rows to copy", f"{found.to_copy} by {found.policy}{deletes}"
    for reason, count in found.unresolved.items():
        yield f"left alone: {reason}", f"{rows(count)}: {LEFT_ALONE.get(reason, 'a reason this version does not know')}"
    if found.gone:
        yield "no longer differed", f"{rows(found.gone)} when they were looked at again"
    if found.rows_written or found.skipped:
        skipped = f"; {found.skipped} had changed since they were compared, and were left" if found.skipped else ""
        yield "written", f"{rows(found.rows_written)}{skipped}"


def _kept(reading: Reading, found: Session, segments: Sequence[SegmentRow]) -> Iterator[tuple[str, str]]:
    if not found.rows_differ or not reading.is_current:
        return
    count = sum(len(differences.kept(reading, each)) for each in segments)
    if count:
        yield "their keys", f"{count} are kept: `topolog get differences --session {found.number}`"


def _segments(segments: Sequence[SegmentRow]) -> Iterator[tuple[str, str]]:
    said = [each for each in segments if each.code or each.message]
    for each in said[:_SEGMENTS_MAX]:
        message = f": {each.message}" if each.message else ""
        yield f"segment {each.index}", f"{each.status.value} ({each.code or 'no code'}){message}"
    if len(said) > _SEGMENTS_MAX:
        yield "further segments", f"{len(said) - _SEGMENTS_MAX} have something to say"
    halved = sum(each.status is SegmentStatus.HALVED for each in segments)
    if halved:
        yield "halved", f"{halved} segments failed, and two others stand in the place of each"


def _ended(found: Session) -> Iterator[tuple[str, str]]:
    verb = "is equal now" if found.kind == SessionKind.REPAIR.value else "was compared"
    yield "covers", f"{found.covered_percent} % of what was asked for {verb}: {listed(found.covered, 4) or 'nothing'}"
    if found.left:
        yield "does not cover", listed(found.left, 4)
    if found.code in REMEDIES:
        yield "what helps", REMEDIES[found.code]


def _next(found: Session) -> Iterator[tuple[str, str]]:
    number = found.number
    if found.ended_at is None:
        abort = f"`topolog repair abort {number}` ends it"
        turn = f"`topolog repair resume {number}`" if found.paused else f"`topolog repair pause {number}`"
        yield "next", f"{turn}; {abort}"
    elif found.kind == SessionKind.PREVIEW.value and found.differing:
        yield "next", f"`topolog repair plan {number}` shows what a repair would do"
    elif found.left:
        ranges = " ".join(f"--ranges {each}" for each in found.left[:2])
        yield "next", f"`topolog verify {found.table} {ranges}` looks at what is left"


def _awaited(reading: Reading, row: SessionRow, found: Session) -> tuple[Awaited, ...]:
    since = {
        (segment.index, task.replica): task.grown_at
        for segment in (() if row.status.is_end else segments_of(reading, row))
        for task in segment.tasks
    }
    return tuple(
        Awaited(task.replica, since[task.segment, task.replica], task.at_most_ms)
        for task in found.tasks
        if task.state == "ASSIGNED"
    )


def _decisions(reading: Reading, row: SessionRow) -> Sequence[Decided]:
    """Those that granted, opened, altered and ended it, newest first."""
    altered = [
        each.position
        for end, before, now in _turns(reading, row)
        if (before.paused, before.definition) != (now.paused, now.definition)
        for each in reading.decisions_of_set(end)
        if each.event_name == SessionAltered.__name__ and each.subject == f"session {row.number}"
    ]
    wanted = {row.number, row.opened_at, row.ended_at, *altered[:_ALTERED_MAX]}
    return [
        reading.surely_decision(each) for each in sorted((each for each in wanted if each is not None), reverse=True)
    ]


def _turns(reading: Reading, row: SessionRow) -> Iterator[tuple[Position, SessionRow, SessionRow]]:
    """Each set that has changed the session's row, with the row before and after it, newest first: of a session's
    decisions these are few, and the progress of its tasks is not among them."""
    versions = ((at, each) for at, each in reading.versions(SessionRow, session_key(row.number)) if each is not None)
    for (at, now), (_, before) in pairwise(versions):
        yield at, before, now
