"""Why one decision was made, back to its first cause; what followed from it, and what ended it."""

from collections.abc import Iterator, Mapping, Sequence

from topolog.events.evidence import Evidence
from topolog.events.metadata import MetadataUpdateRejected
from topolog.projections import cause_words, causes, pending, queries, refusals
from topolog.projections.cause_words import Kind, read_cause
from topolog.projections.causes import Link
from topolog.projections.explain import in_words, with_next
from topolog.projections.layout import Decided
from topolog.projections.moments import iso
from topolog.projections.resources import Explanation
from topolog.projections.sentences import listed
from topolog.projections.store import Reading

_TOGETHER_MAX = 8


def explain_decision(reading: Reading, age_ms: int, position: int) -> Explanation:
    """One decision; raises NotFound for a position that is not reached."""
    queries.decision(reading, position)  # says so of a position that there is not
    chain = causes.chain(reading, position)
    here, first = chain[-1].decided, chain[0]
    followed = causes.effects(reading, here)
    waits = pending.since(reading, age_ms, here.position)
    facts = {
        **dict(_what(reading, here)),
        **dict(_back_to(chain)),
        **dict(_refused(here)),
        **dict(_evidence(here)),
        **dict(_then(here, followed)),
        **{f"pending: {each.name}": pending.told(each) for each in waits},
    }
    found = Explanation(
        _sentence(here, first),
        facts,
        tuple(causes.shown(each) for each in chain),
        tuple(asked for each in waits for asked in pending.awaited(each)),
        tuple(causes.cause_of(each, here.position) for each in followed),
    )
    return with_next(found, *_next(here, first))


def _sentence(here: Decided, first: Link) -> str:
    why = cause_words.in_words(here.cause, here.actor, here.reason)
    about = f" about {here.subject}" if here.subject else ""
    said = f"Decision {here.position}, {here.event_name}{about}, was made because {why}."
    if first.decided.position == here.position:
        return said
    return f"{said} That goes back to position {first.decided.position}: {_first(first)}."


def _first(first: Link) -> str:
    decided = first.decided
    return f"{decided.event_name}, for {cause_words.in_words(decided.cause, decided.actor, decided.reason)}"


def _what(reading: Reading, here: Decided) -> Iterator[tuple[str, str]]:
    yield (
        "decided",
        f"at {iso(here.logged_at_ms)}, record {here.sequence} of term {here.term}, by {_decided_by(reading, here)}",
    )
    if here.size > 1:
        others = [each for each in range(here.set_start, here.set_end + 1) if each != here.position]
        named = [f"{each} {reading.surely_decision(each).event_name}" for each in others[:_TOGETHER_MAX]]
        more = f" and {len(others) - len(named)} more" if len(others) > len(named) else ""
        yield "at once with it", f"{', '.join(named)}{more}"
    if here.cause:
        yield "its stamp says", here.cause


def _decided_by(reading: Reading, here: Decided) -> str:
    return queries.decided_by(reading, here, {}) or "nobody"


def _back_to(chain: Sequence[Link]) -> Iterator[tuple[str, str]]:
    first = chain[0]
    decided = first.decided
    what = _KINDS[first.kind]
    yield "first cause", f"{what} at position {decided.position}, {iso(decided.logged_at_ms)}"
    if first.kind is Kind.REQUEST:
        yield "asked by", decided.actor or "nobody that it names"
        yield "asked for", decided.reason or "no reason was given (`--reason`)"


_KINDS: Mapping[Kind, str] = {
    Kind.REQUEST: "a request, decided",
    Kind.HEARTBEAT: "what a node said of itself, decided on",
    Kind.MAP: "what a node said of its copies, decided on",
    Kind.DEADLINE: "a time that passed in silence, decided on",
    Kind.COORDINATOR: "the coordinator itself, without being asked,",
    Kind.OPERATOR: "an operator's own tool,",
    Kind.DECISION: "an earlier decision that is not found any more,",
    Kind.UNKNOWN: "not said in the log; the chain ends",
}


def _refused(here: Decided) -> Iterator[tuple[str, str]]:
    """Rule, evidence and remedy of a decision that refuses, or takes something back."""
    event = here.event
    code, rule = getattr(event, "code", ""), getattr(event, "rule", "")
    if not code or not rule:
        return
    yield "refused", f"{code} ({rule}): {getattr(event, 'message', '')}"
    for name, text in getattr(event, "facts", {}).items():
        yield f"evidence: {name.replace('_', ' ')}", text
    if isinstance(event, MetadataUpdateRejected):
        yield "what helps", refusals.remedy(code, rule, here.subject)
    elif said := refusals.remedy(code, rule, here.subject):
        yield "what helps", said


def _evidence(here: Decided) -> Iterator[tuple[str, str]]:
    evidence = getattr(here.event, "evidence", None)
    if isinstance(evidence, Evidence):
        yield "evidence", in_words(evidence)


def _then(here: Decided, followed: Sequence[Decided]) -> Iterator[tuple[str, str]]:
    ends = [each for each in followed if isinstance(getattr(each.event, "evidence", None), Evidence)]
    for each in ends[:1]:
        evidence = getattr(each.event, "evidence")  # noqa: B009 (events have it or not)
        waited = f"{each.logged_at_ms - here.logged_at_ms} ms later"
        yield "verdict", f"{each.event_name} at position {each.position}, {waited}: {in_words(evidence)}"
    if exchanges := [each for each in followed if each.event_name in ("ExchangeStarted", "ExchangeMerged")]:
        began = exchanges[0]
        version = getattr(began.event, "triggers")[0].version  # noqa: B009
        yield "exchange", f"{began.event_name} at position {began.position} (`topolog explain exchange {version}`)"
    if followed:
        yield "followed from it", listed([f"{each.position} {each.event_name}" for each in followed], 8)
    elif not here.is_renewal:
        yield "followed from it", "nothing so far, as far as decisions name it"


def _next(here: Decided, first: Link) -> Iterator[str]:
    request = read_cause(here.cause).request
    if request:
        yield f"topolog explain request {request}"
    elif first.decided.position != here.position:
        yield f"topolog explain decision {first.decided.position}"
    yield cause_words.explains(here.subject) or f"topolog describe decision {here.position}"
    yield f"topolog describe decision {here.position}"
