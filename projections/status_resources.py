"""What is seen of a cluster at a glance: items as in `resources.py`."""

from collections.abc import Mapping

import msgspec

from topolog.projections.pending_resources import Pending


class Leader(msgspec.Struct, frozen=True):
    """Who leads, empty if nobody does, in which term and since when. `decided_ms`: how long ago anything was decided;
    `silent`: for too long; both None as of the past."""

    name: str
    term: int
    since: int
    since_time: str
    decided_ms: int | None
    silent: bool | None


class SilentMember(msgspec.Struct, frozen=True):
    """A member whose lease is not renewed any more, and what hangs on it. `lease` to `out_in_ms` as of a Lease;
    `primary_of`: by group, of how many partitions it is primary; `awaited_by`: names of pending things that wait for
    it."""

    node: str
    lease: str
    renewed_at: int
    renewed_time: str
    age_ms: int
    fenced_in_ms: int
    out_in_ms: int | None
    primary_of: Mapping[str, int]
    awaited_by: tuple[str, ...]


class StoppedPartitions(msgspec.Struct, frozen=True):
    """Partitions of a group that nobody acts for. `state`: LOST, PAUSED."""

    group: str
    state: str
    partitions: int


class BadEvent(msgspec.Struct, frozen=True):
    """Something that went wrong: what, in words."""

    position: int
    time: str
    event: str
    about: str
    sentence: str


class Status(msgspec.Struct, frozen=True):
    """The cluster at a glance. `is_well` unless `why` says what is wrong, a sentence each, the worst first: what stands
    in the `news` of the cluster, that it does not serve in full, that members of its baseline are away.

    `leases`: how many members' are in which state. `waits`: the first of what is not over and not wrong either,
    `waits_in_all`: how many there are. `bad_events`: the last ones, newest first, among the newest `looked_through`
    decisions. `next`: at most three commands that show more or help.
    """

    name: str
    is_well: bool
    sentence: str
    why: tuple[str, ...]
    leader: Leader
    members: int
    leases: Mapping[str, int]
    silent: tuple[SilentMember, ...]
    stopped: tuple[StoppedPartitions, ...]
    refused_joins: tuple[str, ...]
    waits: tuple[Pending, ...]
    waits_in_all: int
    bad_events: tuple[BadEvent, ...]
    looked_through: int
    next: tuple[str, ...]
