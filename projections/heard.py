"""When each member was last heard: by lease health where it is measured, else by its last renewal in the log, which
may be a little older. As of the past nobody knows: neither is kept."""

from collections.abc import Mapping

from topolog.projections import health, queries
from topolog.projections.durations import ago
from topolog.projections.resources import Lease
from topolog.projections.store import Reading


def heard_ms(reading: Reading, age_ms: int) -> Mapping[str, int]:
    """How many ms ago each member was heard, as far as that is known; empty as of the past."""
    if not reading.is_current or reading.present.stopped:
        return {}
    leases = {each.node: each.age_ms for each in queries.leases(reading, age_ms)}
    measured = {
        each.node: each.silent_ms for each in health.lease_health(reading, age_ms) if each.state != health.UNKNOWN
    }
    known = {**leases, **measured}
    return {node: ms for node, ms in known.items() if ms is not None}


def in_words(lease: Lease) -> str:
    """When the holder was heard last, and how long it may stay silent."""
    if lease.age_ms is None:
        return "not known as of the past"
    serves = f"stops serving in {ago(lease.fenced_in_ms)}" if lease.fenced_in_ms else "has stopped serving"
    is_counted = lease.out_in_ms is not None
    out = f"is out in {ago(lease.out_in_ms or 0)}" if is_counted else "nobody counts while the coordinator is silent"
    return f"{ago(lease.age_ms)} ago; unless it is heard again it {serves}, and {out}"
