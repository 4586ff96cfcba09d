"""One decision: what it answered, what was decided with it, what followed; its fields as they were logged."""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from topolog.events.asked import RequestId
from topolog.events.errors import BadInput
from topolog.projections import cause_words, explain_decision, queries, told_changes
from topolog.projections.moments import iso
from topolog.projections.resources import Cause, Decision
from topolog.projections.web import things, values
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.event_words import words
from topolog.projections.web.templates import rendered
from topolog.projections.web.values import Value


class Step(msgspec.Struct, frozen=True):
    """One step of the chain: an arrow says how it came to the next one."""

    arrow: str
    what: Value
    time: str = ""
    about: str = ""


def page(asked: PageRequest, name: str) -> str:
    found = told_changes.decision(asked.reading, things.position_of(name))
    told = explain_decision.explain_decision(asked.reading, asked.age_ms, found.position)
    frame = asked.frame
    return rendered(
        "decision.html",
        frame,
        decision=found,
        title=f"{found.subject}: {words(found.event)}",
        explanation=told,
        before=[*_input(asked, found), *_links(asked, "after", told.causes[:-1])],
        beside=list(_beside(asked, found, {each.position for each in (*told.causes, *told.followed)})),
        after=list(_links(asked, "then", told.followed)),
        fields=list(values.fields(frame, found, frozenset({"content"}))),
        content=list(tree(found.content)),
        moment=frame.to_at(found.set_end),
        commands=frame.commands(
            f"explain decision {found.position}",
            f"describe decision {found.position}",
            api=frame.api("decisions", found.position),
        ),
        api=frame.api("decisions", found.position),
    )


def _input(asked: PageRequest, found: Decision) -> Iterator[Step]:
    """The request or the heartbeat it came from, by its stamp."""
    cause = cause_words.read_cause(found.cause)
    if cause.request:
        value = Value(cause.request, _request_page(asked, cause.request))
        yield Step("request", value, about=" · ".join(filter(None, (found.actor, found.reason))))
    elif cause.node:
        yield Step("because of", Value(cause.node, asked.frame.to("nodes", cause.node)), about=cause.words)
    elif found.cause:
        yield Step("because of", Value(cause.words))


def _request_page(asked: PageRequest, text: str) -> str:
    """Where a request is shown; nowhere if its outcome is not known here, or its id was too long for a stamp."""
    try:
        name = RequestId.parse(text)
    except BadInput:
        return ""
    if queries.outcome(asked.reading, name) is None:
        return ""
    return asked.frame.to("requests", name.requester, str(name.sequence))


def _beside(asked: PageRequest, found: Decision, named: Collection[int]) -> Iterator[Step]:
    """What happened at once with it, and is not named already."""
    for each in asked.reading.decisions_of_set(asked.reading.surely_decision(found.set_end).position):
        if each.position != found.position and each.position not in named:
            about = f"{each.subject} {words(each.event_name)}"
            yield Step("at once with it", _position(asked, each.position, about), iso(each.logged_at_ms))


def _links(asked: PageRequest, arrow: str, causes: Iterable[Cause]) -> Iterator[Step]:
    for each in causes:
        yield Step(
            arrow,
            _position(asked, each.position, words(each.event)),
            each.time,
            cause_words.why(each.cause, each.reason),
        )


def _position(asked: PageRequest, position: int, note: str) -> Value:
    return Value(str(position), asked.frame.to("decisions", position), note=note)


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
