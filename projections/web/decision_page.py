"""One decision: what it answered, what was decided with it, what followed; its fields as they were logged."""

import re
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any

import msgspec

from topolog.events.asked import RequestId
from topolog.projections import queries, told_changes
from topolog.projections.layout import Decided
from topolog.projections.moments import iso
from topolog.projections.resources import Decision
from topolog.projections.store import Reading
from topolog.projections.web import things, values
from topolog.projections.web.asking import Asked
from topolog.projections.web.event_words import words
from topolog.projections.web.templates import rendered
from topolog.projections.web.values import Value

_FOLLOWED = 8
_LOOKED_AHEAD = 400
_REQUEST = re.compile(r"requests@\d+ (?P<id>\S+/\d+)")
_NODE = re.compile(r"(?:heartbeats/\d+@\d+ |deadline lease/)(?P<node>\S+)")


class Link(msgspec.Struct, frozen=True):
    """One step of the chain: an arrow says how it came to the next one."""

    arrow: str
    what: Value
    time: str = ""
    about: str = ""


def page(asked: Asked, name: str) -> str:
    found = told_changes.decision(asked.reading, things.position_of(name))
    frame = asked.frame
    return rendered(
        "decision.html",
        frame,
        decision=found,
        title=f"{found.subject}: {words(found.event)}",
        before=list(_causes(asked, found)),
        beside=[_link("in the same set", asked, each) for each in _beside(asked.reading, found)],
        after=[_link("then", asked, each) for each in _followed(asked.reading, found)],
        fields=list(values.fields(frame, found, frozenset({"content"}))),
        content=list(tree(found.content)),
        moment=frame.to_at(found.set_end),
        commands=frame.commands(f"describe decision {found.position}", api=frame.api("decisions", found.position)),
        api=frame.api("decisions", found.position),
    )


def _causes(asked: Asked, found: Decision) -> Iterator[Link]:
    """What it answered, by its stamp: the request or the heartbeat it came from; and what was decided before."""
    frame = asked.frame
    if match := _REQUEST.match(found.cause):
        request = match["id"]
        requester, _, sequence = request.rpartition("/")
        has_outcome = queries.outcome(asked.reading, RequestId(requester, int(sequence))) is not None
        href = frame.to("requests", requester, sequence) if has_outcome else ""
        yield Link("request", Value(request, href), about=" · ".join(filter(None, (found.actor, found.reason))))
    elif match := _NODE.match(found.cause):
        yield Link("because of", Value(match["node"], frame.to("nodes", match["node"])), about=found.cause)
    elif found.cause:
        yield Link("because of", Value(found.cause), about=found.actor)
    set_start = asked.reading.surely_decision(found.position).set_start
    earlier = next(iter(asked.reading.decisions(set_start, found.subject)), None)
    if earlier is not None:
        yield _link("after", asked, earlier)


def _beside(reading: Reading, found: Decision) -> list[Decided]:
    """What happened at once with it."""
    together = reading.decisions_of_set(reading.surely_decision(found.set_end).position)
    return [each for each in together if each.position != found.position]


def _followed(reading: Reading, found: Decision) -> list[Decided]:
    """What was decided about the same soon after, oldest first."""
    newest_first = reading.positions(found.set_end + 1 + _LOOKED_AHEAD, found.subject)
    later = list(takewhile(lambda position: position > found.set_end, newest_first))
    return [reading.surely_decision(position) for position in islice(reversed(later), _FOLLOWED)]


def _link(arrow: str, asked: Asked, decided: Decided) -> Link:
    what = Value(
        str(decided.position),
        asked.frame.to("decisions", decided.position),
        note=f"{decided.subject} {words(decided.event_name)}",
    )
    return Link(arrow, what, iso(decided.logged_at_ms), decided.reason)


class Leaf(msgspec.Struct, frozen=True):
    """One line of a decoded event; `depth` is how far it is set in."""

    depth: int
    name: str
    value: str


_LEAVES_MAX = 90


def tree(content: Any, depth: int = 0) -> Iterator[Leaf]:
    """The event's fields, line by line."""
    yield from islice(_leaves(content, depth), _LEAVES_MAX)


def _leaves(content: Any, depth: int) -> Iterator[Leaf]:
    is_list = not isinstance(content, dict)
    for name, value in enumerate(content) if is_list else content.items():
        if _is_compound(value) and not is_list and any(map(_is_compound, _parts(value))):
            yield Leaf(depth, str(name), "")
            yield from _leaves(value, depth + 1)
        else:
            yield Leaf(depth, str(name), values.plain(value))


def _is_compound(value: Any) -> bool:
    return isinstance(value, dict | list | tuple) and bool(value)


def _parts(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value
