"""Whatever is reported, by whomever and whenever: one outcome, no assertion, and a session that still ends (RE6)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.streams.rules.repairing import (
    PREVIEW,
    PULL,
    TABLE,
    UNION,
    World,
    at_leaves,
    changed,
    definition,
    rows,
    three,
)

from topolog.events import repair_requests as rr
from topolog.events.repair import SessionEnded
from topolog.events.repair_definition import Order, Policy, Rendezvous, SessionDefinition, SessionKind
from topolog.events.repair_tasks import Copy, Findings, Pair, Result, TaskId, TaskKind
from topolog.events.replica import Cut
from topolog.events.requests import Status
from topolog.events.sessions import SessionStatus
from topolog.events.token_range import FULL, RING, TokenRange
from topolog.events.tree_spec import Column, Strength, TokenMode
from topolog.streams.rules.repair_reports import COUNT_MAX

NUMBERS = st.sampled_from((0, 1, 2, 40, -1, COUNT_MAX, COUNT_MAX + 1, (1 << 63) - 1, -(1 << 63)))
SMALL = st.integers(-1, 4)
NAMES = st.sampled_from(("R1", "R2", "R3", "R9", "", "n" * 3_000))
TEXTS = st.sampled_from(("", "IO", "STALLED", "CUT_LOST", "CORRUPT", "TREE_CONFLICT", "DEADLINE", "x" * 3_000, "\0é"))
DIGESTS = st.sampled_from((b"", bytes(32), b"\1" * 32, b"\2" * 31, bytes(4_000)))
EDGES = st.sampled_from((0, 1, 1 << 24, 1 << 25, RING // 2, RING - 1, RING))
RANGES = st.lists(
    st.tuples(EDGES, EDGES).filter(lambda ends: ends[0] < ends[1]).map(lambda ends: TokenRange(*ends)), max_size=3
).map(tuple)
CUTS = st.none() | st.builds(Cut, TEXTS, DIGESTS)
RESULTS = st.builds(Result, CUTS, DIGESTS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
PAIRS = st.builds(Pair, NAMES, NAMES, RANGES, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
COUNTS = st.dictionaries(TEXTS, NUMBERS, max_size=3)
COPIES = st.lists(st.builds(Copy, NAMES, NAMES, NUMBERS, NUMBERS), max_size=3).map(tuple)
FINDINGS = st.builds(Findings, NUMBERS, RANGES, COUNTS, COPIES, COUNTS, NUMBERS, DIGESTS, NUMBERS)
STAGES = [*list(TaskKind)[1:], None]


def at_stage(kind: TaskKind | None) -> tuple[World, int]:
    """A repair that is in the middle of this step; None: it has ended."""
    world = three(R2=changed(), R3=changed(9))
    number = world.open(UNION, retries=1)
    if kind is None:
        world.run()
    else:
        world.run_to(kind, number)
    return world, number


def somebody(draw: Any, world: World, number: int) -> TaskId:
    """A task that is asked for, or one that is almost that."""
    open_ = [TaskId(number, 0, 1, "R1", 1)]  # type: ignore[arg-type]
    if not world.session(number).status.is_end:
        open_ += [world.task(task.replica, number) for task in world.segment(number).tasks]
    task: TaskId = draw(st.sampled_from(open_))
    wild = {"session": NUMBERS, "segment": SMALL, "step": SMALL, "replica": NAMES, "attempt": SMALL}
    names = draw(st.lists(st.sampled_from(sorted(wild)), max_size=1))
    return msgspec.structs.replace(task, **{name: draw(wild[name]) for name in names})


def hostile(draw: Any, world: World, number: int) -> tuple[type, list[Any]]:
    """One report, as somebody might make it who means no good."""
    task = somebody(draw, world, number)
    kind = draw(st.sampled_from((rr.TaskReported, rr.ComparisonReported, rr.FindingsReported)))
    if kind is rr.TaskReported:
        server = world.servers.get(task.replica)
        life = draw(st.sampled_from((server.life if server else 1, 0)))
        return kind, [task, life, draw(NUMBERS), draw(NUMBERS), draw(TEXTS), draw(TEXTS), draw(st.none() | RESULTS)]
    attempts = tuple(somebody(draw, world, number) for _ in range(draw(st.integers(0, 3))))
    content = draw(PAIRS if kind is rr.ComparisonReported else FINDINGS)
    return kind, [task.session, task.segment, task.step, attempts, content]


@pytest.mark.parametrize("kind", STAGES)
@settings(max_examples=12)
@given(st.data())
def test_any_report_has_one_outcome_and_breaks_nothing(kind: TaskKind | None, data: st.DataObject) -> None:
    """RE6; K7."""
    world, number = at_stage(kind)
    for _ in range(data.draw(st.integers(1, 4))):
        type_, fields = hostile(data.draw, world, number)
        outcome = world.ask(type_, *fields)
        assert outcome.status in (Status.GRANTED, Status.UNCHANGED, Status.REFUSED)
        assert len(world.core.state.hash()) == 16
    end(world, number)
    assert len(world.events(SessionEnded)) == 1


def end(world: World, number: int) -> None:
    """Everybody works, and what still does not come is given up."""
    for _ in range(60):
        world.run()
        if world.session(number).status.is_end:
            return
        world.expire("task/")
    raise AssertionError("it never ends")


def test_counts_that_cannot_be_summed_up_are_refused() -> None:
    """A segment's sums stay numbers of 64 bits, whatever is reported."""
    world = three()
    number = at_leaves(world)
    tree = Result(digest=bytes(32), pages=1, rows=COUNT_MAX, bytes=COUNT_MAX)
    assert world.report(world.task("R1", number), result=tree).status is Status.GRANTED
    assert world.report(world.task("R2", number), result=tree).code == "BAD_REPORT"


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": b""},
        {"digest": bytes(31)},
        {"pages": -1},
        {"rows": -1},
        {"bytes": -1},
        {"skipped": -1},
        {"worked_ms": -1},
        {"worked_ms": COUNT_MAX + 1},
        {"cut": Cut("other", bytes(8))},
    ],
)
def test_a_result_that_cannot_be_right_is_refused(changes: dict[str, Any]) -> None:
    """A read point comes from PREPARE alone: a tree that brings another one is none of this comparison."""
    world = three()
    number = at_leaves(world)
    tree = msgspec.structs.replace(Result(digest=bytes(32), pages=1), **changes)
    assert world.report(world.task("R1", number), result=tree).code == "BAD_REPORT"
    assert world.assigned(number) == ["R1", "R2", "R3"]


def compared() -> tuple[World, int, list[Any]]:
    """All trees are in; the fields of a report on R1 and R2."""
    world = three()
    number = at_leaves(world, ranges=(TokenRange(0, RING // 2),))
    world.rendezvous.is_down = True
    world.run()
    both = (world.task("R1", number), world.task("R2", number))
    return world, number, [number, 0, 2, both, Pair("R1", "R2", (TokenRange(0, 1 << 24),), 1, 9, 3, 3)]


@pytest.mark.parametrize(
    "changes",
    [
        {"ranges": ()},
        {"ranges": (FULL,)},
        {"ranges": (TokenRange(RING // 2, RING // 2 + 1),)},
        {"ranges": (TokenRange(5, 9), TokenRange(1, 3))},
        {"ranges": (TokenRange(1, 3), TokenRange(2, 4))},
        {"ranges": (TokenRange(1, 3), TokenRange(3, 4))},
        {"leaves": 0},
        {"leaves": -1},
        {"leaves": 10},
        {"rows": -1},
        {"rows": COUNT_MAX + 1},
        {"leaf_rows_max": 4},
        {"leaf_rows_max": -1},
        {"leaves_compared": RING + 1},
    ],
)
def test_a_comparison_that_cannot_be_right_is_refused(changes: dict[str, Any]) -> None:
    """RE12, CASSANDRA-13052: no range lies outside of what was asked for."""
    world, _, fields = compared()
    wrong = msgspec.structs.replace(fields[-1], **changes)
    assert world.ask(rr.ComparisonReported, *fields[:-1], wrong).code == "BAD_REPORT"
    assert world.ask(rr.ComparisonReported, *fields).status is Status.GRANTED


def test_a_comparison_of_other_trees_than_it_names_is_late() -> None:
    """RE6: what was compared are the answers in the log of just the two that it speaks of."""
    world, number, (*place, both, pair) = compared()
    left, right = both
    third = world.task("R3", number)
    wrongs: list[tuple[TaskId, ...]] = [
        (),
        (left,),
        (left, left),
        (left, third),
        (left, right, third),
        (left, msgspec.structs.replace(right, attempt=2)),
        (left, msgspec.structs.replace(right, session=1)),
        (left, msgspec.structs.replace(right, segment=1)),
        (left, msgspec.structs.replace(right, step=1)),
    ]
    for wrong in wrongs:
        assert world.ask(rr.ComparisonReported, *place, wrong, pair).code == "LATE_FACT"
    (session, segment, step) = place
    assert world.ask(rr.ComparisonReported, session, segment, step - 1, both, pair).code == "LATE_FACT"
    turned = msgspec.structs.replace(pair, left="R2", right="R1")
    assert world.ask(rr.ComparisonReported, *place, both, turned).code == "BAD_REPORT"
    assert world.ask(rr.ComparisonReported, *place, (right, left), pair).status is Status.GRANTED


def found(asked: SessionDefinition = PULL) -> tuple[World, list[Any]]:
    """All digests are in; the fields of a report on them, in which R2 differs."""
    world = three(R2=changed())
    number = world.open(asked)
    world.run_to(TaskKind.DIGESTS, number)
    world.rendezvous.is_down = True
    world.run()
    step = world.segment(number).step
    assert step is not None
    (whole,) = step.ranges
    all_ = tuple(world.task(name, number) for name in ("R1", "R2", "R3"))
    ranges = (TokenRange(whole.start, whole.start + 1),)
    findings = Findings(1, ranges, {"CHANGED": 1}, (Copy("R1", "R2", 1),), {}, 1, bytes(32))
    return world, [number, 0, 3, all_, findings]


@pytest.mark.parametrize(
    "changes",
    [
        {"ranges": ()},
        {"ranges": (FULL,)},
        {"rows": 0},
        {"rows": -1},
        {"rows": COUNT_MAX + 1},
        {"pages": -1},
        {"gone": 1},
        {"gone": -1},
        {"digest": b""},
        {"kinds": {"CHANGED": -1}},
        {"kinds": {"C" * 41: 1}},
        {"kinds": {f"{number}": 1 for number in range(41)}},
        {"copies": (Copy("R1", "R1", 1),)},
        {"copies": (Copy("R2", "R3", 1),)},
        {"copies": (Copy("R1", "R9", 1),)},
        {"copies": (Copy("R1", "R2", 0),)},
        {"copies": (Copy("R1", "R2", -1),)},
        {"copies": (Copy("R1", "R2", 1, 2),)},
        {"copies": (Copy("R1", "R2", 1, 1),)},
        {"copies": (Copy("R1", "R2", 1), Copy("R1", "R2", 2))},
    ],
)
def test_findings_that_cannot_be_right_are_refused(changes: dict[str, Any]) -> None:
    """RE2: whoever plans the copies, the session's policy says which there may be."""
    world, fields = found()
    wrong = msgspec.structs.replace(fields[-1], **changes)
    assert world.ask(rr.FindingsReported, *fields[:-1], wrong).code == "BAD_REPORT"
    assert world.ask(rr.FindingsReported, *fields).status is Status.GRANTED


def test_a_report_of_copies_to_a_session_that_only_reports_is_refused() -> None:
    """RE2: REPORT moves nothing."""
    world, fields = found(PREVIEW)
    assert world.ask(rr.FindingsReported, *fields).code == "BAD_REPORT"


def test_findings_without_one_of_the_replicas_are_late() -> None:
    """RE6: a replica that was not compared is not one that lacks all."""
    world, (*place, all_, findings) = found()
    assert world.ask(rr.FindingsReported, *place, all_[:2], findings).code == "LATE_FACT"
    assert world.ask(rr.FindingsReported, *place, (), findings).code == "LATE_FACT"


def test_a_recheck_neither_finds_more_rows_nor_forgets_any() -> None:
    """RE20: what was found before lasts or is gone."""
    world, fields = found()
    world.ask(rr.FindingsReported, *fields)
    world.table("R3").put(rows()[3] | {"note": "so that there is a new read point"})  # type: ignore[operator]
    number = fields[0]
    world.run()
    step = world.segment(number).step
    assert step is not None
    assert step.kind is TaskKind.DIGESTS
    all_ = tuple(world.task(name, number) for name in ("R1", "R2", "R3"))
    place, (*_, before) = [number, 0, step.number, all_], fields
    for rows_, gone in ((1, 1), (0, 0), (2, -1), (0, 2)):
        ranges = before.ranges if rows_ else ()
        wrong = msgspec.structs.replace(before, rows=rows_, gone=gone, ranges=ranges)
        assert world.ask(rr.FindingsReported, *place, wrong).code == "BAD_REPORT"
    right = msgspec.structs.replace(before, rows=0, gone=1, ranges=(), copies=(), kinds={})
    assert world.ask(rr.FindingsReported, *place, right).status is Status.GRANTED
    assert world.session(number).status is SessionStatus.SUCCEEDED


WILD = {
    "table": st.sampled_from((TABLE, "", "none", "t" * 3_000)),
    "kind": st.sampled_from(SessionKind),
    "policy": st.sampled_from(Policy),
    "source": NAMES,
    "version_column": st.sampled_from(("", "at", "none")),
    "tombstone_column": st.sampled_from(("", "gone", "none")),
    "grace_ms": NUMBERS,
    "reviewed_at_ms": NUMBERS,
    "deletes_extra": st.booleans(),
    "replicas": st.lists(NAMES, max_size=3).map(tuple),
    "node": NAMES,
    "initiator": NAMES,
    "datacenter": st.sampled_from(("", "east")),
    "ranges": RANGES,
    "columns": st.lists(st.sampled_from(("id", "note", "none")), max_size=3).map(tuple),
    "ignored": st.lists(st.sampled_from(("id", "note", "none")), max_size=3).map(tuple),
    "mode": st.sampled_from(TokenMode),
    "strength": st.sampled_from(Strength),
    "bits": NUMBERS,
    "order": st.sampled_from(Order),
    "rendezvous": st.sampled_from(Rendezvous),
    "segments": NUMBERS,
    "parallel": NUMBERS,
    "intensity": NUMBERS,
    "retries": NUMBERS,
    "halves": st.booleans(),
    "allow_partial": st.booleans(),
    "queues": st.booleans(),
    "preview": st.none() | NUMBERS,
    "stall_ms": NUMBERS,
    "deadline_ms": st.none() | NUMBERS,
}


@pytest.mark.parametrize("base", [PREVIEW, PULL, UNION])
@settings(max_examples=60)
@given(changes=st.fixed_dictionaries({}, optional=WILD), is_scheduled=st.booleans())
def test_any_session_that_is_asked_for_has_one_outcome(
    base: SessionDefinition, changes: dict[str, Any], is_scheduled: bool
) -> None:
    """K7: also those that a schedule asks for; what is granted comes to an end."""
    world = three(R2=changed())
    asked = msgspec.structs.replace(base, **changes)
    if is_scheduled:
        outcome = world.ask(rr.ScheduleRequested, "nightly", asked, 1_000, False)
    else:
        outcome = world.ask(rr.SessionRequested, asked)
    assert outcome.status in (Status.GRANTED, Status.REFUSED)
    if is_scheduled and outcome.status is Status.GRANTED:
        world.expire("schedule/")
        world.ask(rr.ScheduleDropRequested, "nightly")
    for number in world.open_sessions():
        world.ask(rr.SessionAlterationRequested, number, intensity=100)
        end(world, number)


@pytest.mark.parametrize("columns_max", [1, 2, 3])
@settings(max_examples=34)
@given(st.data())
def test_any_replica_that_is_declared_has_one_outcome(columns_max: int, data: st.DataObject) -> None:
    """K7: and a session that compares it has an end, or is refused."""
    wild: dict[str, st.SearchStrategy[Any]] = {
        "name": NAMES,
        "columns": st.lists(st.builds(Column, TEXTS, TEXTS), max_size=columns_max).map(tuple),
        "key": st.lists(TEXTS, max_size=2).map(tuple),
        "datacenter": TEXTS,
        "ranges": RANGES,
        "rows": NUMBERS,
        "row_bytes": NUMBERS,
        "boundaries": st.lists(TEXTS, max_size=3).map(tuple),
    }
    changes = data.draw(st.fixed_dictionaries({}, optional=wild))
    world = three()
    declared = msgspec.structs.replace(definition("R2"), **changes)
    world.ask(rr.ReplicaDeclarationRequested, declared, world.servers["R2"].life)
    assert world.ask(rr.SessionRequested, PREVIEW).status in (Status.GRANTED, Status.REFUSED)
    for number in world.open_sessions():
        end(world, number)
