"""Definitions and what changes between two of them, in the words that people use: `+ note STRING`, `ttl 7 d`."""

from collections.abc import Iterable, Iterator

from topolog.events.object_definition import FOREVER, Definition, ObjectKind, Statement, Step, Verb

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))

SHOWN_MAX = 3


def noun(kind: ObjectKind) -> str:
    return kind.value.lower()


def ttl(ttl_ms: int | None) -> str:
    """A time to live as the file of `apply` writes it: `7d`, `forever`; `the database's` where it is not said."""
    if ttl_ms is None:
        return "the database's"
    if ttl_ms == FOREVER:
        return "forever"
    length, unit = next(((length, unit) for length, unit in _UNITS if ttl_ms % length == 0), (1, "ms"))
    return f"{ttl_ms // length}{unit}"


def does(actions: Iterable[Step | Statement]) -> str:
    """What a change does in one line: `drop table shop.orders`, `create table a.b and 3 more`."""
    listed = [_done(each) for each in actions]
    more = f" and {len(listed) - SHOWN_MAX} more" if len(listed) > SHOWN_MAX else ""
    return ", ".join(listed[:SHOWN_MAX]) + more or "nothing"


def _done(action: Step | Statement) -> str:
    said = f"{action.verb.value.lower()} {noun(action.kind)} {action.name}"
    return f"{said} to {action.new_name}" if action.verb is Verb.RENAME else said


def differences(before: Definition, after: Definition) -> Iterator[str]:
    """What an object gains (+), loses (-) and gets otherwise (~), one text each; columns are the same by number."""
    was, now = ({column.number: column for column in each.columns} for each in (before, after))
    for number, column in now.items():
        held = was.get(number)
        if held is None:
            yield f"+ {column.name} {column.type.value}"
        elif held.name != column.name:
            yield f"~ {held.name} renamed to {column.name}"
        if held is not None and held.type is not column.type:
            yield f"~ {column.name} {held.type.value} -> {column.type.value}"
    yield from (f"- {column.name} {column.type.value}" for number, column in was.items() if number not in now)
    if before.over != after.over:
        yield f"~ over {before.over} -> {after.over}"
    if before.ttl_ms != after.ttl_ms:
        yield f"~ ttl {ttl(before.ttl_ms)} -> {ttl(after.ttl_ms)}"
    for name in dict.fromkeys([*before.properties, *after.properties]):
        yield from _of_property(name, before.properties.get(name), after.properties.get(name))
    yield from (f"+ {each.value}" for each in after.privileges if each not in before.privileges)
    yield from (f"- {each.value}" for each in before.privileges if each not in after.privileges)


def _of_property(name: str, was: str | None, now: str | None) -> Iterator[str]:
    if was is None:
        yield f"+ {name} = {now}"
    elif now is None:
        yield f"- {name} = {was}"
    elif was != now:
        yield f"~ {name} = {was} -> {now}"


def contents(definition: Definition) -> Iterator[str]:
    """What is in a definition, one text each."""
    if definition.over:
        yield f"over {definition.over}{'' if definition.columns else ', all columns'}"
    for column in definition.columns:
        key = " (key)" if column.name == definition.key else ""
        yield f"{column.name}{'' if definition.over else f' {column.type.value}'}{key}"
    if definition.ttl_ms:
        yield f"ttl {ttl(definition.ttl_ms)}"
    yield from (f"{name} = {value}" for name, value in definition.properties.items())
    yield from (each.value for each in definition.privileges)
