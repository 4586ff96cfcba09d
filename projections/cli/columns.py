"""Which columns a table of each resource has, narrow and wide.

A column reads what it needs and shows `-` for what is not there, so that an older or a newer API does no harm.
"""

from collections.abc import Mapping

from topolog.projections.cli import (
    lease_columns,
    log_columns,
    process_columns,
    repair_columns,
    resources,
    schema_columns,
)
from topolog.projections.cli.column import Column, ago_of, field, listed, names, to_the_second
from topolog.projections.cli.problems import Json


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


def _number(title: str, path: str) -> Column:
    """A count that is left out of the answer where it is 0."""
    column = field(title, path)
    return Column(title, lambda item: column.of(item) or 0)


def _other_copies(item: Json) -> object:
    """Copies that neither act nor are whole: `n4 MOVING`."""
    whole = {item.get("primary"), *(item.get("backups") or ())}
    return [
        f"{copy.get('node')} {copy.get('state')}" for copy in listed(item, "copies") if copy.get("node") not in whole
    ]


def _copies(item: Json) -> object:
    return [f"{copy.get('node')} {copy.get('state')}" for copy in listed(item, "copies")]


def _about(item: Json) -> object:
    return [str(trigger.get("subject")) for trigger in listed(item, "triggers")]


def _waited(item: Json) -> object:
    return [f"{answer.get('node')} {answer.get('waited_ms')}" for answer in listed(item, "waited")]


def _state(item: Json) -> object:
    """`ACTIVE`, `ACTIVE → INACTIVE` on the way there, `ACTIVE, COLD`."""
    parts = [f"{item.get('state')} → {item['target']}" if item.get("target") else item.get("state")]
    return [*parts, "COLD"] if item.get("cold") else parts[0]


def _branched_at(item: Json) -> object:
    """Where, and how many of the members were online."""
    members = item.get("members") or ()
    return [
        f"{point.get('position')} ({len(names(point.get('online')))}/{len(members)})"
        for point in listed(item, "points")
    ]


def _waited_for(item: Json) -> object:
    """Who, and when each was last heard where that is known: `n3 (15 s ago)`."""
    return [
        f"{each.get('node')}{f' ({heard} ago)' if (heard := ago_of(each.get('heard_ms'))) else ''}"
        for each in listed(item, "waits_for")
    ]


def _came(item: Json) -> object:
    """How long ago it came."""
    came = ago_of(item.get("age_ms"))
    return f"{came} ago" if came else None


_TIME = Column("TIME", lambda item: item.get("time"), brief=to_the_second)


BY_RESOURCE: Mapping[resources.Resource, tuple[Column, ...]] = {
    resources.CLUSTER: (
        field("NAME", "name"),
        Column("STATE", _state),
        field("MEMBERS", "members"),
        field("SILENT", "silent"),
        Column("LEAST HEARD", lease_columns.least_heard),
        field("TYPES", "types"),
        field("TERM", "term"),
        field("COORDINATOR", "coordinator"),
        field("TOPOLOGY", "topology_version"),
        field("FENCE MS", "fence_ms", wide=True),
        field("MARGIN MS", "margin_ms", wide=True),
        field("HEARTBEAT MS", "heartbeat_ms", wide=True),
        field("LED SINCE", "led_since", wide=True),
        field("LOG", "log_id", wide=True),
        field("SNAPSHOT AT", "snapshot.position", wide=True),
        field("SNAPSHOT AGE MS", "snapshot.age_ms", wide=True),
        field("SNAPSHOT BYTES", "snapshot.content_bytes", wide=True),
        field("OPEN EXCHANGE", "open_exchange", wide=True),
        Column("CHANGE WAITS FOR", lambda item: [each.get("node") for each in listed(item, "awaited")], wide=True),
        field("HELD", "held", wide=True),
        field("COLD SINCE", "cold.since", wide=True),
        field("AWAITED", "cold.awaited", wide=True, folds=True),
        field("BASELINE", "baseline.number", wide=True),
        field("AWAY", "baseline.away", wide=True, folds=True),
        field("AUTO-ADJUST", "auto_adjust.enabled", wide=True),
        field("ADJUSTS IN MS", "auto_adjust.due_in_ms", wide=True),
        field("SUPPRESSED", "auto_adjust.suppressed", wide=True, folds=True),
        field("PROCEED MS", "proceed_ms", wide=True),
        field("TERMS CHANGED AT", "former_terms.changed_at", wide=True),
    ),
    resources.PENDING: (
        field("NAME", "name"),
        Column("WAITS", lambda item: ago_of(item.get("waited_ms"))),
        Column("FOR", _waited_for, folds=True),
        field("ENDS", "ends", folds=True),
        field("WHAT", "sentence", folds=True),
        field("KIND", "kind", wide=True),
        field("SINCE", "since", wide=True),
        field("AT MOST MS", "at_most_ms", wide=True),
        Column("NEXT", lambda item: next(iter(names(item.get("next"))), None), wide=True, folds=True),
    ),
    resources.DEAD_LETTERS: (
        field("ID", "id"),
        Column("TIME", lambda item: item.get("time"), brief=to_the_second),
        field("TOPIC", "topic"),
        field("OFFSET", "offset"),
        field("BYTES", "size"),
        field("CUT FROM", "truncated_from"),
        field("REPLAYS", "replays"),
        field("REASON", "reason", folds=True),
        field("PARTITION", "partition", wide=True),
    ),
    resources.TYPES: (
        field("NAME", "name"),
        field("ACCEPTED", "accepted_version"),
        field("PENDING", "pending_version"),
        Column("FIELDS", _field_count),
        Column("AFFINITY KEY", _affinity_key),
        field("TYPE ID", "type_id", wide=True),
        field("ACCEPTED AT", "accepted_at", wide=True),
        field("PROPOSED AT", "proposed_at", wide=True),
        field("REMOVING", "removing", wide=True),
        Column("FIELD NAMES", _field_names, wide=True, folds=True),
    ),
    resources.GROUPS: (
        field("NAME", "name"),
        field("PARTITIONS", "partitions"),
        field("BACKUPS", "backups"),
        field("PERSISTENT", "persistent"),
        field("LOSS POLICY", "loss_policy"),
        field("NODE FILTER", "node_filter", folds=True),
        field("CREATED AT", "created_at"),
        field("ALTERED AT", "altered_at"),
        field("NUMBER", "number", wide=True),
        field("NEIGHBOURS BY", "exclude_neighbours_by", wide=True),
        field("BACKUPS DIFFER IN", "backup_filter", wide=True),
    ),
    resources.PARTITIONS: (
        field("NAME", "name"),
        field("STATE", "state"),
        field("PRIMARY", "primary"),
        field("BACKUPS", "backups"),
        Column("OTHER COPIES", _other_copies),
        field("AWAITS", "awaits"),
        field("SINCE", "since"),
        field("TOKEN", "token"),
        field("WANTED", "wanted", wide=True),
        Column("COPIES", _copies, wide=True),
    ),
    resources.MAPS: (
        field("NAME", "name"),
        field("PRIMARIES", "primaries"),
        field("COPIES", "copies"),
        *(_number(state, f"states.{state}") for state in ("OWNING", "MOVING", "RENTING", "LOST")),
        field("MEMBER", "is_member"),
        field("WANTED", "wanted", wide=True),
    ),
    resources.SINGLE_MAPS: (
        field("NODE", "node"),
        field("STATE", "state"),
        field("SEQUENCE", "sequence"),
        field("APPLIED", "applied"),
        Column("CAME", _came),
        field("EXCHANGE", "exchange"),
        field("COPIES", "copies"),
        field("IN LOG", "in_log"),
        *(_number(title.upper(), title) for title in ("differences", "finished", "outdated")),
        field("INCARNATION", "incarnation", wide=True),
        field("SENTENCE", "sentence", wide=True, folds=True),
    ),
    resources.EXCHANGES: (
        field("VERSION", "version"),
        field("TYPES", "types"),
        field("STATE", "state"),
        Column("STARTED", lambda item: item.get("started_time"), brief=to_the_second),
        field("TOOK MS", "duration_ms"),
        Column("ABOUT", _about, folds=True),
        field("AWAITED", "awaited", folds=True),
        field("OVERDUE", "overdue", folds=True),
        field("RESULT", "result", wide=True),
        field("STARTED AT", "started_at", wide=True),
        field("COMPLETED AT", "completed_at", wide=True),
        field("OVERDUE AT", "overdue_at", wide=True),
        field("UNHEARD", "unheard", wide=True, folds=True),
        Column("WAITED MS", _waited, wide=True, folds=True),
    ),
    resources.BASELINES: (
        field("NUMBER", "number"),
        field("STATE", "state"),
        field("MEMBERS", "members", folds=True),
        field("AWAY", "away", folds=True),
        field("CAUSE", "cause"),
        field("SET AT", "set_at"),
        Column("TIME", lambda item: item.get("set_time"), brief=to_the_second),
        Column("BRANCHED AT", _branched_at, folds=True),
        field("REASON", "reason", folds=True),
        field("ADDED", "added", wide=True, folds=True),
        field("DROPPED", "dropped", wide=True, folds=True),
        field("VERSION", "version", wide=True),
        field("QUORUM", "quorum", wide=True),
        field("ONLINE", "online", wide=True, folds=True),
        field("ACTOR", "actor", wide=True),
        field("REPLACED AT", "replaced_at", wide=True),
    ),
    resources.VIEWS: (
        field("VERSION", "version"),
        field("POSITION", "position"),
        _TIME,
        Column("CHAIN", lambda item: item.get("chain"), brief=lambda chain: str(chain or "")[:12]),
        field("MEMBERS", "members", folds=True),
        field("EVENT", "event"),
        field("ABOUT", "subject"),
        field("JOINED", "joined", wide=True, folds=True),
        field("LEFT", "left", wide=True, folds=True),
        field("ACTOR", "actor", wide=True),
        field("REASON", "reason", wide=True, folds=True),
    ),
    **lease_columns.BY_RESOURCE,
    **schema_columns.BY_RESOURCE,
    **repair_columns.BY_RESOURCE,
    **process_columns.BY_RESOURCE,
    **log_columns.BY_RESOURCE,
}

WAITING = (
    field("NODE", "node"),
    field("SINCE", "since"),
    field("AT MOST MS", "at_most_ms"),
)

EXPLANATION = (
    field("SENTENCE", "sentence", folds=True),
    field("WAITING FOR", "waiting_for", folds=True),
)

FORECAST = (
    field("GROUP", "group"),
    field("COPIES HERE", "copies"),
    field("PRIMARIES MOVED", "primaries_moved"),
    field("LOST", "lost"),
    field("BEGIN EMPTY", "begin_empty"),
    field("LOST PARTITIONS", "lost_partitions", folds=True),
    field("TO LOAD", "loads", folds=True),
    field("WHOLE COPIES LEFT", "owners_left", folds=True),
)

FORECAST_OF_NODE = (
    field("NODE", "node"),
    field("IF", "event"),
    field("SENTENCE", "sentence", folds=True),
)

JOIN = (
    field("NODE", "node"),
    field("KINSHIP", "kinship"),
    field("ADMITTED", "is_admitted"),
    field("COMMON AT", "common.position"),
    field("THEIRS AT", "theirs.position"),
    field("OURS AT", "ours.position"),
    field("SENTENCE", "sentence", folds=True),
    field("REMEDY", "remedy", folds=True),
)

DRY_RUN = (
    field("SUBJECT", "subject"),
    field("STATUS", "status"),
    field("SENTENCE", "sentence", folds=True),
    field("WARNINGS", "warnings", folds=True),
)

MOVES = (
    field("GROUP", "group"),
    field("PARTITIONS", "partitions"),
    field("OTHER OWNERS", "changed"),
    field("OTHER PRIMARY", "primaries"),
    field("GAINS", "gains", folds=True),
    field("GIVES UP", "gives_up", folds=True),
)

PLANNED = (
    field("EVENT", "event"),
    field("ABOUT", "subject"),
    field("CONTENT", "content", folds=True),
)

REPLAY = (
    field("LETTER", "id"),
    field("TOPIC", "topic"),
    field("OFFSET", "offset"),
    field("REQUEST", "request"),
)

OUTCOME = (
    field("REQUEST", "id"),
    field("SUBJECT", "subject"),
    field("STATUS", "status"),
    field("VERSION", "version"),
    field("ACCEPTED", "accepted"),
    field("POSITION", "position"),
    field("TOKEN", "token", wide=True),
)
