"""What people and programs see of partitions, maps and exchanges; the manners are those of `resources.py`."""

from collections.abc import Mapping

import msgspec

from topolog.events.exchange import TriggerType


class PartitionCopy(msgspec.Struct, frozen=True, gc=False):
    """One node's copy of a partition, in this `state` since that position; `wanted`: by the affinity."""

    node: str
    state: str
    wanted: bool
    since: int
    is_member: bool


class Partition(msgspec.Struct, frozen=True, gc=False):
    """One partition of a group. `state` is the most urgent thing that can be said of it as a whole:

    LOST (no owner is left), PAUSED (nobody acts until whom it awaits is heard, which `explain` names), MOVING (a wanted
    copy loads), SWITCHING (the primary is about to be handed over), RENTING (a copy that is no longer needed is still
    there), OWNING (all is well).
    `primary` acts, `backups` are the other whole copies, `wanted` is the affinity's choice, its primary first. `token`:
    the position that made the primary act, or ended that; `since`: the newest position that put a copy into its state
    or changed who acts. `awaits`: the absent owners of a lost partition, whose return ends the loss.
    """

    name: str
    group: str
    partition: int
    state: str
    primary: str | None
    backups: tuple[str, ...]
    wanted: tuple[str, ...]
    copies: tuple[PartitionCopy, ...]
    token: int
    since: int
    lost: bool
    awaits: tuple[str, ...]


class NodeMap(msgspec.Struct, frozen=True):
    """What one node holds of one group, as the log has it. `states`: copies by state; `wanted`: how many of them the
    affinity wants; `primaries`: of how many partitions the node is the acting primary."""

    name: str
    group: str
    node: str
    is_member: bool
    copies: int
    primaries: int
    wanted: int
    states: Mapping[str, int]


class NodeMapDetail(NodeMap, frozen=True):
    """`partitions` by state of the node's copy, and those it is primary of, as ranges: `0-3, 7`."""

    partitions: Mapping[str, str]
    primary_of: str


class SingleMap(msgspec.Struct, frozen=True):
    """What a server says itself that it holds, in the newest whole map that it has sent, beside what the log says.

    `state`: AGREE, DIFFER, NONE (no map of this life of it is kept), AHEAD (it has applied more than is known here),
    REFUSED (a coordinator does not count it); `sentence` says why. `sequence` numbers the maps of an incarnation,
    `exchange` is the one it was sent for, if one was open, `applied` the position that the server had applied.
    `copies` and `in_log` count copies by state, as the server and as the log has them. `differences`: partitions of
    which the two say different things; but for `finished`, which it has loaded or cleared and the log does not show
    yet, and `outdated`, which the log has changed behind `applied`.
    """

    node: str
    state: str
    sentence: str
    incarnation: int
    sequence: int | None = None
    exchange: str | None = None
    applied: int | None = None
    time: str | None = None
    age_ms: int | None = None
    copies: Mapping[str, int] = {}
    in_log: Mapping[str, int] = {}
    differences: int = 0
    finished: int = 0
    outdated: int = 0


class SingleMapOfGroup(msgspec.Struct, frozen=True):
    """The same of one group; `differing` are the partitions that `differences` counts, as ranges: `0-3, 7`."""

    group: str
    copies: Mapping[str, int]
    in_log: Mapping[str, int]
    differences: int
    finished: int
    outdated: int
    differing: str


class SingleMapDetail(SingleMap, frozen=True):
    """`groups`: those of which the map or the log lists copies of this server."""

    groups: tuple[SingleMapOfGroup, ...] = ()


class ExchangeTrigger(msgspec.Struct, frozen=True):
    """One event that an exchange is about; `subject` is the node or the group, `version` the view that it made."""

    type: str
    subject: str
    version: str


class ExchangeAnswer(msgspec.Struct, frozen=True):
    """How long an exchange has waited for the map of a node."""

    node: str
    waited_ms: int


class Exchange(msgspec.Struct, frozen=True):
    """An exchange, named by the first view it is about; `result` is the last one, after what it has taken in.

    `types`: JOIN, LEAVE, GROUP_CREATED, GROUP_ALTERED, LOSS_RESET, REQUESTED, BASELINE_CHANGED, DRAIN, or SWITCH for a
    hand-over of primaries, which asks nobody. `awaited`: servers that are asked while it is OPEN, only those that it
    needs (the log shows who is asked, not who has answered by now: `single-maps` do); `waited`: who has answered, the
    slowest last. `duration_ms` of an open one is that until now. `unheard`: servers it was completed without though it
    needed them; `overdue_at`: where the log said that some of those had been silent for long, `overdue`: whom.
    """

    version: str
    result: str
    types: tuple[str, ...]
    state: str
    triggers: tuple[ExchangeTrigger, ...]
    awaited: tuple[str, ...]
    waited: tuple[ExchangeAnswer, ...]
    started_at: int
    started_time: str
    completed_at: int | None
    completed_time: str | None
    duration_ms: int
    overdue_at: int | None = None
    unheard: tuple[str, ...] = ()
    overdue: tuple[str, ...] = ()

    @property
    def is_switch(self) -> bool:
        """Whether it is a hand-over of primaries."""
        return self.types == (TriggerType.SWITCH.value,)


class ExchangePhase(msgspec.Struct, frozen=True):
    """What an exchange came to at that position, `after_ms` after it began: BEGAN, MERGED (it took more in), OVERDUE,
    COMPLETED; of a hand-over PREPARED and SWITCHED."""

    phase: str
    position: int
    time: str
    after_ms: int


class ExchangeDetail(Exchange, frozen=True):
    """`changed` and `lost`: how many partitions of which group its outcome has changed, and left without an owner.

    `asked`: every server that it has asked, those too that left before they answered.
    """

    changed: Mapping[str, int] = {}
    lost: Mapping[str, int] = {}
    phases: tuple[ExchangePhase, ...] = ()
    asked: tuple[str, ...] = ()


class GroupForecast(msgspec.Struct, frozen=True):
    """What would become of one group. `copies`: what the node holds now; `primaries_moved`: partitions that others
    would act for, `lost`: those without an owner, as ranges in `lost_partitions`, `begin_empty`: how many of these
    would begin again empty (loss policy IGNORE); `loads`: copies that would have to be loaded, by node; `owners_left`:
    how many partitions would have how many whole copies of what they hold now when the exchange ends."""

    group: str
    copies: int
    primaries_moved: int
    lost: int
    lost_partitions: str
    loads: Mapping[str, int]
    owners_left: Mapping[str, int]
    begin_empty: int = 0


class Forecast(msgspec.Struct, frozen=True):
    """What would happen if a node died or was removed, as the coordinator would decide it now. Nothing is changed."""

    node: str
    event: str
    sentence: str
    facts: Mapping[str, str]
    groups: tuple[GroupForecast, ...]
