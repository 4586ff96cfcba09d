"""The contract: one .avsc file per record, each field documented there; once released, never edited.

A file names other records by their full name; `load` puts the named definition in place of its first mention, so that
every schema stands alone, as single-object encoding needs it. Nothing is released yet, so each record has one version.
A later one is a new file `<Record>.v2.avsc` beside the first; both stay readable for ever. Its attribute
`feature_level` is the lowest level at which it may be written (K28, `events/levels.py`); without one it may always be.
"""

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import product
from typing import Any

Schema = dict[str, Any]
"""An Avro schema as JSON; records and enums only at the top."""


def load(folder: Traversable | None = None) -> Mapping[str, tuple[Schema, ...]]:
    """Every schema by full name, its versions oldest first; each stands alone. `folder` is that of this package."""
    sources: dict[str, list[Schema]] = {}
    for path in _schema_files(folder or files(__name__)):
        schema = json.loads(path.read_text(encoding="utf-8"))
        sources.setdefault(f"{schema['namespace']}.{schema['name']}", []).append(schema)
    return {name: _generations(name, sources) for name in sources}


def feature_level(schema: Schema) -> int:
    """The lowest level at which bytes of this schema, with all it embeds, may be written."""
    return max(_levels(schema), default=1)


def _levels(part: Any) -> Iterator[int]:
    if isinstance(part, dict):
        if "feature_level" in part:
            yield int(part["feature_level"])
        for each in part.values():
            yield from _levels(each)
    elif isinstance(part, list):
        for each in part:
            yield from _levels(each)


def _generations(name: str, sources: Mapping[str, list[Schema]]) -> tuple[Schema, ...]:
    """Each version of a record with each version of what it embeds, the newest of all last.

    A new version of an embedded record changes the bytes of all that embed it; those written before stay readable.
    """
    embedded = sorted(_embedded(name, sources))
    whole: list[Schema] = []
    for schema in sources[name]:
        for choice in product(*(sources[each] for each in embedded)):
            candidate = _inlined(schema, dict(zip(embedded, choice, strict=True)), set())
            if candidate not in whole:
                whole.append(candidate)
    return tuple(whole)


def _embedded(name: str, sources: Mapping[str, list[Schema]]) -> set[str]:
    """The records and enums that any version of this one names, however deep."""
    found: set[str] = set()
    to_visit = [name]
    while to_visit:
        mentioned = {text for text in _texts(sources[to_visit.pop()]) if text in sources} - found - {name}
        found |= mentioned
        to_visit += mentioned
    return found


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict | list):
        for each in part.values() if isinstance(part, dict) else part:
            yield from _texts(each)


def _schema_files(root: Traversable) -> list[Traversable]:
    folders = [each for each in root.iterdir() if each.is_dir()]
    found = [each for folder in folders for each in folder.iterdir() if each.name.endswith(".avsc")]
    return sorted(found, key=lambda path: (path.name.split(".")[0], _version(path.name)))


def _version(file_name: str) -> int:
    """`NodeLeft.avsc` is 1, `NodeLeft.v2.avsc` is 2."""
    parts = file_name.split(".")
    return int(parts[1].removeprefix("v")) if len(parts) > 2 else 1


def _inlined(schema: Any, sources: Mapping[str, Schema], defined: set[str]) -> Any:
    if isinstance(schema, str):
        if schema not in sources or schema in defined:
            return schema
        return _inlined(sources[schema], sources, defined)
    if isinstance(schema, list):
        return [_inlined(each, sources, defined) for each in schema]
    result = dict(schema)
    if "name" in schema:
        defined.add(f"{schema['namespace']}.{schema['name']}")
    if "fields" in schema:
        result["fields"] = [{**each, "type": _inlined(each["type"], sources, defined)} for each in schema["fields"]]
    for part in ("items", "values"):
        if part in schema:
            result[part] = _inlined(schema[part], sources, defined)
    return result
