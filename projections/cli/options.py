"""The options that commands share, in groups, and how a command takes a whole group as one argument."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from topolog.events.errors import BadInput
from topolog.events.group_definition import BACKUPS_MAX, PARTITIONS_DEFAULT, PARTITIONS_MAX
from topolog.projections.cli import completion, output_schema
from topolog.projections.cli.contexts import Defaults, Standing, stand
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


@dataclass(frozen=True)
class Picked:
    """In which order rows come, and what of each."""

    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="[-]FIELD,…", help="Order rows by these fields of -o json; - is descending."),
    ] = None
    fields: Annotated[
        str | None,
        typer.Option(
            "--fields", metavar="FIELD,…", help="Only these fields of -o json, in every format, as columns of a table."
        ),
    ] = None

    def params(self, is_list: bool, output: Format) -> dict[str, str]:
        """As the API wants them; BadInput where one thing is asked for and there is nothing to order."""
        if self.sort is not None and not is_list:
            raise BadInput("One row has no order.", hint="--sort is for lists.")
        said = {"sort": self.sort, "fields": self.fields if is_list and output is not Format.NAME else None}
        return {name: text for name, text in said.items() if text}

    @property
    def names(self) -> list[str]:
        return [name for name in (part.strip() for part in (self.fields or "").split(",")) if name]


@dataclass(frozen=True)
class Filters:
    """By what a list is narrowed; each resource knows some of these."""

    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help="Only what is in this state, as LOST.")
    ] = None
    group: Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Only what is of this group.")] = None
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="Only what this node holds.")] = None
    primary: Annotated[
        str | None, typer.Option("--primary", metavar="NODE", help="Only partitions that this node acts for.")
    ] = None
    database: Annotated[
        str | None, typer.Option("--database", metavar="NAME", help="Only what is of this database.")
    ] = None
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="NAME", help="Only grants of this principal.")
    ] = None
    type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only exchanges that are about this, as JOIN.")
    ] = None

    table: Annotated[
        str | None, typer.Option("--table", metavar="TABLE", help="Only what is of replicas of this table.")
    ] = None
    session: Annotated[str | None, typer.Option("--session", metavar="N", help="Only what is of this session.")] = None
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="Only these, as REPAIR, LEAVES, MISSING.")
    ] = None
    verdict: Annotated[
        str | None, typer.Option("--verdict", metavar="VERDICT", help="Only sessions with this verdict, as DIFFER.")
    ] = None
    replica: Annotated[
        str | None, typer.Option("--replica", metavar="NAME", help="Only rows that this replica lacks or is to get.")
    ] = None
    datacenter: Annotated[
        str | None, typer.Option("--datacenter", metavar="DC", help="Only replicas of this data centre.")
    ] = None

    @property
    def given(self) -> dict[str, str]:
        """Those that were given, as the API wants them."""
        said = {name: value for name, value in asdict(self).items() if value is not None}
        words = ("state", "type", "kind", "verdict")
        return {name: value.upper() if name in words else value for name, value in said.items()}


class Imagined(StrEnum):
    """What a node might do."""

    DIES = "dies"
    REMOVED = "removed"


class Policy(StrEnum):
    """What may be done with a group while partitions of it are lost."""

    IGNORE = "IGNORE"
    READ_WRITE_SAFE = "READ_WRITE_SAFE"
    READ_ONLY_SAFE = "READ_ONLY_SAFE"


@dataclass(frozen=True)
class Sharing:
    """What a group is; None is not said."""

    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            metavar="N",
            min=1,
            max=PARTITIONS_MAX,
            help=f"Into how many partitions it is cut, {PARTITIONS_DEFAULT} unless said; never changes.",
        ),
    ] = None
    backups: Annotated[
        int | None,
        typer.Option(
            "--backups",
            metavar="N",
            min=0,
            max=BACKUPS_MAX,
            help="How many copies of a partition there are beside the primary, 0 unless said.",
        ),
    ] = None
    persistent: Annotated[
        bool | None,
        typer.Option(
            "--persistent/--not-persistent",
            help="Whether copies outlive their process, not unless said; never changes.",
            show_default=False,
        ),
    ] = None
    node_filter: Annotated[
        list[str] | None,
        typer.Option(
            "--node-filter",
            metavar="ATTRIBUTE=VALUE",
            help="Only nodes with this attribute hold copies; may be repeated. '' takes the filter away.",
        ),
    ] = None
    backup_filter: Annotated[
        str | None,
        typer.Option(
            "--backup-filter",
            metavar="ATTRIBUTE",
            help="Copies of a partition are on nodes that differ in it, as rack. '' takes the filter away.",
        ),
    ] = None
    exclude_neighbours_by: Annotated[
        str | None,
        typer.Option(
            "--exclude-neighbours-by",
            metavar="ATTRIBUTE",
            help="The same, as host, but only while there are enough such nodes. '' takes the rule away.",
        ),
    ] = None
    loss_policy: Annotated[
        Policy | None,
        typer.Option(
            "--loss-policy",
            case_sensitive=False,
            help="What may be done while partitions are lost, READ_WRITE_SAFE unless said.",
        ),
    ] = None


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


YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def spread(command: Callable[..., None], **defaults: Callable[[], object]) -> Callable[..., None]:
    """The command with each parameter that is a group replaced by the group's options, as Typer wants them.

    `defaults` say which API and cluster are meant where neither flag, context nor environment does. With -o schema the
    command itself is not run: what it would print is described. Who can ask for a change can say --yes, which a
    protected context wants.
    """
    given = signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in given if is_dataclass(p.annotation)}
    has_own_yes = any(p.name == "yes" for p in given)
    takes_yes = not has_own_yes and "target" in groups and _asks(groups, [p.name for p in given])

    def call(**values: Any) -> None:
        agreed = values.pop("yes", False) if takes_yes else values.get("yes", False)
        arguments = {
            name: group(**{each.name: values.pop(each.name) for each in _option_fields(group)})
            for name, group in groups.items()
        }
        shape = arguments.get("shape")
        if isinstance(shape, Shape) and shape.output is Format.SCHEMA:
            output_schema.show(command, {**values, **arguments})
            return
        if isinstance(target := arguments.get("target"), Target):
            standing = stand(target.api, target.cluster, target.context, Defaults(**defaults))
            arguments["target"] = replace(target, standing=standing, is_agreed=bool(agreed))
        command(**values, **arguments)

    spread_out: list[Parameter] = []
    for parameter in given:
        spread_out += _options(groups[parameter.name]) if parameter.name in groups else [parameter]
    if takes_yes:
        spread_out.append(Parameter("yes", Parameter.KEYWORD_ONLY, default=False, annotation=YesOption))
    call.__signature__ = Signature(  # type: ignore[attr-defined]  # what inspect.signature, hence Typer, reads
        [p.replace(kind=Parameter.KEYWORD_ONLY) for p in spread_out]
    )
    call.__annotations__ = {}
    call.__name__, call.__doc__ = command.__name__, command.__doc__
    return call


def _asks(groups: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether the command asks for a change, of which a reason is a sign."""
    reasons = (each.name == "reason" for group in groups.values() for each in fields(group))
    return "reason" in names or any(reasons)


def _option_fields(group: type[Any]) -> list[Field[Any]]:
    """Those fields of a group that are options."""
    hints = get_type_hints(group, include_extras=True)
    return [each for each in fields(group) if get_origin(hints[each.name]) is Annotated]


def _options(group: type[Any]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in _option_fields(group)
    ]
