"""How long waits of a simulated cluster last at least and at most, in true time, whatever the machines' clocks do."""

from topolog.events.requests import NodeKind
from topolog.streams.simulation.processes import TERMS
from topolog.streams.simulation.timeline import DRIFT_PPM_MAX, NS_PER_MS

_SLOWEST = 1_000_000 - DRIFT_PPM_MAX
_FASTEST = 1_000_000 + DRIFT_PPM_MAX
FENCE_NS = TERMS.fence_ms * NS_PER_MS * 1_000_000 // _SLOWEST + 1
"""The longest true time for which a lease can run, on the slowest clock."""

WAITED_NS = {
    NodeKind.SERVER: (TERMS.fence_ms + TERMS.margin_ms) * NS_PER_MS * 1_000_000 // _FASTEST,
    NodeKind.CLIENT: TERMS.fence_ms * NS_PER_MS * 1_000_000 // _FASTEST,
}
"""The shortest true time for which a coordinator can have waited for a lease, on the fastest clock."""
