"""The largest sessions there may be: each decision fits a record, and none takes long to make (RE28)."""

import time

import msgspec
from tests.unit.streams.rules.repairing import COLUMNS, PULL, World, definition

from topolog.events import repair_requests as rr
from topolog.events.repair import SessionEnded
from topolog.events.repair_tasks import RANGES_MAX, Findings, Pair, Result, TaskKind
from topolog.events.sessions import SessionStatus
from topolog.events.token_range import RING, Ranges, TokenRange, contains, union
from topolog.events.topics import RECORD_BYTES_MAX, Topic
from topolog.streams.rules import repair_spec

MANY = tuple(TokenRange(start, start + (1 << 19)) for start in range(0, RING, RING // RANGES_MAX))
NAMES = tuple(f"{number:02}{'n' * 38}" for number in range(16))


def largest(world: World) -> int:
    return max(len(entry.value) for entry in world.log.entries(Topic.DECISIONS))


def crowd(**changes: object) -> World:
    """Sixteen replicas with the longest names there may be."""
    return World({name: [] for name in NAMES}, **{name: definition(name, **changes) for name in NAMES})


def test_the_largest_session_fits_its_record() -> None:
    """1,024 segments of 16 replicas over 4,096 ranges."""
    world = crowd()
    number = world.open(ranges=MANY, bits=12, segments=1_024, replicas=NAMES)
    assert len(world.segments(number)) == 1_024
    assert 700_000 < largest(world) <= RECORD_BYTES_MAX
    world.ask(rr.SessionAbortRequested, number)
    assert largest(world) <= RECORD_BYTES_MAX
    assert world.session(number).left == MANY


def test_a_session_that_would_not_fit_is_refused() -> None:
    """It is said before it is tried, whoever asks; a queued one ends with it."""
    world = crowd(columns=(*COLUMNS, *(msgspec.structs.replace(COLUMNS[0], name=f"{i:0199}") for i in range(400))))
    columns = tuple(f"{i:0199}" for i in range(400))
    assert world.refused(ranges=MANY, bits=12, segments=1_024, columns=columns) == "TOO_LARGE"
    number = world.open(PULL, source=NAMES[0])
    queued = world.open(PULL, source=NAMES[0], ranges=MANY, bits=12, segments=1_024, columns=columns, queues=True)
    world.ask(rr.SessionAbortRequested, number)
    assert (world.session(queued).status, world.session(queued).code) == (SessionStatus.FAILED, "TOO_LARGE")


def test_placements_and_segments_together_have_a_limit() -> None:
    """RE10: what a node holds may be cut at many places before it is cut at all."""
    held = {f"R{number}": definition(f"R{number}", ranges=MANY[number::15]) for number in range(15)}
    world = World({name: [] for name in (*held, "R")}, **held)
    (refusal,) = {world.refused(node="R", segments=100)}
    assert refusal == "TOO_MANY_SEGMENTS"
    number = world.open(node="R", segments=60)
    assert len(world.segments(number)) == 15 * 60


def test_replicas_that_hold_very_many_pieces_are_placed_quickly() -> None:
    """Ranges of which none are the same: it is one pass along the ring, so that eight times as many take about eight
    times as long, and not 64 times."""
    assert _placing_s(16) < 24 * _placing_s(2)


def _placing_s(replicas: int) -> float:
    """The quickest of three."""
    spent = []
    for _ in range(3):
        held = []
        for number in range(replicas):
            ranges = tuple(TokenRange(each.start + number, each.end + number) for each in MANY)
            held.append(definition(f"R{number:02}", ranges=ranges))
        began = time.process_time()
        assert repair_spec.segments(msgspec.structs.replace(PULL, node="R00"), held, 8)
        spent.append(time.process_time() - began)
    return min(spent)


def test_what_is_reported_at_most_fits_a_record_too() -> None:
    """4,096 ranges in a pair, in findings, in a step, in what is left, in the end."""
    world = World({"R1": [], "R2": []})
    number = world.open(PULL, ranges=MANY, recheck=False)
    differ(world, number, 0, MANY)
    (ended,) = world.events(SessionEnded)
    assert (ended.code, ended.left) == ("UNRESOLVED", MANY)
    assert largest(world) <= RECORD_BYTES_MAX


def differ(world: World, number: int, index: int, ranges: Ranges) -> None:
    """The segment comes to its end by hand: both replicas answer, and these tokens differ and are left alone."""
    answer(world, number, index)
    step = answer(world, number, index)
    both = tuple(world.task(name, number, index) for name in ("R1", "R2"))
    pair = Pair("R1", "R2", ranges, len(ranges), 65_536, 8_000, 2)
    world.ask(rr.ComparisonReported, number, index, step, both, pair)
    step = answer(world, number, index)
    both = tuple(world.task(name, number, index) for name in ("R1", "R2"))
    kinds = {f"{place:040}": 200 for place in range(20)}
    findings = Findings(8_000, ranges, kinds, (), kinds, 1, bytes(32))
    world.ask(rr.FindingsReported, number, index, step, both, findings)


def answer(world: World, number: int, index: int) -> int:
    """All replicas answer the present step; gives its number."""
    step = world.segment(number, index).step
    assert step is not None
    is_prepare = step.kind is TaskKind.PREPARE
    for name in world.assigned(number, index):
        cut = world.table(name).cut(lambda *_: None) if is_prepare else None
        result = Result(cut, b"" if is_prepare else bytes(32), 1)
        world.report(world.task(name, number, index), result=result)
    return step.number


def test_an_end_of_very_many_pieces_is_told_as_fewer_that_are_no_less() -> None:
    """What is left over of many segments, each in many pieces: coverage never says more than is true."""
    world = World({"R1": [], "R2": []})
    number = world.open(PULL, segments=64, recheck=False)
    lefts: list[TokenRange] = []
    for index in range(64):
        (whole,) = world.segment(number, index).ranges
        pieces = union(TokenRange(start, start + 1) for start in range(whole.start, whole.end, whole.cells // 100))
        differ(world, number, index, pieces)
        lefts += pieces
    (ended,) = world.events(SessionEnded)
    assert ended.status is SessionStatus.PARTIAL
    assert len(lefts) > len(ended.left) == RANGES_MAX
    assert contains(ended.left, lefts)
    assert union((*ended.left, *ended.covered)) == (TokenRange(0, RING),)
    assert largest(world) <= RECORD_BYTES_MAX
