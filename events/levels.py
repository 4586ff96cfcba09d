"""Feature levels: which schema versions may be written while members of several builds are in the cluster (K28).

Threat. During a rolling upgrade some members are of a build that has never seen the newest schemas. One decision they
cannot decode stops them all, for a record that counts is never skipped.

Invariant. At level n every record of `decisions` is in a schema that every member of that time can read.

Argument. Each schema states the lowest level at which it may be written, in its file (`feature_level`, the first level
if it states none); the newest level that any schema of a build states is what that build knows (`Codec.newest_level`).
Writers choose, for every record, the newest version that the level in force allows. Each process announces the newest
level it knows as a capability when it joins. The level rises only by a decision taken while every member, and every
process that waits to be one, announces it; from then on a process that does not is refused. So the level never passes
what a member can read. Levels never fall: what was written at a level stays in the log.

Three records keep their one schema for ever, and hence the first level. FeatureLevelRaised: a build reads by it that
the level is above its own, and does not take what stops it for damage (`voiding.py`). RecordVoided and TermEnded: who
looks ahead over what it cannot read finds them by it.

Stand-by coordinators and projectors are no members, and nobody asks what they know. One of an older build stops at the
first record it cannot read, which harms nobody: a coordinator that has stopped never leads, a projector goes on
answering from what it had and says so.

There is one level today: nothing has been released before these schemas. The tests make up a second one.
"""

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from topolog.events.asked import Request, RequestRef
from topolog.events.decision import Decision
from topolog.events.ids import Place
from topolog.events.requests import grant
from topolog.events.state import State
from topolog.events.terms import cluster

FIRST_LEVEL = 1

_CAPABILITY = "level-"


class LevelRaiseRequested(Request, frozen=True):
    SUBJECT: ClassVar[str] = "feature-level {0.level}"

    level: int


class FeatureLevelRaised(Decision, frozen=True):
    """From here on `level` is in force; `members` had all announced it."""

    request: RequestRef
    level: int
    members: tuple[str, ...]


def announced(level: int) -> str:
    """The capability by which a process says that it can read everything up to `level`."""
    return f"{_CAPABILITY}{level}"


def level_of(capabilities: Iterable[str]) -> int:
    """The newest level these capabilities announce; who announces none knows the first."""
    levels = [text.removeprefix(_CAPABILITY) for text in capabilities if text.startswith(_CAPABILITY)]
    return max((int(text) for text in levels if text.isdecimal()), default=FIRST_LEVEL)


def evolve(state: State, event: FeatureLevelRaised, place: Place) -> None:
    row = cluster(state)
    assert event.level > row.feature_level, "a level is raised that is in force"
    state.put("", msgspec.structs.replace(row, feature_level=event.level))
    grant(state, event.request, place, f"feature-level {event.level}")
