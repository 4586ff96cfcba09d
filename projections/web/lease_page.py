"""Leases: a strip of each holder over time, what is held now, and how punctual heartbeats are."""

from topolog.events.leases import NodeRow
from topolog.projections import queries
from topolog.projections.durations import duration_ms
from topolog.projections.health import lease_health
from topolog.projections.moments import iso
from topolog.projections.resources import Lease, LeaseHealth
from topolog.projections.web import values
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.lease_picture import strips
from topolog.projections.web.listing import shell_word
from topolog.projections.web.templates import rendered

WINDOW = "5m"
_STRIP_WIDTH = 120


def page(asked: PageRequest) -> str:
    reading, frame = asked.reading, asked.frame
    window = asked.filters.get("window", WINDOW)
    only = asked.filters.get("node")
    if only is not None and reading.row(NodeRow, only) is None:
        queries.lease(reading, asked.age_ms, only)  # raises NotFound, and says whom else was meant
    drawn = strips(reading, asked.age_ms, duration_ms(window), only)
    held = [each for each in queries.leases(reading, asked.age_ms) if only in (None, each.node)]
    told = f" --node {shell_word(only)}" if only else ""
    return rendered(
        "leases.html",
        frame,
        window=window,
        drawn=drawn,
        since=iso(drawn.since_ms),
        until=iso(drawn.until_ms),
        leases=held,
        states={each.node: values.state(each.state) for each in held},
        left={each.node: _left(each, frame.fence_ms) for each in held},
        health=_health(asked),
        fence_ms=frame.fence_ms,
        choices=asked.choices,
        commands=frame.commands(f"get leases{told}", f"get lease-health{told}", api=frame.api("leases", node=only)),
        api=frame.api("leases", node=only),
    )


def _left(lease: Lease, fence_ms: int) -> int:
    """How much of a lease is left, as the width of its bar."""
    left_ms = max(0, fence_ms - (lease.age_ms or 0)) if lease.state in ("VALID", "SILENT") else 0
    return round(_STRIP_WIDTH * left_ms / fence_ms)


def _health(asked: PageRequest) -> dict[str, LeaseHealth]:
    """It has no past, and is a list of its own."""
    if not asked.reading.is_current or not asked.may("lease-health"):
        return {}
    return {each.node: each for each in lease_health(asked.reading, asked.age_ms)}
