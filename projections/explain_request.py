"""What became of a request: by which rule, on what evidence, what helps if it was refused, what is waited for."""

import shlex
from collections import deque
from collections.abc import Iterator
from itertools import takewhile

from topolog.events.asked import RequestId
from topolog.events.membership import WaitingJoinRow
from topolog.events.metadata import MetadataUpdateRejected
from topolog.events.requests import OutcomeRow, Status
from topolog.projections import cause_words, forgotten_outcomes, patience, pending, queries, refusals
from topolog.projections.explain import causes_about, last_causes, refusal_facts, with_next
from topolog.projections.layout import Decided
from topolog.projections.moments import iso
from topolog.projections.resources import Explanation
from topolog.projections.store import Reading

_BEHIND_MAX = 20


def explain_request(reading: Reading, age_ms: int, name: RequestId) -> Explanation:
    """What became of a request, by which rule, and whether its effect is complete."""
    row = queries.outcome(reading, name)
    if row is None:
        return _undecided_request(reading, name)
    decided = reading.surely_decision(row.position)
    facts = {"subject": row.subject, "decided": f"at position {row.position} ({iso(decided.logged_at_ms)})"}
    facts |= dict(_asked(decided))
    if row.status is Status.REFUSED:
        facts |= {**refusal_facts(row), **_both_sides(decided.event), **dict(_what_helps(row))}
    wait = patience.for_request(reading, row)
    waits = pending.since(reading, age_ms, row.position) if not wait.asked else []
    facts |= {**wait.facts, **{f"pending: {each.name}": pending.told(each) for each in waits}}
    asked = wait.asked or tuple(held for each in waits for held in pending.awaited(each))
    found = Explanation(_request_sentence(name, row), facts, last_causes(_behind(reading, row)), asked)
    about = cause_words.explains(row.subject)
    return with_next(found, *([about] if about else []), f"topolog explain decision {row.position}")


def _asked(decided: Decided) -> Iterator[tuple[str, str]]:
    if decided.asked_by:
        yield "asked by", f"{decided.asked_by}{f': {decided.reason}' if decided.reason else ''}"


def _request_sentence(name: RequestId, row: OutcomeRow) -> str:
    match row.status:
        case Status.GRANTED:
            version = f" as version {row.version}" if row.version is not None else ""
            return f"Request {name} about {row.subject} was granted at position {row.position}{version}."
        case Status.UNCHANGED:
            return f"Request {name} about {row.subject} changed nothing: what it asked for held already."
        case Status.REFUSED:
            return f"Request {name} about {row.subject} was refused at position {row.position}: {row.message}"


def _undecided_request(reading: Reading, name: RequestId) -> Explanation:
    for node, row in reading.rows(WaitingJoinRow):
        if (row.request.requester, row.request.sequence) == (name.requester, name.sequence):
            wait = patience.for_join(reading, row)
            sentence = f"Request {name} waits: node {node} may join when its former incarnation's lease is over."
            facts = {"subject": f"node {node}", **wait.facts}
            found = Explanation(sentence, facts, causes_about(reading, f"node {node}"), wait.asked)
            return with_next(found, f"topolog explain node {shlex.quote(node)}")
    raise forgotten_outcomes.no_outcome(reading, name)


def _behind(reading: Reading, row: OutcomeRow) -> Iterator[Decided]:
    """Decisions about the request's subject from its outcome on, the first few: what followed from it. Newest first."""
    later = takewhile(lambda position: position >= row.position, reading.positions(subject=row.subject))
    return (reading.surely_decision(position) for position in deque(later, maxlen=_BEHIND_MAX))


def _both_sides(event: object) -> dict[str, str]:
    if not isinstance(event, MetadataUpdateRejected):
        return {}
    sides = {"current definition": event.current, "proposed definition": event.proposed}
    return {
        side: ", ".join(f"{field} {type_name}" for field, type_name in (definition.fields or definition.enum).items())
        for side, definition in sides.items()
    }


def _what_helps(row: OutcomeRow) -> Iterator[tuple[str, str]]:
    """The remedy, and how to see what would be decided now without asking for it."""
    if said := refusals.remedy(row.code, row.rule, row.subject):
        yield "what helps", said
    yield "what would happen now", "the same command with --dry-run says it, and sends nothing"
