"""The overview page: what is going on in one sentence, what is wrong with the worst first, six numbers, what happened.

It is made on the server and works without a script: while the present is shown, the browser asks again by itself.
"""

from collections.abc import Callable
from itertools import islice

import msgspec

from topolog.projections import exchanges, letters, queries, situation
from topolog.projections.groups import groups
from topolog.projections.packed import CONDITIONS, Condition
from topolog.projections.partition_resources import Exchange
from topolog.projections.resources import Cluster, Decision
from topolog.projections.store import Reading
from topolog.projections.web import problems_first
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.event_words import STEPS_OF_SESSIONS
from topolog.projections.web.frame import Frame
from topolog.projections.web.heat import HeatMaps
from topolog.projections.web.session_picture import recent
from topolog.projections.web.templates import rendered

_DECISIONS = 16
_EXCHANGES = 5
_SESSIONS = 5
_LETTERS_COUNTED = 100
_LOOKED_THROUGH = 200


class Number(msgspec.Struct, frozen=True):
    """A figure that leads to what it counts; `of` says what it stands beside."""

    label: str
    figure: str
    of: str
    href: str
    tone: str = ""


def page(asked: PageRequest) -> str:
    """The overview at the moment that is asked for."""
    reading, frame = asked.reading, asked.frame
    cluster = situation.cluster(reading, asked.age_ms)
    found = problems_first.problems(reading, asked.age_ms, frame.as_of.stopped, cluster, asked.may)
    heat = asked.gallery.of(reading) if asked.may("partitions") and groups(reading) else None
    last: list[Exchange] = []
    if asked.may("exchanges"):
        last = list(islice(exchanges.exchanges(reading, asked.age_ms, {}), _EXCHANGES))
    return rendered(
        "overview.html",
        frame,
        cluster=cluster,
        tone=problems_first.tone_of(found),
        problems=found,
        has_all_problems=problems_first.are_all(asked.may),
        numbers=_numbers(asked, cluster, heat, last),
        has_heat=asked.may("partitions"),
        heat=heat,
        exchanges=last,
        sessions=recent(reading, _SESSIONS) if asked.may("sessions") else (),
        has_decisions=asked.may("decisions"),
        decisions=_decisions(reading) if asked.may("decisions") else (),
        commands=frame.commands("get cluster", "explain cluster", api=frame.api("cluster")),
        api=frame.api("cluster"),
    )


def _numbers(asked: PageRequest, cluster: Cluster, heat: HeatMaps | None, last: list[Exchange]) -> list[Number]:
    """Those of what may be listed, for each leads to a list."""
    frame = asked.frame
    made: dict[tuple[str, ...], Callable[[], Number]] = {
        ("nodes",): lambda: _members(frame, cluster),
        ("leases",): lambda: _leases(asked),
        ("partitions",): lambda: _partitions(frame, heat),
        ("exchanges",): lambda: _exchange(frame, last),
        ("types", "tables", "changes"): lambda: _waiting(frame, cluster),
        ("dead-letters",): lambda: _dead_letters(frame, asked.reading),
    }
    return [make() for resources, make in made.items() if all(map(asked.may, resources))]


def _members(frame: Frame, cluster: Cluster) -> Number:
    away = len(cluster.baseline.away) if cluster.baseline else 0
    return Number(
        "members",
        str(cluster.members),
        f"{cluster.servers} server{'' if cluster.servers == 1 else 's'}{f', {away} away' if away else ''}",
        frame.to("nodes", standing="MEMBER"),
        "busy" if away else "",
    )


def _waiting(frame: Frame, cluster: Cluster) -> Number:
    count = cluster.pending_proposals + cluster.open_changes
    about = f"types {cluster.types}, tables {cluster.tables}"
    return Number(
        "waiting for agreement", str(count), about, frame.to("proposals", outcome="PENDING"), "busy" if count else ""
    )


def _leases(asked: PageRequest) -> Number:
    href = asked.frame.to("leases")
    found = queries.leases(asked.reading, asked.age_ms)
    if not asked.reading.is_current:
        return Number("leases", str(len(found)), "held then", href)
    valid = sum(lease.state == "VALID" for lease in found)
    return Number("leases valid", str(valid), f"of {len(found)}", href, "bad" if valid < len(found) else "")


def _partitions(frame: Frame, heat: HeatMaps | None) -> Number:
    if heat is None:
        return Number("partitions", "0", "no group yet", frame.to("groups"))
    total = sum(heat.conditions.values())
    well = heat.conditions.get(Condition.OWNING.name, 0)
    worst = next((each.name for each in reversed(CONDITIONS) if heat.conditions.get(each.name)), "")
    is_bad = worst in (Condition.LOST.name, Condition.PAUSED.name)
    href = frame.to("heat") if well == total else frame.to("partitions", state=worst)
    tone = "" if well == total else "bad" if is_bad else "busy"
    return Number("partitions as wanted", f"{well:,}", f"of {total:,}", href, tone)


def _exchange(frame: Frame, last: list[Exchange]) -> Number:
    opened = next((each for each in last if each.state == "OPEN"), None)
    if opened is not None:
        href = frame.to("exchanges", opened.version)
        return Number("exchange open", f"{opened.duration_ms:,} ms", opened.version, href, "busy")
    if not last:
        return Number("exchanges", "0", "none yet", frame.to("exchanges"))
    return Number("last exchange took", f"{last[0].duration_ms:,} ms", last[0].version, frame.to("exchanges"))


def _dead_letters(frame: Frame, reading: Reading) -> Number:
    """They have no past: what is there now is counted."""
    count = sum(1 for _ in islice(letters.letters(reading), _LETTERS_COUNTED))
    figure = f"{count}{'+' if count == _LETTERS_COUNTED else ''}"
    return Number("dead letters", figure, "unreadable input", frame.to("dead-letters"), "busy" if count else "")


def _decisions(reading: Reading) -> list[Decision]:
    """The last ones, but for what sessions do at each step, as long as there are others not long before."""
    newest = list(islice(queries.decisions(reading, {}), _LOOKED_THROUGH))
    telling = [each for each in newest if each.event not in STEPS_OF_SESSIONS]
    return (telling or newest)[:_DECISIONS]
