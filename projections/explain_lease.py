"""Why a lease is valid or not and when it ends; what its lease health rests on; why a node holds what it holds, and
what it says itself."""

import shlex
from collections.abc import Iterator, Mapping

from topolog.events.ids import NodeId, Position
from topolog.projections import causes, health, partitions, patience, paused, pending, queries, single_maps
from topolog.projections.durations import ago
from topolog.projections.explain import causes_about, with_next
from topolog.projections.partition_resources import NodeMapDetail, SingleMapDetail
from topolog.projections.pending_resources import Pending
from topolog.projections.resources import Awaited, Explanation, Lease, LeaseHealth
from topolog.projections.store import Reading


def explain_lease(reading: Reading, age_ms: int, name: str) -> Explanation:
    """Until when the member may serve, and when others go on without it; raises NotFound as `queries.lease` does."""
    found = queries.lease(reading, age_ms, name)
    terms = queries.cluster_row(reading)
    quoted = shlex.quote(name)
    facts = {
        "terms": f"the node stops {terms.fence_ms} ms after its last confirmed heartbeat; others go on without it "
        f"after {terms.proceed_ms} ms",
        "incarnation": f"{found.incarnation}, slot {found.slot}",
    }
    asked: tuple[Awaited, ...] = ()
    if found.state is not None and found.renewed_at is not None:
        span = patience.longest_wait(reading, Position(found.renewed_at))
        facts["last renewal"] = f"heartbeat {found.sequence}, at position {found.renewed_at}, {found.renewed_time}"
        facts["others go on without it"] = f"{span}, unless it is renewed"
        if found.state != "VALID":
            asked = (Awaited(name, found.renewed_at, span.left_ms),)
        facts["lease health"] = health.lease_health_of(reading, age_ms, name).sentence
    sentence = f"The lease of {name} {_state(found, terms.fence_ms)}."
    found_ = Explanation(sentence, facts, causes_about(reading, f"node {name}"), asked)
    return with_next(found_, f"topolog explain node {quoted}", f"topolog describe lease-health {quoted}")


def _state(found: Lease, fence_ms: int) -> str:
    match found.state:
        case "VALID":
            left_ms = max(0, fence_ms - (found.age_ms or 0))
            return (
                f"is valid: renewed {ago(found.age_ms or 0)} ago, and good for {ago(left_ms)} more, as the log shows it"
            )
        case "SILENT":
            return (
                f"is not renewed any more: {ago(found.age_ms or 0)} ago it was last, so the node stops serving in "
                f"{ago(found.fenced_in_ms or 0)}"
            )
        case "OVERDUE":
            return f"is overdue: not renewed for {ago(found.age_ms or 0)}, so the node has stopped serving by itself"
        case "NONE":
            return "has not begun: none of its heartbeats has been confirmed since it joined"
        case _:
            return "is not known: as of the past, or where this reader has stopped"


def explain_lease_health(reading: Reading, age_ms: int, name: str) -> Explanation:
    """What is measured of a member's heartbeats, by whom, and what would help; it has no past."""
    found = health.lease_health_of(reading, age_ms, name)
    explained = Explanation(found.sentence, dict(_measured(found)), causes_about(reading, f"node {name}"))
    quoted = shlex.quote(name)
    return with_next(explained, f"topolog explain lease {quoted}", f"topolog explain node {quoted}")


def _measured(found: LeaseHealth) -> Iterator[tuple[str, str]]:
    yield "state", f"{found.state}; no decision rests on it"
    yield "warning below", f"{found.warning_below_ms} of {found.fence_ms} ms left when a heartbeat comes"
    yield "late above", f"{found.late_above_ms} ms, half of the margin"
    if found.silent_ms is not None:
        yield "last heartbeat", f"{found.sequence}, {ago(found.silent_ms)} ago"
    for span, figures in (("ten minutes", found.window), ("incarnation", found.whole)):
        if figures is not None:
            missed = f"{figures.missed} missed, {figures.lost} lost, {figures.fencings} fencings"
            late = f", latest by {figures.lateness_max_ms} ms" if figures.lateness_max_ms is not None else ""
            yield f"in its {span}", f"{figures.beats} heartbeats{late}, {missed}"
    if found.worker is None:
        yield "measured by", "nobody: `topolog run lease-health` does it"
    else:
        heard = f", heard {ago(found.heard_age_ms)} ago" if found.heard_age_ms is not None else ""
        yield "measured by", f"{found.worker}{heard}"


def explain_map(reading: Reading, age_ms: int, group: str, node: str) -> Explanation:
    """What a node holds of a group and why: what loads, what it is about to lose; raises as `node_map` does."""
    found = partitions.node_map(reading, group, node)
    waits = [each for each in pending.pending(reading, age_ms) if _is_about(each, group, node)]
    facts = dict(_held(found))
    facts |= {f"pending: {each.name}": pending.told(each) for each in waits}
    newest = _newest_of(reading, group)
    chain = tuple(causes.shown(each) for each in causes.chain(reading, newest)) if newest is not None else ()
    quoted = shlex.quote(group)
    commands = [command for each in waits[:1] for command in each.next[:1]]
    commands += [
        f"topolog get partitions --group {quoted} --node {shlex.quote(node)}",
        f"topolog explain group {quoted}",
    ]
    return with_next(Explanation(_map_sentence(found), facts, chain), *commands)


def explain_single_map(reading: Reading, age_ms: int, name: str) -> Explanation:
    """What a server says that it holds, where that is not what the log says, and whether an exchange still needs it; it
    has no past."""
    found, missed = single_maps.single_map(reading, age_ms, name), paused.Missed(reading, age_ms)
    asked = missed.silent.get(NodeId(name))
    facts = dict(_said(found))
    if asked is not None:
        facts["an exchange waits for it"] = missed.since(asked)
        facts["it is waited for until"] = missed.ends(asked)
    explained = Explanation(
        f"{name}: {found.sentence}",
        facts,
        causes_about(reading, f"node {name}"),
        missed.awaited([asked] if asked else ()),
    )
    quoted = shlex.quote(name)
    about = ["topolog explain exchange"] if asked else []
    return with_next(explained, *about, f"topolog get maps --node {quoted}", f"topolog explain node {quoted}")


def _said(found: SingleMapDetail) -> Iterator[tuple[str, str]]:
    if found.applied is not None:
        yield "map", f"number {found.sequence} of this life, sent when it had applied position {found.applied}"
        yield "came", f"{found.time}, {ago(found.age_ms or 0)} ago"
    if found.exchange is not None:
        yield "sent for", f"exchange {found.exchange}"
    for each in found.groups:
        said = f"it says {_counts(each.copies)}, the log {_counts(each.in_log)}"
        differing = f"; they differ in {each.differing}" if each.differing else ""
        yield f"group {each.group}", f"{said}{differing}"


def _counts(states: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in states.items()) or "nothing"


def _is_about(each: Pending, group: str, node: str) -> bool:
    is_of_group = each.kind in ("LOST", "PAUSED", "LOADING") and each.name.endswith(f"/{group}")
    return (is_of_group or each.kind in ("HAND-OVER", "DRAIN")) and node in [held.node for held in each.waits_for]


def _newest_of(reading: Reading, group: str) -> Position | None:
    """The newest decision that changed who holds what of the group."""
    return next(reading.positions(subject=f"group {group}"), None)


def _map_sentence(found: NodeMapDetail) -> str:
    if not found.copies:
        return f"Node {found.node} holds nothing of group {found.group}: no partition's affinity wants it there."
    surplus = found.copies - found.wanted
    rest = f", {surplus} of which nobody needs any more" if surplus else ", all as the affinity wants them"
    here = "" if found.is_member else "; it is no member now, and what it holds waits for it"
    copies = f"{found.copies} cop{'y' if found.copies == 1 else 'ies'}"
    return f"Node {found.node} holds {copies} of group {found.group}{rest}, and acts for {found.primaries}{here}."


def _held(found: NodeMapDetail) -> Iterator[tuple[str, str]]:
    for state, numbers in found.partitions.items():
        yield f"copies {state}", f"{found.states.get(state, 0)}: {numbers}"
    if found.primary_of:
        yield "acts for", found.primary_of
