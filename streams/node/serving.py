"""What the state of the cluster lets this node do with its partitions and its tables (BA1, BA2).

Threat. The cluster becomes read-only or inactive, whoever asked for that takes it for done, and a write that began
before is acknowledged behind it.

How it works. A change of the state is finished when every node that may act has applied its start, and from the start
on nodes allow no more than both states do. So an operation is asked at its end as well, and fails if what it needs was
not allowed at any moment since it began, even if it is allowed again. What expires or is deleted has no end that
anybody waits for: it is asked before each piece.
"""

import msgspec

from topolog.events.baseline import ClusterStateRow
from topolog.events.cluster_state import ENDED_BY, ClusterState, Operation, allows, lesser
from topolog.events.errors import NotActive


class _Allowed(msgspec.Struct, frozen=True):
    """`reads_stopped`, `writes_stopped`: how often they have been."""

    state: ClusterState = ClusterState.ACTIVE
    reads_stopped: int = 0
    writes_stopped: int = 0


class Serving:
    """Any thread may begin and end operations; the thread that applies the log narrows and widens."""

    def __init__(self) -> None:
        self._now = _Allowed()

    def begin(self, *, writing: bool) -> int:
        """Raises NotActive; else what `end` is to be given."""
        now = self._now
        if not allows(now.state, _operation(writing=writing)):
            raise _not_active(now.state, "")
        return now.writes_stopped if writing else now.reads_stopped

    def end(self, begun: int, *, writing: bool) -> None:
        """Raises NotActive if the operation has outlived what allowed it."""
        now = self._now
        if begun != (now.writes_stopped if writing else now.reads_stopped):
            raise _not_active(now.state, " This operation has run into that, and must not be acknowledged.")

    def is_allowed(self, operation: Operation) -> bool:
        """Whether it may begin now."""
        return allows(self._now.state, operation)

    def require(self, operation: Operation) -> None:
        """Raises NotActive if it may not begin now."""
        if not self.is_allowed(operation):
            raise _not_active(self._now.state, "")

    def narrow(self, row: ClusterStateRow) -> None:
        """Allow no more than the cluster does by now."""
        now, state = self._now, lesser(self._now.state, row.allowed)
        stops_reads, stops_writes = (
            allows(now.state, each) and not allows(state, each) for each in (Operation.READ, Operation.WRITE)
        )
        self._now = _Allowed(state, now.reads_stopped + stops_reads, now.writes_stopped + stops_writes)

    def widen(self, row: ClusterStateRow) -> None:
        """Allow all that the cluster does by now, which is no less than before."""
        self._now = msgspec.structs.replace(self._now, state=row.allowed)


def _operation(*, writing: bool) -> Operation:
    return Operation.WRITE if writing else Operation.READ


def _not_active(state: ClusterState, ended: str) -> NotActive:
    if state is ClusterState.ACTIVE:
        return NotActive(f"The cluster was not ACTIVE for a while.{ended}", state=state.value, hint="Begin it again.")
    takes_reads = allows(state, Operation.READ)
    takes = (
        "is ACTIVE_READ_ONLY: it takes no writes."
        if takes_reads
        else f"is {state.value}, or on its way there: it serves nothing."
    )
    return NotActive(f"The cluster {takes}{ended}", state=state.value, hint=f"`{ENDED_BY}` ends that.")
