"""Why a change of objects is where it is: behind whom and for whom it waits, until when, how it ended. And why an
object is as it is."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from topolog.events.object_definition import ObjectKind
from topolog.events.objects import ChangeRow, ChangeStatus, ObjectRow, ObjectStatus
from topolog.projections import change_rows, changes, definition_words, objects
from topolog.projections.change_rows import Line
from topolog.projections.changes import Waiting
from topolog.projections.durations import ago
from topolog.projections.explain import in_words, last_causes, with_next
from topolog.projections.layout import Decided
from topolog.projections.object_resources import SchemaChange
from topolog.projections.resources import Explanation
from topolog.projections.sentences import listed
from topolog.projections.store import Reading

_STEPS_MAX = 20


def explain_change(reading: Reading, age_ms: int, name: str) -> Explanation:
    """What it does; behind whom and for whom it waits and until when at the latest; how and on what evidence it ended,
    and who has not deleted yet what it has closed."""
    row = changes.surely(reading, name)
    line = Line(change_rows.opened(reading))
    found = changes.change(reading, age_ms, name)
    wait = changes.waiting(reading, age_ms, row)
    sentence = f"Change {row.number} ({found.does}) {_state(found, row, wait)}"
    facts = {
        **dict(_asked(found)),
        **dict(_steps(found)),
        **dict(_ahead(row, line)),
        **(dict(_waits(wait)) if wait else {}),
        **dict(_ended(found, row)),
        **dict(_revoked(reading, found, row)),
        **dict(_next(found, line)),
    }
    explained = Explanation(sentence, facts, last_causes(_decisions(reading, row)), wait.asked if wait else ())
    return with_next(explained, f"topolog explain decision {row.number}", f"topolog history change {row.number}")


def explain_object(reading: Reading, age_ms: int, kind: ObjectKind, name: str) -> Explanation:
    """In which state an object is, which change has it, what waits behind that, what can be done now."""
    row = reading.row(ObjectRow, name)
    if row is None or row.kind is not kind:
        return _gone(reading, kind, name, row)
    found = objects.object_named(reading, kind, name)
    about = changes.surely(reading, str(row.change)) if row.change is not None else None
    sentence = f"{definition_words.noun(kind).capitalize()} {name} {_STATES[row.status].format(row)}."
    facts: dict[str, str] = {}
    if row.definition is not None:
        facts["is"] = ", ".join(definition_words.contents(row.definition)) or "empty"
        facts["version"] = f"{row.version}, committed at position {row.committed_at}"
    if row.pending is not None and row.definition is not None:
        facts["would become"] = ", ".join(definition_words.differences(row.definition, row.pending)) or "the same"
    facts["incarnation"] = str(row.incarnation)
    wait = None
    if about is not None:
        wait = changes.waiting(reading, age_ms, about)
        shown = changes.shown(reading, age_ms, about, Line(change_rows.opened(reading)))
        facts[f"change {about.number}"] = _state(shown, about, wait)
    if found.queue:
        facts["waits behind it"] = listed([f"change {number}" for number in found.queue])
    facts["can be done now"] = ", ".join(found.actions)
    explained = Explanation(sentence, facts, last_causes(_of_object(reading, name)), wait.asked if wait else ())
    change = (f"topolog explain change {about.number}",) if about else ()
    return with_next(explained, *change, f"topolog history {_resource(kind)} {shlex.quote(name)}")


def _resource(kind: ObjectKind) -> str:
    """What the CLI calls one of this kind: a view without more is one of the cluster."""
    return "table-view" if kind is ObjectKind.VIEW else kind.value.lower()


_STATES: Mapping[ObjectStatus, str] = {
    ObjectStatus.USING: "is in use, and no change of it is open",
    ObjectStatus.PRE_CREATE: "is being created by change {0.change}: nobody uses it yet",
    ObjectStatus.PRE_ALTER: "is being altered by change {0.change}: it is read by the new definition, and written what "
    "suits both",
    ObjectStatus.PRE_RENAME: "is being renamed by change {0.change}: nobody uses it until that is over",
    ObjectStatus.PRE_DELETE: "is being dropped by change {0.change}: nobody uses it any more",
}


def _gone(reading: Reading, kind: ObjectKind, name: str, found: ObjectRow | None) -> Explanation:
    if not objects.was_ever(reading, kind, name):
        raise objects.no_object(reading, kind, name, found)
    position = next(position for position, row in reading.versions(ObjectRow, name) if row is None)
    noun = definition_words.noun(kind)
    sentence = f"{noun.capitalize()} {name} is no more since position {position}: it was dropped, renamed or given up."
    explained = Explanation(sentence, {}, last_causes(_of_object(reading, name)))
    commands = f"topolog explain decision {position}", f"topolog history {_resource(kind)} {shlex.quote(name)}"
    return with_next(explained, *commands)


def _state(found: SchemaChange, row: ChangeRow, wait: Waiting | None) -> str:
    match row.status:
        case ChangeStatus.QUEUED:
            behind = [f"change {number}" for number in found.behind]
            after = f"behind {listed(behind)}" if behind else "for its turn, which has come"
            return f"waits {ago(found.age_ms)} {after}."
        case ChangeStatus.PREPARED:
            assert wait is not None, "a prepared change has a verdict"
            return f"{_waiting(wait)}."
        case ChangeStatus.COMMITTED:
            still = f"; data is still being deleted by {listed(row.undeleted)}" if row.undeleted else ""
            return f"was committed at position {row.closed_at}, {ago(found.age_ms)} after it was asked for{still}."
        case ChangeStatus.ROLLED_BACK:
            return f"was rolled back at position {row.closed_at} ({row.code}): {row.message}"


def _waiting(wait: Waiting) -> str:
    """«waits 14 s for n3, last heard 15 s ago, proceeds in 11 s at the latest»."""
    if not wait.asked:
        return "waits for nobody, and proceeds now"
    if wait.silent:
        heard = [f"{node}, last heard {ago(wait.heard_ms[node])} ago" for node in wait.silent]
        whom = f"for {listed(heard)}"
    else:
        whom = f"for {listed([each.node for each in wait.asked])}: asked, not all have answered"
    if wait.endless:
        ends = f"it proceeds when {listed(wait.endless)} answers or is removed, for it does not fence itself"
    elif wait.span.left_ms:
        ends = f"proceeds in {ago(wait.span.left_ms)} at the latest"
    else:
        ends = "proceeds as soon as the coordinator sees that its time is over"
    return f"waits {ago(wait.waited_ms)} {whom}, {ends}"


def _asked(found: SchemaChange) -> Iterator[tuple[str, str]]:
    who = f" by {found.actor}" if found.actor else ""
    why = f": {found.reason}" if found.reason else ""
    yield "asked for", f"{found.time}{who}{why} (request {found.request})"


def _steps(found: SchemaChange) -> Iterator[tuple[str, str]]:
    for step in found.steps[:_STEPS_MAX]:
        to = f" to {step.new_name}" if step.new_name else ""
        yield f"{step.verb.lower()} {step.kind.lower()} {step.name}", f"{to}{', '.join(step.details)}".strip() or "-"
    if len(found.steps) > _STEPS_MAX:
        yield "further objects", f"{len(found.steps) - _STEPS_MAX}: `topolog describe change {found.number}`"


def _ahead(row: ChangeRow, line: Line) -> Iterator[tuple[str, str]]:
    for name, number in line.behind(row).items():
        ahead = next((each for each in line.rows if each.number == number), None)
        does = f" ({definition_words.does(ahead.steps or ahead.statements)})" if ahead else ""
        yield f"waits for {name}", f"which change {number}{does} has"


def _waits(wait: Waiting) -> Iterator[tuple[str, str]]:
    for node, heard_ms in wait.heard_ms.items():
        since = "not since the change was prepared" if node in wait.silent else "since then"
        yield f"{node} was last heard", f"{ago(heard_ms)} ago, {since}"
    if wait.asked and not wait.endless:
        yield "proceeds at the latest", str(wait.span)
    if wait.endless:
        yield "waits without end", f"until {', '.join(wait.endless)} answers or is removed"


def _ended(found: SchemaChange, row: ChangeRow) -> Iterator[tuple[str, str]]:
    if row.deadline_ms is not None and row.is_open:
        left_ms = max(0, row.deadline_ms - found.age_ms)
        yield (
            "is given up",
            f"in {ago(left_ms)} unless it is committed by then (its deadline: {row.deadline_ms} ms)",
        )
    if row.evidence is not None:
        yield "evidence", in_words(row.evidence)
    if row.status is ChangeStatus.ROLLED_BACK:
        yield "why", f"{row.code} ({row.rule}): {row.message}"
        yield from ((name.replace("_", " "), text) for name, text in row.facts.items())
        yield "effect", "none: everything is as it was before"
    if row.status is ChangeStatus.COMMITTED and row.undeleted:
        yield "not deleted yet", f"by {', '.join(row.undeleted)}: nobody is shown the data, and the names are free"


def _revoked(reading: Reading, found: SchemaChange, row: ChangeRow) -> Iterator[tuple[str, str]]:
    """What it takes away, and when that is in force everywhere (TA26)."""
    names = change_rows.revoked(reading, row)
    if not names or row.status is ChangeStatus.ROLLED_BACK:
        return
    yield "takes away", listed(names)
    if row.status is ChangeStatus.COMMITTED:
        yield "in force on servers since", f"{found.in_force_by} at the latest"
        yield "in force on clients", "since the same moment, but on one that is cut off: there when a fence is over"
    elif found.in_force_by is not None:
        yield (
            "in force everywhere",
            f"at {found.in_force_by} at the latest, also on servers and clients that are cut off",
        )
    else:
        yield "in force everywhere", "when every server has answered: one that is asked does not fence itself"


def _next(found: SchemaChange, line: Line) -> Iterator[tuple[str, str]]:
    if found.closed_at is not None:
        return
    yield "next", f"`topolog wait change/{found.number}`; `topolog cancel change/{found.number}` gives it up"
    behind = [row.number for row in line.rows if found.number in line.behind(row).values()]
    if behind:
        yield "waits behind it", listed([f"change {number}" for number in behind])


def _decisions(reading: Reading, row: ChangeRow) -> Sequence[Decided]:
    """The decisions that began, prepared and ended it, newest first."""
    positions = {row.number, row.prepared_at, row.closed_at}
    return [reading.surely_decision(each) for each in sorted(filter(None, positions), reverse=True)]


def _of_object(reading: Reading, name: str) -> Iterator[Decided]:
    """The decisions that changed an object, newest first: of each set the first that is about objects."""
    for position, _ in reading.versions(ObjectRow, name):
        about = [each for each in reading.decisions_of_set(position) if each.event_name.startswith("SchemaChange")]
        yield from reversed(about or [reading.surely_decision(position)])
