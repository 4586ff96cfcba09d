"""Which earlier decisions one decision follows from: by what it says itself, and by the rows as they were before it.

The stamp's cause names the record of an input, or the deadline, that made a decision due. It does not name the decision
that the wait was for: a version is accepted on the last server's heartbeat, because it had been proposed. That link is
here. Each of these looks costs a few seeks, whatever the length of the log: what is looked for in the decisions about
one subject is not sought further back than `_LOOKED_AT`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice

from topolog.events import exchange as x
from topolog.events import membership as m
from topolog.events import objects as o
from topolog.events import ownership, repair
from topolog.events.baseline import (
    AutoAdjustRow,
    AutoAdjustSuppressed,
    BaselineChanged,
    Cause,
    ClusterCold,
    ClusterStateRow,
    ClusterWarmed,
    StateChangeFinished,
    StateChangeStarted,
)
from topolog.events.changes import unpacked
from topolog.events.drains import DrainFinished, DrainRow
from topolog.events.fold import Event
from topolog.events.ids import Position
from topolog.events.lease_terms import LeaseTermsConfirmed
from topolog.events.leases import NodeRow
from topolog.events.metadata import MetadataRemoveAccepted, MetadataUpdateAccepted, ProposalRow, RemovalRow
from topolog.events.object_types import type_id
from topolog.events.ownership import row_key
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.events.repair_tasks import TaskId
from topolog.events.requests import RequestRefused
from topolog.events.schedules import SchedulePostponed, ScheduleSet
from topolog.events.sessions import SegmentRow, SessionRow, segment_key, session_key
from topolog.projections.layout import Decided
from topolog.projections.store import Reading

_LOOKED_AT = 512
"""Decisions about one subject, or versions of one row, that are looked through; one that stands further back is not
found, and the chain ends where it is."""

_Found = Iterable[Position | None]
_OF_PARTITIONS = frozenset(
    each.__name__
    for each in (x.FullPartitionMap, x.PartitionStatesChanged, x.AffinitySwitched, m.NodeLeft, x.PartitionsLost)
)


class _Here:
    """One decision, and the rows as they were before its set."""

    def __init__(self, reading: Reading, decided: Decided) -> None:
        self.reading = reading
        self.decided = decided
        self.position = decided.position

    @cached_property
    def before(self) -> Reading:
        return self.reading.as_of(self.decided.set_start - 1)

    def newest(self, subject: str, kind: type) -> Position | None:
        """The last decision of this kind about a subject, before this one."""
        found = islice(self.reading.decisions(self.position, subject), _LOOKED_AT)
        return next((each.position for each in found if each.event_name == kind.__name__), None)


def antecedents(reading: Reading, decided: Decided) -> tuple[Position, ...]:
    """The decisions that this one follows from, the one that counts most first; all stand before it."""
    if decided.set_start == 0:
        return ()
    found = _of(_Here(reading, decided), decided.event)
    return tuple(dict.fromkeys(each for each in found if each is not None and each < decided.position))


def _of(here: _Here, event: Event) -> _Found:
    for of_family in (_of_member, _of_definition, _of_cluster, _of_exchange, _of_session):
        found = of_family(here, event)
        if found is not None:
            return found
    return ()


def _of_member(here: _Here, event: Event) -> _Found | None:
    match event:
        case m.LeaseStopped(request=None):
            return [here.newest("exchange", x.ExchangeStarted)]
        case m.NodeJoined() | m.JoinWithdrawn():
            node = event.joiner.node if isinstance(event, m.NodeJoined) else event.node
            return [_waiting(here.before, node)]
        case RequestRefused(subject=subject) if subject.startswith("node "):
            return [_waiting(here.before, subject.removeprefix("node "))]
        case m.NodeLeft(node=node):
            row = here.before.row(NodeRow, node)
            return [row.stopped_at if row else None]
        case DrainFinished(node=node):
            drain = here.before.row(DrainRow, node)
            return [drain.started_at if drain else None]
        case _:
            return None


def _waiting(before: Reading, node: str) -> Position | None:
    row = before.row(m.WaitingJoinRow, node)
    return row.position if row else None


def _of_definition(here: _Here, event: Event) -> _Found | None:
    match event:
        case MetadataUpdateAccepted(type_name=name, version=version):
            proposal = here.before.row(ProposalRow, f"{type_id(name)}/{version}")
            return [proposal.position if proposal else None]
        case MetadataRemoveAccepted(type_name=name):
            removal = here.before.row(RemovalRow, str(type_id(name)))
            return [removal.position if removal else None]
        case o.SchemaChangePrepared(change=number):
            return [number]
        case o.SchemaChangeCommitted(changes=numbers):
            return [_prepared(here.before, each) for each in numbers]
        case o.SchemaChangeRolledBack(request=None, code="NOT_ACTIVE"):
            state = here.before.row(ClusterStateRow, "")
            return [(state.started_at or state.since) if state else None]
        case o.SchemaChangeRolledBack(request=None, change=number):
            return [_prepared(here.before, number)]
        case o.DataDeletionConfirmed(changes=numbers):
            rows = (here.before.row(o.ChangeRow, str(each)) for each in numbers)
            return [row.closed_at for row in rows if row]
        case _:
            return None


def _prepared(before: Reading, number: Position) -> Position:
    row = before.row(o.ChangeRow, str(number))
    return number if row is None or row.prepared_at is None else row.prepared_at


def _of_cluster(here: _Here, event: Event) -> _Found | None:
    match event:
        case StateChangeFinished(started=started):
            return [started]
        case LeaseTermsConfirmed(changed=changed):
            return [changed]
        case BaselineChanged(cause=Cause.ADJUSTED) | AutoAdjustSuppressed():
            row = here.before.row(AutoAdjustRow, "")
            return [row.last_at, row.first_at] if row else ()
        case BaselineChanged(cause=Cause.DRAINED):
            return [Position(here.position - 1)]
        case StateChangeStarted() | ClusterWarmed() | BaselineChanged() if event.cause in _BY_JOINING:
            return [_newest_at(here.before, event.online, lambda row: row.joined_at)]
        case ClusterCold(awaited=awaited):
            return [_newest_at(here.before, awaited, lambda row: row.left_at)]
        case _:
            return None


_BY_JOINING = (Cause.COMPLETE, Cause.QUORUM)


def _newest_at(before: Reading, nodes: Iterable[str], at: Callable[[NodeRow], Position | None]) -> Position | None:
    """The last of what befell these nodes."""
    rows = (before.row(NodeRow, node) for node in nodes)
    return max(filter(None, (at(row) for row in rows if row)), default=None)


def _of_exchange(here: _Here, event: Event) -> _Found | None:
    match event:
        case x.ExchangeStarted(triggers=triggers) | x.ExchangeMerged(triggers=triggers):
            return [trigger.at for trigger in triggers]
        case x.AffinitySwitched(prepared=prepared):
            return [prepared]
        case x.HandOverPrepared(moves=moves):
            group, number = moves[0].group, moves[0].partitions[0]
            return [_in_set(here, group), *_made(here.before, group, number)]
        case x.PartitionStatesChanged():
            return _of_states(here.before, event)
        case x.ExchangeQueued():
            return [here.newest("exchange", x.ExchangeCompleted)] if event.request is None else ()
        case x.FullPartitionMap() | x.PartitionsLost() | x.ExchangeOverdue() | x.ExchangeCompleted():
            return [here.newest("exchange", x.ExchangeStarted)]
        case _:
            return None


def _in_set(here: _Here, group: str) -> Position | None:
    """What stands before it in its own set about the group: an outcome that hands over what it gives to others."""
    for position in range(here.position - 1, here.decided.set_start - 1, -1):
        if here.reading.surely_decision(position).subject == f"group {group}":
            return Position(position)
    return None


def _made(before: Reading, group: str, number: int) -> Iterator[Position]:
    """The decision that made a partition what it is."""
    key, later = row_key(group, number), None
    for at, row in islice(before.versions(OwnershipRow, key), _LOOKED_AT):
        held = ownership.ownership(row, number) if row and number < row.first + row.count else None
        if later is not None and held != later[1]:
            break
        later = at, held
    if later is not None:
        about = [each for each in before.decisions_of_set(later[0]) if _is_about(each, group)]
        yield about[-1].position if about else later[0]


def _is_about(decided: Decided, group: str) -> bool:
    is_of_another = decided.subject.startswith("group ") and decided.subject != f"group {group}"
    return decided.event_name in _OF_PARTITIONS and not is_of_another


def _of_states(before: Reading, event: x.PartitionStatesChanged) -> _Found:
    """Of a load that has ended, where the copy began to load; of another change what the partition was before."""
    (change,) = unpacked(event.changes)[:1]
    row = before.row(OwnershipRow, row_key(event.group, change.partition))
    if row is None:
        return ()
    held = {copy.node: copy for copy in ownership.ownership(row, change.partition).copies}
    for copy in change.copies:
        was = held.get(copy.node)
        if was and was.state is PartitionState.MOVING and copy.state is PartitionState.OWNING:
            return [was.since]
    return _made(before, event.group, change.partition)


def _of_session(here: _Here, event: Event) -> _Found | None:
    match event:
        case repair.SessionOpened(schedule=name) | SchedulePostponed(name=name) if name:
            return [here.newest(f"schedule {name}", ScheduleSet)]
        case repair.SessionOpened(session=number):
            return [number]
        case repair.TaskCompleted() | repair.TaskProgressed() | repair.TaskFailed():
            return [_assigned(here.before, event.task), *_opened(here.before, event.task.session)]
        case repair.TaskAssigned(task=task):
            return [*_in_segment(here, task.session, task.segment, _STEPS), *_opened(here.before, task.session)]
        case repair.PairCompared() | repair.RowsCompared():
            return [*_in_segment(here, event.session, event.segment, _DONE), *_opened(here.before, event.session)]
        case repair.StepStarted() | repair.SegmentEnded() | repair.SegmentHalved():
            return [*_in_segment(here, event.session, event.segment, _ENDS), *_opened(here.before, event.session)]
        case repair.SessionEnded(request=None, session=number):
            return [here.newest(f"session {number}", repair.SegmentEnded), *_opened(here.before, number)]
        case _:
            return None


_STEPS = (repair.StepStarted,)
_DONE = (repair.TaskCompleted,)
_ENDS = (repair.TaskCompleted, repair.TaskFailed, repair.PairCompared, repair.RowsCompared)


def _assigned(before: Reading, task: TaskId) -> Position | None:
    """Where a replica was asked for this."""
    row = before.row(SegmentRow, segment_key(task.session, task.segment))
    asked = (each for each in (row.tasks if row else ()) if each.replica == task.replica)
    return next((each.assigned_at for each in asked if each.attempt == task.attempt), None)


def _opened(before: Reading, number: Position) -> Iterator[Position]:
    """Where the session was opened, or granted."""
    row = before.row(SessionRow, session_key(number))
    yield number if row is None or row.opened_at is None else row.opened_at


def _in_segment(here: _Here, session: Position, segment: int, among: tuple[type, ...]) -> Iterator[Position]:
    """The last of these decisions about one segment, before this one."""
    names = {each.__name__ for each in among}
    for each in islice(here.reading.decisions(here.position, f"session {session}"), _LOOKED_AT):
        event = each.event if each.event_name in names else None
        if event is not None and getattr(getattr(event, "task", event), "segment", None) == segment:
            yield each.position
            return
