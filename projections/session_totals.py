"""What the segments of a session come to, added up: the verdict on the replicas, rows read, found, copied."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from topolog.events.sessions import SegmentRow, SegmentStatus, SessionRow, rows_written, segment_key
from topolog.projections.remembered import Remembered
from topolog.projections.session_course import course
from topolog.projections.store import Reading

AGREE, DIFFER, REPAIRED, INCONCLUSIVE = "AGREE", "DIFFER", "REPAIRED", "INCONCLUSIVE"


class Totals(msgspec.Struct, frozen=True):
    """Of all segments but those that were halved, for which their halves stand. `absent`: replicas that some segment
    went on without."""

    by_state: Mapping[str, int] = {}
    verdict: str | None = None
    rows_read: int = 0
    bytes_read: int = 0
    rows_differ: int = 0
    kinds: Mapping[str, int] = {}
    to_copy: int = 0
    to_delete: int = 0
    unresolved: Mapping[str, int] = {}
    gone: int = 0
    rows_written: int = 0
    skipped: int = 0
    absent: tuple[str, ...] = ()

    @property
    def segments(self) -> int:
        return sum(self.by_state.values())

    @property
    def ended(self) -> int:
        return sum(count for state, count in self.by_state.items() if SegmentStatus(state).is_end)


def compared_by(reading: Reading, row: SessionRow) -> tuple[str, ...]:
    """The replicas that are compared: as asked for, or all that some segment has."""
    if row.definition.replicas:
        return row.definition.replicas
    if row.opened_at is None:
        return ()
    event = reading.surely_decision(row.opened_at).event
    names = (name for plan in getattr(event, "segments", ()) for name in plan.replicas)
    return tuple(dict.fromkeys(names))


def segments_of(reading: Reading, row: SessionRow) -> Sequence[SegmentRow]:
    """The segments as they are, of a session that has ended as they were at its end."""
    if row.status.is_end:
        return course(reading, row).segments
    return [each for _, each in reading.rows(SegmentRow, segment_key(row.number, 0)[:-4])]


def totals(reading: Reading, row: SessionRow) -> Totals:
    """Of one that has ended they are worked out once: nothing changes them any more."""
    if row.ended_at is None:
        return total(segments_of(reading, row))
    name = reading.surely_decision(row.ended_at).chain, row.number
    return _ENDED.get(name, lambda: total(segments_of(reading, row)))


def total(segments: Sequence[SegmentRow]) -> Totals:
    counted = [each for each in segments if each.status is not SegmentStatus.HALVED]
    found = [each.found for each in counted if each.found is not None]
    copies = [copy for each in found for copy in each.copies]
    return Totals(
        by_state=_sorted(Counter(each.status.value for each in counted)),
        verdict=_verdict(counted),
        rows_read=sum(each.rows_read for each in segments),
        bytes_read=sum(each.bytes_read for each in segments),
        rows_differ=sum(each.rows for each in found),
        kinds=_added(each.kinds for each in found),
        to_copy=sum(copy.rows for copy in copies),
        to_delete=sum(copy.deletes for copy in copies),
        unresolved=_added(each.unresolved for each in found),
        gone=sum(each.gone for each in found),
        rows_written=sum(rows_written(each) for each in segments),
        skipped=sum(each.skipped for each in segments),
        absent=tuple(sorted({name for each in counted for name in each.absent})),
    )


def _verdict(segments: Sequence[SegmentRow]) -> str | None:
    """What is sure of the replicas: that they differ if they do anywhere, that they agree only if all was compared."""
    states = {each.status for each in segments}
    if SegmentStatus.DIFFERENT in states:
        return DIFFER
    if SegmentStatus.INCONCLUSIVE in states:
        return INCONCLUSIVE
    if any(each.absent for each in segments):
        return None
    if not states or not states <= {SegmentStatus.EQUAL, SegmentStatus.REPAIRED}:
        return None
    return REPAIRED if SegmentStatus.REPAIRED in states else AGREE


def _added(counts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    added: Counter[str] = Counter()
    for each in counts:
        added.update(each)
    return _sorted(added)


def _sorted(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {name: counts[name] for name in sorted(counts)}


_ENDED: Remembered[Totals] = Remembered()
"""Those of sessions that have ended, by the chain hash of their ends."""
