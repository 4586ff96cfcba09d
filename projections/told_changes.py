"""Packed changes of partitions as people read them: which partitions, and of the first few what became of them.

A decision may carry tens of thousands. Lists of decisions show how many bytes they are; one decision is unpacked.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from topolog.events.changes import unpacked
from topolog.events.exchange import FullPartitionMap, PartitionStatesChanged
from topolog.events.ownership import Change
from topolog.projections import queries
from topolog.projections.partitions import Names, ranges
from topolog.projections.resources import Decision
from topolog.projections.store import Reading

Packed = FullPartitionMap | PartitionStatesChanged

_TOLD_MAX = 100


def decision(reading: Reading, position: int) -> Decision:
    """One decision, what it changes of partitions unpacked; raises NotFound as `queries.decision` does."""
    found = queries.decision(reading, position)
    event = reading.surely_decision(position).event
    if isinstance(event, FullPartitionMap | PartitionStatesChanged):
        return msgspec.structs.replace(found, content=content(reading, event))
    return found


def content(reading: Reading, event: Packed) -> Mapping[str, Any]:
    """The event in full, but for the changes behind the first hundred, which are named only."""
    who = Names(reading)
    changes = unpacked(event.changes)
    enrolled = {"enrolled": event.enrolled} if isinstance(event, FullPartitionMap) else {}
    return {
        "group": event.group,
        **enrolled,
        "count": len(changes),
        "partitions": ranges(changes.partitions.tolist()),
        "changes": [_told(change, who) for change in changes[:_TOLD_MAX]],
    }


def _told(change: Change, who: Names) -> Mapping[str, Any]:
    return {
        "partition": change.partition,
        "primary": None if change.acting is None else who[change.acting],
        "copies": {
            who[copy.node]: copy.state.name + ("" if copy.wanted else " (not wanted)") for copy in change.copies
        },
        "lost": change.is_lost,
    }
