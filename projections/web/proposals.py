"""Proposals: what members were asked to agree on, what became of it, and how long that took.

The log is walked from the newest decision back, so an acceptance is met before the proposal it ends.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec

from topolog.events.metadata import (
    MetadataRemoveAccepted,
    MetadataRemoveProposed,
    MetadataUpdateAccepted,
    MetadataUpdateProposed,
    MetadataUpdateRejected,
)
from topolog.projections.layout import Decided
from topolog.projections.moments import iso
from topolog.projections.store import Reading
from topolog.projections.web import values
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.exchange_page import figures
from topolog.projections.web.frame import Frame
from topolog.projections.web.listing import Column, Listing
from topolog.projections.web.listing import page as listed
from topolog.projections.web.things import position_of
from topolog.projections.web.values import Shown, Value

LOOKED_THROUGH = 20_000
"""Decisions that are walked for one page."""

_MEASURED = 200


class Proposal(msgspec.Struct, frozen=True):
    """`outcome`: ACCEPTED, PENDING, or REJECTED; `latency_ms` from the proposal to its acceptance, by the log's time.

    `version` is None of what was refused: it never got one.
    """

    position: int
    time: str
    type: str
    does: str
    version: int | None
    outcome: str
    accepted_at: int | None
    latency_ms: int | None
    code: str
    message: str
    fields: Mapping[str, str]
    actor: str
    reason: str
    request: str


def proposals(reading: Reading, filters: Mapping[str, str], before: int | None = None) -> Iterator[Proposal]:
    """Below position `before`, newest first. Filters: type, outcome."""
    wanted = filters.get("type")
    subject = f"type {wanted}" if wanted else ""
    accepted: dict[str, list[tuple[int, Decided]]] = {}
    for decided in islice(reading.decisions(subject=subject), LOOKED_THROUGH):
        match decided.event:
            case MetadataUpdateAccepted(type_name=name, version=version):
                accepted.setdefault(name, []).append((version, decided))
            case MetadataRemoveAccepted(type_name=name):
                accepted[name] = [(0, decided)]
            case _:
                if before is None or decided.position < before:
                    found = _proposal(decided, accepted)
                    if found is not None and filters.get("outcome") in (None, found.outcome):
                        yield found


def page(asked: PageRequest) -> str:
    """The browser of proposals, with how long the last ones took."""
    newest = list(islice(proposals(asked.reading, {}), _MEASURED))
    took = [each.latency_ms for each in newest if each.latency_ms is not None]
    measured = figures("accepted after", took)
    refused = sum(each.outcome == "REJECTED" for each in newest)
    return listed(PROPOSALS, asked, "proposals.html", figures=measured, counted=len(newest), refused=refused)


def _proposal(decided: Decided, accepted: Mapping[str, list[tuple[int, Decided]]]) -> Proposal | None:
    match decided.event:
        case MetadataUpdateProposed(type_name=name, version=version, definition=definition):
            end = _acceptance(accepted.get(name, ()), version)
            fields = definition.enum if definition.is_enum else definition.fields
            told = {field: str(kind) for field, kind in fields.items()}
            return _made(decided, name, "define" if version == 1 else "change", version, end, told)
        case MetadataRemoveProposed(type_name=name, version=version):
            end = next((each for floor, each in accepted.get(name, ()) if floor == 0), None)
            return _made(decided, name, "remove", version, end, {})
        case MetadataUpdateRejected(type_name=name, code=code, message=message):
            told = {field: str(kind) for field, kind in decided.event.proposed.fields.items()}
            found = _made(decided, name, "change", None, None, told)
            return msgspec.structs.replace(found, outcome="REJECTED", code=code, message=message)
        case _:
            return None


def _acceptance(found: "list[tuple[int, Decided]] | tuple[()]", version: int) -> Decided | None:
    """Acceptances are cumulative: the earliest one that covers the version. A removal covers none of those before."""
    fitting = [decided for upto, decided in found if upto >= version]
    return fitting[-1] if fitting else None


def _made(
    decided: Decided, name: str, does: str, version: int | None, end: Decided | None, fields: Mapping[str, str]
) -> Proposal:
    return Proposal(
        position=decided.position,
        time=iso(decided.logged_at_ms),
        type=name,
        does=does,
        version=version,
        outcome="PENDING" if end is None else "ACCEPTED",
        accepted_at=None if end is None else end.position,
        latency_ms=None if end is None else end.logged_at_ms - decided.logged_at_ms,
        code="",
        message="",
        fields=fields,
        actor=decided.asked_by,
        reason=decided.reason,
        request=decided.cause,
    )


def _outcome(frame: Frame, each: Proposal) -> Shown:
    shown = values.state(each.outcome)
    if each.accepted_at is not None:
        return (shown, Value("at"), values.position(frame, each.accepted_at))
    return Value(shown.text, tone=shown.tone, note=f"{each.code}: {each.message}") if each.code else shown


_DECIDED = {"ACCEPTED": "MetadataUpdateAccepted", "REJECTED": "MetadataUpdateRejected"}


def _nearest(filters: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Types for what is proposed, decisions for what became of it."""
    wanted, outcome = filters.get("type"), filters.get("outcome")
    if outcome in _DECIDED:
        return "decisions", {"event": _DECIDED[outcome], **({"subject": f"type {wanted}"} if wanted else {})}
    status = {"status": outcome} if outcome else {}
    return "types", {**({"name": wanted} if wanted else {}), **status}


PROPOSALS = Listing(
    view="types",
    title="Proposals",
    about="What members were asked to agree on: proposed, then accepted once all had it, or rejected. Newest first.",
    columns=(
        Column("Proposed at", lambda f, each: values.position(f, each.position), is_number=True),
        Column("Time", lambda _, each: values.time(each.time)),
        Column("Type", lambda f, each: Value(each.type, f.to("types", each.type))),
        Column("Does", lambda _, each: each.does),
        Column("Version", lambda _, each: each.version, is_number=True),
        Column("Outcome", _outcome, is_wide=True),
        Column("Took", lambda _, each: values.exact(each.latency_ms), is_number=True),
        Column("Fields", lambda _, each: values.plain(each.fields), is_wide=True),
        Column("Asked by", lambda _, each: each.actor or "–"),
        Column("Why", lambda _, each: Value(each.reason or "–", note=values.request_of(each.request)), is_wide=True),
    ),
    empty="Nothing has been proposed, or nothing as these filters say. `topolog propose` does that.",
    find=lambda asked: proposals(
        asked.reading, asked.filters, None if asked.behind is None else position_of(asked.behind)
    ),
    nearest=_nearest,
    key=lambda each: str(each.position),
)
