"""What must hold of an exchange that ends without some answers (DS10-DS19), judged from outside.

Who could have been heard is what has landed in the log's topics (`answers.py`). A copy is worth something if the log
lists it from behind its node's joining, or its node has said that it is whole. No rule of the exchange is asked. How an
outcome changes partitions is judged in `outcome_checks.py`.
"""

from collections.abc import Set

import msgspec

from topolog.events import awaited as w
from topolog.events import baseline as b
from topolog.events import exchange as x
from topolog.events import groups as g
from topolog.events import membership as m
from topolog.events import ownership as o
from topolog.events.codec import CODEC
from topolog.events.ids import Incarnation, NodeId, Position, TopologyVersion
from topolog.events.last_owners import paused_in
from topolog.events.leases import LeaveReason, NodeRow
from topolog.events.log import Entry
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.single_maps import SinglePartitionMap
from topolog.events.state import State
from topolog.events.terms import TermStarted
from topolog.streams.coordinator.core import Role
from topolog.streams.simulation.answers import Answers
from topolog.streams.simulation.ledger import Ledger, Life, Standing
from topolog.streams.simulation.outcome_checks import OutcomeChecks
from topolog.streams.simulation.processes import PATIENCE
from topolog.streams.simulation.rules import Broken, Rule
from topolog.streams.simulation.timeline import DRIFT_PPM_MAX, NS_PER_MS
from topolog.streams.simulation.world import World

_SERVED_MS = 1_000
"""What can be served is served by then and the waits of two exchanges, if nothing befalls those that it takes."""

_LATE_MS = 1_500
"""An answer that comes late counts by then: an open exchange ends, and its map is read."""

_EVICT_NS = PATIENCE.evict_ms * NS_PER_MS * 1_000_000 // (1_000_000 + DRIFT_PPM_MAX)


_CHANGES = (
    x.FullPartitionMap
    | x.ExchangeCompleted
    | x.PartitionStatesChanged
    | x.HandOverPrepared
    | x.AffinitySwitched
    | m.NodeLeft
    | g.GroupCreated
    | g.GroupDropped
    | b.StateChangeStarted
    | b.StateChangeFinished
    | b.ClusterCold
    | b.ClusterWarmed
)
"""What moves partitions, or lets nothing be shared out."""


class _Asked(msgspec.Struct, frozen=True):
    """Where, and when, a server was first asked."""

    at: Position
    at_ns: int


class ExchangeChecks:
    """Raises Broken."""

    def __init__(self, ledger: Ledger, world: World) -> None:
        self._ledger = ledger
        self._world = world
        self._answers = Answers()
        self._outcomes = OutcomeChecks(ledger, self._answers)
        self._is_open = False
        self._completed = TopologyVersion(0, 0)
        self._awaited: dict[NodeId, w.Awaited] = {}
        self._asked: dict[Life, _Asked] = {}
        self._unheard: set[Life] = set()
        self._goes_on = False
        self._late: set[Life] = set()
        self._waits_over = 0
        self._led_on = 0
        self._led_since_ns: tuple[str, int] = ("", 0)
        self._shared_out_ns = 0
        self._paused_ns: dict[tuple[str, int], int] = {}

    def note_map(self, entry: Entry, now_ns: int) -> None:
        """A single map that has landed."""
        told = CODEC.decode(entry.value)
        assert isinstance(told, SinglePartitionMap)
        self._answers.note_map(told, now_ns)

    def note_heartbeat(self, beat: m.Heartbeat) -> None:
        self._answers.note_heartbeat(beat.incarnation, beat.applied.position)

    def judge(self, standing: Standing) -> None:
        """One decision that has come to stand in the log; the ledger's state is that of the end of its set."""
        match standing.event:
            case x.ExchangeStarted() as started:
                self._is_open, self._awaited = True, {}
                if not self._goes_on:
                    self._answers.begin(standing.place.position)
                self._ask(started.awaited, standing)
            case x.ExchangeMerged() as merged:
                self._ask(merged.awaited, standing)
            case x.ExchangeCompleted() as completed:
                self._check_completed(completed, standing)
            case x.ExchangeQueued(type=x.TriggerType.ANSWERED):
                self._check_led_on()
            case m.LeaseStopped(reason=LeaveReason.STUCK) as stopped:
                self._check_stuck((stopped.node, stopped.incarnation), standing.at_ns)
            case m.NodeLeft() as left:
                self._leave((NodeId(left.node), Incarnation(left.incarnation)))
            case x.PartitionStatesChanged() | x.HandOverPrepared() if self._is_open:
                raise Broken(Rule.EXCHANGES, f"a {type(standing.event).__name__} while one is open")
            case TermStarted():
                self._led_since_ns = standing.author, standing.at_ns
                self._answer_anew(self._late)

    def judge_set(self, whole: list[Standing]) -> None:
        """A whole set: how it has changed the partitions."""
        if not any(isinstance(each.event, _CHANGES) for each in whole):
            return
        self._outcomes.judge_set(whole, self._unheard)
        self._note_paused(whole[-1].at_ns)

    def look(self) -> None:
        """Whether what waits has to (DS16, DS17)."""
        due_ns = self._world.timeline.now_ns - (_SERVED_MS + 2 * self._world.gather_ms) * NS_PER_MS
        if not _shares_out(self._ledger.state):
            self._shared_out_ns = self._world.timeline.now_ns
        self._check_late(self._world.timeline.now_ns - _LATE_MS * NS_PER_MS)
        late = [place for place, since_ns in self._paused_ns.items() if since_ns < due_ns]
        if late and self._leads_well(due_ns):
            for place in late:
                self._check_waits(place)

    def unrest(self) -> str:
        """Whom the last exchange still waits for, what is paused; raises nothing."""
        state = self._ledger.state
        if not _shares_out(state):
            return ""
        missed = w.unheard(state)
        if missed is not None and missed.servers:
            return f"the last exchange has not heard {', '.join(each.node for each in missed.servers)}"
        paused = next(iter(_paused(state)), None)
        return f"partition {paused} is paused" if paused else ""

    def check_rest(self) -> None:
        """When all else is at rest."""
        if _shares_out(self._ledger.state):
            self._outcomes.check_rest()

    # Whom it waits for.

    def _ask(self, awaited: tuple[w.Awaited, ...], standing: Standing) -> None:
        for each in awaited:
            self._awaited[each.node] = each
            self._asked.setdefault((each.node, each.incarnation), _Asked(standing.place.position, standing.at_ns))

    def _leave(self, life: Life) -> None:
        """The next life of the node is another one: nothing that this one has said is asked for (DS13)."""
        self._unheard.discard(life)

    def _check_completed(self, completed: x.ExchangeCompleted, standing: Standing) -> None:
        if completed.version <= self._completed:
            raise Broken(Rule.EXCHANGES, f"{completed.version} is completed behind {self._completed}")
        self._completed, self._is_open = completed.version, False
        counted = {each.node for each in completed.waited}
        for node in counted:
            asked = self._awaited.get(node)
            if asked is None or not self._has_answered(asked):
                raise Broken(Rule.EXCHANGES, f"{completed.version} counts {node} as heard: {asked}")
        for node, asked in self._awaited.items():
            if node not in completed.unheard and not self._has_answered(asked):
                self._check_needless(completed, node)
        self._awaited = {}
        self._answers.miss(standing.place.position)
        self._outcomes.note_completed()
        self._note_unheard(completed, standing)

    def _has_answered(self, asked: w.Awaited) -> bool:
        life = asked.node, asked.incarnation
        since = self._answers.begun_at
        return self._answers.has_told(life, since) if asked.needs_map else self._answers.is_there(life, since)

    def _check_needless(self, completed: x.ExchangeCompleted, node: NodeId) -> None:
        """Who was awaited, has not answered, and is not missed: nothing may wait for it."""
        state = self._ledger.state
        row, number = state.get(NodeRow, node), o.number_of(state, node)
        if row is None or not row.is_member or row.incarnation != self._awaited[node].incarnation:
            return
        for group, partition in _paused(state):
            if number in o.ownership(o.row_of(state, group, partition), partition).owners:
                what = f"{completed.version} is completed without {node}: {group}/{partition} waits for it"
                raise Broken(Rule.EXCHANGES, what)

    def _note_unheard(self, completed: x.ExchangeCompleted, standing: Standing) -> None:
        """Of those that the one before has missed too the wait goes on (DS17); others are asked here at last."""
        before = self._unheard
        self._unheard = {_life(self._ledger.state, node) for node in completed.unheard}
        self._goes_on = bool(completed.unheard)
        if not self._goes_on:
            self._late, self._led_on, self._waits_over = set(), 0, 0
        self._answer_anew(self._late & self._unheard - before)
        first = _Asked(standing.place.position, standing.at_ns)
        self._asked = {life: self._asked.get(life, first) for life in self._unheard}
        missed = w.unheard(self._ledger.state)
        for each in missed.servers if missed else ():
            life = each.node, each.incarnation
            if life in before and each.at > self._asked[life].at:
                raise Broken(Rule.ASKED_ONCE, f"{each.node} has been asked at {self._asked[life].at}, not at {each.at}")

    def _check_led_on(self) -> None:
        """An answer that came late leads to one more exchange, and no other does (DS17). Which of several its leader
        has read by then nobody knows from outside."""
        since = self._answers.missed_at
        self._late |= {life for life in self._unheard if self._answers.has_told(life, since)}
        self._led_on += 1
        if self._led_on > self._waits_over + len(self._late):
            raise Broken(Rule.ENDS, f"{self._led_on} exchanges followed the late answers of {sorted(self._late)}")

    def _answer_anew(self, lives: Set[Life]) -> None:
        """These may lead to one more exchange each: they are missed again, or who leads now has not read their maps."""
        self._waits_over += len(lives)
        self._late = self._late - lives

    def _check_late(self, due_ns: int) -> None:
        """Whoever has answered late is missed no more: another exchange has begun, in which that counts."""
        for life in self._unheard if _shares_out(self._ledger.state) else ():
            came_ns = self._answers.came_ns.get(life, due_ns)
            is_due = max(came_ns, self._shared_out_ns) < due_ns
            if is_due and not self._is_open and self._leads_well(due_ns):
                raise Broken(Rule.LATE, f"{life[0]} has answered {(due_ns - came_ns) // NS_PER_MS + _LATE_MS} ms ago")

    def _check_stuck(self, life: Life, now_ns: int) -> None:
        asked = self._asked.get(life)
        if life not in self._unheard or asked is None or now_ns - asked.at_ns < _EVICT_NS:
            raise Broken(Rule.ASKED_ONCE, f"{life[0]} is stopped as stuck, and was asked {asked}")

    # What waits.

    def _note_paused(self, now_ns: int) -> None:
        state = self._ledger.state
        if not _shares_out(state):
            self._paused_ns.clear()
            return
        self._paused_ns = {place: self._paused_ns.get(place, now_ns) for place in _paused(state)}

    def _leads_well(self, since_ns: int) -> bool:
        """Whether one leads since then whom nothing has befallen."""
        name, led_ns = self._led_since_ns
        leading = [each for each in self._world.coordinators if each.driver.role is Role.LEADING]
        return led_ns < since_ns and [each.name for each in leading] == [name] and not leading[0].disturbed

    def _check_waits(self, place: tuple[str, int]) -> None:
        state = self._ledger.state
        each = o.ownership(o.row_of(state, *place), place[1])
        names = o.names(state)
        for copy in each.copies:
            row = state.get(NodeRow, names[copy.node])
            if copy.node not in each.owners or row is None or not row.is_member or copy.since <= row.joined_at:
                continue
            nodes = [node for node in self._world.nodes if node.name == row.node]
            if nodes and not any(node.disturbed or not node.holds_lease for node in nodes):
                raise Broken(Rule.SERVED, f"{place[0]}/{place[1]} is paused, and {nodes[0].describe()} has it: {each}")


def _life(state: State, node: NodeId) -> Life:
    row = state.get(NodeRow, node)
    assert row is not None, "only a member is missed"
    return row.node, row.incarnation


def _shares_out(state: State) -> bool:
    """Whether anything is shared out: without groups no exchange could mend anything."""
    return b.cluster_state(state).shares_out and state.count(g.GroupRow) > 0


def _paused(state: State) -> list[tuple[str, int]]:
    """Where nobody acts though the log knows owners, and nobody has given these up for lost."""
    return [(row.group, partition) for _, row in state.rows(OwnershipRow) for partition in paused_in(row)]
