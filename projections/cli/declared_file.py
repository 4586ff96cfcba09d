"""The file that `apply` reads: all of a cluster that can be declared, in JSON or in YAML of one or more documents.

    databases: …                        # databases, tables, views and grants: `schema_file.py`
    types:
      Customer: {fields: {id: long, name: String}, affinity_key: id}
    groups:
      orders: {partitions: 64, backups: 1, backup_filter: rack}
    baseline: [n1, n2, n3]
    schedules:
      nightly: {table: orders, every: 1d, session: REPAIR, policy: PULL, source: R1}

What it does not name is left alone. Everything is checked before anything is asked.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from topolog.events.errors import BadInput
from topolog.events.group_definition import EXAMPLE, FIELDS, GroupDefinition
from topolog.events.object_types import ObjectType
from topolog.projections.cli import moments
from topolog.projections.cli.definition_file import check_keys, line_of, read_documents
from topolog.projections.cli.problems import Json
from topolog.projections.cli.schema_file import SECTIONS, SchemaFile, schema_of

_OTHERS = ("types", "groups", "baseline", "schedules")
_EXAMPLE = "One looks like `groups: {orders: {partitions: 64, backups: 1}}`; docs/cli.md and docs/schema.md have more."


class Declared(msgspec.Struct, frozen=True):
    """What the file is called, and all it wants. `groups` and `schedules` are as the API takes them; `baseline` None:
    nothing is said of it."""

    source: str
    schema: SchemaFile
    types: tuple[ObjectType, ...] = ()
    groups: tuple[Json, ...] = ()
    baseline: tuple[str, ...] | None = None
    schedules: tuple[Json, ...] = ()

    @property
    def is_schema_alone(self) -> bool:
        """Whether one change of definitions is all there is to it."""
        return not (self.types or self.groups or self.schedules) and self.baseline is None


def read_declared(path: str) -> Declared:
    """All that the file, `-` for stdin, wants; BadInput with the file's name and the line for what cannot be."""
    source, text, documents = read_documents(path, "the description of a cluster", _EXAMPLE)
    content = _merged(source, text, documents)
    types = _section(source, text, content, "types")
    groups = _section(source, text, content, "groups")
    schedules = _section(source, text, content, "schedules")
    declared = Declared(
        source,
        schema_of(source, text, {name: content[name] for name in SECTIONS if name in content}),
        tuple(_checked(source, text, name, ObjectType.from_dict, said) for name, said in types.items()),
        tuple(_checked(source, text, name, _group, said) for name, said in groups.items()),
        _baseline(source, text, content),
        tuple(_checked(source, text, name, _schedule, said) for name, said in schedules.items()),
    )
    if declared.is_schema_alone and not declared.schema.wanted:
        raise BadInput(f"{source} wants nothing.", hint=_EXAMPLE)
    return declared


def _merged(source: str, text: str, documents: list[dict[str, Any]]) -> dict[str, Any]:
    """All documents as one; what two of them say of one thing is an error, for one would be forgotten."""
    whole: dict[str, Any] = {}
    for content in documents:
        check_keys(content, text, source, (*SECTIONS, *_OTHERS), "it")
        for section, said in content.items():
            if section not in whole:
                whole[section] = dict(said) if isinstance(said, dict) else said
            elif isinstance(said, dict) and isinstance(whole[section], dict):
                for name in said.keys() & whole[section].keys():
                    raise BadInput(f"{source}{line_of(text, str(name), last=True)}: {name} stands there twice.")
                whole[section].update(said)
            elif said is not None:
                raise BadInput(f"{source}{line_of(text, section, last=True)}: {section} stands there twice.")
    return whole


def _section(source: str, text: str, content: Mapping[str, Any], section: str) -> dict[str, dict[str, Any]]:
    said = content.get(section) or {}
    if not isinstance(said, dict) or not all(isinstance(each, dict | None) for each in said.values()):
        raise BadInput(
            f"{source}{line_of(text, section)}: {section} are names with what belongs to them.", hint=_EXAMPLE
        )
    return {str(name): {**(each or {}), "name": str(name)} for name, each in said.items()}


def _checked(source: str, text: str, name: str, check: Any, said: dict[str, Any]) -> Any:
    try:
        return check(said)
    except BadInput as error:
        raise BadInput(f"{source}{line_of(text, name)}: {name}: {error.message}", hint=error.hint) from error


def _group(said: Json) -> Json:
    for key in said.keys() - set(FIELDS):
        near = get_close_matches(key, FIELDS, n=1)
        raise BadInput(f"a group has no key {key!r}.", hint=f"Did you mean {near[0]!r}?" if near else EXAMPLE)
    GroupDefinition.from_dict(said)
    return said


def _schedule(said: Json) -> Json:
    """As the API takes it: what is not of the schedule itself is of the sessions it opens, which the API checks."""
    definition = {key: value for key, value in said.items() if key not in ("name", "every", "paused")}
    if "every" not in said or "table" not in said:
        raise BadInput("a schedule has a table, and says how often.", hint="One looks like {table: orders, every: 1d}.")
    if not isinstance(said.get("paused", False), bool):
        raise BadInput("paused is true or false.")
    every_ms = max(1, round(moments.seconds(str(said["every"]), "every") * 1000))
    return {"name": said["name"], "definition": definition, "every_ms": every_ms, "paused": said.get("paused", False)}


def _baseline(source: str, text: str, content: Mapping[str, Any]) -> tuple[str, ...] | None:
    said = content.get("baseline")
    if said is None:
        return None
    if not (isinstance(said, list) and said and all(isinstance(each, str) for each in said)):
        raise BadInput(
            f"{source}{line_of(text, 'baseline')}: a baseline is a list of nodes.", hint="baseline: [n1, n2, n3]"
        )
    return tuple(dict.fromkeys(said))
