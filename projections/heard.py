"""When each member was last heard: by lease health where it is measured, else by its last renewal in the log, which
may be a little older. As of the past nobody knows: neither is kept."""

from collections.abc import Mapping

from topolog.projections import health, queries
from topolog.projections.store import Reading


def heard_ms(reading: Reading, age_ms: int) -> Mapping[str, int]:
    """How many ms ago each member was heard, as far as that is known; empty as of the past."""
    if not reading.is_current:
        return {}
    leases = {each.node: each.age_ms for each in queries.leases(reading, age_ms)}
    measured = {
        each.node: each.silent_ms for each in health.lease_health(reading, age_ms) if each.state != health.UNKNOWN
    }
    known = {**leases, **measured}
    return {node: ms for node, ms in known.items() if ms is not None}
