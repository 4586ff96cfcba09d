"""One thing on a page of its own: why it is as it is, its fields, and all that has changed it, newest first."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from topolog.events.asked import RequestId
from topolog.events.errors import BadInput, NotFound
from topolog.events.object_definition import ObjectKind
from topolog.projections import (
    baselines,
    changes,
    differences,
    explain,
    explain_baseline,
    explain_change,
    explain_lease,
    explain_letter,
    explain_repair,
    explain_request,
    groups,
    health,
    history,
    letters,
    objects,
    partitions,
    pending,
    queries,
    repairs,
    replicas,
    single_maps,
    topics,
    trees,
    views,
)
from topolog.projections.resources import Change, Explanation
from topolog.projections.web import values
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.frame import Command
from topolog.projections.web.listing import shell_word
from topolog.projections.web.templates import rendered
from topolog.projections.web.values import Shown, Value

HISTORY_MAX = 40
_CHANGES_MAX = 12
_DIGITS_MAX = 18


class Thing(msgspec.Struct, frozen=True):
    """What is shown of things of one kind. Each function takes the question and the thing's name.

    `has_terminal`: the command line knows them too.
    """

    noun: str
    find: Callable[[PageRequest, str], Any]
    explain: Callable[[PageRequest, str], Explanation] | None = None
    history: Callable[[PageRequest, str], Iterable[Change]] | None = None
    links: Callable[[PageRequest, Any], Sequence[Value]] = lambda _asked, _item: ()
    has_terminal: bool = True


class Turn(msgspec.Struct, frozen=True):
    """One line of a history: `changes` as `field a → b`."""

    position: Value
    time: str
    event: str
    changes: tuple[tuple[str, str, str], ...]
    more: int
    actor: str
    why: Value


def page(thing: Thing, asked: PageRequest, name: str) -> str:
    """The thing of this name; raises what the API says of such a name."""
    item = thing.find(asked, name)
    frame, view = asked.frame, asked.frame.view
    why = thing.explain
    told = None if why is None else explained(lambda: why(asked, name))
    return rendered(
        "thing.html",
        frame,
        title=f"{thing.noun.replace('-', ' ').capitalize()} {name}",
        noun=thing.noun,
        explanation=told,
        fields=list(values.fields(frame, item)) if isinstance(item, msgspec.Struct) else [],
        turns=list(turns(asked, thing.history(asked, name))) if thing.history else None,
        links=thing.links(asked, item),
        commands=commands(
            asked,
            thing.noun.replace(" ", "-"),
            name,
            has_explain=told is not None,
            has_history=thing.history is not None,
        )
        if thing.has_terminal
        else frame.commands(api=frame.api(view, *name.split("/"))),
        api=frame.api(view, *name.split("/")),
    )


def explained(ask: Callable[[], Explanation]) -> Explanation | None:
    """What is explained; None where there is nothing to explain at this moment."""
    try:
        return ask()
    except NotFound:
        return None


def commands(
    asked: PageRequest, noun: str, name: str, *, has_explain: bool = True, has_history: bool = True
) -> tuple[Command, ...]:
    """How the same is asked for in the terminal."""
    verbs = ["explain"] * has_explain + ["describe"] + ["history"] * has_history
    word = shell_word(name)
    api = asked.frame.api(asked.frame.view, *name.split("/"))
    return asked.frame.commands(*(f"{verb} {noun} {word}" for verb in verbs), api=api)


def turns(asked: PageRequest, found: Iterable[Change]) -> Iterator[Turn]:
    """The newest changes of a thing."""
    for change in islice(found, HISTORY_MAX):
        told = [(field, values.plain(was), values.plain(now)) for field, (was, now) in change.changes.items()]
        yield Turn(
            position=values.position(asked.frame, change.position),
            time=change.time,
            event=change.event,
            changes=tuple(told[:_CHANGES_MAX]),
            more=max(0, len(told) - _CHANGES_MAX),
            actor=change.actor,
            why=values.why(change.cause, change.reason),
        )


def request_id(name: str) -> RequestId:
    """`cli-4f2a/3`; raises NotFound for what is no request's name."""
    requester, _, sequence = name.rpartition("/")
    if not (requester and sequence.isascii() and sequence.isdecimal() and int(sequence) > 0):
        raise NotFound(f"There is no request {name!r}.", hint="One is named as cli-4f2a/3.")
    return RequestId(requester, int(sequence))


def position_of(name: str) -> int:
    """`1234`; raises BadInput for what is no position."""
    if not (name.isascii() and name.isdecimal() and len(name) <= _DIGITS_MAX):
        raise BadInput(f"{name!r} is no position.", hint="A decision is named by its position, a number from 0.")
    return int(name)


def group_and_number(name: str) -> tuple[str, int]:
    """`orders/7`; raises BadInput for what is no partition's name."""
    group, _, number = name.rpartition("/")
    if not (group and number.isascii() and number.isdecimal() and len(number) <= 9):
        raise BadInput(f"{name!r} is no partition.", hint="One is named as orders/7.")
    return group, int(number)


def _of_node(asked: PageRequest, node: Any) -> Sequence[Value]:
    frame = asked.frame
    return (
        Value("its decisions", frame.to("decisions", subject=f"node {node.node}")),
        Value("what it holds", frame.to("maps", node=node.node)),
        Value("its lease over time", frame.to("leases", node=node.node)),
    )


def _of_group(asked: PageRequest, group: Any) -> Sequence[Value]:
    frame = asked.frame
    return (
        Value("heat map", frame.to("heat", group=group.name)),
        Value("partitions", frame.to("partitions", group=group.name)),
        Value("decisions about it", frame.to("decisions", subject=f"group {group.name}")),
    )


def _object(noun: str, kind: ObjectKind) -> Thing:
    return Thing(
        noun,
        lambda asked, name: objects.object_named(asked.reading, kind, name),
        lambda asked, name: explain_change.explain_object(asked.reading, asked.age_ms, kind, name),
        lambda asked, name: history.of_object(asked.reading, kind, name),
    )


def _map(asked: PageRequest, name: str) -> Shown | Any:
    return partitions.node_map(asked.reading, *_group_and_node(name))


def _group_and_node(name: str) -> tuple[str, str]:
    group, _, node = name.partition("/")
    return group, node


THINGS = {
    "nodes": Thing(
        "node",
        lambda asked, name: health.node(asked.reading, asked.age_ms, name),
        lambda asked, name: explain.explain_node(asked.reading, asked.age_ms, name),
        lambda asked, name: history.of_node(asked.reading, name),
        _of_node,
    ),
    "lease-health": Thing(
        "lease-health",
        lambda asked, name: health.lease_health_of(asked.reading, asked.age_ms, name),
        lambda asked, name: explain_lease.explain_lease_health(asked.reading, asked.age_ms, name),
    ),
    "types": Thing(
        "type",
        lambda asked, name: queries.type_named(asked.reading, name),
        lambda asked, name: explain.explain_type(asked.reading, name),
        lambda asked, name: history.of_type(asked.reading, name),
        lambda asked, each: (Value("its decisions", asked.frame.to("decisions", subject=f"type {each.name}")),),
    ),
    "groups": Thing(
        "group",
        lambda asked, name: groups.group(asked.reading, name),
        lambda asked, name: explain.explain_group(asked.reading, name),
        lambda asked, name: history.of_group(asked.reading, name),
        _of_group,
    ),
    "maps": Thing(
        "map",
        _map,
        lambda asked, name: explain_lease.explain_map(asked.reading, asked.age_ms, *_group_and_node(name)),
    ),
    "single-maps": Thing(
        "single-map",
        lambda asked, name: single_maps.single_map(asked.reading, asked.age_ms, name),
        lambda asked, name: explain_lease.explain_single_map(asked.reading, asked.age_ms, name),
        links=lambda asked, each: (Value("what the log says", asked.frame.to("maps", node=each.node)),),
    ),
    "views": Thing(
        "view",
        lambda asked, name: views.view(asked.reading, name),
        lambda asked, name: explain_baseline.explain_view(asked.reading, name),
        history=lambda asked, name: history.of_view(asked.reading, name),
    ),
    "baselines": Thing(
        "baseline",
        lambda asked, name: baselines.baseline(asked.reading, name),
        lambda asked, name: explain_baseline.explain_baseline(asked.reading, asked.age_ms, name),
        history=lambda asked, name: history.of_baseline(asked.reading, name),
    ),
    "databases": _object("database", ObjectKind.DATABASE),
    "tables": _object("table", ObjectKind.TABLE),
    "table-views": _object("table-view", ObjectKind.VIEW),
    "grants": _object("grant", ObjectKind.GRANT),
    "changes": Thing(
        "change",
        lambda asked, name: changes.change(asked.reading, asked.age_ms, name),
        lambda asked, name: explain_change.explain_change(asked.reading, asked.age_ms, name),
        lambda asked, name: history.of_change(asked.reading, name),
    ),
    "requests": Thing(
        "request",
        lambda asked, name: queries.request(asked.reading, request_id(name)),
        lambda asked, name: explain_request.explain_request(asked.reading, asked.age_ms, request_id(name)),
        lambda asked, name: history.of_request(asked.reading, request_id(name)),
    ),
    "dead-letters": Thing(
        "dead-letter",
        lambda asked, name: letters.letter(asked.reading, name),
        lambda asked, name: explain_letter.explain_letter(asked.reading, name),
    ),
    "topics": Thing(
        "topic",
        lambda asked, name: topics.topic(asked.reading, asked.age_ms, name),
        has_terminal=False,
    ),
    "pending": Thing(
        "pending",
        lambda asked, name: pending.named(asked.reading, asked.age_ms, name),
        links=lambda asked, each: (Value("its decision", asked.frame.to("decisions", each.since)),),
    ),
    "replicas": Thing(
        "replica",
        lambda asked, name: replicas.replica(asked.reading, name),
        lambda asked, name: explain_repair.explain_replica(asked.reading, name),
        history=lambda asked, name: history.of_replica(asked.reading, name),
    ),
    "schedules": Thing(
        "schedule",
        lambda asked, name: replicas.schedule(asked.reading, name),
        lambda asked, name: explain_repair.explain_schedule(asked.reading, name),
        history=lambda asked, name: history.of_schedule(asked.reading, name),
    ),
    "trees": Thing(
        "tree",
        lambda asked, name: trees.tree(asked.reading, name),
        lambda asked, name: explain_repair.explain_tree(asked.reading, name),
    ),
    "differences": Thing(
        "difference",
        lambda asked, name: differences.difference(asked.reading, name),
        lambda asked, name: explain_repair.explain_difference(asked.reading, name),
    ),
    "repairs": Thing(
        "repair",
        lambda asked, name: repairs.repair(asked.reading, name),
        lambda asked, name: explain_repair.explain_repair(asked.reading, name),
        links=lambda asked, each: (Value("its session", asked.frame.to("sessions", each.number)),),
    ),
}
