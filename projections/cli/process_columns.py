"""The columns of what the process that answers has: how far it reads topics, its stores, and what it was shown."""

from collections.abc import Mapping

from topolog.projections.cli import resources
from topolog.projections.cli.column import Column, field, listed, size, to_the_second
from topolog.projections.cli.problems import Json
from topolog.projections.durations import ago


def _compared(item: Json) -> object:
    compared = item.get("compared")
    if not isinstance(compared, Mapping):
        return None
    is_equal = not compared.get("differences") and compared.get("state_hash") == compared.get("other_hash")
    return f"{'EQUAL' if is_equal else 'DIFFERENT'}@{compared.get('position')}"


def _duration(value: object) -> object:
    return ago(int(value)) if isinstance(value, int) else value


def _size(value: object) -> object:
    return size(value) if isinstance(value, int) else value


def _kept_for(value: object) -> object:
    return "for ever" if value == -1 else _duration(value)


def _offsets(item: Json) -> object:
    """Up to where each partition is read: `0@1204`; nothing of one that was never read."""
    return [
        f"{each.get('partition')}@{each['offset']}" for each in listed(item, "read") if each.get("offset") is not None
    ]


def _places(item: Json) -> object:
    return [each.get("position") for each in listed(item, "places")]


BY_RESOURCE: Mapping[resources.Resource, tuple[Column, ...]] = {
    resources.TOPICS: (
        field("NAME", "name"),
        field("PARTITIONS", "partitions"),
        field("KEY", "key"),
        field("POLICY", "policy"),
        Column("KEPT", lambda item: item.get("retention_ms"), brief=_kept_for),
        field("READ", "is_read"),
        field("RECORDS", "records"),
        field("LAG S", "lag_s"),
        field("SAYS", "says", folds=True),
        field("TOPIC", "topic", wide=True),
        field("NEEDED", "is_needed", wide=True),
        Column("READ TO", _offsets, wide=True, folds=True),
    ),
    resources.PROJECTIONS: (
        field("NAME", "name"),
        field("STATE", "state"),
        field("POSITION", "position"),
        field("OF", "of"),
        field("PER SECOND", "rate"),
        Column("ETA", lambda item: None if item.get("eta_s") is None else item["eta_s"] * 1000, brief=_duration),
        Column("AGE", lambda item: item.get("age_ms"), brief=_duration),
        Column("SIZE", lambda item: item.get("bytes"), brief=_size),
        field("HASH", "hash"),
        Column("COMPARED", _compared),
        field("PHASE", "phase", wide=True),
        field("SCRUB", "scrub.state", wide=True),
        field("SCRUBBED", "scrub.time", wide=True),
        field("SHAPE", "shape", wide=True),
        Column("STARTED", lambda item: item.get("started_at"), wide=True, brief=to_the_second),
        field("BY", "by", wide=True),
        field("WHY", "why", folds=True),
    ),
    resources.BRANCHES: (
        field("NODE", "node"),
        field("KINSHIP", "kinship"),
        field("COMMON AT", "common"),
        Column("PLACES", _places, folds=True),
        field("IN ALL", "places_in_all"),
        field("REFUSED AT", "refused_at"),
        Column("TIME", lambda item: item.get("time"), brief=to_the_second),
        field("REQUEST", "request"),
    ),
}
