"""Whose past agrees with the log: histories that part, disks that are put aside and back (docs/design/baseline.md).

The model is of logs, leases and disks only. A log can be copied; the copy goes live beside it, and both go on. A node
lives in one of them at a time, writes under its lease as `events/views.py` says, stops, and joins any of them. What it
wrote names the place of the echo that it relied on, so whoever looks at all logs knows the truth.
"""

import itertools
import random
from collections.abc import Callable

import msgspec
import pytest

from topolog.events.errors import Refused
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Place, Position, Term, TopologyVersion
from topolog.events.requests import LastGrantedRow
from topolog.events.stamp import chain_after
from topolog.events.state import State
from topolog.events.views import (
    Echo,
    Kinship,
    Past,
    Point,
    is_point,
    newest_point,
    note_end_of_life,
    note_view,
    point_after,
)
from topolog.streams.node.past import noted
from topolog.streams.rules.past import PAST_POINTS_MAX, Judged, check_shape, judge

LOG_ID = bytes(16)
NAMES = tuple(NodeId(name) for name in ("a", "b", "c"))
ADMITTED = (Kinship.NEW, Kinship.EQUAL, Kinship.BEHIND)
RESERVED_AT_ONCE = 2
"""What is lost of a backup that is younger than the last reservation cannot be told, and does not count here."""

Judge = Callable[[State, bytes, NodeId, Past | None], Judged]


class Log:
    """One history: its chain by position, and what a coordinator knows of it."""

    def __init__(self) -> None:
        self.state = State()
        self.chain: list[bytes] = []
        self.version = TopologyVersion(0, 0)
        self.members: list[NodeId] = []
        self.append("began")

    def append(self, what: str) -> Point:
        before = self.chain[-1] if self.chain else bytes(16)
        self.chain.append(chain_after(before, b"", what.encode()))
        return Point(Position(len(self.chain) - 1), self.chain[-1])

    def change_view(self, what: str) -> Point:
        point = self.append(what)
        self.version = TopologyVersion(self.version.major + 1, 0)
        note_view(self.state, self.version, tuple(self.members), Place(point.position, point.chain, Term(1)))
        return point

    def grant(self, what: str) -> Point:
        """Somebody has gone on with this log."""
        point = self.change_view(what)
        self.state.put("", LastGrantedRow(point.position))
        return point

    def copy(self, what: str) -> "Log":
        """Another coordinator goes on with a copy: its first record is its own."""
        copied = Log.__new__(Log)
        copied.state, copied.chain = State(), list(self.chain)
        for rows in self.state.copies().values():
            for key, row in rows.items():
                copied.state.put(key, row)
        copied.version, copied.members = self.version, list(self.members)
        copied.append(what)
        return copied

    def has(self, point: Point) -> bool:
        return point.position < len(self.chain) and self.chain[point.position] == point.chain


class Write(msgspec.Struct, frozen=True):
    """What a disk holds: written under this echo."""

    number: int
    echo: Point


class Disk(msgspec.Struct, frozen=True):
    past: Past | None = None
    writes: tuple[Write, ...] = ()


class Life(msgspec.Struct):
    """A node in a log: what it has read of it, and where its lease stands there."""

    log: Log
    incarnation: Incarnation
    echo: Echo
    view: Point
    renewed: int = 0
    renewed_at: Position = NOWHERE


class World:
    """`judge` is the rule under test; `wrongly` says which joins it let in that it must not."""

    def __init__(self, seed: int, rule: Judge = judge) -> None:
        self.random = random.Random(seed)
        self.logs = [Log()]
        self.disks = dict.fromkeys(NAMES, Disk())
        self.backups: dict[NodeId, Disk] = {}
        self.lives: dict[NodeId, Life] = {}
        self.stored: dict[tuple[int, NodeId], dict[int, tuple[Incarnation, int]]] = {}
        """By log and node the writes that it has stored, and under which heartbeat."""
        self.wrongly: list[str] = []
        self.rightly: list[Kinship] = []
        self.mistold: list[str] = []
        self.told: list[Kinship] = []
        self._rule = rule
        self._numbers = 0

    def run(self, steps: int = 60) -> None:
        for _ in range(steps):
            self.random.choice(
                (
                    self.join,
                    self.join,
                    self.leave,
                    self.renew,
                    self.renew,
                    self.write,
                    self.write,
                    self.change,
                    self.fork,
                    self.back_up,
                    self.restore,
                )
            )()

    def fork(self) -> None:
        if len(self.logs) < 3:
            source = self.random.choice(self.logs)
            copied = source.copy(f"term {self.random.random()}")
            for node in copied.members:
                self._end(copied, node, self._life_known(copied, node))
            copied.members.clear()
            self.logs.append(copied)

    def join(self) -> None:
        self.join_as(self.random.choice(NAMES), self.random.choice(self.logs))

    def join_as(self, node: NodeId, log: Log) -> Kinship | None:
        """None if it lives somewhere already."""
        if node in self.lives:
            return None
        disk = self.disks[node]
        told = self._rule(log.state, LOG_ID, node, disk.past)
        self.told.append(told.kinship)
        has_forked = any(not log.has(write.echo) for write in disk.writes)
        has_lost = self._has_lost(log, node, disk)
        if told.kinship not in ADMITTED:
            self.rightly += [told.kinship] * (has_forked or has_lost)
            if told.kinship is Kinship.AHEAD and any(self._has_gone_on_apart(log, disk, other) for other in self.logs):
                self.mistold.append(f"{node}: this log has gone on")
            return told.kinship
        if has_forked or has_lost:
            self.wrongly.append(f"{node} as {told.kinship.name}: forked {has_forked}, lost {has_lost}")
        log.members.append(node)
        self._numbers += 1
        incarnation = Incarnation(self._numbers)
        view = log.grant(f"{node} joins as {incarnation}")
        self.lives[node] = Life(log, incarnation, Echo(incarnation, 0, view), view)
        self._sync(node, reserved=RESERVED_AT_ONCE)
        return told.kinship

    def renew(self) -> None:
        if self.lives:
            self.renew_as(self.random.choice(list(self.lives)))

    def renew_as(self, node: NodeId, *, is_read: bool = True) -> None:
        life, past = self.lives[node], self.disks[node].past
        assert past is not None
        if life.renewed == past.reserved:
            self._sync(node, reserved=past.reserved + RESERVED_AT_ONCE)
        life.renewed += 1
        point = life.log.append(f"{node} {life.incarnation} is renewed to {life.renewed}")
        life.renewed_at = point.position
        if is_read:
            life.echo = Echo(life.incarnation, life.renewed, point)
            life.view = newest_point(life.log.state) or life.view

    def write(self) -> None:
        able = [node for node, life in self.lives.items() if life.echo.sequence]
        if able:
            self.write_as(self.random.choice(able))

    def write_as(self, node: NodeId) -> None:
        life, past = self.lives[node], self.disks[node].past
        assert past is not None
        if past.echo != life.echo or past.points[-1] != life.view:
            self._sync(node, reserved=past.reserved)
        self._numbers += 1
        disk = self.disks[node]
        self.disks[node] = Disk(disk.past, (*disk.writes, Write(self._numbers, life.echo.at)))
        self.stored.setdefault((id(life.log), node), {})[self._numbers] = (life.incarnation, life.renewed)

    def change(self) -> None:
        self.random.choice(self.logs).grant("a group")

    def leave(self) -> None:
        if self.lives:
            self.leave_as(self.random.choice(list(self.lives)))

    def leave_as(self, node: NodeId) -> None:
        """Its log hears of it, and so, each in its own way, has every copy that saw it alive."""
        life = self.lives.pop(node)
        life.log.members.remove(node)
        self._end(life.log, node, (life.incarnation, life.renewed, life.renewed_at))

    def back_up(self) -> None:
        node = self.random.choice(NAMES)
        self.backups[node] = self.disks[node]

    def restore(self) -> None:
        node = self.random.choice(NAMES)
        if node not in self.lives and node in self.backups:
            self.disks[node] = self.backups[node]

    def _has_gone_on_apart(self, log: Log, disk: Disk, other: Log) -> bool:
        """Whether the disk was written to in `other`, and something granted in `log` behind where they part."""
        if not any(other.has(write.echo) and not log.has(write.echo) for write in disk.writes):
            return False
        parted = sum(one == two for one, two in zip(log.chain, other.chain, strict=False))
        granted = log.state.get(LastGrantedRow, "")
        return granted is not None and granted.at >= parted

    def _has_lost(self, log: Log, node: NodeId, disk: Disk) -> bool:
        reserved = (disk.past.echo.incarnation, disk.past.reserved) if disk.past else (Incarnation(0), 0)
        here = {write.number for write in disk.writes}
        stored = self.stored.get((id(log), node), {})
        return any(number not in here and under > reserved for number, under in stored.items())

    def _end(self, log: Log, node: NodeId, known: tuple[Incarnation, int, Position]) -> None:
        log.change_view(f"{node} is out")
        note_end_of_life(log.state, node, *known)

    def _life_known(self, log: Log, node: NodeId) -> tuple[Incarnation, int, Position]:
        """What a copy knows of a node that lives in the log it was made of: all of that so far."""
        life = self.lives[node]
        return life.incarnation, life.renewed, life.renewed_at

    def _sync(self, node: NodeId, *, reserved: int) -> None:
        life, disk = self.lives[node], self.disks[node]
        past = noted(disk.past, LOG_ID, node, life.view, life.echo, reserved)
        self.disks[node] = Disk(msgspec.structs.replace(past, reserved=reserved), disk.writes)


def by_views_alone(state: State, log_id: bytes, node: NodeId, past: Past | None) -> Judged:
    """The rule of the design: what a node wrote under is a view, and nothing else is compared."""
    echo = past and msgspec.structs.replace(past, echo=Echo(past.echo.incarnation, 0, past.points[-1]))
    return judge(state, log_id, node, echo)


def test_no_schedule_lets_in_a_disk_that_has_forked_or_that_has_lost_something() -> None:
    """BA23, BA24: over thousands of histories; each kind of refusal was needed in some of them, and nobody is
    called AHEAD of a log that has gone on."""
    needed: set[Kinship] = set()
    for seed in range(3_000):
        world = World(seed)
        world.run()
        assert not world.wrongly, f"seed {seed}: {world.wrongly}"
        assert not world.mistold, f"seed {seed}: {world.mistold}"
        needed |= set(world.rightly)
    assert needed >= {Kinship.FORKED, Kinship.RESTORED, Kinship.AHEAD}


def test_marks_at_views_alone_let_a_forked_node_in() -> None:
    """The original goes on under the view of before the copy: nothing but the echo shows that c has written there."""
    for rule, expected in ((judge, Kinship.AHEAD), (by_views_alone, Kinship.BEHIND)):
        world = World(0, rule)
        original = world.logs[0]
        world.join_as(NAMES[2], original)
        world.renew_as(NAMES[2])
        world.fork()
        world.renew_as(NAMES[2])
        world.write_as(NAMES[2])
        world.leave_as(NAMES[2])
        assert world.join_as(NAMES[2], world.logs[1]) is expected
        assert bool(world.wrongly) is (rule is by_views_alone)


def older_log_put_back() -> World:
    """a has written in the original, and is away; nothing has become of the copy."""
    world = World(0)
    world.join_as(NAMES[0], world.logs[0])
    world.renew_as(NAMES[0])
    world.fork()
    for _ in range(5):
        world.renew_as(NAMES[0])
        world.write_as(NAMES[0])
    world.leave_as(NAMES[0])
    return world


def test_an_older_log_is_an_older_one_however_it_grows() -> None:
    """It beats by itself: AHEAD does not become FORKED when it has come as far as the node had in the other one."""
    world = older_log_put_back()
    original, older = world.logs
    assert world.join_as(NAMES[0], older) is Kinship.AHEAD
    while len(older.chain) < 2 * len(original.chain):
        older.append("beats, a term, a refusal")
    assert world.join_as(NAMES[0], older) is Kinship.AHEAD


def test_a_log_that_somebody_has_gone_on_with_is_another_history() -> None:
    """FORKED, also while it is the shorter one: whoever put the other one in its place would lose what was granted."""
    world = older_log_put_back()
    world.logs[1].grant("a group")
    assert len(world.logs[1].chain) < len(world.logs[0].chain)
    assert world.join_as(NAMES[0], world.logs[1]) is Kinship.FORKED


def by_length(state: State, log_id: bytes, node: NodeId, past: Past | None) -> Judged:
    """The rule of before: who has written behind the end of the log is ahead of it, whatever became of that."""
    told = judge(state, log_id, node, past)
    end = newest_point(state)
    if told.theirs is None or end is None:
        return told
    return Judged(Kinship.AHEAD if told.theirs > end else Kinship.FORKED, told.common, told.theirs)


def test_by_the_length_alone_a_log_that_has_gone_on_is_taken_for_an_older_one() -> None:
    mistold = 0
    for seed in range(300):
        world = World(seed, by_length)
        world.run()
        mistold += len(world.mistold)
    assert mistold


def test_a_node_that_has_lived_in_one_history_only_is_let_in() -> None:
    """Whatever it wrote, however its lives ended, as long as its disk is its own."""
    admitted = 0
    for seed in range(500):
        world = World(seed)
        world.fork = world.restore = lambda: None  # type: ignore[method-assign]
        world.run()
        assert set(world.told) <= set(ADMITTED), f"seed {seed}: {world.told}"
        admitted += len(world.told)
    assert admitted > 2_000


def without_the_life_before(state: State, log_id: bytes, node: NodeId, past: Past | None) -> Judged:
    """A life that has joined and was never renewed hides the one that wrote."""
    return judge(state, log_id, node, past and msgspec.structs.replace(past, before=None))


def with_newcomers(state: State, log_id: bytes, node: NodeId, past: Past | None) -> Judged:
    """A disk that says nothing is a new one."""
    told = judge(state, log_id, node, past)
    return Judged(Kinship.NEW) if told.kinship is Kinship.WIPED else told


def with_restored(state: State, log_id: bytes, node: NodeId, past: Past | None) -> Judged:
    """An older disk is only behind."""
    told = judge(state, log_id, node, past)
    return Judged(Kinship.BEHIND) if told.kinship is Kinship.RESTORED else told


def with_ahead(state: State, log_id: bytes, node: NodeId, past: Past | None) -> Judged:
    """Who has seen more is welcome, as the first that starts is in Ignite (BA25)."""
    told = judge(state, log_id, node, past)
    return Judged(Kinship.EQUAL) if told.kinship is Kinship.AHEAD else told


RULES = (by_views_alone, without_the_life_before, with_newcomers, with_restored, with_ahead)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_leaves_something_out_lets_a_wrong_one_in(rule: Judge) -> None:
    """Each part of the verdict is needed in some history."""
    for seed in range(1_000):
        world = World(seed, rule)
        world.run()
        if world.wrongly:
            return
    raise AssertionError("no history needs it")


def test_a_past_of_more_places_than_any_node_notes_is_refused_before_they_are_looked_up() -> None:
    """Each is looked up among all views: a request may carry 30,000, and the coordinator beats no more meanwhile."""
    places = tuple(Point(Position(number), bytes(16)) for number in range(PAST_POINTS_MAX + 1))
    found = Past(LOG_ID, NAMES[0], places, Echo(Incarnation(1), 0, places[0]), 64)
    with pytest.raises(Refused) as raised:
        check_shape(NAMES[0], found)
    assert (raised.value.code, raised.value.facts) == ("BAD_PAST", {"points": "1001"})
    check_shape(NAMES[0], msgspec.structs.replace(found, points=places[:-1]))


def test_each_place_of_a_long_log_is_found_and_none_beside_it() -> None:
    state, points = State(), []
    for number in range(200):
        point = Point(Position(10 * number + 3), number.to_bytes(16, "big"))
        note_view(state, TopologyVersion(number + 1, 0), (), Place(point.position, point.chain, Term(1)))
        points.append(point)
    assert point_after(state, Position(-1)) == points[0]
    assert point_after(state, points[-1].position) is None
    for one, other in itertools.pairwise(points):
        assert point_after(state, one.position) == point_after(state, Position(other.position - 1)) == other
        assert is_point(state, one)
        assert not is_point(state, Point(one.position, other.chain))
        assert not is_point(state, Point(Position(one.position + 1), one.chain))
