"""What a decision that nobody asked for is the answer to, for the stamp and for `explain`."""

from topolog.events import membership as m
from topolog.events.codec import Decision
from topolog.events.ids import NodeId
from topolog.events.metadata import MetadataRemoveAccepted, MetadataUpdateAccepted
from topolog.events.requests import RequestersForgotten, RequestRefused
from topolog.events.state import State
from topolog.streams.coordinator.agenda import Agenda
from topolog.streams.coordinator.reports import Reports


def cause_of(decision: Decision, state: State, reports: Reports, agenda: Agenda) -> str:
    """The heartbeat, the deadline or the earlier decision that made `decision` due; `state` is that before it."""
    match decision:
        case m.NodeLeft(node=node) if (node, decision.incarnation) in reports.obituary.dead:
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
        case RequestersForgotten():
            return "deadline: idle for a day"
        case _:
            return reports.newest
