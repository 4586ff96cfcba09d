"""The places of an exchange and of a schema change at which a coordinator can be made to die (`events/failpoints.py`).

The core, which decides, has no I/O and comes by no such place itself. So the driver asks here what it has decided or
heard; a set of decisions is known by the last of them. Nothing is looked at unless some place is armed.
"""

from collections.abc import Iterator, Sequence

from topolog.events.codec import CODEC
from topolog.events.exchange import (
    AffinitySwitched,
    ExchangeCompleted,
    ExchangeMerged,
    ExchangeOverdue,
    ExchangeStarted,
    HandOverPrepared,
    HandOverRow,
    PartitionStatesChanged,
    open_exchange,
)
from topolog.events.failpoints import is_any_armed, reach
from topolog.events.ids import Position
from topolog.events.log import Entry
from topolog.events.membership import LeaseStopped
from topolog.events.objects import (
    DataDeletionConfirmed,
    SchemaChangeCommitted,
    SchemaChangePrepared,
    SchemaChangeQueued,
    SchemaChangeRolledBack,
)
from topolog.events.stamp import decode_stamp
from topolog.streams.coordinator.core import Core, Outgoing

_STEPS = (
    ExchangeStarted,
    ExchangeMerged,
    ExchangeOverdue,
    LeaseStopped,
    ExchangeCompleted,
    HandOverPrepared,
    AffinitySwitched,
    PartitionStatesChanged,
)
_CHANGES = (
    SchemaChangeQueued,
    SchemaChangePrepared,
    SchemaChangeCommitted,
    SchemaChangeRolledBack,
    DataDeletionConfirmed,
)
"""The last decisions of those sets that have places of their own, of an exchange and of a schema change."""


def sets_of(outbox: Sequence[Outgoing]) -> Iterator[Sequence[Outgoing]]:
    """The records set by set; all at once where nobody asks."""
    if not is_any_armed():
        yield outbox
        return
    first, was_change = 0, False
    while first < len(outbox):
        some = outbox[first : first + decode_stamp(outbox[first].stamp).size]
        is_change = _last_of(some) in _CHANGES
        if was_change and is_change:
            reach("coordinator.between-changes")
        yield some
        first, was_change = first + len(some), is_change


def come_to(some: Sequence[Outgoing], index: int) -> None:
    """The record at `index` of a set is about to be handed to the producer."""
    if not is_any_armed():
        return
    if index:
        reach("coordinator.inside-a-set")
    last = _last_of(some)
    if index and index == len(some) - 1 and last is ExchangeCompleted:
        reach("coordinator.inside-an-outcome")
    if index == 0 and last in _STEPS:
        reach(
            {
                ExchangeStarted: "coordinator.exchange-decided",
                ExchangeMerged: "coordinator.merge-decided",
                ExchangeOverdue: "coordinator.overdue-decided",
                LeaseStopped: "coordinator.stop-decided",
                ExchangeCompleted: "coordinator.outcome-decided",
                HandOverPrepared: "coordinator.hand-over-decided",
                AffinitySwitched: "coordinator.switch-decided",
                PartitionStatesChanged: "coordinator.states-decided",
            }[last]
        )
    elif index == 0 and last in _CHANGES:
        reach(
            {
                SchemaChangeQueued: "coordinator.queued-decided",
                SchemaChangePrepared: "coordinator.prepared-decided",
                SchemaChangeCommitted: "coordinator.commit-decided",
                SchemaChangeRolledBack: "coordinator.rollback-decided",
                DataDeletionConfirmed: "coordinator.deletion-decided",
            }[last]
        )


def leave(some: Sequence[Outgoing]) -> None:
    """All of a set is with the producer."""
    last = _last_of(some) if is_any_armed() else None
    if last in _STEPS:
        reach(
            {
                ExchangeStarted: "coordinator.exchange-appended",
                ExchangeMerged: "coordinator.merge-appended",
                ExchangeOverdue: "coordinator.overdue-appended",
                LeaseStopped: "coordinator.stop-appended",
                ExchangeCompleted: "coordinator.outcome-appended",
                HandOverPrepared: "coordinator.hand-over-appended",
                AffinitySwitched: "coordinator.switch-appended",
                PartitionStatesChanged: "coordinator.states-appended",
            }[last]
        )
    elif last in _CHANGES:
        reach(
            {
                SchemaChangeQueued: "coordinator.queued-appended",
                SchemaChangePrepared: "coordinator.prepared-appended",
                SchemaChangeCommitted: "coordinator.commit-appended",
                SchemaChangeRolledBack: "coordinator.rollback-appended",
                DataDeletionConfirmed: "coordinator.deletion-appended",
            }[last]
        )


def heard_beat(core: Core) -> None:
    """The core has heard a heartbeat, and nothing that follows from it is decided."""
    if is_any_armed() and any(_has_drained(core, row) for _, row in core.state.rows(HandOverRow)):
        reach("coordinator.drain-heard")


def heard_map(core: Core, entry: Entry, led_since: Position) -> None:
    """The core has heard a map, and nothing that follows from it is decided; `led_since`: where its term began."""
    row = open_exchange(core.state) if is_any_armed() else None
    if row is None:
        return
    silent = core.silent()
    if entry.key in silent or entry.key not in {each.node for each in row.awaited}:
        return
    reach("coordinator.map-heard")
    if row.started_at < led_since:
        reach("coordinator.map-heard-again")
    if not silent:
        reach("coordinator.maps-complete")


def _last_of(some: Sequence[Outgoing]) -> type | None:
    return CODEC.type_of(some[-1].value)


def _has_drained(core: Core, row: HandOverRow) -> bool:
    heard = core.reports.hearing.get(row.node)
    return heard is not None and heard.incarnation == row.incarnation and heard.drained >= row.prepared_at
