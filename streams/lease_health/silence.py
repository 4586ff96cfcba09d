"""Who has been silent for too long, by this worker's own monotonic clock: a heartbeat that does not come says nothing.

Pure: times come in. It is asked only while the worker has read everything and the broker has just answered, so that a
silent broker is not taken for silent nodes.
"""

from collections.abc import Iterator

from topolog.events.health import warning_margin_ms
from topolog.events.ids import NodeId
from topolog.streams.lease_health.windows import Terms


class Silence:
    """What one worker has heard since it started; who was silent before is not known to it."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._heard_s: dict[NodeId, float] = {}
        self._said: set[NodeId] = set()

    @property
    def count(self) -> int:
        """Nodes of whom it was said that they are silent, and who still are."""
        return len(self._said)

    def heard(self, node: NodeId, now_s: float, *, is_last: bool) -> None:
        """A heartbeat came; after its last one a node may be silent."""
        self._said.discard(node)
        self._heard_s[node] = now_s
        if is_last:
            del self._heard_s[node]

    def news(self, now_s: float) -> Iterator[str]:
        """One sentence for each node whose silence has eaten half of its margin since the last call."""
        terms = self._terms
        limit_ms = terms.fence_ms - warning_margin_ms(terms.fence_ms, terms.heartbeat_ms)
        for node, heard_s in self._heard_s.items():
            silent_ms = round((now_s - heard_s) * 1000)
            if silent_ms > limit_ms and node not in self._said:
                self._said.add(node)
                yield f"{node}: silent for {silent_ms} ms; half the margin of its fence of {terms.fence_ms} ms is gone."
