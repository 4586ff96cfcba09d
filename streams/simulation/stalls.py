"""Stalls: 64 nodes, a leader and a stand-by, everything they depend on stops for a while, and nobody may be removed.

A removal is *false* if the node that is removed for silence was able to beat: neither its process nor its own link has
stood still for fence_ms since it was last renewed. Stalls of the broker, of a coordinator, or of a coordinator's links
must therefore remove nobody, however long they are and whatever take-over falls into them; a node's own stall must not
remove it unless it lasts fence_ms, when it has stopped serving by itself; then it may be removed and joins again.

The coordinators, their reading and writing, the fold and the leases are the real ones, with the default terms. A node
is no more than its heartbeats, its joins and its lease: 64 whole nodes would each fold the log to find what one fold
has found. Stalls of 1 to 60 s begin at phases that sweep the leader's beat evenly; in each window one befalls what all
share, and some befall single nodes at moments of their own.
"""

import random
from collections import Counter, deque
from collections.abc import Sequence
from enum import Enum
from functools import partial

import msgspec

from topolog.events import membership as m
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position, Slot
from topolog.events.leases import FENCING, LeaseRow, NodeKind
from topolog.events.membership import Joiner, JoinRequested
from topolog.events.requesters import joining, requester_of
from topolog.events.terms import TermStarted
from topolog.events.topics import Topic
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.driver import LeaseTerms
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.node.lease import Lease
from topolog.streams.simulation.network import Broker, Link, Writer
from topolog.streams.simulation.processes import CoordinatorProcess, Life
from topolog.streams.simulation.timeline import NS_PER_MS, DriftingClock, Timeline, between

NODES = 64
TERMS = LeaseTerms()
STALL_MS = (1_000, 60_000)
STALLS_EACH = 100
"""Stalls of one world: then its log is long, and another one begins."""

_CAPABILITIES = (FENCING,)
_TURN_MS = (100.0, 300.0)
_NODE_LAG_MS = 30
_NODE_STALLS_MAX = 8
_CALM_LOOK_MS = 500
_CALM_MS_MAX = 600_000
_NOTES_KEPT = 20
_GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, lie more evenly than drawn numbers do."""


class Stalled(Enum):
    """What stands still."""

    BROKER = "the broker"
    LEADER = "the leader's process"
    LEADER_LINK = "the leader's link"
    HEARING = "the leader's reading of heartbeats"
    STAND_BY = "the stand-by's process"
    NODE = "a node's process"
    NODE_LINK = "a node's link"


_SHARED = (Stalled.BROKER, Stalled.LEADER, Stalled.LEADER_LINK, Stalled.HEARING, Stalled.STAND_BY)


class Tally(msgspec.Struct):
    """What has happened so far; `false` tells the story of each false removal, or of a cluster that did not recover."""

    stalls: Counter[str] = msgspec.field(default_factory=Counter)
    false: list[str] = msgspec.field(default_factory=list)
    removals: int = 0
    terms: int = 0
    lived_s: int = 0


def stall(seed: int, count: int = STALLS_EACH) -> Tally:
    """At least `count` stalls in a world of their own."""
    world = _Stalls(seed)
    try:
        return world.befall(count)
    except _Unrest as unrest:
        world.tally.false.append(f"world {seed} does not recover:\n{unrest}")
        return world.tally


class _Unrest(Exception):
    """Long after a stall the cluster does not work as before."""


class Beater:
    """A node that joins, beats, and holds the real lease. `news` are the decisions as one fold has read them."""

    def __init__(
        self, name: str, timeline: Timeline, broker: Broker, chance: random.Random, news: Sequence["News"]
    ) -> None:
        self.name = NodeId(name)
        self.clock = DriftingClock(timeline, chance)
        self.link = Link()
        self.stopped = False
        self.writer = Writer(name, timeline, chance, broker, self.link)
        self.stalls: list[tuple[int, int]] = []
        self.slot: Slot | None = None
        self.lease = Lease(Incarnation(chance.getrandbits(63)))
        self._timeline = timeline
        self._chance = chance
        self._news = news
        self._read = 0
        self._applied = m.Applied(b"", NOWHERE, b"")
        self._asked = False
        self._sequence = self._echoed = 0
        timeline.after(between(chance, 0, TERMS.heartbeat_ms), self._turn)

    @property
    def holds_lease(self) -> bool:
        return self.lease.is_valid(self.clock.boottime_ns())

    @property
    def is_stalled(self) -> bool:
        return bool(self.stalls) and self.stalls[-1][1] > self._timeline.now_ns

    def stalled_ns(self, since_ns: int) -> int:
        """How long its process or its link has stood still since then."""
        now_ns = self._timeline.now_ns
        return sum(max(0, min(end, now_ns) - max(start, since_ns)) for start, end in self.stalls)

    def resume(self) -> None:
        self.stopped = False

    def _turn(self) -> None:
        """One beat of this node's own clock."""
        self._timeline.after(TERMS.heartbeat_ms * 1_000_000 / (1_000_000 + self.clock.rate_ppm), self._turn)
        if self.stopped:
            return
        if not self.link.unreadable:
            self._read_news()
        if self.slot is not None:
            self._beat()
        elif self._applied.log_id and not self._asked:
            self._join()
        self.writer.serve()

    def _read_news(self) -> None:
        visible_ns = self._timeline.now_ns - self._chance.randrange(_NODE_LAG_MS) * NS_PER_MS
        while self._read < len(self._news) and self._news[self._read].landed_ns <= visible_ns:
            news = self._news[self._read]
            self._read += 1
            self._apply(news)
            self._applied = news.applied

    def _apply(self, news: "News") -> None:
        if self.slot is not None and self.slot in news.echoes:
            self._echoed += news.echoes[self.slot]
            self.lease.echoed(self._echoed, TERMS.fence_ms, self.clock.boottime_ns())
        match news.event:
            case m.NodeJoined(joiner=joiner, slot=slot) if joiner.incarnation == self.lease.incarnation:
                self.slot, self._sequence, self._echoed = slot, 0, 0
            case m.NodeLeft(incarnation=incarnation) if incarnation == self.lease.incarnation:
                self.lease.void()
                self.lease = Lease(Incarnation(self._chance.getrandbits(63)), self.lease.generation)
                self.slot, self._asked = None, False

    def _beat(self) -> None:
        now_ns = self.clock.boottime_ns()
        self._sequence += 1
        self.lease.sent(self._sequence, now_ns)
        fenced = not self.lease.is_valid(now_ns)
        beat = m.Heartbeat(
            self.name,
            self.lease.incarnation,
            self._sequence,
            self._applied,
            Position(NOWHERE),
            None,
            _CAPABILITIES,
            fenced,
            b"",
        )
        self.writer.append(Topic.HEARTBEATS, self.name, CODEC.encode(beat))

    def _join(self) -> None:
        self._asked = True
        joiner = Joiner(self.name, self.lease.incarnation, NodeKind.SERVER, "", {}, _CAPABILITIES)
        request = RequestId(joining(requester_of(self.name, self.lease.incarnation)), 1)
        value = CODEC.encode(JoinRequested(request, self._applied.log_id, self.name, "", joiner))
        self.writer.append(Topic.REQUESTS, request.requester, value)


class News(msgspec.Struct, frozen=True):
    """One decision, when it came to stand in the log, what it echoes by slot, and what its reader has applied."""

    landed_ns: int
    event: object
    echoes: dict[Slot, int]
    applied: m.Applied


class _Stalls:
    """One world, stall after stall."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._chance = random.Random(f"{seed} stalls")
        self._timeline = Timeline()
        self._broker = Broker(self._timeline)
        self._fold = Fold()
        self._news: list[News] = []
        self._echoes = 0
        self._renewed_ns: dict[Incarnation, int] = {}
        self._parted: Counter[Link] = Counter()
        self._paused: set[CoordinatorProcess] = set()
        self._notes: deque[str] = deque(maxlen=_NOTES_KEPT)
        self.tally = Tally()
        self._coordinators = [self._coordinator("c1"), self._coordinator("c2")]
        names = [f"n{number}" for number in range(NODES)]
        self._beaters = {
            name: Beater(name, self._timeline, self._broker, random.Random(f"{seed} {name}"), self._news)
            for name in names
        }

    def befall(self, count: int) -> Tally:
        self._live_until_calm()
        while self.tally.stalls.total() < count:
            self._befall_window()
        self.tally.terms = self._fold.header.term
        self.tally.lived_s = self._timeline.now_ms // 1_000
        return self.tally

    def _befall_window(self) -> None:
        """One stall of what all share, some of single nodes, and then all is well again."""
        number = self._seed * STALLS_EACH + self.tally.stalls.total()
        echoes = self._echoes
        while self._echoes == echoes:
            self._advance()
        self._live_for(number * _GOLDEN % 1 * TERMS.fence_ms / 4)
        duration_ms = STALL_MS[0] + number * _GOLDEN**2 % 1 * (STALL_MS[1] - STALL_MS[0])
        self._begin(self._chance.choice(_SHARED), duration_ms)
        for name in self._chance.sample(list(self._beaters), k=self._chance.randint(0, _NODE_STALLS_MAX)):
            kind = self._chance.choice((Stalled.NODE, Stalled.NODE_LINK))
            begin = partial(self._begin_node, kind, self._beaters[name], between(self._chance, *STALL_MS))
            self._timeline.after(between(self._chance, 0, duration_ms), begin)
        self._live_for(duration_ms)
        self._live_until_calm()

    def _begin(self, stalled: Stalled, ms: float) -> None:
        leader, stand_by = sorted(self._coordinators, key=lambda each: each.driver.role is not Role.LEADING)
        self._count(stalled, ms, "of all" if stalled is Stalled.BROKER else f"{leader.name} leads")
        match stalled:
            case Stalled.BROKER:
                for process in self._coordinators:
                    self._part(process.link, process.writer, ms)
                for node in self._beaters.values():
                    self._part(node.link, node.writer, ms)
            case Stalled.LEADER | Stalled.STAND_BY:
                stopped = leader if stalled is Stalled.LEADER else stand_by
                self._paused.add(stopped)
                self._timeline.after(ms, partial(self._paused.discard, stopped))
            case Stalled.LEADER_LINK:
                self._part(leader.link, leader.writer, ms)
            case Stalled.HEARING:
                leader.link.unreadable = frozenset({Topic.HEARTBEATS})
                self._timeline.after(ms, leader.link.recover)

    def _begin_node(self, stalled: Stalled, node: Beater, ms: float) -> None:
        if node.is_stalled or not node.holds_lease:
            return
        self._count(stalled, ms, node.name)
        node.stalls.append((self._timeline.now_ns, self._timeline.now_ns + int(ms * NS_PER_MS)))
        if stalled is Stalled.NODE:
            node.stopped = True
            self._timeline.after(ms, node.resume)
        else:
            self._part(node.link, node.writer, ms)

    def _count(self, stalled: Stalled, ms: float, who: str) -> None:
        self.tally.stalls[stalled.value] += 1
        self._note(f"{stalled.value} ({who}) stalls for {ms:.0f} ms")

    def _part(self, link: Link, writer: Writer, ms: float) -> None:
        """Nothing comes through or is sent; what is held meanwhile arrives later, or some of it fails."""
        self._parted[link] += 1
        link.unreadable, link.sends_cut = frozenset(Topic), True
        self._timeline.after(ms, partial(self._mend, link, writer))

    def _mend(self, link: Link, writer: Writer) -> None:
        self._parted[link] -= 1
        if not self._parted[link]:
            link.recover()
            if self._chance.random() < 0.5:
                writer.give_up()
            writer.release()

    def _coordinator(self, name: str) -> CoordinatorProcess:
        chance = random.Random(f"{self._seed} {name}")
        life = Life(name, name, chance, self._timeline, self._broker, DriftingClock(self._timeline, chance))
        process = CoordinatorProcess(life, Cadence(0), TERMS)
        self._turn(process)
        return process

    def _turn(self, process: CoordinatorProcess) -> None:
        if process not in self._paused:
            process.turn()
        self._timeline.after(between(process.chance, *_TURN_MS), partial(self._turn, process))

    def _live_for(self, ms: float) -> None:
        until_ns = self._timeline.now_ns + int(ms * NS_PER_MS)
        while self._timeline.next_ns <= until_ns:
            self._advance()

    def _live_until_calm(self) -> None:
        deadline_ns = self._timeline.now_ns + _CALM_MS_MAX * NS_PER_MS
        while not self._is_calm():
            if self._timeline.now_ns > deadline_ns:
                raise _Unrest(self._story())
            self._live_for(_CALM_LOOK_MS)

    def _is_calm(self) -> bool:
        """One leads, one stands by, and whoever is not stalled serves."""
        roles = {each.driver.role for each in self._coordinators}
        return roles == {Role.LEADING, Role.FOLLOWING} and all(
            each.is_stalled or each.holds_lease for each in self._beaters.values()
        )

    def _advance(self) -> None:
        self._timeline.advance()
        for entry, _ in self._broker.landed:
            if entry.topic is Topic.DECISIONS:
                found = self._fold.read(entry.stamp, entry.value)
                for folded in () if isinstance(found, Ignored) else found:
                    self._tell(folded)
        self._broker.landed.clear()

    def _tell(self, folded: Folded) -> None:
        """A decision has come to stand in the log: everybody will read it, and it is judged now."""
        place, event, now_ns = folded.place, folded.event, self._timeline.now_ns
        echoes = dict(m.unpack_renewals(event.renewals)) if isinstance(event, m.LeasesRenewed) else {}
        log_id = self._fold.header.log_id
        assert log_id is not None
        self._news.append(News(now_ns, event, echoes, m.Applied(log_id, place.position, place.chain)))
        match event:
            case m.LeasesRenewed():
                self._echoes += 1
                for slot in echoes:
                    lease = self._fold.state.get(LeaseRow, str(slot))
                    assert lease is not None
                    self._renewed_ns[lease.incarnation] = now_ns
            case m.NodeJoined():
                self._renewed_ns[Incarnation(event.joiner.incarnation)] = now_ns
            case TermStarted():
                self._note(f"{event.instance} leads in term {event.term}")
            case m.NodeLeft():
                self._judge(event)

    def _judge(self, left: m.NodeLeft) -> None:
        node = self._beaters[left.node]
        renewed_ns = self._renewed_ns[left.incarnation]
        stalled_ms = node.stalled_ns(renewed_ns) // NS_PER_MS
        self.tally.removals += 1
        self._note(f"{left.node} leaves, {left.reason.value}; it stood still for {stalled_ms} ms since its renewal")
        serving = node.lease.incarnation == left.incarnation and node.holds_lease
        if stalled_ms < TERMS.fence_ms or serving:
            self.tally.false.append(f"world {self._seed}: {left.node}{' serves' if serving else ''}\n{self._story()}")

    def _note(self, text: str) -> None:
        self._notes.append(f"{self._timeline.now_ns / 1e9:9.3f} s  {text}")

    def _story(self) -> str:
        return "\n".join(self._notes)
