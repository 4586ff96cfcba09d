"""The commands that create, alter, drop and reset what is shared out over members: groups. What else can be dropped is
in `schema_commands.py`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from topolog.events.errors import BadInput
from topolog.projections.cli.definition_file import read_group
from topolog.projections.cli.group_options import GroupOptions
from topolog.projections.cli.options import CreateArgument, DropArgument, NameArgument, Patience, Shape, Target
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import CREATABLE, DROPPABLE, GROUPS, find_item, find_named
from topolog.projections.cli.schema_commands import drop_object
from topolog.projections.cli.writing import Doubt, ask


def create(
    resource: CreateArgument,
    name: NameArgument = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="What is not said here, JSON or YAML; - is stdin."),
    ] = None,
    *,
    sharing: GroupOptions,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Create a group. One that is there and the same is left as it is, another one is refused (exit code 5)."""
    said = _said(sharing)
    if file is None:
        _, name = find_named(resource, name, among=CREATABLE)
        whole = {"name": name, **said}
    else:
        _, name = find_item(resource, name, among=CREATABLE)
        whole = read_group(file, {**({"name": name} if name else {}), **said})
    ask({"kind": "create-group", **whole}, patience, target, shape)


def alter(
    resource: CreateArgument,
    name: NameArgument = None,
    *,
    sharing: GroupOptions,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Alter a group: what is not said stays as it is. Partitions and persistence never change."""
    _, name = find_named(resource, name, among=CREATABLE)
    said = _said(sharing)
    if not said:
        raise BadInput(f"Nothing is to be altered of group {name}.", hint="Say what, as --backups 2.")
    ask({"kind": "alter-group", "name": name, **said}, patience, target, shape)


def drop(
    resource: DropArgument,
    name: NameArgument = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="No error if it is not there; not of groups.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Drop a group, a database, a table, a view of one, a grant, and all that goes with it."""
    kind, name = find_named(resource, name, among=DROPPABLE)
    if kind is not GROUPS:
        drop_object(kind, name, if_exists, yes, patience, target, shape)
        return
    if if_exists:
        raise BadInput("--if-exists is not of groups.", hint="`topolog get groups` lists them.")
    effect = "Every copy of its partitions goes with it."
    doubt = Doubt("dropped", lambda cluster: f"Drop group {name} from cluster {cluster}? {effect}", name)
    ask({"kind": "drop-group", "name": name}, patience, target, shape, None if yes else doubt)


def reset(
    resource: CreateArgument,
    name: NameArgument = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    patience: Patience,
    target: Target,
    shape: Shape,
) -> None:
    """Give up what is lost of a group: its lost partitions go on with what is left of them, empty if need be."""
    _, name = find_named(resource, name, among=CREATABLE)
    effect = "What no present copy holds of its lost partitions is gone for good."
    doubt = Doubt("reset", lambda cluster: f"Reset group {name} of cluster {cluster}? {effect}", name)
    ask({"kind": "reset-group", "name": name}, patience, target, shape, None if yes else doubt)


def start_exchange(*, patience: Patience, target: Target, shape: Shape) -> None:
    """Ask all servers for their maps although nothing has changed."""
    ask({"kind": "exchange"}, patience, target, shape)


def _said(sharing: GroupOptions) -> Json:
    """What the options say; what they leave out is not in it."""
    said = {name: value for name, value in asdict(sharing).items() if value is not None}
    if sharing.node_filter:
        said["node_filter"] = _attributes(sharing.node_filter)
    else:
        said.pop("node_filter", None)
    return said


def _attributes(texts: Sequence[str]) -> dict[str, str]:
    """The attributes of `zone=eu`; empty texts say that there are none. BadInput for what is neither."""
    found: dict[str, str] = {}
    for text in filter(None, texts):
        attribute, equals, value = text.partition("=")
        if not equals or not attribute:
            raise BadInput(f"--node-filter {text!r} is no attribute with a value.", hint="One looks like zone=eu.")
        if found.setdefault(attribute, value) != value:
            raise BadInput(f"--node-filter asks for {attribute} {found[attribute]!r} and {value!r}: no node has both.")
    return found
