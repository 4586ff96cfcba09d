"""What a request would lead to: the coordinator's own rules over what is projected, and nothing is sent.

The rules decide over a copy of all rows, and what they decide is folded into that copy. So who would count, and whom
the affinity would want for each partition, is read from the state before and the one after, as the coordinator would.
"""

from collections.abc import Iterator, Sequence

from topolog.events.asked import Request, RequestRef
from topolog.events.baseline import baseline, online
from topolog.events.baseline_requests import ClusterStateRequested
from topolog.events.decision import Decision
from topolog.events.drains import DrainStarted
from topolog.events.fold import evolve
from topolog.events.groups import GroupDropped, GroupRow
from topolog.events.ids import Place, Position
from topolog.events.lease_terms import LeaseTermsChanged
from topolog.events.metadata import MetadataUpdateRejected
from topolog.events.requests import OutcomeRow, RequestUnchanged, outcome_key
from topolog.events.stamp import NO_CHAIN
from topolog.events.state import State
from topolog.events.terms import ClusterRow
from topolog.projections import dry_run_losses, dry_run_objects, queries, subjects
from topolog.projections.baseline_resources import BaselinePreview, DryRun, GroupPreview, Planned
from topolog.projections.store import Reading
from topolog.streams.rules import placement, requests
from topolog.streams.rules.affinity import NOBODY, Candidate, Placement, ideal
from topolog.streams.rules.requests import Circumstances

_NO_DIGEST = bytes(8)


class Contradiction(Exception):
    """The request is a proposal that contradicts what stands, and would be refused with this decision."""

    def __init__(self, refusal: MetadataUpdateRejected) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def dry_run(reading: Reading, request: Request, wall_ms: int) -> DryRun:
    """What would be decided now, and what would follow from it; raises Refused or Contradiction as the rules do."""
    state = reading.state()
    row = baseline(state)
    before = _Wanted(state), None if row is None else row.number, () if row is None else row.nodes
    decided = _decided(state, request, wall_ms, reading.position)
    about_objects = tuple(dry_run_objects.sentences(reading, state, decided[0]))
    losses = tuple(dry_run_losses.before(reading, state, request))
    _fold(state, request, decided, reading)
    preview = _preview(state, before[1], before[2])
    groups = tuple(before[0].changes_to(_Wanted(state)))
    is_unchanged = isinstance(decided[0], RequestUnchanged)
    return DryRun(
        subject=request.subject,
        status="UNCHANGED" if is_unchanged else "GRANTED",
        sentence=_sentence(reading, request, decided, preview, groups, about_objects),
        decisions=tuple(_planned(each) for each in decided),
        baseline=preview,
        groups=groups,
        warnings=()
        if is_unchanged
        else (
            *losses,
            *dry_run_losses.after(state, request, preview),
            *dry_run_objects.warnings(reading, decided[0]),
        ),
        steps=tuple(dry_run_objects.details(reading, decided[0])),
    )


def _planned(event: Decision) -> Planned:
    content = {field: value for field, value in queries.plain(event).items() if field != "request"}
    return Planned(type(event).__name__, subjects.subject_of(event), content)


def _decided(state: State, request: Request, wall_ms: int, end: Position) -> list[Decision]:
    ref = RequestRef(request.id.requester, request.id.sequence, _NO_DIGEST)
    decided = requests.decide(state, request, ref, Circumstances(wall_ms, end))
    if isinstance(decided[0], MetadataUpdateRejected):
        raise Contradiction(decided[0])
    return decided


def _fold(state: State, request: Request, decided: Sequence[Decision], reading: Reading) -> None:
    state.drop(OutcomeRow, outcome_key(request.id.requester, request.id.sequence))
    for at, event in enumerate(decided, start=1):
        place = Place(Position(reading.position + at), NO_CHAIN, reading.meta.header.term)
        evolve(state, event, place)


class _Wanted:
    """Whom the affinity wants for each partition of each group, of the servers that are here."""

    def __init__(self, state: State) -> None:
        ready = placement.may_hold(state)
        self._here = frozenset(row.node for row in ready)
        self._groups = {
            row.name: (Placement.of(row.definition), tuple(placement.candidates(state, row, ready)))
            for _, row in state.rows(GroupRow)
        }
        self._chosen: dict[str, list[list[str]]] = {}

    def changes_to(self, after: "_Wanted") -> Iterator[GroupPreview]:
        """The groups of which a partition would have other owners."""
        for group in sorted({*self._groups, *after._groups}):
            if self._basis(group) != after._basis(group):
                preview = _compared(group, self.owners(group), after.owners(group))
                if preview.changed:
                    yield preview

    def owners(self, group: str) -> list[list[str]]:
        """By partition, the wanted primary first; nothing of a group that is not there."""
        if group not in self._groups:
            return []
        placement, candidates = self._groups[group]
        if not candidates:
            return [[] for _ in range(placement.partitions)]
        nodes = [str(each.node) if each.node in self._here else "" for each in candidates]
        return [
            [nodes[index] for index in indexes if index != NOBODY and nodes[index]]
            for indexes in ideal(candidates, placement).tolist()
        ]

    def _basis(self, group: str) -> tuple[Placement | None, tuple[Candidate, ...], frozenset[str]]:
        placement, candidates = self._groups.get(group, (None, ()))
        return placement, candidates, frozenset(self._here.intersection(each.node for each in candidates))


def _compared(group: str, before: Sequence[Sequence[str]], after: Sequence[Sequence[str]]) -> GroupPreview:
    count = max(len(before), len(after))
    changed = primaries = 0
    gains: dict[str, int] = {}
    gives_up: dict[str, int] = {}
    for partition in range(count):
        was = before[partition] if partition < len(before) else ()
        now = after[partition] if partition < len(after) else ()
        changed += set(was) != set(now)
        primaries += was[:1] != now[:1]
        for node in set(now).difference(was):
            gains[node] = gains.get(node, 0) + 1
        for node in set(was).difference(now):
            gives_up[node] = gives_up.get(node, 0) + 1
    return GroupPreview(group, count, changed, primaries, dict(sorted(gains.items())), dict(sorted(gives_up.items())))


def _preview(state: State, number: int | None, before: Sequence[str]) -> BaselinePreview | None:
    """None if the baseline stays as it is."""
    row = baseline(state)
    if row is None or row.number == number:
        return None
    here = online(state)
    return BaselinePreview(
        number=number,
        next_number=row.number,
        before=tuple(before),
        after=row.nodes,
        added=tuple(node for node in row.nodes if node not in before),
        dropped=tuple(node for node in before if node not in row.nodes),
        online=tuple(node for node in row.nodes if node in here),
        away=tuple(node for node in row.nodes if node not in here),
    )


def _sentence(
    reading: Reading,
    request: Request,
    decided: Sequence[Decision],
    preview: BaselinePreview | None,
    groups: Sequence[GroupPreview],
    about_objects: Sequence[str],
) -> str:
    if isinstance(decided[0], RequestUnchanged):
        return "Nothing would change: what is asked for holds already."
    events = ", ".join(dict.fromkeys(type(each).__name__ for each in decided))
    parts = [f"It would be decided: {events}.", *about_objects]
    if preview is not None:
        parts.append(_about_baseline(preview))
    if isinstance(request, ClusterStateRequested):
        proceed_ms = queries.cluster_row(reading).proceed_ms
        parts.append(f"It is done when every server has applied it, {proceed_ms} ms later if one is silent.")
    if isinstance(decided[0], LeaseTermsChanged):
        parts.append(_about_terms(queries.cluster_row(reading), decided[0]))
    if isinstance(decided[0], DrainStarted):
        parts.append(f"{decided[0].node} goes on serving until others have all of its copies, then it counts no more.")
    is_drop = isinstance(decided[0], GroupDropped)
    parts += [_about_group(each, is_drop=is_drop) for each in groups]
    return " ".join(parts)


def _about_group(preview: GroupPreview, *, is_drop: bool) -> str:
    if is_drop:
        return f"All {preview.partitions} partitions of {preview.group} go, with their data."
    return f"Of {preview.group}, {preview.changed} of {preview.partitions} partitions get other owners."


def _about_terms(before: ClusterRow, change: LeaseTermsChanged) -> str:
    after_ms = change.fence_ms + change.margin_ms
    longer_ms = max(before.proceed_ms, after_ms)
    later = f", {after_ms} ms once it is confirmed, in some {longer_ms} ms" if after_ms < longer_ms else ""
    return (
        f"Nodes would stop {change.fence_ms} ms after their last confirmed heartbeat; others would go on without them "
        f"after {longer_ms} ms{later}."
    )


def _about_baseline(preview: BaselinePreview) -> str:
    changes = [f"adds {', '.join(preview.added)}"] if preview.added else []
    changes += [f"drops {', '.join(preview.dropped)}"] if preview.dropped else []
    away = f", away: {', '.join(preview.away)}" if preview.away else ""
    count = len(preview.after)
    says = " and ".join(changes) or "has the same members with other attributes"
    return f"Baseline {preview.next_number} {says}: {count} member{'' if count == 1 else 's'}{away}."
