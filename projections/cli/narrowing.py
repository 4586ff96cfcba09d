"""The options that narrow a list: by what, in which order, to which fields."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from topolog.events.errors import BadInput
from topolog.projections.cli.options import Format
from topolog.projections.cli.resources import Resource, filtering
from topolog.projections.cli.transport import Param


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

    others: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", metavar="NAME=VALUE", help="Any other filter of the API, as status=REFUSED; may be repeated."
        ),
    ] = None

    @property
    def given(self) -> dict[str, str]:
        """Those that have an option of their own and were given, as the API wants them."""
        said = {name: value for name, value in asdict(self).items() if value is not None and name != "others"}
        words = ("state", "type", "kind", "verdict")
        return {name: value.upper() if name in words else value for name, value in said.items()}

    def of(self, kind: Resource, name: str | None = None) -> dict[str, Param]:
        """All that were given, as the list of this kind wants them; BadInput for those that it has not, and beside a
        name."""
        return {**filtering(kind, name, self.given), **_others(kind, name, self.others)}


_NO_FILTERS = ("limit", "cursor", "watch", "since", "changes_since", "wait", "as_of", "at_least", "sort", "fields")


def _others(kind: Resource, name: str | None, texts: Sequence[str] | None) -> dict[str, str]:
    """The filters in NAME=VALUE, which the API knows and refuses by name; BadInput for what says none."""
    if texts and name is not None:
        raise BadInput(f"{kind.singular} {name} is one: there is nothing to narrow.", hint="Leave the name out.")
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value) or name in _NO_FILTERS:
            raise BadInput(f"--filter {text!r} is no filter.", hint="One looks like status=REFUSED.")
        found[name.replace("-", "_")] = value
    return found
