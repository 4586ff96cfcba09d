"""What a decision that nobody asked for is the answer to, for the stamp and for `explain`."""

from topolog.events import exchange as x
from topolog.events import membership as m
from topolog.events import objects as o
from topolog.events import ownership
from topolog.events.baseline import AutoAdjustSuppressed, BaselineChanged, cluster_state
from topolog.events.changes import unpacked
from topolog.events.decision import Decision
from topolog.events.drains import DrainFinished
from topolog.events.ids import NodeId, Position
from topolog.events.lease_terms import LeaseTermsConfirmed
from topolog.events.metadata import MetadataRemoveAccepted, MetadataUpdateAccepted
from topolog.events.partitions import PartitionState
from topolog.events.repair import (
    RepairEvent,
    SegmentEnded,
    SegmentHalved,
    SessionEnded,
    SessionOpened,
    StepStarted,
    TaskAssigned,
    TaskFailed,
)
from topolog.events.repair_tasks import Purpose, TaskId, TaskStatus
from topolog.events.requests import RequestersForgotten, RequestRefused
from topolog.events.schedules import ScheduleEvent, SchedulePostponed
from topolog.events.sessions import segment
from topolog.events.state import State
from topolog.streams.coordinator.agenda import Agenda
from topolog.streams.coordinator.exchanges import Exchanges
from topolog.streams.coordinator.reports import Reports
from topolog.streams.rules import allowed

_NEXT = "all that it waited for is there"
_ALL_OWN = "all wanted copies own"
"""No input makes due what follows from the copies as they are."""


def cause_of(decision: Decision, state: State, reports: Reports, agenda: Agenda, exchanges: Exchanges) -> str:
    """The heartbeat, the single map, the deadline or the earlier decision that made `decision` due.

    `state` is that before it, `decision` the last one of its set.
    """
    if isinstance(decision, x.ExchangeEvent | m.LeaseStopped):
        return _cause_in_exchange(decision, state, reports, agenda, exchanges)
    if isinstance(decision, o.ObjectEvent):
        return _cause_in_line(decision, state, reports, agenda)
    if isinstance(decision, RepairEvent | ScheduleEvent):
        return _cause_in_session(decision, state, agenda)
    if isinstance(decision, BaselineChanged | AutoAdjustSuppressed) and agenda.adjusting:
        return f"deadline {min(agenda.adjusting)}"
    return _ALL_OWN if isinstance(decision, DrainFinished) else _cause(decision, state, reports, agenda)


def _cause(decision: Decision, state: State, reports: Reports, agenda: Agenda) -> str:
    match decision:
        case m.NodeLeft(node=node) if reports.obituary.is_dead(state, node, decision.incarnation):
            return reports.source(node)
        case m.NodeLeft(node=node, renewed_at=renewed_at):
            lapsed = f"lease/{node}/{decision.incarnation}/{renewed_at}/"
            key = next((key for key in agenda.lapsed if key.startswith(lapsed)), None)
            return f"deadline {key}" if key else reports.source(node)
        case m.NodeJoined(joiner=joiner):
            waiting = state.get(m.WaitingJoinRow, joiner.node)
            return f"end of the wait since position {waiting.position}" if waiting else ""
        case RequestRefused(subject=subject):
            return reports.source(NodeId(subject.removeprefix("node ")))
        case MetadataUpdateAccepted(evidence=evidence) | MetadataRemoveAccepted(evidence=evidence):
            return "deadline: proceed_ms since the proposal" if evidence.presumed_fenced else reports.newest
        case LeaseTermsConfirmed():
            return "deadline: proceed_ms since the change"
        case RequestersForgotten():
            return "deadline: idle for a day"
        case _:
            return reports.newest


def _cause_in_line(decision: o.ObjectEvent, state: State, reports: Reports, agenda: Agenda) -> str:
    """The verdict on a change, its own deadline, a node that is blocked, or that it was its turn."""
    match decision:
        case o.SchemaChangeCommitted(evidence=evidence) if _is_prepared(state, decision.changes[0]):
            return "deadline: proceed_ms since it was prepared" if evidence.presumed_fenced else reports.newest
        case o.SchemaChangeRolledBack(code="BLOCKED"):
            return reports.source(NodeId(decision.facts["node"]))
        case o.SchemaChangeRolledBack(code=allowed.CODE):
            row = cluster_state(state)
            return f"change of the state at position {row.started_at or row.since}"
        case o.SchemaChangeRolledBack(change=change) if key := next(
            (key for key in agenda.late if key.startswith(f"change/{change}/")), None
        ):
            return f"deadline {key}"
    return "its turn"


def _cause_in_session(decision: RepairEvent | ScheduleEvent, state: State, agenda: Agenda) -> str:
    """A deadline, a task that has failed, or what was reported last: the log itself has that."""
    match decision:
        case TaskFailed(task=task):
            key = _stalled(agenda, f"task/{task.session}/{task.segment}/", f"/{task.attempt}/{task.replica}")
        case TaskAssigned(task=task):
            start, end = f"retry/{task.session}/{task.segment}/", f"/{task.attempt - 1}/{task.replica}"
            return f"deadline {key}" if (key := _stalled(agenda, start, end)) else _NEXT
        case SegmentEnded(code="RENDEZVOUS_DOWN"):
            key = _stalled(agenda, f"task/{decision.session}/{decision.segment}/", "")
        case StepStarted() | SegmentEnded() | SegmentHalved():
            return _cause_in_segment(decision, state, agenda)
        case SessionEnded(code="DEADLINE"):
            key = f"session/{decision.session}/deadline"
        case SchedulePostponed(name=name) | SessionOpened(schedule=name) if name:
            key = _stalled(agenda, "schedule/", f"/{name}")
        case _:
            return _NEXT
    return f"deadline {key}" if key else "nobody serves the replica any more"


def _cause_in_segment(decision: StepStarted | SegmentEnded | SegmentHalved, state: State, agenda: Agenda) -> str:
    """The end of the pause before it, tasks that have failed, or that nothing is missing."""
    row = segment(state, decision.session, decision.segment)
    assert row is not None, "a segment goes on that no session has"
    if row.step is None:
        key = _stalled(agenda, f"session/{decision.session}/rest/", "")
        return f"deadline {key}" if key else "its turn"
    if isinstance(decision, StepStarted) and decision.step.purpose is not Purpose.COMPARE:
        return _NEXT
    failed = [
        f"{TaskId(row.session, row.index, row.step.number, task.replica, task.attempt)} ({task.code})"
        for task in row.tasks
        if task.status is TaskStatus.FAILED
    ]
    return f"failure of {', '.join(failed)}" if failed else _NEXT


def _stalled(agenda: Agenda, start: str, end: str) -> str | None:
    return min((key for key in agenda.stalled if key.startswith(start) and key.endswith(end)), default=None)


def _is_prepared(state: State, number: Position) -> bool:
    """One that is committed from the line has nothing to do, and had no verdict."""
    row = o.change_row(state, number)
    return row is not None and row.status is o.ChangeStatus.PREPARED


def _cause_in_exchange(
    decision: x.ExchangeEvent | m.LeaseStopped, state: State, reports: Reports, agenda: Agenda, exchanges: Exchanges
) -> str:
    if isinstance(decision, x.ExchangeCompleted):
        return _cause_of_completion(decision, state, reports, agenda, exchanges)
    match decision:
        case m.LeaseStopped(node=node, incarnation=incarnation):
            return _overdue(agenda, f"/{node}/{incarnation}/evict/")
        case x.ExchangeStarted(triggers=triggers) | x.ExchangeMerged(triggers=triggers):
            return _trigger(triggers[0])
        case x.ExchangeOverdue():
            return _overdue(agenda, "/warn/")
        case x.ExchangeQueued():
            return exchanges.source_of_late(state)
        case x.PartitionStatesChanged():
            return _cause_of_states(decision, state, exchanges)
        case x.AffinitySwitched(evidence=evidence):
            return "deadline: proceed_ms since it was prepared" if evidence.presumed_fenced else reports.newest
        case _:
            return _ALL_OWN


def _cause_of_completion(
    event: x.ExchangeCompleted, state: State, reports: Reports, agenda: Agenda, exchanges: Exchanges
) -> str:
    """The wait that is over, or the last answer: a map, or a heartbeat; where nobody was needed, what it was about."""
    if gathered := _overdue(agenda, "/gather"):
        return gathered
    row = x.open_exchange(state)
    if row is not None and event.waited:
        last = event.waited[-1].node
        owes_map = any(each.node == last and each.needs_map for each in row.awaited)
        return exchanges.source(last) if owes_map else reports.source(last)
    return _trigger(row.triggers[-1] if row else x.queued(state)[0])


def _cause_of_states(event: x.PartitionStatesChanged, state: State, exchanges: Exchanges) -> str:
    """The map that told of the first copy which has changed, unless that is to be cleared now."""
    (change,) = unpacked(event.changes)[:1]
    held = ownership.ownership(ownership.row_of(state, event.group, change.partition), change.partition)
    before = {copy.node: copy.state for copy in held.copies}
    after = {copy.node: copy.state for copy in change.copies}
    node = next(node for node in before if after.get(node) is not before[node])
    return _ALL_OWN if after.get(node) is PartitionState.RENTING else exchanges.source(ownership.names(state)[node])


def _trigger(trigger: x.Trigger) -> str:
    return f"view {trigger.version}: {trigger.type.value} {trigger.subject}".rstrip()


def _overdue(agenda: Agenda, part: str) -> str:
    key = min((key for key in agenda.overdue if part in key), default=None)
    return f"deadline {key}" if key else ""
