"""What can be added to a question; anything else is refused by name, for a typo in a filter must not widen a list.

What each list can be filtered by is in `filters.py`, and is added to these.
"""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

LIMIT_MAX = 1_000
AT_LEAST = "Topolog-At-Least"
"""The header that says what `at_least` does."""


class NoParameters(BaseModel):
    """Nothing can be added."""

    model_config = ConfigDict(extra="forbid")


class KnowledgeParameters(NoParameters):
    """How much the answer must know."""

    at_least: Annotated[
        str | None, Field(description="A token or position that the answer must know; waits for it up to `wait`.")
    ] = None
    wait: Annotated[str, Field(description="How long `at_least` may wait, as 250ms, 5s.")] = "5s"
    max_age: Annotated[
        str | None,
        Field(description="How old the answer may be, as 500ms, 5s: 503 `stale` if this reader knows less."),
    ] = None


class ReadParameters(KnowledgeParameters):
    """Which moment is asked about, and how much the answer must know."""

    as_of: Annotated[
        str | None,
        Field(
            description="The past: a position (1234), a time (2026-11-21T02:00Z), ms since 1970, how long ago (15m), "
            "the coming of a view (topology:4.1), or the end of an exchange (exchange:4.0)."
        ),
    ] = None


class PageParameters(ReadParameters):
    """Which part of a list."""

    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, description="The most items of one page.")] = 100
    cursor: Annotated[
        str | None,
        Field(description="`next` of the page before. It carries that page's position, filters, order and fields."),
    ] = None
    sort: Annotated[
        str | None,
        Field(description="Fields to sort by, `-` before those that descend, as `-since,name`."),
    ] = None
    fields: Annotated[str | None, Field(description="Only these fields of each item, as `name,state`.")] = None


class ListParameters(PageParameters):
    """A part of a list, or what becomes of it."""

    watch: Annotated[
        Literal["true", "false", "present"],
        Field(
            description="`true`: the list, then what becomes of it for as long as the caller listens, as server-sent "
            "events, or as JSON lines with `Accept: application/jsonl`. `present`: with what is known of now alone, as "
            "the leases of nodes; then events have no tokens."
        ),
    ] = "false"
    since: Annotated[
        str | None,
        Field(description="With `watch`: the `token` of an event; the watch goes on behind it. Also as Last-Event-ID."),
    ] = None
    changes_since: Annotated[
        str | None,
        Field(description="A token: only what has come behind it, waiting up to `wait` for the first change."),
    ] = None


class ExportParameters(ReadParameters):
    """All of a list at once."""

    format: Annotated[
        Literal["jsonl", "csv"],
        Field(description="jsonl: one JSON object a line. csv: a line of names, and what is no single value as JSON."),
    ] = "jsonl"
    fields: Annotated[str | None, Field(description="Only these fields of each item, as `name,state`.")] = None


class ForecastParameters(ReadParameters):
    event: Annotated[Literal["dies", "removed"], Field(description="What the node is imagined to do.")] = "dies"


class WriteParameters(NoParameters):
    """How long to follow a request."""

    wait: Annotated[
        Literal["none", "decided", "accepted"],
        Field(description="Answer when the log has the request, when it is decided, when its effect holds everywhere."),
    ] = "decided"
    timeout: Annotated[str, Field(description="How long to wait for that, as 250ms, 10s.")] = "10s"
    dry_run: Annotated[
        Literal["true", "false"], Field(description="`true`: send nothing, and say what would be decided.")
    ] = "false"


class ReplayParameters(NoParameters):
    dry_run: Annotated[
        Literal["true", "false"], Field(description="`true`: send nothing, and say whether it could be.")
    ] = "false"


Nothing = Annotated[NoParameters, Query()]
Read = Annotated[ReadParameters, Query()]
Forecast = Annotated[ForecastParameters, Query()]
Write = Annotated[WriteParameters, Query()]
Replay = Annotated[ReplayParameters, Query()]
