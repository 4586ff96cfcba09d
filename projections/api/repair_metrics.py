"""What Prometheus is told of comparisons and repairs of replicas: how they end, what is under way, what differs."""

from collections import Counter
from collections.abc import Iterator

from topolog.events.families import Families, Metric
from topolog.events.sessions import SegmentStatus, SessionRow, SessionStatus
from topolog.projections.differing_leaves import differing_leaves
from topolog.projections.session_totals import segments_of
from topolog.projections.store import Reading

_RANGES = tuple(status for status in SegmentStatus if status not in (SegmentStatus.UNKNOWN, SegmentStatus.HALVED))
_ENDS = tuple(status for status in SessionStatus if status.is_end)


def of_repair(reading: Reading, cluster: str) -> Iterator[Metric]:
    """All that is told of one cluster; of sessions that have ended as far as coordinators keep them."""
    families = Families("topolog_repair", cluster)
    rows = sorted((row for _, row in reading.rows(SessionRow)), key=lambda row: row.number)
    yield families.gauges("sessions", "Ended sessions that are kept, by how they ended.", _ended(rows), "state")
    yield families.gauges("ranges", "Ranges of the sessions that are under way.", _ranges(reading, rows), "state")
    succeeded = {row.definition.table: row for row in rows if row.status is SessionStatus.SUCCEEDED}
    times = {
        table: reading.surely_decision(row.ended_at).logged_at_ms / 1000
        for table, row in succeeded.items()
        if row.ended_at is not None
    }
    text = "When the newest session of the table succeeded."
    yield families.gauges("last_success_timestamp_seconds", text, times, "table")
    text = "Leaves that differ between replicas, as the newest ended session of the table left them."
    yield Families("topolog_merkle", cluster).gauges("diff_leaves", text, differing_leaves(reading), "table")


def _ended(rows: list[SessionRow]) -> dict[str, float]:
    found = Counter(row.status for row in rows)
    return {status.value: found[status] for status in _ENDS}


def _ranges(reading: Reading, rows: list[SessionRow]) -> dict[str, float]:
    opened = (row for row in rows if not row.status.is_end)
    found = Counter(each.status for row in opened for each in segments_of(reading, row))
    return {status.value: found[status] for status in _RANGES}
