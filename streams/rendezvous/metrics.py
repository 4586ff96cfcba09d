"""What Prometheus is told of a rendezvous: what it holds, what it put aside, what it has reported."""

from collections.abc import Iterator

from topolog.events.families import Families, Metric
from topolog.streams.rendezvous.desk import Desk


class RendezvousMetrics:
    """Read from the desk when Prometheus asks; nothing is told before there is one."""

    def __init__(self, cluster: str) -> None:
        self._desk: Desk | None = None
        self._families = Families("topolog_rendezvous", cluster)

    def show(self, desk: Desk) -> None:
        self._desk = desk

    def collect(self) -> Iterator[Metric]:
        desk, families = self._desk, self._families
        if desk is None:
            return
        meeting = desk.meeting
        yield families.gauge("ready", "1 if it has read the log to its end, and compares.", int(desk.is_ready))
        yield families.counter("readings", "How often all pages of `trees` were begun anew.", desk.readings)
        yield families.counter("pages", "Pages read.", desk.pages)
        aside = {reason.name.lower(): count for reason, count in tuple(meeting.aside.items())}
        yield families.counters("pages_aside", "Pages that were put aside.", aside, "reason")
        yield families.gauge("held_bytes", "Bytes of pages that are held.", meeting.cost)
        yield families.counters("reports", "Reports of comparisons.", dict(tuple(desk.reported.items())), "outcome")
        yield families.gauge("unanswered_reports", "Reports without an outcome yet.", desk.unanswered)
        yield families.counter("differing_leaves", "Leaves found to differ.", desk.differing_leaves)
