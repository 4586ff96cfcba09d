"""What a group is: how many partitions, where their copies may be, what is done when all copies of one are gone.

One definition is one immutable value; `validate` holds its limits in one place, for requests, files and services alike.
The rules are EX3, EX7 and EX18. Two differ from Apache Ignite, which forgives without a
word what we refuse: a backup filter beside the exclusion of neighbours (it drops the filter), and IGNORE for data that
outlive their process (it puts READ_WRITE_SAFE in its place).
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from topolog.events.errors import BadInput
from topolog.events.names import is_name

PARTITIONS_DEFAULT = 1_024
PARTITIONS_MAX = 65_000
"""As Ignite's (EX3); maps, rows and decisions rest on it."""

BACKUPS_MAX = (1 << 31) - 1
"""Ignite's number for a copy on every node; there are never more copies than nodes."""

GROUP_NAME_CHARS_MAX = 200
TEXT_CHARS_MAX = 200
FILTER_ENTRIES_MAX = 100


class LossPolicy(Enum):
    """What may be done with a group of which partitions are lost (EX18).

    IGNORE: everything; what is lost begins again empty. READ_WRITE_SAFE: everything with the other partitions.
    READ_ONLY_SAFE: reading of the other partitions.
    """

    UNKNOWN = "UNKNOWN"
    IGNORE = "IGNORE"
    READ_WRITE_SAFE = "READ_WRITE_SAFE"
    READ_ONLY_SAFE = "READ_ONLY_SAFE"


class Affinity(msgspec.Struct, frozen=True):
    """Which nodes may hold copies, and which of them together (EX7); what is empty asks for nothing.

    `exclude_neighbours_by`: the attribute that neighbours share; they hold copies of one partition only if nobody else
    is left. `node_filter`: attributes that a node must have. `backup_filter`: the attribute in which all nodes with a
    copy of one partition differ, even if that leaves fewer copies.
    """

    exclude_neighbours_by: str = ""
    node_filter: Mapping[str, str] = {}
    backup_filter: str = ""

    def admits(self, attributes: Mapping[str, str]) -> bool:
        """Whether a node with these attributes may hold copies."""
        return all(attributes.get(name) == value for name, value in self.node_filter.items())


class GroupDefinition(msgspec.Struct, frozen=True):
    """One group as it shall be. `backups` counts the copies beside the primary; `persistent`: copies outlive their
    process. Lost partitions refuse to be used unless `loss_policy` says that they begin again empty."""

    name: str
    partitions: int = PARTITIONS_DEFAULT
    backups: int = 0
    affinity: Affinity = Affinity()
    loss_policy: LossPolicy = LossPolicy.READ_WRITE_SAFE
    persistent: bool = False

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> "GroupDefinition":
        """The definition in the flat form of files and of the API (`FIELDS`); raises BadInput with what is wrong."""
        flat = {field: value for field, value in d.items() if field not in Affinity.__struct_fields__}
        rules = {field: value for field, value in d.items() if field in Affinity.__struct_fields__}
        try:
            definition = msgspec.convert({**flat, "affinity": rules}, cls)
        except msgspec.ValidationError as error:
            reason = str(error).replace("$.affinity.", "$.")
            raise BadInput(f"This is no definition of a group: {reason}.", hint=EXAMPLE) from error
        validate(definition)
        return definition


def lost_by(now: GroupDefinition, then: GroupDefinition) -> tuple[str, ...]:
    """The fields by which copies, or what they hold, can be lost once a group that is `now` is `then`."""
    was, rules = now.affinity, then.affinity
    lost = {
        "backups": then.backups < now.backups,
        # It may turn away a node that may hold copies now.
        "node_filter": not rules.node_filter.items() <= was.node_filter.items(),
        "exclude_neighbours_by": was.exclude_neighbours_by not in ("", rules.exclude_neighbours_by),
        # Set, it leaves fewer copies where values are few; unset, all copies may stand where one failure takes them.
        "backup_filter": rules.backup_filter != was.backup_filter,
        "loss_policy": now.loss_policy is not LossPolicy.IGNORE and then.loss_policy is LossPolicy.IGNORE,
    }
    return tuple(field for field, is_lost in lost.items() if is_lost)


FIELDS = (*(each for each in GroupDefinition.__struct_fields__ if each != "affinity"), *Affinity.__struct_fields__)
"""What a definition says in its flat form, in which what is left out is as it usually is."""

EXAMPLE = 'One looks like {"name": "orders", "partitions": 64, "backups": 1, "backup_filter": "rack"}.'


class BadGroup(BadInput):
    """A definition that cannot be a group's; `rule` is the number of the rule that it breaks."""

    def __init__(self, rule: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.rule = rule


def validate(group: GroupDefinition) -> None:
    """Raise BadGroup for a definition that breaks a limit or contradicts itself."""
    name = group.name
    if not is_name(name, GROUP_NAME_CHARS_MAX) or "/" in name:
        limit = f"A group's name has 1 to {GROUP_NAME_CHARS_MAX} characters that can be printed, no '/' and no blank"
        raise BadGroup("EX3", f"{limit}: {_cut(name)!r} cannot be one.")
    if not 1 <= group.partitions <= PARTITIONS_MAX:
        raise BadGroup("EX3", f"Group {name!r}: {group.partitions} partitions are not 1 to {PARTITIONS_MAX}.")
    if not 0 <= group.backups <= BACKUPS_MAX:
        raise BadGroup("EX3", f"Group {name!r}: {group.backups} backups are not 0 to {BACKUPS_MAX}.")
    _check_affinity(name, group.affinity)
    if group.loss_policy is LossPolicy.UNKNOWN:
        raise BadGroup("EX18", f"Group {name!r} needs a loss policy: IGNORE, READ_WRITE_SAFE or READ_ONLY_SAFE.")
    if group.loss_policy is LossPolicy.IGNORE and group.persistent:
        raise BadGroup(
            "EX18",
            f"Group {name!r} is persistent: what it has lost comes back with a disk, and IGNORE would begin it again "
            "empty.",
            hint="Choose READ_WRITE_SAFE or READ_ONLY_SAFE.",
        )


def _cut(name: str) -> str:
    return name if len(name) <= GROUP_NAME_CHARS_MAX else f"{name[:GROUP_NAME_CHARS_MAX]}…"


def _check_affinity(name: str, affinity: Affinity) -> None:
    if len(affinity.node_filter) > FILTER_ENTRIES_MAX:
        entries = len(affinity.node_filter)
        raise BadGroup("EX7", f"Group {name!r}: a node filter of {entries} attributes has over {FILTER_ENTRIES_MAX}.")
    for attribute, value in affinity.node_filter.items():
        if not attribute.strip():
            raise BadGroup("EX7", f"Group {name!r}: the node filter has an attribute without a name.")
        _check_text(name, attribute)
        _check_text(name, value)
    for attribute in (affinity.exclude_neighbours_by, affinity.backup_filter):
        if attribute and not attribute.strip():
            raise BadGroup("EX7", f"Group {name!r}: {attribute!r} is no attribute's name.")
        _check_text(name, attribute)
    if affinity.exclude_neighbours_by and affinity.backup_filter:
        raise BadGroup(
            "EX7",
            f"Group {name!r} excludes neighbours and filters backups, which contradict each other when nodes are few.",
            hint="Exclude neighbours for copies that share a host only in need, filter backups for copies that never "
            "do.",
        )


def _check_text(name: str, text: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        raise BadGroup("EX7", f"Group {name!r}: {text[:40]!r}... has {len(text)} characters, over {TEXT_CHARS_MAX}.")
