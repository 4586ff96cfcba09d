"""What the state of the cluster lets this node do for its partitions (DESIGN §4.4, A3).

Threat. The cluster becomes read-only or inactive, whoever asked for that takes it for done, and a write that began
before is acknowledged behind it.

How it works. A change of the state is finished when every node that may act has applied its start, and from the start
on nodes allow no more than both states do. So an operation is asked at its end as well, and fails if what it needs was
not allowed at any moment since it began, even if it is allowed again.
"""

import msgspec

from topolog.events.baseline import ClusterStateRow
from topolog.events.cluster_state import ClusterState, lesser
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
        if not _allows(now.state, writing=writing):
            raise _not_active(now.state, "")
        return now.writes_stopped if writing else now.reads_stopped

    def end(self, begun: int, *, writing: bool) -> None:
        """Raises NotActive if the operation has outlived what allowed it."""
        now = self._now
        if begun != (now.writes_stopped if writing else now.reads_stopped):
            raise _not_active(now.state, " This operation has run into that, and must not be acknowledged.")

    def narrow(self, row: ClusterStateRow) -> None:
        """Allow no more than the cluster does by now."""
        now, state = self._now, lesser(self._now.state, row.allowed)
        stops_reads, stops_writes = (
            _allows(now.state, writing=writing) and not _allows(state, writing=writing) for writing in (False, True)
        )
        self._now = _Allowed(state, now.reads_stopped + stops_reads, now.writes_stopped + stops_writes)

    def widen(self, row: ClusterStateRow) -> None:
        """Allow all that the cluster does by now, which is no less than before."""
        self._now = msgspec.structs.replace(self._now, state=row.allowed)


def _allows(state: ClusterState, *, writing: bool) -> bool:
    return state is ClusterState.ACTIVE or (state is ClusterState.ACTIVE_READ_ONLY and not writing)


def _not_active(state: ClusterState, ended: str) -> NotActive:
    if state is ClusterState.ACTIVE:
        return NotActive(f"The cluster was not ACTIVE for a while.{ended}", state=state.value, hint="Begin it again.")
    takes_reads = state is ClusterState.ACTIVE_READ_ONLY
    takes = (
        "is ACTIVE_READ_ONLY: it takes no writes."
        if takes_reads
        else f"is {state.value}, or on its way there: it serves nothing."
    )
    return NotActive(f"The cluster {takes}{ended}", state=state.value, hint="`topolog cluster activate` ends that.")
