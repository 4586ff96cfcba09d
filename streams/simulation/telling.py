"""A decision in one line of history."""

from enum import Enum

import msgspec

from topolog.events import membership as m
from topolog.events.asked import RequestRef
from topolog.events.object_definition import Definition, Statement, Step
from topolog.events.object_types import ObjectType

_BRIEF_CHARS = 140


def brief(event: msgspec.Struct) -> str:
    """A decision in one line of history: who and what, without the digests."""
    if isinstance(event, m.LeasesRenewed):
        return f"LeasesRenewed {dict(m.unpack_renewals(event.renewals))}"
    told = [f"{name}={_told(getattr(event, name))}" for name in event.__struct_fields__]
    text = f"{type(event).__name__} {', '.join(told)}"
    return text if len(text) < _BRIEF_CHARS else f"{text[:_BRIEF_CHARS]}..."


def _told(value: object) -> str:
    match value:
        case RequestRef():
            return str(value)
        case m.Joiner():
            return f"{value.node}/{value.incarnation}"
        case tuple() | list():
            return f"[{', '.join(map(_told, value))}]"
        case ObjectType():
            return str(dict(value.fields))
        case Step() | Statement():
            return f"{value.verb.value} {value.name} {value.new_name}{_defined(value.definition)}"
        case bytes():
            return value.hex()
        case Enum():
            return value.name
    return str(value)


def _defined(definition: Definition | None) -> str:
    if definition is None:
        return ""
    columns = " ".join(f"{each.number}:{each.name}:{each.type.value}" for each in definition.columns)
    rights = " ".join(each.value for each in definition.privileges)
    return f"({columns}{rights} {definition.ttl_ms or ''})"
