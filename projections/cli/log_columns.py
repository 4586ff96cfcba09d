"""The columns of what was asked and decided: decisions, requests, the audit, histories, causes."""

from collections.abc import Callable, Hashable, Mapping, Sequence

from topolog.projections import cause_words, repeats
from topolog.projections.cli import resources
from topolog.projections.cli.column import Column, field, to_the_second
from topolog.projections.cli.problems import Json
from topolog.projections.cli.terminal import plain


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


_TIME = Column("TIME", lambda item: item.get("time"), brief=to_the_second)


def _why(item: Json) -> object:
    return cause_words.why(str(item.get("cause") or ""), str(item.get("reason") or "")) or None


_WHY = Column("WHY", _why, folds=True)


def _result(item: Json) -> object:
    """What is DONE in a dry run has changed nothing."""
    return f"{item.get('result')} (dry run)" if item.get("dry_run") else item.get("result")


BY_RESOURCE: Mapping[resources.Resource, tuple[Column, ...]] = {
    resources.AUDIT: (
        _TIME,
        field("PRINCIPAL", "principal"),
        field("WHAT", "what", folds=True),
        Column("RESULT", _result),
        field("OUTCOME", "outcome"),
        field("POSITION", "position"),
        field("CLIENT", "client"),
        field("REASON", "reason", folds=True),
        field("METHOD", "method", wide=True),
        field("STATUS", "status", wide=True),
        field("CODE", "code", wide=True),
        field("DRY RUN", "dry_run", wide=True),
        field("COUNT", "count", wide=True),
        field("REQUEST", "request_id", wide=True),
        field("TRACE", "trace_id", wide=True),
        field("AGENT", "agent", wide=True, folds=True),
        field("DETAIL", "detail", wide=True, folds=True),
    ),
    resources.DECISIONS: (
        field("POSITION", "position"),
        _TIME,
        field("TERM", "term"),
        field("EVENT", "event"),
        field("ABOUT", "subject"),
        field("ASKED BY", "actor"),
        _WHY,
        field("DECIDED BY", "decided_by", wide=True),
        field("CAUSE", "cause", wide=True),
        field("CONTENT", "content", wide=True, folds=True),
    ),
    resources.REQUESTS: (
        Column("REQUEST", resources.REQUESTS.name_of),
        field("SUBJECT", "subject"),
        field("STATUS", "status"),
        field("VERSION", "version"),
        field("POSITION", "position"),
        field("CODE", "code"),
        _TIME,
        field("RULE", "rule", wide=True),
        field("ACTOR", "actor", wide=True),
        field("REASON", "reason", wide=True, folds=True),
        field("MESSAGE", "message", wide=True, folds=True),
    ),
}

_SAME: Mapping[resources.Resource, tuple[str, Callable[[Callable[[str], object]], Hashable]]] = {
    resources.REQUESTS: ("status", repeats.of_request),
    resources.DECISIONS: ("event", repeats.of_decision),
}
"""What refusals that are one and the same have in common, and the field that says how many there are."""


def folded(kind: resources.Resource, items: Sequence[Json]) -> Sequence[Json]:
    """Of refusals that follow one another and are the same the first: how often there was one, from when to when."""
    if kind not in _SAME:
        return items
    told, same = _SAME[kind]
    return [_as_one(run, told) for run in repeats.runs(items, lambda item: same(item.get))]


def _as_one(run: Sequence[Json], told: str) -> Json:
    if len(run) == 1:
        return run[0]
    first, last = sorted(str(item.get("time") or "") for item in (run[0], run[-1]))
    return {**run[0], told: f"{run[0].get(told)} ({len(run)} times)", "time": f"{first} – {last}"}


HISTORY = (
    field("POSITION", "position"),
    _TIME,
    field("EVENT", "event"),
    field("ASKED BY", "actor", wide=True),
    field("CAUSE", "cause", wide=True),
    _WHY,
    Column("CHANGES", _changes, folds=True),
)

CAUSES = (
    field("POSITION", "position"),
    _TIME,
    field("EVENT", "event"),
    field("CAUSE", "cause", wide=True),
    field("ASKED BY", "actor", wide=True),
    field("KIND", "kind", wide=True),
    field("FOLLOWS FROM", "follows", wide=True),
    _WHY,
)
