"""The contract: one .avsc file per record, each field documented there, released versions never edited.

A file names other records by their full name; `load` puts the named definition in place of its first mention, so that
every schema stands alone, as single-object encoding needs it. A later version of a record is a new file
`<Record>.v2.avsc` beside the first; both stay readable for ever.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

Schema = dict[str, Any]
"""An Avro schema as JSON; records and enums only at the top."""


def load() -> Mapping[str, tuple[Schema, ...]]:
    """Every schema by full name, its versions oldest first; each stands alone."""
    sources: dict[str, list[Schema]] = {}
    for path in _schema_files():
        schema = json.loads(path.read_text(encoding="utf-8"))
        sources.setdefault(f"{schema['namespace']}.{schema['name']}", []).append(schema)
    newest = {name: versions[-1] for name, versions in sources.items()}
    return {name: tuple(_inlined(each, newest, set()) for each in versions) for name, versions in sources.items()}


def _schema_files() -> list[Traversable]:
    folders = [each for each in files(__name__).iterdir() if each.is_dir()]
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
