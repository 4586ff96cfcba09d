"""The columns of sessions, trees, differences, repairs, replicas and schedules."""

from collections.abc import Mapping

from topolog.projections.cli import resources
from topolog.projections.cli.column import Column, field, listed, names, to_the_second
from topolog.projections.cli.problems import Json
from topolog.projections.durations import ago


def _span(milliseconds: object) -> object:
    return ago(milliseconds) if isinstance(milliseconds, int) else milliseconds


def _percent(value: object) -> object:
    return f"{value} %" if isinstance(value, int) else value


def _done(item: Json) -> object:
    return f"{item.get('segments_done', '?')}/{item.get('segments', '?')}"


def _state(item: Json) -> object:
    return [item.get("state"), "paused"] if item.get("paused") else item.get("state")


def _root(item: Json) -> object:
    """The first digits of each root that came."""
    return [f"{each.get('replica')} {str(each.get('root'))[:8]}" for each in listed(item, "tasks") if each.get("root")]


def _attempts(item: Json) -> object:
    """Who is at a later attempt than the first."""
    later = [each for each in listed(item, "tasks") if isinstance(each.get("attempt"), int) and each["attempt"] != 1]
    return [f"{each.get('replica')} {each.get('attempt')}" for each in later]


def _holders(item: Json) -> object:
    """`R1+R3, R2`: who has the same content stands together."""
    return ["+".join(map(str, names(each.get("replicas")))) for each in listed(item, "versions")]


def _versions(item: Json) -> object:
    return [each.get("version") for each in listed(item, "versions")]


def _plan(item: Json) -> object:
    """`R1 → R2, R3`, `delete at R2`, or why the row is left alone."""
    targets = ", ".join(map(str, names(item.get("targets"))))
    if not targets:
        return item.get("left_alone")
    return f"delete at {targets}" if item.get("deletes") else f"{item.get('source')} → {targets}"


def _copies(item: Json) -> object:
    return [f"{each.get('source')} → {each.get('target')} {each.get('rows')}" for each in listed(item, "copies")]


def _targets(item: Json) -> object:
    return [f"{each.get('replica')} {each.get('written')}/{each.get('rows')}" for each in listed(item, "targets")]


BY_RESOURCE: Mapping[resources.Resource, tuple[Column, ...]] = {
    resources.SESSIONS: (
        field("NUMBER", "number"),
        field("TABLE", "table"),
        field("KIND", "kind"),
        Column("STATE", _state),
        field("VERDICT", "verdict"),
        Column("SEGMENTS", _done),
        Column("DONE", lambda item: item.get("percent"), brief=_percent),
        field("ROWS READ", "rows_read"),
        field("DIFFER", "rows_differ"),
        field("TO COPY", "to_copy"),
        field("WRITTEN", "rows_written"),
        Column("COVERED", lambda item: item.get("covered_percent"), brief=_percent),
        Column("TOOK", lambda item: item.get("age_ms"), brief=_span),
        Column("ETA", lambda item: item.get("eta_ms"), brief=_span),
        field("CODE", "code"),
        field("POLICY", "policy", wide=True),
        field("REPLICAS", "replicas", wide=True, folds=True),
        field("BYTES READ", "bytes_read", wide=True),
        field("LEFT ALONE", "unresolved", wide=True, folds=True),
        field("LEFT", "left", wide=True, folds=True),
        Column("ASKED", lambda item: item.get("time"), wide=True, brief=to_the_second),
        field("SCHEDULE", "schedule", wide=True),
        field("ACTOR", "actor", wide=True),
        field("REASON", "reason", wide=True, folds=True),
        field("MESSAGE", "message", wide=True, folds=True),
    ),
    resources.TREES: (
        field("NAME", "name"),
        field("TABLE", "table"),
        field("KIND", "kind"),
        field("PURPOSE", "purpose"),
        field("BITS", "bits"),
        field("ASKED", "asked"),
        field("AWAITED", "awaited"),
        field("ROOTS", "roots"),
        field("PAIRS", "pairs_compared"),
        field("LEAVES", "leaves"),
        field("ROWS", "rows_differ"),
        Column("RETRIED", _attempts, wide=True),
        Column("ROOT", _root, wide=True, folds=True),
        field("RANGES", "ranges", wide=True, folds=True),
        field("STARTED AT", "started_at", wide=True),
    ),
    resources.DIFFERENCES: (
        field("NAME", "name"),
        field("KEY", "key", folds=True),
        field("KIND", "kind"),
        Column("HELD BY", _holders),
        field("MISSING AT", "missing"),
        Column("VERSIONS", _versions),
        Column("PLAN", _plan),
        field("TOKEN", "token", wide=True),
        field("SESSION", "session", wide=True),
        field("SEGMENT", "segment", wide=True),
    ),
    resources.REPAIRS: (
        field("NUMBER", "number"),
        field("TABLE", "table"),
        field("STATE", "state"),
        field("VERDICT", "verdict"),
        field("POLICY", "policy"),
        Column("COPIES", _copies, folds=True),
        field("ROWS", "rows"),
        field("WRITTEN", "written"),
        field("SKIPPED", "skipped"),
        field("LEFT ALONE", "unresolved", folds=True),
        field("VERIFIED", "verified"),
        field("CODE", "code"),
        field("DELETES", "deletes", wide=True),
        Column("TARGETS", _targets, wide=True, folds=True),
        field("SEGMENTS", "segments", wide=True),
        field("PREVIEW", "preview", wide=True),
        field("MESSAGE", "message", wide=True, folds=True),
    ),
    resources.REPLICAS: (
        field("NAME", "name"),
        field("DC", "datacenter"),
        Column("HOLDS", lambda item: item.get("percent"), brief=_percent),
        field("ROWS", "rows"),
        field("ROW BYTES", "row_bytes"),
        field("CUTS", "gives_cuts"),
        field("WRITABLE", "is_writable"),
        field("SCHEMA", "schema"),
        field("ASKED BY", "open_sessions"),
        Column("DECLARED", lambda item: item.get("declared_time"), wide=True, brief=to_the_second),
        field("KEY", "key", wide=True),
        field("COLUMNS", "columns", wide=True, folds=True),
        field("RANGES", "ranges", wide=True, folds=True),
        field("LIFE", "life", wide=True),
    ),
    resources.SCHEDULES: (
        field("NAME", "name"),
        field("TABLE", "table"),
        field("KIND", "kind"),
        Column("EVERY", lambda item: item.get("every_ms"), brief=_span),
        field("PAUSED", "paused"),
        Column("DUE IN", lambda item: item.get("due_in_ms"), brief=_span),
        field("LAST", "session"),
        field("CODE", "code"),
        field("MESSAGE", "message", folds=True),
        field("POLICY", "policy", wide=True),
        field("ASKS FOR", "definition", wide=True, folds=True),
    ),
}

COPIES = (
    field("FROM", "source"),
    field("TO", "target"),
    field("ROWS", "rows"),
    field("DELETES", "deletes"),
    field("BYTES", "bytes"),
)

PLAN = (
    field("SESSION", "session"),
    field("TABLE", "table"),
    field("POLICY", "policy"),
    field("ROWS", "rows"),
    field("DELETES", "deletes"),
    field("BYTES", "bytes"),
    field("LEFT ALONE", "unresolved"),
    Column("COPIES", _copies),
)
