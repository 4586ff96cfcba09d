"""Feature levels: which schema versions may be written while members of several builds are in the cluster (K8).

Threat. During a rolling upgrade some members are of a build that has never seen the newest schemas. One decision they
cannot decode stops them all, for a record that counts is never skipped.

Invariant. At level n every record of `decisions` is in a schema that every member of that time can read, save
RecordVoided.

Argument. Each schema states the lowest level at which it may be written; writers choose, for every record, the newest
version that the level in force allows. Each process announces the newest level it knows as a capability when it joins.
The level rises only by a decision taken while every member, and every process that waits to be one, announces it; from
then on a process that does not is refused. So the level never passes what a member can read. Levels never fall: what
was written at a level stays in the log.

RecordVoided may be written at any level, though the first release has no such schema. It stops no member that was
going on: what it voids stands before it and is poison, so a member that cannot read the voiding has stopped already, at
the voided record, and needs a newer build either way.

Stand-by coordinators and projectors are no members, and nobody asks what they know. One of an older build stops at the
first record it cannot read, which harms nobody: a coordinator that has stopped never leads, a projector goes on
answering from what it had and says so. It reads FeatureLevelRaised, which for that reason keeps its one schema for
ever; so it knows that the level is above its own, and does not take what stops it for damage (`voiding.py`).

Nothing has been released: everything is of level 1.
"""

from collections.abc import Iterable, Mapping

import msgspec

from topolog.events.asked import RequestRef
from topolog.events.ids import Place
from topolog.events.requests import grant
from topolog.events.state import State
from topolog.events.terms import cluster

NEWEST_LEVEL = 1
"""The newest level this build can write, and hence the level of a log it founds."""

FIRST_LEVEL = 1

SINCE: Mapping[str, int] = {}
"""From which level on each schema, by its file's name, may be written; any other may always be."""

DIED_LEVEL = FIRST_LEVEL
"""From here on a node that has died may be said to have (LeaveReason DIED)."""

SNAPSHOTS_LEVEL = FIRST_LEVEL
"""From here on snapshots are taken."""

PARTITIONS_LEVEL = FIRST_LEVEL
"""From here on there are groups, and their partitions are shared out."""

BASELINE_LEVEL = FIRST_LEVEL
"""From here on there are views, pasts of nodes and baselines."""

TERMS_LEVEL = FIRST_LEVEL
"""From here on the terms of leases may be changed."""

OBJECTS_LEVEL = FIRST_LEVEL
"""From here on there are databases, tables, views and grants."""

REPAIR_LEVEL = FIRST_LEVEL
"""From here on replicas of tables are compared."""

_CAPABILITY = "level-"


class FeatureLevelRaised(msgspec.Struct, frozen=True):
    """From here on `level` is in force; `members` had all announced it."""

    request: RequestRef
    level: int
    members: tuple[str, ...]


def announced(level: int) -> str:
    """The capability by which a process says that it can read everything up to `level`."""
    return f"{_CAPABILITY}{level}"


def level_of(capabilities: Iterable[str]) -> int:
    """The newest level these capabilities announce; the first release announced none."""
    levels = [text.removeprefix(_CAPABILITY) for text in capabilities if text.startswith(_CAPABILITY)]
    return max((int(text) for text in levels if text.isdecimal()), default=FIRST_LEVEL)


def evolve(state: State, event: FeatureLevelRaised, place: Place) -> None:
    row = cluster(state)
    assert event.level > row.feature_level, "a level is raised that is in force"
    state.put("", msgspec.structs.replace(row, feature_level=event.level))
    grant(state, event.request, place, f"feature-level {event.level}")
