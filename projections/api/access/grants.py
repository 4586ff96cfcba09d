"""Who may do what: rights, the roles that bundle them, and grants of a role over parts of the clusters. Pure.

Threat: a caller who is known is taken for one who may. Invariant: nothing is allowed but by a grant that covers right,
cluster, resource and name; there is no rule that takes away, so that the order of grants never matters.

    operator@main:groups/orders*     role @ cluster : resource / name, `*` for any characters
    viewer@main                      all resources of one cluster
    admin                            everything

A list is about all rows of a resource, so a grant that is narrowed to names does not cover it.
"""

import re
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from topolog.events.errors import BadInput

ANY = "*"


class Right(StrEnum):
    """What can be done; each is its own, and none implies another."""

    READ = "read"
    READ_PAYLOAD = "read-payload"
    CHANGE = "change"
    ADMINISTER = "administer"
    AUDIT = "audit"


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    AUDITOR = "auditor"


RIGHTS = {
    Role.VIEWER: frozenset({Right.READ}),
    Role.AUDITOR: frozenset({Right.READ, Right.AUDIT}),
    Role.OPERATOR: frozenset({Right.READ, Right.READ_PAYLOAD, Right.CHANGE}),
    Role.ADMIN: frozenset(Right),
}
"""From the least to the most, so that the first role with a right is the one to ask for."""

_HINT = "One looks like viewer, operator@main or operator@main:groups/orders*."
_GRANT = re.compile(r"(?P<role>[a-z]+)(@(?P<cluster>[^@:/,\s]+)(:(?P<resource>[a-z*-]+)(/(?P<name>[^,\s]+))?)?)?")


class Asked(msgspec.Struct, frozen=True):
    """One right over one thing; `name` None for a list, or for what is about all of a resource."""

    right: Right
    cluster: str
    resource: str
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.right} {self.thing}"

    @property
    def thing(self) -> str:
        return f"{self.resource}{'' if self.name is None else f'/{self.name}'} of cluster {self.cluster}"


class Grant(msgspec.Struct, frozen=True):
    """A role, over the clusters, resources and names that these patterns fit."""

    role: Role
    cluster: str = ANY
    resource: str = ANY
    name: str = ANY

    def __str__(self) -> str:
        parts = [self.role.value]
        narrowed = (self.cluster, self.resource, self.name)
        marks = "@:/"
        last = max((place for place, pattern in enumerate(narrowed) if pattern != ANY), default=-1)
        parts += [f"{mark}{pattern}" for mark, pattern in zip(marks[: last + 1], narrowed, strict=False)]
        return "".join(parts)

    @property
    def rights(self) -> frozenset[Right]:
        return RIGHTS[self.role]

    def reaches(self, cluster: str) -> bool:
        """Whether anything of the cluster is granted, so that its existence is no secret."""
        return fits(self.cluster, cluster)

    def shortfall(self, asked: Asked) -> str:
        """Why this grant does not cover what is asked; empty if it does."""
        if not fits(self.cluster, asked.cluster):
            return f"it is about cluster {self.cluster}"
        if asked.right not in self.rights:
            return f"{self.role} has not the right {asked.right}"
        if not fits(self.resource, asked.resource):
            return f"it is about {self.resource}"
        if asked.name is None and self.name != ANY:
            return f"it is about {self.name} only, not about all {asked.resource}"
        if asked.name is not None and not fits(self.name, asked.name):
            return f"it is about {self.name}"
        return ""


def parse(text: str) -> Grant:
    """The grant in this text; raises BadInput for anything else."""
    found = _GRANT.fullmatch(text.strip())
    if found is None:
        raise BadInput(f"{text.strip()!r} is no grant.", hint=_HINT)
    role = found["role"]
    if role not in list(Role):
        raise BadInput(f"There is no role {role!r}.", hint=f"There are {', '.join(Role)}.")
    return Grant(Role(role), found["cluster"] or ANY, found["resource"] or ANY, found["name"] or ANY)


def parse_all(text: str) -> tuple[Grant, ...]:
    """Several grants between commas or spaces."""
    return tuple(parse(each) for each in re.split(r"[,\s]+", text.strip()) if each)


def covering(grants: Iterable[Grant], asked: Asked) -> Grant | None:
    """The first grant by which it is allowed; None if it is not."""
    return next((grant for grant in grants if not grant.shortfall(asked)), None)


def least(asked: Asked) -> Grant:
    """The smallest grant that would allow it, for who has to ask for one."""
    role = next(role for role, rights in RIGHTS.items() if asked.right in rights)
    return Grant(role, asked.cluster, asked.resource, ANY if asked.name is None else asked.name)


def fits(pattern: str, text: str) -> bool:
    """Whether the whole text is as the pattern says, in which only `*` means anything.

    No regular expression: one with many `.*` may take time that doubles with each of them, and anybody writes patterns.
    What stands between two stars is as far to the left as it can be, which leaves the most to all that follow.
    """
    first, *others = pattern.split(ANY)
    if not others:
        return text == first
    *inner, last = others
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in inner:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
