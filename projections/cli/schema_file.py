"""The file that `apply` reads: databases, tables, views and grants as they are to be, in JSON or YAML.

    databases:
      shop: {ttl: 30d, properties: {team: sales}}
    tables:
      shop.orders:
        columns: {id: INT64, price: INT32, note: {type: STRING, renamed_from: remark}}
        key: id
        ttl: 7d
    views:
      shop.prices: {over: shop.orders, columns: [id, price]}
    grants:
      ada@shop.orders: [READ, WRITE]

What it leaves out of an object that is there stays as it is. Everything is checked before anything is asked.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import msgspec

from topolog.events.errors import BadInput, Refused
from topolog.events.object_definition import (
    FOREVER,
    Column,
    ColumnType,
    Definition,
    ObjectKind,
    Privilege,
    Statement,
    Verb,
    check_statements,
)
from topolog.projections.cli.definition_file import check_keys, line_of, read_mapping
from topolog.projections.cli.schema_plan import Wanted
from topolog.projections.durations import duration_ms

_EXAMPLE = "One looks like `tables: {shop.orders: {columns: {id: INT64}, key: id}}`; docs/schema.md has more."
_KINDS: Mapping[str, tuple[ObjectKind, tuple[str, ...]]] = {
    "databases": (ObjectKind.DATABASE, ("ttl", "properties")),
    "tables": (ObjectKind.TABLE, ("columns", "key", "ttl", "properties", "renamed_from")),
    "views": (ObjectKind.VIEW, ("over", "columns", "properties", "renamed_from")),
    "grants": (ObjectKind.GRANT, ("privileges",)),
}
_TTL_HINT = "One looks like 90m, 12h, 30d or forever."
_COLUMN_KEYS = ("type", "renamed_from")
_TYPES = tuple(each.value for each in ColumnType if each is not ColumnType.UNKNOWN)
_PRIVILEGES = tuple(each.value for each in Privilege if each is not Privilege.UNKNOWN)


class SchemaFile(msgspec.Struct, frozen=True):
    """What the file is called, and all it wants."""

    source: str
    wanted: tuple[Wanted, ...]


class _Text(msgspec.Struct, frozen=True):
    """The file's text, for its lines; `about` is the object that is read."""

    source: str
    text: str
    about: str = ""

    def wrong(self, message: str, hint: str = "", at: str = "") -> BadInput:
        line = line_of(self.text, at or self.about)
        about = f"{self.about}: " if self.about else ""
        return BadInput(f"{self.source}{line}: {about}{message}", hint=hint)

    def mapping(self, value: object, what: str) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(f"{what} are names with values.", _EXAMPLE)
        return {self.string(name, f"a name in {what}"): each for name, each in value.items()}

    def string(self, value: object, what: str) -> str:
        if not isinstance(value, str):
            raise self.wrong(f"{what} is a text, and not {value!r}.", "Put it in quotes.", str(value))
        return value

    def one_of(self, value: object, known: tuple[str, ...], what: str) -> str:
        text = str(value)
        if text.upper() in known:
            return text.upper()
        near = get_close_matches(text.upper(), known, n=1)
        guess = f"Did you mean {near[0]}? " if near else ""
        raise self.wrong(f"{text!r} is no {what}.", f"{guess}There are {', '.join(known)}.", text)


SECTIONS = tuple(_KINDS)
"""What of a file is about databases, tables, views and grants."""


def read_schema(path: str) -> SchemaFile:
    """All that the file, `-` for stdin, wants; BadInput with the file's name and the line for what cannot be."""
    source, text, content = read_mapping(path, "the description of databases, tables, views and grants", _EXAMPLE)
    check_keys(content, text, source, SECTIONS, "it")
    schema = schema_of(source, text, content)
    if not schema.wanted:
        raise BadInput(f"{source} wants nothing.", hint=_EXAMPLE)
    return schema


def schema_of(source: str, text: str, content: Mapping[str, Any]) -> SchemaFile:
    """What these sections of a file want; BadInput as above."""
    file = _Text(source, text)
    wanted = [
        _wanted(msgspec.structs.replace(file, about=name), section, name, said)
        for section in _KINDS
        for name, said in file.mapping(content.get(section), section).items()
    ]
    _check_once(file, wanted)
    return SchemaFile(source, tuple(wanted))


def _wanted(file: _Text, section: str, name: str, said: object) -> Wanted:
    kind, keys = _KINDS[section]
    if kind is ObjectKind.GRANT and isinstance(said, list | str):
        said = {"privileges": said}
    content = file.mapping(said, f"{section} and what belongs to them")
    check_keys(content, file.text, file.source, keys, f"{kind.value.lower()} {name}")
    renamed: dict[str, str] = {}
    definition = Definition(
        columns=tuple(_columns(file, kind, content.get("columns"), renamed)),
        key=file.string(content.get("key", ""), "a key"),
        ttl_ms=_ttl_ms(file, content["ttl"]) if "ttl" in content else None,
        properties=_properties(file, content.get("properties")),
        over=file.string(content.get("over", ""), "what a view is over"),
        privileges=tuple(dict.fromkeys(_privileges(file, content.get("privileges")))),
    )
    former = file.string(content.get("renamed_from", ""), "a former name")
    with _about(file):
        check_statements((Statement(Verb.CREATE, kind, name, definition),))
        if former:
            check_statements((Statement(Verb.RENAME, kind, former, new_name=name),))
    return Wanted(kind, name, definition, former, renamed, frozenset(content))


@contextmanager
def _about(file: _Text) -> Iterator[None]:
    try:
        yield
    except Refused as error:
        raise BadInput(f"{file.source}{line_of(file.text, file.about)}: {error.message}", hint=error.hint) from error


def _columns(file: _Text, kind: ObjectKind, said: object, renamed: dict[str, str]) -> Iterator[Column]:
    """The columns; notes in `renamed` the former names of those that had others."""
    if kind is ObjectKind.VIEW:
        if not isinstance(said, list | None):
            raise file.wrong("the columns of a view are a list of names.", "One looks like [id, price].", "columns")
        if said == []:
            raise file.wrong("a view without columns shows nothing.", "Leave `columns` out to show all of its table.")
        yield from (Column(file.string(each, "a column's name"), ColumnType.UNKNOWN) for each in said or ())
        return
    for name, about in file.mapping(said, "columns").items():
        content = about if isinstance(about, dict) else {"type": about}
        check_keys(content, file.text, file.source, _COLUMN_KEYS, f"column {name} of {file.about}")
        if "type" not in content:
            raise file.wrong(f"column {name} has no type.", f"There are {', '.join(_TYPES)}.", name)
        if "renamed_from" in content:
            renamed[name] = file.string(content["renamed_from"], "a former name")
        yield Column(name, ColumnType(file.one_of(content["type"], _TYPES, "type of a column")))


def _ttl_ms(file: _Text, said: object) -> int:
    """In ms, FOREVER for `forever`. 0 in any unit is refused: it could as well mean that data expires at once."""
    if said == "forever":
        return FOREVER
    try:
        ttl_ms = duration_ms(str(said))
    except BadInput as error:
        raise file.wrong(f"{said!r} is no time to live.", _TTL_HINT, str(said)) from error
    if ttl_ms == FOREVER:
        raise file.wrong(f"{said!r} is no time to live: for ever is `forever`.", _TTL_HINT, str(said))
    return ttl_ms


def _properties(file: _Text, said: object) -> dict[str, str]:
    found = file.mapping(said, "properties")
    return {name: file.string(text, f"property {name}") for name, text in found.items()}


def _privileges(file: _Text, said: object) -> Iterator[Privilege]:
    listed = said if isinstance(said, list) else [] if said is None else [said]
    for each in listed:
        yield Privilege(file.one_of(each, _PRIVILEGES, "right"))


def _check_once(file: _Text, wanted: list[Wanted]) -> None:
    """A table and a view may not have one name, nor one former name."""
    seen: set[str] = set()
    for each in wanted:
        for name in filter(None, (each.name, each.renamed_from)):
            if name in seen:
                raise BadInput(f"{file.source}{line_of(file.text, name, last=True)}: {name} stands there twice.")
            seen.add(name)
