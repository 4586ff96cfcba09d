"""What things can be waited for: of each resource its own conditions, of every one Exists, Gone, and FIELD=VALUE.

A condition is asked of the item, None if there is none of that name; an answer of a later release may lack what it
asks for, and then it does not hold.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from topolog.events.errors import BadInput
from topolog.projections.cli import resources
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import Resource
from topolog.projections.cli.terminal import plain


@dataclass(frozen=True)
class Condition:
    """`shows`: the field that says how far it is, for who waited in vain. `is_of_clock`: it can come about though
    nothing is decided."""

    name: str
    holds: Callable[[Json | None], bool]
    shows: str = "state"
    is_of_clock: bool = False


def _is(name: str, field: str, *values: object, is_of_clock: bool = False) -> Condition:
    """That a field of an item that is there has one of these values."""
    return Condition(name, lambda item: item is not None and at(item, field) in values, field, is_of_clock)


def _is_accepted(item: Json | None) -> bool:
    if item is None or item.get("removing"):
        return False
    return bool(item.get("accepted_version")) and item.get("accepted_version") == item.get("pending_version")


EXISTS = Condition("Exists", lambda item: item is not None, "")
GONE = Condition("Gone", lambda item: item is None)
_COMMITTED = _is("Committed", "state", "USING")
_OVER = ("SUCCEEDED", "PARTIAL", "FAILED", "ABORTED", "EXPIRED")

OWN: Mapping[Resource, tuple[Condition, ...]] = {
    resources.CLUSTER: (
        _is("Active", "state", "ACTIVE"),
        _is("ReadOnly", "state", "ACTIVE_READ_ONLY"),
        _is("Inactive", "state", "INACTIVE"),
        Condition("Warm", lambda item: item is not None and item.get("cold") is None, "cold"),
        Condition("Exchanged", lambda item: item is not None and item.get("open_exchange") is None, "open_exchange"),
    ),
    resources.NODES: (
        _is("Member", "standing", "MEMBER"),
        Condition("Left", lambda item: item is None or item.get("standing") == "LEFT", "standing"),
        _is("Healthy", "health", "OK", is_of_clock=True),
        _is("Drained", "role", "DRAINED", "OUTSIDER"),
    ),
    resources.LEASES: (_is("Valid", "state", "VALID", is_of_clock=True),),
    resources.LEASE_HEALTH: (_is("Healthy", "state", "OK", is_of_clock=True),),
    resources.TYPES: (Condition("Accepted", _is_accepted, "accepted_version"),),
    resources.PARTITIONS: (
        _is("Owning", "state", "OWNING"),
        Condition("Served", lambda item: item is not None and bool(item.get("primary")), "primary"),
    ),
    resources.BASELINES: (_is("Current", "state", "CURRENT"),),
    resources.DATABASES: (_COMMITTED,),
    resources.TABLES: (_COMMITTED,),
    resources.TABLE_VIEWS: (_COMMITTED,),
    resources.GRANTS: (_COMMITTED,),
    resources.REPAIRS: (_is("Over", "state", *_OVER),),
    resources.REPLICAS: (
        Condition("Idle", lambda item: item is not None and not item.get("open_sessions"), "open_sessions"),
    ),
    resources.REQUESTS: (
        _is("Decided", "status", "GRANTED", "REFUSED", "UNCHANGED"),
        _is("Granted", "status", "GRANTED", "UNCHANGED"),
    ),
}
"""The first one is what is meant where none is named."""


def names_of(kind: Resource) -> list[str]:
    """The conditions that something of this kind can be waited for."""
    return [each.name for each in (*OWN.get(kind, ()), EXISTS, GONE)]


def condition(kind: Resource, text: str | None) -> Condition:
    """The condition of this name, in either case, or FIELD=VALUE; BadInput with all of them for another."""
    own = (*OWN.get(kind, ()), EXISTS, GONE)
    if text is None:
        return own[0]
    field, equals, value = text.partition("=")
    if equals and field:
        return Condition(text, lambda item: item is not None and plain(at(item, field)) == value, field)
    found = next((each for each in own if each.name.lower() == text.lower()), None)
    if found is None:
        raise BadInput(
            f"No {kind.singular} is {text} one day.",
            hint=f"Wait for it with --for={' or '.join(each.name for each in own)} or FIELD=VALUE.",
        )
    return found


def at(item: Json, path: str) -> object:
    """The value at a dotted path, None where there is none."""
    found: object = item
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
