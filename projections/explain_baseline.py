"""Why a baseline counts whom it counts, and what made a view: from the decision back to who asked, or what befell."""

from collections.abc import Iterator, Mapping

from topolog.events.baseline import Cause
from topolog.events.exchange import ExchangeRow
from topolog.projections import baselines, causes, explain_exchange, pending, versions, views
from topolog.projections.baseline_resources import Baseline, View
from topolog.projections.explain import with_next
from topolog.projections.resources import Explanation
from topolog.projections.sentences import listed
from topolog.projections.store import Reading

_BECAUSE: Mapping[str, str] = {
    Cause.REQUESTED.value: "somebody asked for it",
    Cause.ADJUSTED.value: "the baseline follows the servers by itself (auto-adjust)",
    Cause.DRAINED.value: "a member had handed over all that it held",
    Cause.COMPLETE.value: "all members of the baseline were online again",
    Cause.QUORUM.value: "enough members of the baseline were online again",
}


def explain_baseline(reading: Reading, age_ms: int, name: str) -> Explanation:
    """Who counts and why, what each activation began, what is about to change; raises as `baselines.baseline` does."""
    found = baselines.baseline(reading, name)
    is_current = found.replaced_at is None
    facts = dict(_facts(found))
    waits = [each for each in pending.pending(reading, age_ms) if each.kind in _KINDS] if is_current else []
    facts |= {f"pending: {each.name}": pending.told(each) for each in waits}
    chain = tuple(causes.shown(each) for each in causes.chain(reading, found.set_at))
    asked = tuple(held for each in waits for held in pending.awaited(each))
    sentence = f"Baseline {found.number} {_state(found)}: {listed(found.members, 10)} count, because {_because(found)}."
    away = found.away or ()
    commands = [command for each in waits[:1] for command in each.next[:1]]
    if away and is_current:
        commands.append(f"topolog explain node {away[0]}")
    commands += [f"topolog explain decision {found.set_at}", f"topolog history baseline {found.number}"]
    return with_next(Explanation(sentence, facts, chain, asked), *commands)


_KINDS = ("COLD", "ACTIVATION", "STATE", "ADJUSTMENT", "DRAIN")


def _state(found: Baseline) -> str:
    if found.replaced_at is not None:
        return f"counted from position {found.set_at} to {found.replaced_at}"
    return f"is in force since position {found.set_at}"


def _because(found: Baseline) -> str:
    if found.cause == Cause.REQUESTED.value and found.actor:
        return f"{found.actor} asked for it{f': «{found.reason}»' if found.reason else ''}"
    return _BECAUSE.get(found.cause, "of a reason this version does not know")


def _facts(found: Baseline) -> Iterator[tuple[str, str]]:
    yield "set", f"at position {found.set_at}, {found.set_time}, with view {found.version}"
    if found.added:
        yield "added", listed(found.added, 10)
    if found.dropped:
        yield "dropped", listed(found.dropped, 10)
    if found.away:
        yield "away", f"{listed(found.away, 10)}: nobody else gets the copies that they hold"
    yield "quorum", f"{found.quorum} of {len(found.members)} end a cold time"
    for point in found.points:
        asked = f" by {point.actor}{f': {point.reason}' if point.reason else ''}" if point.actor else ""
        yield f"branched at {point.position}", f"{point.why}{asked}; online: {listed(point.online, 10) or 'nobody'}"


def explain_view(reading: Reading, version: str) -> Explanation:
    """What made a view, who came and went with it, which exchange it asked for; raises as `views.view` does."""
    found = views.view(reading, version)
    about_it = versions.exchange_about(reading, versions.parsed(found.version))
    exchange = about_it if isinstance(about_it, ExchangeRow) else None
    facts = dict(_of_view(found))
    if exchange is not None:
        about = explain_exchange.triggers(exchange.triggers)
        state = "is open" if exchange.completed_at is None else f"was completed at position {exchange.completed_at}"
        facts["exchange"] = f"{exchange.version} ({about}) {state}"
    chain = tuple(causes.shown(each) for each in causes.chain(reading, found.position))
    decided = reading.surely_decision(found.position)
    followed = tuple(causes.cause_of(each, decided.position) for each in causes.effects(reading, decided))
    sentence = f"View {found.version} began at position {found.position} with {found.event}{_about(found)}."
    commands = [f"topolog explain decision {found.position}"]
    if exchange is not None:
        commands.insert(0, f"topolog explain exchange {exchange.version}")
    return with_next(Explanation(sentence, facts, chain, (), followed), *commands, f"topolog describe view {version}")


def _about(found: View) -> str:
    who = f", asked for by {found.actor}{f': «{found.reason}»' if found.reason else ''}" if found.actor else ""
    return f" about {found.subject}{who}"


def _of_view(found: View) -> Iterator[tuple[str, str]]:
    yield "when", f"{found.time}, chain {found.chain[:12]}"
    if found.joined:
        yield "joined", listed(found.joined, 10)
    if found.left:
        yield "left", listed(found.left, 10)
    yield "servers there", listed(found.members, 10) or "nobody"
