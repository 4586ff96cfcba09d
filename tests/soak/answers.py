"""What clients were told and what they read, held against the log. Pure."""

from collections import defaultdict
from collections.abc import Iterator

from tests.soak.history import Decided, History, Rule, Steps, Violation, of
from tests.soak.operations import Read, Sent, Told, fields_crc

from topolog.events import metadata as md
from topolog.events import requests as q


def outcomes(history: History) -> Iterator[Violation]:
    for request, decided in history.outcomes.items():
        if len(decided) > 1:
            where = ", ".join(f"{type(each.event).__name__} at {each.position}" for each in decided)
            yield Violation(Rule.ONE_OUTCOME, f"{request} has {where}")
        digest = history.digests.get(request)
        ref = getattr(decided[0].event, "request", None)
        if digest is None:
            yield Violation(Rule.ONE_OUTCOME, f"{request} was never asked, and is decided at {decided[0].position}")
        elif ref is None or ref.digest != digest:
            yield Violation(Rule.ONE_OUTCOME, f"{request} was decided for another content than was asked first")


def told(history: History) -> Iterator[Violation]:
    for told in of(Told, history.lines):
        if told.request is None:
            yield from _told_locally(history, told)
            continue
        outcome = next(iter(history.outcomes.get(told.request, ())), None)
        what = f"{told.client} was told {told.status} {told.code or told.version} for {told.request}"
        if outcome is None:
            yield Violation(Rule.TOLD_THE_TRUTH, f"{what}, and the log has no outcome of it")
        elif (stands := _as_told(outcome)) != (told.status, told.version, told.code):
            yield Violation(Rule.TOLD_THE_TRUTH, f"{what}, the log has {stands} at {outcome.position}")
        elif told.status != "REFUSED" and told.position != outcome.position:
            yield Violation(Rule.TOLD_THE_TRUTH, f"{what} at {told.position}, the log has it at {outcome.position}")
        elif told.accepted and history.accepted.get(_subject(outcome), 0) < told.version:
            yield Violation(Rule.TOLD_THE_TRUTH, f"{what}, accepted, and the log has not accepted it")


def _told_locally(history: History, told: Told) -> Iterator[Violation]:
    """Nothing was sent, for a version that the node knew held all that was to be asked."""
    asked = history.asked.get((told.client, told.life, told.operation))
    if asked is None:
        yield Violation(Rule.TOLD_THE_TRUTH, f"{told.client} was told of operation {told.operation}, never asked")
        return
    what = f"{told.client} was told {told.status} version {told.version} of {asked.type_name} at {told.position}"
    stands = history.proposed.get((asked.type_name, told.version))
    event = stands.event if stands else None
    if told.status != "UNCHANGED" or stands is None or stands.position != told.position:
        yield Violation(Rule.TOLD_THE_TRUTH, f"{what}, and no such version stands there")
    elif isinstance(event, md.MetadataUpdateProposed) and not asked.fields.items() <= event.definition.fields.items():
        yield Violation(Rule.TOLD_THE_TRUTH, f"{what}, and it lacks what was to be asked")
    elif told.accepted and history.accepted.get(asked.type_name, 0) < told.version:
        yield Violation(Rule.TOLD_THE_TRUTH, f"{what}, accepted, and the log has not accepted it")


def _as_told(outcome: Decided) -> tuple[str, int, str]:
    """Status, version and code as the client of this outcome has to be told them."""
    match outcome.event:
        case md.MetadataUpdateProposed(version=version):
            return "GRANTED", version, ""
        case q.RequestUnchanged(version=version):
            return "UNCHANGED", version or 0, ""
        case md.MetadataUpdateRejected(code=code) | q.RequestRefused(code=code):
            return "REFUSED", 0, code
        case event:
            return type(event).__name__, 0, ""


def _subject(outcome: Decided) -> str:
    match outcome.event:
        case md.MetadataUpdateProposed(type_name=name):
            return name
        case q.RequestUnchanged(subject=subject):
            return subject.removeprefix("type ")
    return ""


def real_time(history: History) -> Iterator[Violation]:
    """A proposal whose asking began after somebody was told of position p is decided behind p."""
    known = Steps((told.at_ns, told.position) for told in of(Told, history.lines))
    for sent in of(Sent, history.lines):
        outcome = next(iter(history.outcomes.get(sent.request or "", ())), None)
        began = history.asked.get((sent.client, sent.life, sent.operation))
        if outcome is None or began is None:
            continue
        before = known.before(began.at_ns)
        if outcome.position <= before:
            what = f"{sent.request} was asked when position {before} was known, and is decided at {outcome.position}"
            yield Violation(Rule.REAL_TIME, what)


def fresh_reads(history: History) -> Iterator[Violation]:
    """Versions are known as accepted from the log, from whoever was told, and from whoever has read them."""
    known: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for each in history.decided:
        if isinstance(each.event, md.MetadataUpdateAccepted):
            known[each.event.type_name].append((each.seen_ns, each.event.version))
    for told in of(Told, history.lines):
        if told.accepted:
            known[history.asked[told.client, told.life, told.operation].type_name].append((told.at_ns, told.version))
    for read in of(Read, history.lines):
        known[read.type_name].append((read.returned_ns, read.version))
    steps = {name: Steps(each) for name, each in known.items()}
    for read in of(Read, history.lines):
        floor = steps[read.type_name].before(read.at_ns)
        if read.version < floor:
            what = f"{read.client} read version {read.version} of {read.type_name} when {floor} was known as accepted"
            yield Violation(Rule.FRESH_READ, what)


def true_reads(history: History) -> Iterator[Violation]:
    crcs = {
        key: fields_crc(each.event.definition.fields.items())
        for key, each in history.proposed.items()
        if isinstance(each.event, md.MetadataUpdateProposed)
    }
    for read in of(Read, history.lines):
        if read.version and crcs.get((read.type_name, read.version)) != read.fields_crc:
            what = f"{read.client} read version {read.version} of {read.type_name} with a content that the log has not"
            yield Violation(Rule.TRUE_READ, what)


def accepted_reads(history: History) -> Iterator[Violation]:
    """Once all is at rest, the log holds the acceptance of everything that was ever read."""
    for read in of(Read, history.lines):
        if read.version > (highest := history.accepted.get(read.type_name, 0)):
            what = f"{read.client} read version {read.version} of {read.type_name}, accepted is {highest}"
            yield Violation(Rule.TRUE_READ, what)
