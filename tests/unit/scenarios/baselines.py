"""The baseline and the cluster's state in the words of the transcripts."""

from collections.abc import Iterator

from topolog.events import baseline as b
from topolog.events import drains as d
from topolog.events.baseline_requests import BaselineVerb
from topolog.events.fold import Event
from topolog.events.ids import TopologyVersion
from topolog.events.state import State


def content_of_baseline(event: Event) -> str:
    """What an event says."""
    return _content_of_state(event) or _content_of_members(event)


def _content_of_state(event: Event) -> str:
    match event:
        case b.StateChangeStarted():
            return f"to {event.target.value}, {event.cause.value}, online {listed(event.online)}, view {event.version}"
        case b.StateChangeFinished():
            parts = {"applied": event.evidence.applied, "presumed fenced": event.evidence.presumed_fenced}
            why = "".join(f"; {what}: {' '.join(who)}" for what, who in parts.items() if who)
            return f"of position {event.started}, view {event.version}{why}"
        case b.HoldChanged():
            return "held" if event.held else "let go"
        case b.ClusterCold():
            return f"until {event.quorum} members are here, away {listed(event.awaited)}"
        case b.ClusterWarmed():
            return f"{event.cause.value}, here {listed(event.online)}, view {event.version}"
        case _:
            return ""


def _content_of_members(event: Event) -> str:
    match event:
        case b.BaselineChanged():
            members = listed(tuple(member.node for member in event.members))
            return f"number {event.number}, {event.cause.value}: {members}, view {event.version}"
        case b.AutoAdjustConfigured():
            return f"{'on' if event.enabled else 'off'}, soft {event.soft_ms} ms, hard {event.hard_ms} ms"
        case b.AutoAdjustSuppressed():
            return event.reason
        case d.DrainStarted() | d.DrainCancelled():
            return f"{event.node}, view {event.version}"
        case d.DrainFinished():
            return event.node
        case _:
            return ""


def listed(nodes: tuple[str, ...]) -> str:
    return " ".join(nodes) or "nobody"


def change_of(words: tuple[str, ...]) -> dict[str, object]:
    """The fields of a BaselineChangeRequested that `set n1 n2 accepting loss` names."""
    verb, *nodes = words
    accepts = nodes[-2:] == ["accepting", "loss"]
    nodes = nodes[:-2] if accepts else nodes
    version = TopologyVersion(*map(int, nodes.pop().split("."))) if verb == "version" else None
    return {
        "verb": BaselineVerb(verb.upper()),
        "nodes": tuple(nodes),
        "accepts_loss": accepts,
        "version": version,
    }


def baseline_lines(state: State) -> Iterator[str]:
    """The state, the baseline, its history; and what is under way."""
    row, current = b.cluster_state(state), b.baseline(state)
    on_its_way = f" on its way to {row.target.value}" if row.target else ""
    marks = {"held": row.held, "cold": row.cold_at is not None, "goes on": row.goes_on}
    yield row.state.value + on_its_way + "".join(f", {mark}" for mark, is_so in marks.items() if is_so)
    if current is None:
        yield "no baseline"
        return
    yield f"baseline {current.number} ({current.cause.value}): {listed(current.nodes)}"
    for point in current.history:
        yield f"  branching point {point.at.position}: {listed(point.online)}"
    for _, former in state.rows(b.FormerBaselineRow):
        yield f"former {former.number} ({former.cause.value}): {listed(former.nodes)}, until {former.replaced_at}"
    for _, drain in state.rows(d.DrainRow):
        yield f"{drain.node} is {'drained' if drain.finished_at is not None else 'being drained'}"
