"""What can be asked of baselines: the one in force and the former ones, and how the cluster stands to it.

The state remembers the last few former ones; the history of rows has them all.
"""

from collections.abc import Iterator, Mapping

from topolog.events.baseline import (
    AutoAdjustRow,
    BaselineChanged,
    BaselineRow,
    BranchingPoint,
    ClusterStateRow,
    ClusterWarmed,
    FormerBaselineRow,
    cluster_state,
    online,
    quorum_of,
)
from topolog.events.drains import DrainRow
from topolog.events.errors import BadInput, NotFound
from topolog.events.ids import NodeId, Position
from topolog.events.leases import NodeRow
from topolog.projections import patience
from topolog.projections.baseline_resources import AutoAdjust, Baseline, BaselineNow, Branching, Cold
from topolog.projections.moments import iso, position_time
from topolog.projections.store import Reading

CURRENT = "current"
_NUMBER_DIGITS_MAX = 12


def current_row(reading: Reading) -> BaselineRow | None:
    return reading.row(BaselineRow, "")


def state_row(reading: Reading) -> ClusterStateRow:
    """The cluster's state; that of a cluster without a word about it is ACTIVE."""
    return cluster_state(reading.state(ClusterStateRow))


def servers_online(reading: Reading) -> tuple[NodeId, ...]:
    """The servers that are members and are not being stopped, in the order of their joining."""
    return online(reading.state(NodeRow))


def baselines(reading: Reading, before: int | None = None) -> Iterator[Baseline]:
    """Every baseline with a number below `before`, the newest first."""
    current = current_row(reading)
    if current is None:
        return
    newest = current.number if before is None else min(current.number, before - 1)
    for number in range(newest, -1, -1):
        yield _of_number(reading, current, number)


def baseline(reading: Reading, name: str) -> Baseline:
    """The baseline of this number; `current` is the one in force. Raises NotFound if there is none."""
    current = current_row(reading)
    if current is None:
        raise NotFound(
            "There is no baseline yet: every server counts.",
            hint="`topolog cluster activate` makes the first one, of all servers that are online.",
        )
    number = current.number if name == CURRENT else parsed(name)
    if number > current.number:
        raise NotFound(f"There is no baseline {number}.", hint=f"They are numbered 0 to {current.number}.")
    return _of_number(reading, current, number)


def parsed(text: str) -> int:
    """The number of a baseline; raises BadInput for anything else."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _NUMBER_DIGITS_MAX):
        raise BadInput(f"{text!r} is no number of a baseline.", hint="They count from 0; `topolog get baselines`.")
    return int(text)


def now(reading: Reading) -> BaselineNow | None:
    """How the baseline in force stands to who is here; None if there has never been one."""
    row = current_row(reading)
    if row is None:
        return None
    here = servers_online(reading)
    return BaselineNow(
        number=row.number,
        members=row.nodes,
        online=tuple(node for node in row.nodes if node in here),
        away=tuple(node for node in row.nodes if node not in here),
        outsiders=tuple(sorted(node for node in here if node not in row.nodes)),
    )


def cold(reading: Reading) -> Cold | None:
    """Since when the cluster is cold, and who ends that."""
    row, standing = state_row(reading), now(reading)
    if row.cold_at is None or standing is None:
        return None
    return Cold(
        since=row.cold_at,
        time=position_time(reading, row.cold_at),
        online=standing.online,
        awaited=standing.away,
        quorum=quorum_of(standing.members),
    )


def auto_adjust_row(reading: Reading) -> AutoAdjustRow:
    return reading.row(AutoAdjustRow, "") or AutoAdjustRow()


def auto_adjust(reading: Reading) -> AutoAdjust:
    """What the baseline is going to do by itself, and when at the latest: a new coordinator waits anew (K14)."""
    row = auto_adjust_row(reading)
    standing = now(reading)
    if standing is None or not row.enabled or row.first_at is None or row.last_at is None:
        return AutoAdjust(row.enabled, row.soft_ms, row.hard_ms)
    soft = patience.span_since(reading, row.last_at, row.soft_ms)
    hard = patience.span_since(reading, row.first_at, row.hard_ms)
    return AutoAdjust(
        enabled=True,
        soft_ms=row.soft_ms,
        hard_ms=row.hard_ms,
        adds=standing.outsiders,
        drops=standing.away,
        due_in_ms=min(soft.left_ms, hard.left_ms),
        suppressed=row.suppressed,
    )


def drains(reading: Reading) -> Mapping[NodeId, DrainRow]:
    """Servers that are to hold nothing, or hold nothing any more."""
    return {row.node: row for _, row in reading.rows(DrainRow)}


def _of_number(reading: Reading, current: BaselineRow, number: int) -> Baseline:
    if number == current.number:
        return _shown(reading, current, None)
    row = former_row(reading, number)
    assert row is not None, "baselines are numbered without a gap"
    return _shown(reading, row, row.replaced_at)


def former_row(reading: Reading, number: int) -> FormerBaselineRow | None:
    """A former baseline, also one that the state no longer remembers."""
    return next((row for _, row in reading.versions(FormerBaselineRow, str(number)) if row is not None), None)


def _shown(reading: Reading, row: BaselineRow | FormerBaselineRow, replaced_at: Position | None) -> Baseline:
    decided = reading.surely_decision(row.set_at)
    event = decided.event
    assert isinstance(event, BaselineChanged), "a baseline is set by its decision"
    nodes = tuple(member.node for member in event.members)
    before = former_row(reading, row.number - 1) if row.number else None
    earlier = before.nodes if before else ()
    here = servers_online(reading) if replaced_at is None else ()
    return Baseline(
        number=row.number,
        state="CURRENT" if replaced_at is None else "FORMER",
        members=nodes,
        online=tuple(node for node in nodes if node in here) if replaced_at is None else None,
        away=tuple(node for node in nodes if node not in here) if replaced_at is None else None,
        quorum=quorum_of(nodes),
        added=tuple(node for node in nodes if node not in earlier),
        dropped=tuple(node for node in earlier if node not in nodes),
        attributes={member.node: member.attributes for member in event.members},
        cause=row.cause.value,
        actor=decided.asked_by,
        reason=decided.asked_for,
        version=str(event.version),
        set_at=row.set_at,
        set_time=iso(decided.logged_at_ms),
        replaced_at=replaced_at,
        replaced_time=None if replaced_at is None else position_time(reading, replaced_at),
        points=tuple(_branching(reading, point) for point in row.history),
    )


def _branching(reading: Reading, point: BranchingPoint) -> Branching:
    decided = reading.surely_decision(point.at.position)
    event = decided.event
    why = "SET" if isinstance(event, BaselineChanged) else "WARMED" if isinstance(event, ClusterWarmed) else "ACTIVATED"
    return Branching(
        position=point.at.position,
        time=iso(decided.logged_at_ms),
        chain=point.at.chain.hex(),
        why=why,
        online=point.online,
        actor=decided.asked_by,
        reason=decided.asked_for,
    )
