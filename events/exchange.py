"""The partition map exchange: how members agree on who holds and acts, without a global stop (docs/design/exchange.md).

Threats. A primary dies, and two nodes believe that they follow it; a node that joins takes a partition over while its
former primary still writes; a member never answers, and what it alone can tell is given away; the coordinator dies
between the question and the answer; a map that was sent before a restart is taken for one after it.

Invariants. At most one node acts for a partition at any moment (EX12). Every node that has read an outcome has the
same one (EX23), and it stands whatever becomes of the coordinator (EX23). Only members whose lease is provably over
lose what they act for without their word. Whom an exchange waits for, and has done without, is in rows
(`awaited.py`), and the wait is bounded.

Argument. An outcome is one set of decisions: the fold takes all of it or nothing, and there is one fold. It names a
new acting primary only where nobody acts. Nobody acts where the former primary has left, for NodeLeft is logged when
its lease is over; or where it has stopped on a HandOverPrepared that it has applied, or has no lease any more by the
one verdict. A node acts only under a valid lease for what the log it has applied says. An exchange carries the offset
from which maps are read, so a new coordinator hears all answers again, and a map answers only if it comes from the very
incarnation that is awaited and has applied the question.

An exchange pauses only the partitions for which nobody acts; all others are served throughout.
"""

from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

import msgspec

from topolog.events import awaited as waiting
from topolog.events import changes, last_owners, ownership
from topolog.events.asked import RequestRef
from topolog.events.awaited import Asked, Awaited
from topolog.events.decision import Decision
from topolog.events.evidence import Evidence
from topolog.events.groups import GroupAltered, GroupCreated, GroupDropped, GroupEvent, GroupRow
from topolog.events.ids import Incarnation, NodeId, Offset, Place, Position, TopologyVersion
from topolog.events.leases import NodeKind, NodeRow
from topolog.events.membership import NodeJoined, NodeLeft
from topolog.events.ownership import row_key
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.requests import grant
from topolog.events.state import Row, State
from topolog.events.terms import cluster, enter_view
from topolog.events.views import lost_disks, note_lost

EXCHANGES_KEPT = 64
"""Completed exchanges that the state remembers; a projection's history has them all."""


class TriggerType(Enum):
    """What an exchange is about. ANSWERED: a server that the last one has done without; SWITCH: a hand-over, which asks
    nobody; DRAIN: one is begun or taken back."""

    UNKNOWN = "UNKNOWN"
    JOIN = "JOIN"
    LEAVE = "LEAVE"
    GROUP_CREATED = "GROUP_CREATED"
    GROUP_ALTERED = "GROUP_ALTERED"
    LOSS_RESET = "LOSS_RESET"
    REQUESTED = "REQUESTED"
    ANSWERED = "ANSWERED"
    SWITCH = "SWITCH"
    BASELINE_CHANGED = "BASELINE_CHANGED"
    DRAIN = "DRAIN"


MERGED = (TriggerType.JOIN, TriggerType.LEAVE)
"""What an open exchange takes in (EX22); anything else waits for the next one."""


class Trigger(msgspec.Struct, frozen=True):
    """One event, at `at`, that asks for an exchange; `subject`: node or group, `version`: the view it made (EX21)."""

    type: TriggerType
    subject: str
    version: TopologyVersion
    at: Position


class ExchangeStarted(Decision, frozen=True):
    """`awaited`: only whose answer it needs; `maps`: the offset of topic `maps` from which on its answers stand (K4);
    `began_at_ms`: for people only."""

    triggers: tuple[Trigger, ...]
    awaited: tuple[Awaited, ...]
    maps: Offset
    began_at_ms: int


class ExchangeMerged(Decision, frozen=True):
    """Joins and leaves that an open exchange takes in; `awaited` are the servers that it needs besides (EX22)."""

    triggers: tuple[Trigger, ...]
    awaited: tuple[Awaited, ...]


class FullPartitionMap(Decision, frozen=True):
    """What the outcome of an exchange changes in one group; `enrolled`: nodes that get the next numbers.

    `changes` is packed by `pack_changes`, in as many records of one set as it needs.
    """

    group: str
    enrolled: tuple[str, ...]
    changes: bytes


class PartitionsLost(Decision, frozen=True):
    """No owner of these partitions is left; `awaited` names the absent ones whose return ends it (DS2)."""

    group: str
    partitions: tuple[int, ...]
    awaited: tuple[str, ...]


class Waited(msgspec.Struct, frozen=True):
    """How long an exchange has waited for a node."""

    node: NodeId
    waited_ms: int


class ExchangeCompleted(Decision, frozen=True):
    """The outcome is whole; `version` is the result's, `waited` everybody who answered, in the order of answers.

    `unheard` are servers it was completed without: what waits for their answers stays paused, or without their copies,
    until they are heard.
    """

    version: TopologyVersion
    waited: tuple[Waited, ...]
    unheard: tuple[NodeId, ...]


class ExchangeOverdue(Decision, frozen=True):
    """The last exchange was completed without these, and still needs their answers: from here on operators see that."""

    awaited: tuple[NodeId, ...]


class ExchangeQueued(Decision, frozen=True):
    """An exchange is asked for: LOSS_RESET of a group or REQUESTED by an operator, or by nobody: a server has ANSWERED
    at last. It begins when none is open."""

    request: RequestRef | None
    type: TriggerType
    subject: str
    version: TopologyVersion


class Move(msgspec.Struct, frozen=True):
    """Partitions of a group that one node hands over to another."""

    group: str
    partitions: tuple[int, ...]
    to: NodeId


class HandOverPrepared(Decision, frozen=True):
    """From here on `node` starts nothing new for these partitions and lets what runs end; one per former primary."""

    node: NodeId
    incarnation: Incarnation
    moves: tuple[Move, ...]


class AffinitySwitched(Decision, frozen=True):
    """The hand-over prepared at `prepared` is done: the new primaries act, under this position as their token."""

    prepared: Position
    version: TopologyVersion
    evidence: Evidence


class PartitionStatesChanged(Decision, frozen=True):
    """Loads that have ended, copies that are no longer needed or are cleared: outside an exchange, coalesced."""

    group: str
    changes: bytes


ExchangeEvent = (
    ExchangeQueued
    | ExchangeStarted
    | ExchangeMerged
    | ExchangeOverdue
    | FullPartitionMap
    | PartitionsLost
    | ExchangeCompleted
    | HandOverPrepared
    | AffinitySwitched
    | PartitionStatesChanged
)


class ExchangeRow(Row, frozen=True):
    """An exchange, open while `completed_at` is None, under its first version; `started_at` names it in single maps.

    Answers count that have applied `counts_from`: its own beginning, or that of the exchange that first missed somebody
    (DS17). `overdue`: whom the log named at `overdue_at` as silent for long since it was completed without them.
    """

    KIND: ClassVar[str] = "exchange"

    version: TopologyVersion
    result: TopologyVersion
    triggers: tuple[Trigger, ...]
    awaited: tuple[Asked, ...]
    maps: Offset
    started_at: Position
    began_at_ms: int
    counts_from: Position
    completed_at: Position | None = None
    waited: tuple[Waited, ...] = ()
    overdue_at: Position | None = None
    unheard: tuple[NodeId, ...] = ()
    overdue: tuple[NodeId, ...] = ()


class QueueRow(Row, frozen=True):
    """Triggers in the order of the log that no exchange has taken up yet (EX20)."""

    KIND: ClassVar[str] = "exchange-queue"

    triggers: tuple[Trigger, ...]


class HandOverRow(Row, frozen=True):
    """A hand-over under way, under its position."""

    KIND: ClassVar[str] = "hand-over"

    node: NodeId
    incarnation: Incarnation
    moves: tuple[Move, ...]
    prepared_at: Position


def open_exchange(state: State) -> ExchangeRow | None:
    """The one exchange that is open."""
    return next((row for _, row in state.rows(ExchangeRow) if row.completed_at is None), None)


def newest_exchange(state: State) -> ExchangeRow | None:
    """The one that is open, else the last one."""
    return max((row for _, row in state.rows(ExchangeRow)), key=lambda row: row.started_at, default=None)


def queued(state: State) -> tuple[Trigger, ...]:
    row = state.get(QueueRow, "")
    return row.triggers if row else ()


def evolve(state: State, event: ExchangeEvent, place: Place) -> None:
    match event:
        case HandOverPrepared() | AffinitySwitched() | PartitionStatesChanged():
            _evolve_between(state, event, place)
        case ExchangeQueued():
            _enqueue(state, event, place)
        case ExchangeStarted():
            _start(state, event, place)
        case ExchangeMerged():
            _merge(state, event, place)
        case ExchangeOverdue():
            _mark_overdue(state, event, place)
        case FullPartitionMap():
            ownership.enrol(state, event.enrolled)
            changes.apply(state, event.group, event.changes, place)
        case PartitionsLost():
            pass  # said by the full map already; this names them, and whom they await, for people and for the policy
        case ExchangeCompleted():
            _complete(state, event, place)


def _evolve_between(
    state: State, event: HandOverPrepared | AffinitySwitched | PartitionStatesChanged, place: Place
) -> None:
    """What happens outside of exchanges."""
    match event:
        case HandOverPrepared():
            row = HandOverRow(event.node, event.incarnation, event.moves, place.position)
            state.put(str(place.position), row)
        case AffinitySwitched():
            _switch(state, event, place)
        case PartitionStatesChanged():
            changes.apply(state, event.group, event.changes, place)


OTHERS = (NodeJoined, NodeLeft, GroupCreated, GroupAltered, GroupDropped)
"""Decisions of other protocols that mean something for partitions."""


def evolve_others(state: State, event: NodeJoined | NodeLeft | GroupEvent, place: Place) -> None:
    """What these mean for partitions, behind what their own protocol makes of them."""
    match event:
        case NodeJoined() if event.joiner.kind is NodeKind.SERVER:
            queue(state, TriggerType.JOIN, event.joiner.node, place)
        case NodeLeft() if _is_server(state, event.node):
            _leave(state, event.node, place)
            waiting.note_left(state, event.node)
            queue(state, TriggerType.LEAVE, event.node, place)
        case GroupCreated():
            for row in ownership.empty_rows(event.group.name, event.group.partitions):
                state.put(row_key(row.group, row.first), row)
            queue(state, TriggerType.GROUP_CREATED, event.group.name, place)
        case GroupAltered():
            queue(state, TriggerType.GROUP_ALTERED, event.name, place)
        case GroupDropped():
            _drop_group(state, event.name)


def _is_server(state: State, node: str) -> bool:
    row = state.get(NodeRow, node)
    return row is not None and row.kind is NodeKind.SERVER


def _drop_group(state: State, group: str) -> None:
    """Its partitions are nobody's any more: no exchange is needed for that."""
    for key, row in list(state.rows(OwnershipRow)):
        if row.group == group:
            state.drop(OwnershipRow, key)
    for key, hand_over in list(state.rows(HandOverRow)):
        _keep_moves(state, key, hand_over, tuple(move for move in hand_over.moves if move.group != group))


def _leave(state: State, node: NodeId, place: Place) -> None:
    """The node's incarnation has left at `place`: what it acted for, nobody does (DS1); its hand-overs are cancelled.

    Where the receiver leaves, the former primary acts again, under a new token (DS8, DS18), and nobody else may:
    whether it has stopped, or has even read that it should, nobody knows, and no exchange would ask it again.
    """
    for key, row in list(state.rows(HandOverRow)):
        kept = tuple(move for move in row.moves if node not in (row.node, move.to))
        if kept != row.moves:
            former = ownership.number_of(state, row.node)
            for move in row.moves:
                if move not in kept and node != row.node:
                    changes.set_acting(state, move.group, move.partitions, None, place)
                    changes.set_acting(state, move.group, move.partitions, former, place)
            _keep_moves(state, key, row, kept)
    ownership.leave(state, node, place)


def queue(state: State, type_: TriggerType, subject: str, place: Place) -> None:
    """The decision at `place` asks for an exchange; where there are no groups there is nothing to exchange."""
    if state.count(GroupRow):
        trigger = Trigger(type_, subject, cluster(state).topology_version, place.position)
        state.put("", QueueRow((*queued(state), trigger)))


def _enqueue(state: State, event: ExchangeQueued, place: Place) -> None:
    enter_view(state, event.version)
    queue(state, event.type, event.subject, place)
    if event.request is not None:
        grant(state, event.request, place, f"group {event.subject}" if event.subject else "exchange")


def _take_up(state: State, triggers: Sequence[Trigger]) -> None:
    """An exchange has begun with these, or taken them in: always the oldest."""
    waiting = queued(state)
    assert waiting[: len(triggers)] == tuple(triggers), "triggers are taken up in their order"
    if rest := waiting[len(triggers) :]:
        state.put("", QueueRow(rest))
    else:
        state.drop(QueueRow, "")


def _start(state: State, event: ExchangeStarted, place: Place) -> None:
    assert open_exchange(state) is None, "one exchange is open at a time"
    state.put(str(event.triggers[0].version), _row(state, event, place))
    _take_up(state, event.triggers)
    done = sorted((row.started_at, key) for key, row in state.rows(ExchangeRow) if row.completed_at is not None)
    for _, key in done[: max(0, len(done) - EXCHANGES_KEPT)]:
        state.drop(ExchangeRow, key)


def _row(state: State, event: ExchangeStarted, place: Place) -> ExchangeRow:
    first, last = event.triggers[0].version, event.triggers[-1].version
    asked, missed = waiting.asked(state, event.awaited, place), waiting.unheard(state)
    counts_from = missed.counts_from if missed else place.position
    return ExchangeRow(
        first, last, event.triggers, asked, event.maps, place.position, event.began_at_ms, counts_from=counts_from
    )


def _merge(state: State, event: ExchangeMerged, place: Place) -> None:
    row = open_exchange(state)
    assert row is not None, "there is no exchange to merge into"
    _take_up(state, event.triggers)
    gone = {trigger.subject for trigger in event.triggers if trigger.type is TriggerType.LEAVE}
    gone |= {each.node for each in event.awaited}
    merged = msgspec.structs.replace(
        row,
        result=event.triggers[-1].version,
        triggers=(*row.triggers, *event.triggers),
        awaited=(*waiting.still_awaited(row.awaited, gone), *waiting.asked(state, event.awaited, place)),
    )
    state.put(str(row.version), merged)


def _complete(state: State, event: ExchangeCompleted, place: Place) -> None:
    row = open_exchange(state)
    assert row is not None and row.result == event.version, "another exchange is open"
    done = msgspec.structs.replace(
        row, completed_at=place.position, waited=event.waited, awaited=(), unheard=event.unheard
    )
    state.put(str(row.version), done)
    resets = tuple((each.subject, each.at) for each in row.triggers if each.type is TriggerType.LOSS_RESET)
    waiting.note_unheard(state, event.unheard, row, resets, place)
    for node in lost_disks(state):
        if not _is_listed_of_former_life(state, node):
            note_lost(state, node, lost=False)


def _is_listed_of_former_life(state: State, node: NodeId) -> bool:
    """Whether an owner row still names what a life of the node had before its present one: whoever comes back next must
    not be believed that it has that."""
    row, number = state.get(NodeRow, node), ownership.number_of(state, node)
    if row is None or number is None:
        return False
    return any(last_owners.lists_former_life(each, number, row.joined_at) for _, each in state.rows(OwnershipRow))


def _mark_overdue(state: State, event: ExchangeOverdue, place: Place) -> None:
    row = newest_exchange(state)
    assert row is not None, "no exchange waits"
    late = msgspec.structs.replace(row, overdue_at=place.position, overdue=event.awaited)
    state.put(str(row.version), late)
    waiting.note_overdue(state, place)


def _switch(state: State, event: AffinitySwitched, place: Place) -> None:
    row = state.get(HandOverRow, str(event.prepared))
    assert row is not None, f"no hand-over was prepared at {event.prepared}"
    for move in row.moves:
        changes.set_acting(state, move.group, move.partitions, ownership.number_of(state, move.to), place)
    state.drop(HandOverRow, str(event.prepared))
    enter_view(state, event.version)


def _keep_moves(state: State, key: str, row: HandOverRow, kept: tuple[Move, ...]) -> None:
    """Of a hand-over that loses nothing no change is noted."""
    if not kept:
        state.drop(HandOverRow, key)
    elif kept != row.moves:
        state.put(key, msgspec.structs.replace(row, moves=kept))
