"""The columns of databases, tables, views, grants, and of their changes."""

from collections.abc import Mapping

from topolog.projections import definition_words
from topolog.projections.cli import resources
from topolog.projections.cli.column import Column, field, listed, names, to_the_second
from topolog.projections.cli.problems import Json
from topolog.projections.durations import ago


def _ttl(item: Json) -> object:
    definition = item.get("definition")
    ttl_ms = definition.get("ttl_ms") if isinstance(definition, Mapping) else None
    return definition_words.ttl(ttl_ms) if isinstance(ttl_ms, int) else None


def in_words(item: Json) -> Json:
    """An object for who reads it: of its definitions what is in them, and `ttl` as a file of `apply` writes it."""
    told = {field: _told(item[field]) for field in ("definition", "pending") if isinstance(item.get(field), dict)}
    return {**item, **told}


def _told(definition: Json) -> Json:
    said = {name: value for name, value in definition.items() if value not in (None, "", [], {})}
    return {
        "ttl" if name == "ttl_ms" else name: definition_words.ttl(value) if name == "ttl_ms" else value
        for name, value in said.items()
    }


def _columns(item: Json) -> list[Mapping[str, object]]:
    """The columns of an object; of one that is being created those it is to have."""
    definition = item.get("definition") or item.get("pending")
    return listed(definition, "columns") if isinstance(definition, dict) else []


def _column_names(item: Json) -> object:
    return [each.get("name") for each in _columns(item)]


def _column_types(item: Json) -> object:
    return [f"{each.get('name')} {each.get('type')}" for each in _columns(item)]


def _waits_for(item: Json) -> object:
    """The changes before it, those who were not heard since it was prepared, or all that are asked."""
    behind = [f"change {number}" for number in names(item.get("behind"))]
    return behind or names(item.get("silent")) or names(item.get("asked"))


def _span(milliseconds: object) -> object:
    return ago(milliseconds) if isinstance(milliseconds, int) else milliseconds


_OF_ALL = (
    field("CHANGE", "change"),
    field("QUEUE", "queue"),
    field("VERSION", "version"),
    field("COMMITTED AT", "committed_at"),
    Column("CAN", lambda item: item.get("actions"), wide=True, folds=True),
    field("INCARNATION", "incarnation", wide=True),
    field("PENDING VERSION", "pending_version", wide=True),
)

BY_RESOURCE: Mapping[resources.Resource, tuple[Column, ...]] = {
    resources.DATABASES: (
        field("NAME", "name"),
        field("STATE", "state"),
        Column("TTL", _ttl),
        field("PROPERTIES", "definition.properties", folds=True),
        *_OF_ALL,
    ),
    resources.TABLES: (
        field("NAME", "name"),
        field("STATE", "state"),
        Column("COLUMNS", _column_names, folds=True),
        field("KEY", "definition.key"),
        Column("TTL", _ttl),
        *_OF_ALL,
        Column("TYPES", _column_types, wide=True, folds=True),
        field("PROPERTIES", "definition.properties", wide=True, folds=True),
    ),
    resources.TABLE_VIEWS: (
        field("NAME", "name"),
        field("STATE", "state"),
        field("OVER", "definition.over"),
        Column("COLUMNS", _column_names, folds=True),
        *_OF_ALL,
        field("PROPERTIES", "definition.properties", wide=True, folds=True),
    ),
    resources.GRANTS: (
        field("NAME", "name"),
        field("STATE", "state"),
        field("RIGHTS", "definition.privileges"),
        *_OF_ALL,
    ),
    resources.CHANGES: (
        field("NUMBER", "number"),
        field("STATE", "state"),
        field("DOES", "does", folds=True),
        Column("TOOK", lambda item: item.get("age_ms"), brief=_span),
        Column("WAITS FOR", _waits_for, folds=True),
        Column("AT MOST", lambda item: item.get("at_most_ms"), brief=_span),
        field("UNDELETED", "undeleted", folds=True),
        field("CODE", "code"),
        Column("ASKED", lambda item: item.get("time"), wide=True, brief=to_the_second),
        field("PREPARED AT", "prepared_at", wide=True),
        field("CLOSED AT", "closed_at", wide=True),
        field("ALL ASKED", "asked", wide=True, folds=True),
        field("IN FORCE BY", "in_force_by", wide=True),
        field("ACTOR", "actor", wide=True),
        field("REASON", "reason", wide=True, folds=True),
        field("MESSAGE", "message", wide=True, folds=True),
    ),
}
