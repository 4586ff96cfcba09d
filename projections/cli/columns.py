"""Which columns a table of each resource has, narrow and wide.

A column reads what it needs and shows `-` for what is not there, so that an older or a newer API does no harm.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from topolog.projections.cli import resources
from topolog.projections.cli.problems import Json
from topolog.projections.cli.terminal import plain


@dataclass(frozen=True)
class Column:
    """`wide`: shown by -o wide and -o csv only. `folds`: long text, broken into lines when the terminal is narrow.
    `brief`: the value as people want it in a table."""

    title: str
    of: Callable[[Json], object]
    wide: bool = False
    folds: bool = False
    brief: Callable[[object], object] = lambda value: value


def to_the_second(time: object) -> object:
    return re.sub(r"(\d)T(\d{2}:\d{2}:\d{2})(\.\d+)?", r"\1 \2", str(time or ""))


def _field(title: str, path: str, *, wide: bool = False, folds: bool = False) -> Column:
    """A column with the value at a dotted path."""

    def value(item: Json) -> object:
        at: Any = item
        for key in path.split("."):
            at = at.get(key) if isinstance(at, Mapping) else None
        return at

    return Column(title, value, wide, folds)


def _definition_of(item: Json) -> Json:
    """The accepted definition in a type's item; until the first is accepted, the pending one."""
    pending = item.get("pending")
    return pending if isinstance(pending, dict) and not item.get("accepted_version") else item


def _field_count(item: Json) -> object:
    return len(_field_names(item))


def _field_names(item: Json) -> list[str]:
    """The names of its fields, or an enum's constants."""
    definition = _definition_of(item)
    return list(definition.get("enum" if definition.get("is_enum") else "fields") or {})


def _affinity_key(item: Json) -> object:
    return _definition_of(item).get("affinity_key")


def _changes(item: Json) -> object:
    return "; ".join(
        part for field, (before, after) in (item.get("changes") or {}).items() for part in _change(field, before, after)
    )


def _change(field: str, before: object, after: object) -> list[str]:
    """A change in words; of mappings only the entries that differ."""
    if isinstance(before, dict | None) and isinstance(after, dict | None) and (before or after):
        was, now = before or {}, after or {}
        return [
            part
            for key in dict.fromkeys([*was, *now])
            if was.get(key) != now.get(key)
            for part in _change(f"{field}.{key}", was.get(key), now.get(key))
        ]
    if before is None:
        return [f"{field} = {plain(after)}"]
    return [f"{field} {plain(before)} → {plain(after)}"]


def _number(title: str, path: str) -> Column:
    """A count that is left out of the answer where it is 0."""
    column = _field(title, path)
    return Column(title, lambda item: column.of(item) or 0)


def _other_copies(item: Json) -> object:
    """Copies that neither act nor are whole: `n4 MOVING`."""
    whole = {item.get("primary"), *(item.get("backups") or ())}
    return [
        f"{copy.get('node')} {copy.get('state')}" for copy in _listed(item, "copies") if copy.get("node") not in whole
    ]


def _copies(item: Json) -> object:
    return [f"{copy.get('node')} {copy.get('state')}" for copy in _listed(item, "copies")]


def _about(item: Json) -> object:
    return [str(trigger.get("subject")) for trigger in _listed(item, "triggers")]


def _waited(item: Json) -> object:
    return [f"{answer.get('node')} {answer.get('waited_ms')}" for answer in _listed(item, "waited")]


def _state(item: Json) -> object:
    """`ACTIVE`, `ACTIVE → INACTIVE` on the way there, `ACTIVE, COLD`."""
    parts = [f"{item.get('state')} → {item['target']}" if item.get("target") else item.get("state")]
    return [*parts, "COLD"] if item.get("cold") else parts[0]


def _branched_at(item: Json) -> object:
    """Where, and how many of the members were online."""
    members = item.get("members") or ()
    return [
        f"{point.get('position')} ({len(_names(point.get('online')))}/{len(members)})"
        for point in _listed(item, "points")
    ]


def _names(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _listed(item: Json, field: str) -> list[Mapping[str, object]]:
    held = item.get(field)
    return [each for each in held if isinstance(each, Mapping)] if isinstance(held, list | tuple) else []


_TIME = Column("TIME", lambda item: item.get("time"), brief=to_the_second)

BY_RESOURCE: Mapping[resources.Resource, tuple[Column, ...]] = {
    resources.CLUSTER: (
        _field("NAME", "name"),
        Column("STATE", _state),
        _field("MEMBERS", "members"),
        _field("TYPES", "types"),
        _field("TERM", "term"),
        _field("COORDINATOR", "coordinator"),
        _field("TOPOLOGY", "topology_version"),
        _field("FENCE MS", "fence_ms", wide=True),
        _field("MARGIN MS", "margin_ms", wide=True),
        _field("HEARTBEAT MS", "heartbeat_ms", wide=True),
        _field("LED SINCE", "led_since", wide=True),
        _field("LOG", "log_id", wide=True),
        _field("SNAPSHOT AT", "snapshot.position", wide=True),
        _field("SNAPSHOT AGE MS", "snapshot.age_ms", wide=True),
        _field("SNAPSHOT BYTES", "snapshot.content_bytes", wide=True),
        _field("OPEN EXCHANGE", "open_exchange", wide=True),
        Column("CHANGE WAITS FOR", lambda item: [each.get("node") for each in _listed(item, "awaited")], wide=True),
        _field("HELD", "held", wide=True),
        _field("COLD SINCE", "cold.since", wide=True),
        _field("AWAITED", "cold.awaited", wide=True, folds=True),
        _field("BASELINE", "baseline.number", wide=True),
        _field("AWAY", "baseline.away", wide=True, folds=True),
        _field("AUTO-ADJUST", "auto_adjust.enabled", wide=True),
        _field("ADJUSTS IN MS", "auto_adjust.due_in_ms", wide=True),
        _field("SUPPRESSED", "auto_adjust.suppressed", wide=True, folds=True),
        _field("PROCEED MS", "proceed_ms", wide=True),
        _field("TERMS CHANGED AT", "former_terms.changed_at", wide=True),
    ),
    resources.NODES: (
        _field("NODE", "node"),
        _field("KIND", "kind"),
        _field("STANDING", "standing"),
        _field("ROLE", "role"),
        _field("ENDPOINT", "endpoint"),
        _field("LEASE", "lease.state"),
        _field("JOINED AT", "joined_at"),
        _field("LEFT AT", "left_at"),
        _field("WHY", "left_reason"),
        _field("RENEWED AT", "lease.renewed_at", wide=True),
        _field("INCARNATION", "incarnation", wide=True),
        _field("SLOT", "slot", wide=True),
        _field("ATTRIBUTES", "attributes", wide=True, folds=True),
        _field("HEALTH", "health", wide=True),
        _field("KINSHIP", "kinship", wide=True),
    ),
    resources.LEASES: (
        _field("NODE", "node"),
        _field("INCARNATION", "incarnation"),
        _field("STATE", "state"),
        _field("SEQUENCE", "sequence"),
        _field("RENEWED AT", "renewed_at"),
        _field("AGE MS", "age_ms"),
        _field("SLOT", "slot", wide=True),
    ),
    resources.LEASE_HEALTH: (
        _field("NODE", "node"),
        _field("STATE", "state"),
        _field("MARGIN MS", "window.margin_ms"),
        _field("LATE MS", "window.lateness_mean_ms"),
        _field("JITTER MS", "window.jitter_ms"),
        _field("MISSED", "window.missed"),
        _field("STARTS", "window.starts"),
        _field("SILENT MS", "silent_ms"),
        _field("WORKER HEARD MS AGO", "heard_age_ms"),
        _field("LATEST MS", "window.lateness_max_ms", wide=True),
        _field("LOST", "window.lost", wide=True),
        _field("FENCINGS", "window.fencings", wide=True),
        _field("RETURNS", "window.returns", wide=True),
        _field("STRAYS", "window.strays", wide=True),
        _field("INCARNATION MARGIN MS", "whole.margin_ms", wide=True),
        _field("SENTENCE", "sentence", wide=True, folds=True),
    ),
    resources.DEAD_LETTERS: (
        _field("ID", "id"),
        Column("TIME", lambda item: item.get("time"), brief=to_the_second),
        _field("TOPIC", "topic"),
        _field("OFFSET", "offset"),
        _field("BYTES", "size"),
        _field("CUT FROM", "truncated_from"),
        _field("REPLAYS", "replays"),
        _field("REASON", "reason", folds=True),
        _field("PARTITION", "partition", wide=True),
    ),
    resources.TYPES: (
        _field("NAME", "name"),
        _field("ACCEPTED", "accepted_version"),
        _field("PENDING", "pending_version"),
        Column("FIELDS", _field_count),
        Column("AFFINITY KEY", _affinity_key),
        _field("TYPE ID", "type_id", wide=True),
        _field("ACCEPTED AT", "accepted_at", wide=True),
        _field("PROPOSED AT", "proposed_at", wide=True),
        _field("REMOVING", "removing", wide=True),
        Column("FIELD NAMES", _field_names, wide=True, folds=True),
    ),
    resources.GROUPS: (
        _field("NAME", "name"),
        _field("PARTITIONS", "partitions"),
        _field("BACKUPS", "backups"),
        _field("PERSISTENT", "persistent"),
        _field("LOSS POLICY", "loss_policy"),
        _field("NODE FILTER", "node_filter", folds=True),
        _field("CREATED AT", "created_at"),
        _field("ALTERED AT", "altered_at"),
        _field("NUMBER", "number", wide=True),
        _field("NEIGHBOURS BY", "exclude_neighbours_by", wide=True),
        _field("BACKUPS DIFFER IN", "backup_filter", wide=True),
    ),
    resources.PARTITIONS: (
        _field("NAME", "name"),
        _field("STATE", "state"),
        _field("PRIMARY", "primary"),
        _field("BACKUPS", "backups"),
        Column("OTHER COPIES", _other_copies),
        _field("AWAITS", "awaits"),
        _field("SINCE", "since"),
        _field("TOKEN", "token"),
        _field("WANTED", "wanted", wide=True),
        Column("COPIES", _copies, wide=True),
    ),
    resources.MAPS: (
        _field("NAME", "name"),
        _field("PRIMARIES", "primaries"),
        _field("COPIES", "copies"),
        *(_number(state, f"states.{state}") for state in ("OWNING", "MOVING", "RENTING", "LOST")),
        _field("MEMBER", "is_member"),
        _field("WANTED", "wanted", wide=True),
    ),
    resources.EXCHANGES: (
        _field("VERSION", "version"),
        _field("TYPES", "types"),
        _field("STATE", "state"),
        Column("STARTED", lambda item: item.get("started_time"), brief=to_the_second),
        _field("TOOK MS", "duration_ms"),
        Column("ABOUT", _about, folds=True),
        _field("AWAITED", "awaited", folds=True),
        _field("OVERDUE", "overdue", folds=True),
        _field("RESULT", "result", wide=True),
        _field("STARTED AT", "started_at", wide=True),
        _field("COMPLETED AT", "completed_at", wide=True),
        _field("OVERDUE AT", "overdue_at", wide=True),
        _field("UNHEARD", "unheard", wide=True, folds=True),
        Column("WAITED MS", _waited, wide=True, folds=True),
    ),
    resources.BASELINES: (
        _field("NUMBER", "number"),
        _field("STATE", "state"),
        _field("MEMBERS", "members", folds=True),
        _field("AWAY", "away", folds=True),
        _field("CAUSE", "cause"),
        _field("SET AT", "set_at"),
        Column("TIME", lambda item: item.get("set_time"), brief=to_the_second),
        Column("BRANCHED AT", _branched_at, folds=True),
        _field("REASON", "reason", folds=True),
        _field("ADDED", "added", wide=True, folds=True),
        _field("DROPPED", "dropped", wide=True, folds=True),
        _field("VERSION", "version", wide=True),
        _field("QUORUM", "quorum", wide=True),
        _field("ONLINE", "online", wide=True, folds=True),
        _field("ACTOR", "actor", wide=True),
        _field("REPLACED AT", "replaced_at", wide=True),
    ),
    resources.VIEWS: (
        _field("VERSION", "version"),
        _field("POSITION", "position"),
        _TIME,
        Column("CHAIN", lambda item: item.get("chain"), brief=lambda chain: str(chain or "")[:12]),
        _field("MEMBERS", "members", folds=True),
        _field("EVENT", "event"),
        _field("ABOUT", "subject"),
        _field("JOINED", "joined", wide=True, folds=True),
        _field("LEFT", "left", wide=True, folds=True),
        _field("ACTOR", "actor", wide=True),
        _field("REASON", "reason", wide=True, folds=True),
    ),
    resources.DECISIONS: (
        _field("POSITION", "position"),
        _TIME,
        _field("TERM", "term"),
        _field("EVENT", "event"),
        _field("ABOUT", "subject"),
        _field("REASON", "reason", folds=True),
        _field("ACTOR", "actor", wide=True),
        _field("CAUSE", "cause", wide=True),
        _field("CONTENT", "content", wide=True, folds=True),
    ),
    resources.REQUESTS: (
        Column("REQUEST", resources.REQUESTS.name_of),
        _field("SUBJECT", "subject"),
        _field("STATUS", "status"),
        _field("VERSION", "version"),
        _field("POSITION", "position"),
        _field("CODE", "code"),
        _TIME,
        _field("RULE", "rule", wide=True),
        _field("ACTOR", "actor", wide=True),
        _field("REASON", "reason", wide=True, folds=True),
        _field("MESSAGE", "message", wide=True, folds=True),
    ),
}

HISTORY = (
    _field("POSITION", "position"),
    _TIME,
    _field("EVENT", "event"),
    _field("ACTOR", "actor", wide=True),
    _field("CAUSE", "cause", wide=True),
    _field("REASON", "reason", folds=True),
    Column("CHANGES", _changes, folds=True),
)

CAUSES = (
    _field("POSITION", "position"),
    _TIME,
    _field("EVENT", "event"),
    _field("CAUSE", "cause"),
    _field("ACTOR", "actor", wide=True),
    _field("REASON", "reason", folds=True),
)

WAITING = (
    _field("NODE", "node"),
    _field("SINCE", "since"),
    _field("AT MOST MS", "at_most_ms"),
)

EXPLANATION = (
    _field("SENTENCE", "sentence", folds=True),
    _field("WAITING FOR", "waiting_for", folds=True),
)

FORECAST = (
    _field("GROUP", "group"),
    _field("COPIES HERE", "copies"),
    _field("PRIMARIES MOVED", "primaries_moved"),
    _field("LOST", "lost"),
    _field("BEGIN EMPTY", "begin_empty"),
    _field("LOST PARTITIONS", "lost_partitions", folds=True),
    _field("TO LOAD", "loads", folds=True),
    _field("WHOLE COPIES LEFT", "owners_left", folds=True),
)

FORECAST_OF_NODE = (
    _field("NODE", "node"),
    _field("IF", "event"),
    _field("SENTENCE", "sentence", folds=True),
)

JOIN = (
    _field("NODE", "node"),
    _field("KINSHIP", "kinship"),
    _field("ADMITTED", "is_admitted"),
    _field("COMMON AT", "common.position"),
    _field("THEIRS AT", "theirs.position"),
    _field("OURS AT", "ours.position"),
    _field("SENTENCE", "sentence", folds=True),
    _field("REMEDY", "remedy", folds=True),
)

DRY_RUN = (
    _field("SUBJECT", "subject"),
    _field("STATUS", "status"),
    _field("SENTENCE", "sentence", folds=True),
    _field("WARNINGS", "warnings", folds=True),
)

MOVES = (
    _field("GROUP", "group"),
    _field("PARTITIONS", "partitions"),
    _field("OTHER OWNERS", "changed"),
    _field("OTHER PRIMARY", "primaries"),
    _field("GAINS", "gains", folds=True),
    _field("GIVES UP", "gives_up", folds=True),
)

PLANNED = (
    _field("EVENT", "event"),
    _field("ABOUT", "subject"),
    _field("CONTENT", "content", folds=True),
)

REPLAY = (
    _field("LETTER", "id"),
    _field("TOPIC", "topic"),
    _field("OFFSET", "offset"),
    _field("REQUEST", "request"),
)

OUTCOME = (
    _field("REQUEST", "id"),
    _field("SUBJECT", "subject"),
    _field("STATUS", "status"),
    _field("VERSION", "version"),
    _field("ACCEPTED", "accepted"),
    _field("POSITION", "position"),
    _field("TOKEN", "token", wide=True),
)
