"""The one verdict: may the cluster go on as if a decision were applied by everybody who may still act? (LE15-LE19)

Given the decision's position and the holders concerned, each holder is APPLIED (its present incarnation has reported,
with the right chain hash, a position at or past it) or OPEN. With no OPEN holder the verdict is PROCEED. It is PROCEED
too once the coordinator has waited proceed_ms since it read the decision back, for then each OPEN holder has applied it
or is fenced (the argument stands in `events/leases.py`); but never over a holder that does not fence itself (LE18),
nor over one that has read the decision and may be unable to apply it. Otherwise it is WAIT, naming the OPEN ones. A
node that has left is no holder: its lease was over before NodeLeft.

The verdict is monotone: PROCEED never becomes WAIT for the same decision, and more reports never delay it. It knows no
clock; that the wait is over comes in as a fact, and a new coordinator starts the wait again.
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from topolog.events.evidence import Evidence
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position
from topolog.events.leases import FENCING, NodeKind, NodeRow, Standing
from topolog.events.state import State

Reports = Mapping[NodeId, tuple[Incarnation, Position]]
"""How far each node has applied, as far as its reports could be checked against the log's chain."""


class Verdict(msgspec.Struct, frozen=True):
    """PROCEED with its evidence, or WAIT for the nodes in `open`."""

    evidence: Evidence
    open: tuple[NodeId, ...] = ()

    @property
    def proceed(self) -> bool:
        return not self.open


def holders(state: State, position: Position) -> Iterator[NodeRow]:
    """Members that may hold a lease and do not prove by their joining that they have applied `position`.

    A node that joined later has its first echo behind its NodeJoined, hence holds no lease before it has applied
    everything up to there. Clients hold no lease.
    """
    return (row for _, row in state.rows(NodeRow) if row.holds_lease and row.joined_at < position)


def verdict(
    state: State,
    position: Position,
    reports: Reports,
    *,
    waited: bool,
    unable: Collection[tuple[NodeId, Incarnation]] = (),
) -> Verdict:
    """PROCEED or WAIT for the decision at `position`; `waited`: proceed_ms have passed since it was read back.

    `unable`: lives of nodes that have read it and may not be able to apply it. They are OPEN whatever was waited.
    """
    applied, presumed, open_ = [], [], []
    for row in holders(state, position):
        if (row.node, row.incarnation) in unable:
            open_.append(row.node)
        elif _applied(row, position, reports):
            applied.append(row.node)
        elif waited and _fences_itself(row):
            presumed.append(row.node)
        else:
            open_.append(row.node)
    return Verdict(Evidence(tuple(applied), _left_since(state, position), tuple(presumed)), tuple(open_))


def proceeds(state: State, position: Position, reports: Reports, *, waited: bool) -> bool:
    """Whether the verdict is PROCEED: asked with every report, and most often answered by one holder that is OPEN."""
    return all(_applied(row, position, reports) or (waited and _fences_itself(row)) for row in holders(state, position))


def _fences_itself(row: NodeRow) -> bool:
    return FENCING in row.capabilities


def _applied(row: NodeRow, position: Position, reports: Reports) -> bool:
    incarnation, applied = reports.get(row.node, (None, NOWHERE))
    return incarnation == row.incarnation and applied >= position


def _left_since(state: State, position: Position) -> tuple[str, ...]:
    return tuple(
        row.node
        for _, row in state.rows(NodeRow)
        if row.standing is Standing.LEFT
        and row.kind is NodeKind.SERVER
        and row.joined_at < position < (row.left_at or position)
    )
