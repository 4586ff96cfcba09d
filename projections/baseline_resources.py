"""What is seen of baselines, views, the cluster's state, and of what a request would do: items as in `resources.py`."""

from collections.abc import Mapping
from typing import Any

import msgspec


class Branching(msgspec.Struct, frozen=True):
    """A branching point of a baseline: where it was SET, ACTIVATED, or WARMED after a cold time, and who of its members
    was online. `chain` is the log's hash behind it."""

    position: int
    time: str
    chain: str
    why: str
    online: tuple[str, ...]
    actor: str
    reason: str


class Baseline(msgspec.Struct, frozen=True):
    """Who counts, or counted. `state`: CURRENT or FORMER; `online`, `away`: its members now, None of a former one.

    `added`, `dropped`: against the one before. `cause`, `actor`, `reason`: why, who and what for. `points` are its
    branching points, oldest first; `quorum`: so many members end a cold time.
    """

    number: int
    state: str
    members: tuple[str, ...]
    online: tuple[str, ...] | None
    away: tuple[str, ...] | None
    quorum: int
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    attributes: Mapping[str, Mapping[str, str]]
    cause: str
    actor: str
    reason: str
    version: str
    set_at: int
    set_time: str
    replaced_at: int | None
    replaced_time: str | None
    points: tuple[Branching, ...]


class View(msgspec.Struct, frozen=True):
    """A change of who is there or of what is shared out. `members`: the servers behind it, in the order of joining.

    `event`, `subject`: the decision that made it.
    """

    version: str
    position: int
    time: str
    chain: str
    members: tuple[str, ...]
    joined: tuple[str, ...]
    left: tuple[str, ...]
    event: str
    subject: str
    actor: str
    reason: str


class Cold(msgspec.Struct, frozen=True):
    """Too many members of the baseline are away: no exchange ends until `quorum` of them are `online`."""

    since: int
    time: str
    online: tuple[str, ...]
    awaited: tuple[str, ...]
    quorum: int


class AutoAdjust(msgspec.Struct, frozen=True):
    """Whether the baseline follows the servers by itself. `adds`, `drops`: what it is going to do, in `due_in_ms` at
    the latest; `suppressed`: why it does not."""

    enabled: bool
    soft_ms: int
    hard_ms: int
    adds: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    due_in_ms: int | None = None
    suppressed: str = ""


class BaselineNow(msgspec.Struct, frozen=True):
    """The baseline in force. `outsiders`: servers that are online and do not count."""

    number: int
    members: tuple[str, ...]
    online: tuple[str, ...]
    away: tuple[str, ...]
    outsiders: tuple[str, ...]


class Planned(msgspec.Struct, frozen=True):
    """A decision that would be made."""

    event: str
    subject: str
    content: Mapping[str, Any]


class BaselinePreview(msgspec.Struct, frozen=True):
    """The baseline before and after; the numbers are None where there is none. `online`, `away` are of those after."""

    number: int | None
    next_number: int | None
    before: tuple[str, ...]
    after: tuple[str, ...]
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    online: tuple[str, ...]
    away: tuple[str, ...]


class GroupPreview(msgspec.Struct, frozen=True):
    """How the wanted owners of a group's partitions would change, of those that are here: of `changed` partitions, of
    which another one would act for `primaries`. `gains`, `gives_up`: copies by node."""

    group: str
    partitions: int
    changed: int
    primaries: int
    gains: Mapping[str, int]
    gives_up: Mapping[str, int]


class DryRun(msgspec.Struct, frozen=True):
    """What a request would lead to, decided by the coordinator's rules over what is projected; nothing was sent.

    `status`: GRANTED or UNCHANGED; a request that would be refused is a problem, as the refusal itself would be. What
    follows later is not in `decisions`: exchanges, the end of a change. `warnings`: what would be lost. `steps`: of a
    change of objects what it would do to each.
    """

    subject: str
    status: str
    sentence: str
    decisions: tuple[Planned, ...]
    baseline: BaselinePreview | None
    groups: tuple[GroupPreview, ...]
    warnings: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


class Place(msgspec.Struct, frozen=True):
    """A place of a history: its position, chain hash, and the view in force there, None if that is not known here."""

    position: int
    chain: str
    version: str | None
    members: tuple[str, ...] | None


class Join(msgspec.Struct, frozen=True):
    """What would become of a node that joined with this disk; nothing was sent.

    `kinship`: NEW, WIPED, RESTORED, EQUAL, BEHIND; or AHEAD, FORKED, FOREIGN, with which it would be refused.
    `common`: the last place that both histories have; `theirs`, `ours`: the first behind it that only the node has, and
    only the log; `their_points`: all of the node's behind it. `members_since`: who was a member here since. `remedy`:
    what to do.
    """

    node: str
    kinship: str
    is_admitted: bool
    sentence: str
    remedy: str
    common: Place | None
    theirs: Place | None
    ours: Place | None
    their_points: tuple[Place, ...]
    members_since: tuple[str, ...]
    facts: Mapping[str, str]


class Branch(msgspec.Struct, frozen=True):
    """A history beside the log's, as far as a node that was refused, or would be, shows it: its `places` behind the
    position `common`, oldest first; None if the two have nothing in common. `places_in_all` may be more than is known.
    """

    node: str
    kinship: str
    common: int | None
    places: tuple[Place, ...]
    places_in_all: int
    refused_at: int | None
    time: str | None
    request: str | None
