"""The files that `propose`, `create` and `apply` read: definitions in JSON or YAML, checked before anything is sent.

Threat: a slip that both formats forgive. A key written twice would silently win over the first, a mistyped key would
silently mean nothing; both are errors here, with the line where they stand.
"""

import json
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from topolog.events.errors import BadInput
from topolog.events.group_definition import EXAMPLE, FIELDS, GroupDefinition
from topolog.events.object_types import ObjectType
from topolog.events.requests import REQUEST_BYTES_MAX

_VALUES_MAX = 2 * REQUEST_BYTES_MAX
_FILE_BYTES_MAX = 4 * REQUEST_BYTES_MAX  # a request packs the names tighter than JSON does
_SHOWN_MAX = 60  # whatever file was named by mistake, its secrets are not for a terminal
_TYPE_KEYS = ("name", "type_id", "fields", "affinity_key", "is_enum", "enum", "schemas")
_TYPE_EXAMPLE = 'One looks like {"name": "Customer", "fields": {"id": "long", "name": "String"}, "affinity_key": "id"}.'


def read_definition(path: str) -> ObjectType:
    """The definition of a type in the file, `-` for stdin.

    BadInput, with the file's name and if possible the line, for what is no definition and where no file is.
    """
    source, content = _read(path, "type", _TYPE_KEYS, _TYPE_EXAMPLE)
    with _about(source):
        return ObjectType.from_dict(content)


def read_group(path: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says of a group, and in place of it what is `said` otherwise, in the flat form of the API.

    BadInput as above, and if the whole is no group.
    """
    source, content = _read(path, "group", FIELDS, EXAMPLE)
    if "name" in content and content["name"] != said.get("name", content["name"]):
        raise BadInput(f"{source} is about group {content['name']!r}, not {said['name']!r}.")
    whole = {**content, **said}
    with _about(source):
        GroupDefinition.from_dict(whole)
    return whole


@contextmanager
def _about(source: str) -> Iterator[None]:
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{source}: {error.message}", hint=error.hint) from error


def _read(path: str, what: str, keys: Sequence[str], example: str) -> tuple[str, dict[str, Any]]:
    """What the file is called, and the mapping that it holds, which has no other keys than these."""
    source, text, content = read_mapping(path, f"the definition of one {what}", example)
    check_keys(content, text, source, keys)
    return source, content


def read_mapping(path: str, what: str, example: str) -> tuple[str, str, dict[str, Any]]:
    """What the file is called, its text, and the mapping that it holds, no key of which stands there twice."""
    source, text, found = read_documents(path, what, example)
    if len(found) != 1:
        raise BadInput(f"{source} holds {len(found)} documents, not {what}.", hint=example)
    return source, text, found[0]


def read_documents(path: str, what: str, example: str) -> tuple[str, str, list[dict[str, Any]]]:
    """The same of a file of several YAML documents, which `---` separates; empty ones count for nothing."""
    source = "stdin" if path == "-" else path
    text = _text(path, source, what)
    try:
        found = [_parse_json(text, source)] if _is_json(path, text) else _parse_yaml(text, source)
    except RecursionError as error:
        raise BadInput(f"{source} is nested too deep for {what}.", hint=example) from error
    for content in found:
        if not isinstance(content, dict):
            raise BadInput(f"{source} holds {_kind(content)}, not {what}.", hint=example)
    return source, text, [content for content in found if isinstance(content, dict)]


def _text(path: str, source: str, what: str) -> str:
    try:
        with sys.stdin.buffer if path == "-" else Path(path).open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
        if len(data) > _FILE_BYTES_MAX:
            raise BadInput(
                f"{source} has more than {_FILE_BYTES_MAX} bytes: no {what.removeprefix('the ')} is that big."
            )
        return data.decode()
    except FileNotFoundError as error:
        raise BadInput(f"There is no file {path}.", hint="--file - reads from stdin.") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{source} is no UTF-8 text: byte {error.start} is wrong.") from error


def _is_json(path: str, text: str) -> bool:
    suffix = Path(path).suffix.lower()
    return suffix == ".json" or (suffix not in (".yaml", ".yml") and text.lstrip().startswith("{"))


def _parse_json(text: str, source: str) -> object:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated = _repeated([key for key, _ in pairs])
        if repeated is not None:
            raise BadInput(f"{source}{line_of(text, repeated, last=True)}: key {repeated!r} stands there twice.")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise BadInput(f"{source}, line {error.lineno}, column {error.colno}: no JSON: {error.msg}.") from error
    except ValueError as error:  # a number of too many digits
        raise BadInput(f"{source}: no JSON: {error}.") from error


class _UniqueKeys(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key.value, str)]
        repeated = _repeated(keys)
        if repeated is not None:
            mark = [key for key, _ in node.value if key.value == repeated][-1].start_mark
            raise yaml.MarkedYAMLError(problem=f"key {repeated!r} stands there twice", problem_mark=mark)
        return super().construct_mapping(node, deep=deep)


def _parse_yaml(text: str, source: str) -> list[object]:
    try:
        found = list(yaml.load_all(text, Loader=_UniqueKeys))  # a SafeLoader: plain data only
        _check_spread(found, source)
        return [each for each in found if each is not None] or [None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise BadInput(f"{source}{where}: no YAML: {error.problem}.") from error
    except (yaml.YAMLError, ValueError) as error:  # also a date that is none, a number of too many digits
        raise BadInput(f"{source}: no YAML: {error}.") from error


def _check_spread(found: list[object], source: str) -> None:
    """Refuse aliases that stand for one another again and again, or for themselves: what they mean has no end."""
    left, values = [*found], 0
    while left:
        each = left.pop()
        values += 1
        if values > _VALUES_MAX:
            raise BadInput(f"{source} means more than {_VALUES_MAX} values: its aliases are spread without end.")
        if isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list):
            left += each


def check_keys(
    content: dict[Any, Any], text: str, source: str, keys: Sequence[str], what: str = "a definition"
) -> None:
    """Refuse a key that is none of these, with the nearest one and the line."""
    for key in content:
        if key in keys:
            continue
        near = get_close_matches(str(key), keys, n=1)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        raise BadInput(
            f"{source}{line_of(text, str(key))}: {what} has no key {key!r}.",
            hint=f"{guess}It may have {', '.join(keys)}.",
        )


def _repeated(keys: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def line_of(text: str, key: str, *, last: bool = False) -> str:
    """`, line N` of the line that seems to hold the key."""
    numbers = [number for number, line in enumerate(text.splitlines(), 1) if key in line]
    return f", line {numbers[-1 if last else 0]}" if numbers else ""


def _kind(content: object) -> str:
    match content:
        case None:
            return "nothing"
        case list():
            return "a list"
        case _:
            shown = repr(content)
            return f"the value {shown if len(shown) <= _SHOWN_MAX else f'{shown[:_SHOWN_MAX]}…'}"
