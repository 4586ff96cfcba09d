"""The options that commands share, in groups; `spreading.py` gives a command all of a group at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from topolog.projections.cli import completion
from topolog.projections.cli.contexts import Standing
from topolog.projections.cli.resources import (
    AWAITED,
    CANCELLABLE,
    CREATABLE,
    DROPPABLE,
    EXPLAINED,
    REMOVABLE,
    RENAMABLE,
    REPLAYABLE,
    RESOURCES,
    WITH_HISTORY,
    Resource,
)


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    NAME = "name"
    CSV = "csv"
    SCHEMA = "schema"

    @property
    def is_for_people(self) -> bool:
        return self in (Format.TABLE, Format.WIDE)

    @property
    def is_document(self) -> bool:
        """Whether the answer is printed as the API gave it."""
        return self in (Format.JSON, Format.JSONL, Format.YAML)


class Wait(StrEnum):
    """How much of a request's life to wait for."""

    NONE = "none"
    DECIDED = "decided"
    ACCEPTED = "accepted"


@dataclass(frozen=True)
class Target:
    """Which cluster is meant, and which API to ask about it; `standing` is what that comes to, and `is_agreed` whether
    --yes was given."""

    api: Annotated[
        str | None,
        typer.Option(
            "--api",
            metavar="URL",
            envvar="TOPOLOG_API__URL",
            help="Where the query API answers.",
            show_default="that of the context, else api.url of the settings",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="NAME",
            envvar="TOPOLOG_CLUSTER__NAME",
            help="Which cluster; needed if the API serves several.",
            show_default="that of the context, else cluster.name, if it is set",
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="CONTEXT",
            help="One of `topolog context list`, '' for none; TOPOLOG_CONTEXT does the same.",
            show_default="the current one",
            autocompletion=completion.contexts,
        ),
    ] = None
    no_session: Annotated[
        bool, typer.Option("--no-session", help="Do not wait until the answer knows what earlier commands saw.")
    ] = False
    standing: Standing | None = None
    is_agreed: bool = False


@dataclass(frozen=True)
class Shape:
    """How the answer is printed."""

    chosen: Annotated[
        Format | None,
        typer.Option(
            "--output",
            "-o",
            help="table and wide are for people, the others for programs; schema prints the JSON Schema of this output "
            "and asks nothing.",
            show_default="table",
        ),
    ] = None
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours; NO_COLOR does the same.")] = False

    @property
    def output(self) -> Format:
        return self.chosen or Format.TABLE


@dataclass(frozen=True)
class Moment:
    """Which state is read: the newest, one in the past, or one not older than a token."""

    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="POSITION|TIME|15m",
            help="Read the past: a position, a time (local unless it ends in Z or an offset), how long ago, "
            "topology:4.1 or exchange:4.0.",
        ),
    ] = None
    at_least: Annotated[
        str | None,
        typer.Option("--at-least", metavar="TOKEN", help="Wait until the answer holds the write that gave TOKEN."),
    ] = None

    @property
    def is_past(self) -> bool:
        return self.as_of is not None


@dataclass(frozen=True)
class Extent:
    """How many rows are read; the API's own page if nothing is said."""

    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="At most N rows.")] = None
    every: Annotated[bool, typer.Option("--all", help="All rows, page by page.")] = False


class Imagined(StrEnum):
    """What a node might do."""

    DIES = "dies"
    REMOVED = "removed"


@dataclass(frozen=True)
class Patience:
    """How long a request is followed, why it is made, and under which id."""

    wait: Annotated[
        Wait | None,
        typer.Option(
            "--wait",
            help="Return when sent, when decided, or when every member has accepted it.",
            show_default="decided; accepted for databases, tables, views and grants",
        ),
    ] = None
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout", metavar="10s", help="How long to wait for that.", show_default="10s; 60s for a change"
        ),
    ] = None
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the decision.")] = ""
    request_id: Annotated[
        str | None,
        typer.Option(
            "--request-id",
            metavar="REQUESTER/SEQUENCE",
            help="The request's id, such as ada-42/1: the same request under the same id is made once.",
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing; show what would be decided, and what follows from it.")
    ] = False

    @property
    def awaits(self) -> Wait:
        """How much of a request's life to wait for where nothing else is usual."""
        return self.wait or Wait.DECIDED

    @property
    def decided_within(self) -> str:
        """How long to wait for the decision."""
        return self.timeout or "10s"


def _one_of(among: Sequence[Resource]) -> Any:
    """The argument that names one of these resources: its help and its completion list no others."""
    listed = ", ".join(f"{resource.usual} ({resource.short})" for resource in among)
    return typer.Argument(metavar="RESOURCE", help=f"One of: {listed}.", autocompletion=completion.one_of(among))


ResourceArgument = Annotated[str, _one_of(RESOURCES)]
HistoryArgument = Annotated[str, _one_of(WITH_HISTORY)]
ExplainArgument = Annotated[str, _one_of(EXPLAINED)]
ReplayArgument = Annotated[str, _one_of(REPLAYABLE)]
RemoveArgument = Annotated[str, _one_of(REMOVABLE)]
DropArgument = Annotated[str, _one_of(DROPPABLE)]
RenameArgument = Annotated[str, _one_of(RENAMABLE)]
CancelArgument = Annotated[str, _one_of(CANCELLABLE)]
WaitArgument = Annotated[str, _one_of(AWAITED)]
CreateArgument = Annotated[str, _one_of(CREATABLE)]
NameArgument = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="One of them; RESOURCE/NAME works too.", autocompletion=completion.names),
]
