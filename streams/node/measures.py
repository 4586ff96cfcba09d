"""What a node counts of itself while it works, for metrics: no rule depends on any of it.

The thread that applies the log writes, and whoever sends requests; any thread reads.
"""

from collections import Counter

from topolog.events.asked import RequestId
from topolog.events.measuring import Durations
from topolog.events.requests import OutcomeRow, Status
from topolog.streams.node.lease import Lease

_NS_PER_S = 1e9


class NodeMeasures:
    """Of one process, over all its incarnations. `fenced_ns`: how long it had no lease since it first held one."""

    def __init__(self) -> None:
        self.heartbeats = 0
        self.fenced_ns = 0
        self.outcomes: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.decision = Durations()
        self._asked_ns: dict[RequestId, int] = {}
        self._looked_ns = 0
        self._deadline_ns = -1
        self._generation = 0

    def look(self, lease: Lease, now_ns: int) -> None:
        """How the lease stands at `now_ns` of the holder's clock; called often, so that what is between is known."""
        has_held, is_valid = self._deadline_ns >= 0 or self._looked_ns > 0, lease.is_valid(now_ns)
        if has_held and not (is_valid and lease.generation == self._generation):
            self.fenced_ns += max(0, now_ns - max(self._looked_ns, self._deadline_ns))
        if is_valid or has_held:
            self._looked_ns, self._deadline_ns, self._generation = now_ns, lease.deadline_ns, lease.generation

    def asked(self, request: RequestId, now_ns: int) -> None:
        """The request is about to be sent for the first time."""
        self._asked_ns[request] = now_ns

    def decided(self, request: RequestId, row: OutcomeRow | None, now_ns: int) -> None:
        """Its outcome is applied here."""
        asked_ns = self._asked_ns.pop(request, now_ns)
        if row is None:
            return
        self.outcomes[row.status.value.lower()] += 1
        self.decision.observe((now_ns - asked_ns) / _NS_PER_S)
        if row.status is Status.REFUSED:
            self.refusals[row.code] += 1
