"""What Prometheus is told of a node, for the service that embeds it to register:

    registry.register(NodeMetrics(node))

It needs prometheus_client, which the node client itself does not.
"""

from collections.abc import Iterator

from topolog.events.families import Families, Metric
from topolog.streams.node.core import Phase
from topolog.streams.node.member import Member

_NS_PER_S = 1e9


class NodeMetrics:
    """Read from the node when Prometheus asks; nothing is told of one that was not entered yet."""

    def __init__(self, node: Member) -> None:
        self._node = node
        self._families = Families("topolog_node", node.cluster)

    def collect(self) -> Iterator[Metric]:
        node, families = self._node, self._families
        measures = node.measures
        if measures is None:
            return
        is_member = node.phase is Phase.MEMBER
        yield families.gauge("member", "1 if this process is a member of the cluster.", int(is_member))
        yield families.gauge("failed", "1 if an error has ended this node for good.", int(node.failure is not None))
        yield families.gauge("applied_position", "The last position that is applied, hooks done.", node.position)
        text = "How old what this node has applied may be: since the last heartbeat whose echo it has applied."
        ages_ns = {} if node.heard_ago_ns is None else {"": node.heard_ago_ns / _NS_PER_S}
        yield families.gauges("lag_seconds", text, ages_ns)
        if node.holds_lease:
            yield families.gauge("fenced", "1 if it must not serve: no valid lease.", int(not node.lease.is_valid))
            text = "For how long the lease still runs unless it is renewed."
            yield families.gauge("lease_remaining_seconds", text, node.lease.remaining_ms / 1000)
            text = "For how long this process had no valid lease since it first held one."
            yield families.counter("fenced_seconds", text, measures.fenced_ns / _NS_PER_S)
            text = "The longest operation behind one check of the lease; others wait no longer than the margin for it."
            yield families.gauge("longest_act_seconds", text, node.lease.longest_ms / 1000)
        yield families.counter("heartbeats", "Heartbeats handed to the producer.", measures.heartbeats)
        outcomes = {status: float(count) for status, count in tuple(measures.outcomes.items())}
        yield families.counters("requests", "Own requests whose outcome is applied here.", outcomes, "outcome")
        refusals = {code: float(count) for code, count in tuple(measures.refusals.items())}
        yield families.counters("refusals", "Own requests that were refused.", refusals, "code")
        text = "From the sending of a request to its outcome, applied here."
        yield families.durations("request_seconds", text, {"": measures.decision})
