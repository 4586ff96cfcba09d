"""What can be asked of changes of objects: all of them, newest first, one by its number, its history."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from topolog.events.errors import BadInput, NotFound
from topolog.events.leases import FENCING, NodeRow
from topolog.events.object_definition import Step, Verb
from topolog.events.objects import ChangeRow, ChangeStatus, ObjectRow
from topolog.projections import change_rows, definition_words, patience, queries
from topolog.projections.change_rows import Line
from topolog.projections.heard import heard_ms
from topolog.projections.moments import iso, position_time
from topolog.projections.object_resources import ChangeStep, SchemaChange
from topolog.projections.patience import Span
from topolog.projections.resources import Awaited
from topolog.projections.store import Reading

_DIGITS_MAX = 18


class Waiting(msgspec.Struct, frozen=True):
    """For whom a prepared change waits. `heard_ms`: how long ago each of `asked` was heard, as far as that is known;
    `silent`: those of them that were not heard since; `endless`: those that no time ends the wait for."""

    asked: tuple[Awaited, ...]
    heard_ms: Mapping[str, int]
    waited_ms: int
    span: Span
    silent: tuple[str, ...]
    endless: tuple[str, ...]

    @property
    def at_most_ms(self) -> int | None:
        return None if self.endless else self.span.left_ms if self.asked else 0


def changes(
    reading: Reading, age_ms: int, filters: Mapping[str, str], before: int | None = None
) -> Iterator[SchemaChange]:
    """Changes with numbers below `before`, newest first, as long as coordinators keep them. Filters: state, node (that
    has not deleted yet what it has closed)."""
    line = Line(change_rows.opened(reading))
    rows = sorted((row for _, row in reading.rows(ChangeRow)), key=lambda row: -row.number)
    for row in rows:
        is_fitting = filters.get("state") in (None, row.status.value) and filters.get("node") in (None, *row.undeleted)
        if is_fitting and (before is None or row.number < before):
            yield shown(reading, age_ms, row, line)


def change(reading: Reading, age_ms: int, name: str) -> SchemaChange:
    """One change by its number, however long ago; its steps in detail."""
    row = surely(reading, name)
    found = shown(reading, age_ms, row, Line(change_rows.opened(reading)))
    if row.prepared_at is None:
        return found
    before = change_rows.before_steps(reading, row)
    return msgspec.structs.replace(
        found, steps=tuple(_step(each, _details(before, each)) for each in change_rows.steps_of(reading, row))
    )


def surely(reading: Reading, name: str) -> ChangeRow:
    """The newest row of a change; raises BadInput for what is no number, NotFound if there is none."""
    if not (name.isascii() and name.isdecimal() and len(name) <= _DIGITS_MAX):
        raise BadInput(f"{name!r} is no number of a change.", hint="`topolog get changes` lists them.")
    row = change_rows.row_ever(reading, int(name))
    if row is None:
        raise NotFound(
            f"There is no change {name}.",
            hint="A change has the number of the position where it was decided on first: `topolog get changes`.",
        )
    return row


def shown(reading: Reading, age_ms: int, row: ChangeRow, line: Line) -> SchemaChange:
    begun = reading.surely_decision(row.number)
    wait = waiting(reading, age_ms, row)
    end_ms = now_ms(reading) if row.closed_at is None else reading.surely_decision(row.closed_at).logged_at_ms
    actions = change_rows.actions_of(reading, row)
    return SchemaChange(
        number=row.number,
        state=row.status.value,
        does=definition_words.does(actions),
        steps=tuple(ChangeStep(each.verb.value, each.kind.value, each.name, each.new_name) for each in actions),
        request=row.request,
        actor=begun.asked_by,
        reason=begun.asked_for,
        time=iso(begun.logged_at_ms),
        age_ms=max(0, end_ms - begun.logged_at_ms),
        prepared_at=row.prepared_at,
        closed_at=row.closed_at,
        closed_time=None if row.closed_at is None else position_time(reading, row.closed_at),
        deadline_ms=row.deadline_ms,
        behind=tuple(sorted(set(line.behind(row).values()))),
        asked=tuple(each.node for each in wait.asked) if wait else (),
        silent=wait.silent if wait else (),
        at_most_ms=wait.at_most_ms if wait else None,
        in_force_by=in_force_by(reading, row),
        evidence=msgspec.structs.asdict(row.evidence) if row.evidence else None,
        undeleted=row.undeleted,
        code=row.code,
        rule=row.rule,
        message=row.message,
        facts=row.facts,
    )


def waiting(reading: Reading, age_ms: int, row: ChangeRow) -> Waiting | None:
    """Whom the verdict on a prepared change asks, and who of them is silent; None for one that is not prepared."""
    if row.status is not ChangeStatus.PREPARED or row.prepared_at is None:
        return None
    asked = patience.for_verdict(reading, row.prepared_at).asked
    span = patience.longest_wait(reading, row.prepared_at)
    waited_ms = max(0, now_ms(reading) - reading.surely_decision(row.prepared_at).logged_at_ms)
    heard_ms = _heard_ms(reading, age_ms, [each.node for each in asked])
    silent = tuple(node for node, ms in heard_ms.items() if ms > waited_ms)
    endless = tuple(each.node for each in asked if each.at_most_ms is None)
    return Waiting(asked, heard_ms, waited_ms, span, silent, endless)


def _heard_ms(reading: Reading, age_ms: int, nodes: Sequence[str]) -> dict[str, int]:
    """How long ago each was heard, longest first, as far as that is known."""
    known = heard_ms(reading, age_ms)
    return dict(sorted(((node, known[node]) for node in nodes if node in known), key=lambda pair: -pair[1]))


def in_force_by(reading: Reading, row: ChangeRow) -> str | None:
    """When what a change takes away from a principal is in force everywhere at the latest (TA26): who has not applied
    its preparation then has no valid lease any more, whatever the coordinator has decided by then.

    None if it takes nothing away, is not prepared, or asks a server that does not fence itself.
    """
    if row.prepared_at is None or row.status is ChangeStatus.ROLLED_BACK or not change_rows.revoked(reading, row):
        return None
    prepared = reading.as_of(row.prepared_at)
    holders = (node for _, node in prepared.rows(NodeRow) if node.holds_lease)
    latest_ms = [] if row.closed_at is None else [reading.surely_decision(row.closed_at).logged_at_ms]
    if all(FENCING in node.capabilities for node in holders):
        prepared_ms = reading.surely_decision(row.prepared_at).logged_at_ms
        latest_ms.append(prepared_ms + queries.cluster_row(prepared).proceed_ms)
    return iso(min(latest_ms)) if latest_ms else None


def now_ms(reading: Reading) -> int:
    newest_ms = reading.surely_decision(reading.position).logged_at_ms
    return max(newest_ms, patience.wall_ms()) if reading.is_current else newest_ms


def _step(step: Step, details: tuple[str, ...]) -> ChangeStep:
    return ChangeStep(step.verb.value, step.kind.value, step.name, step.new_name, details)


def _details(before: Reading, step: Step) -> tuple[str, ...]:
    if step.definition is None or step.verb is Verb.RENAME:
        return ()
    if step.verb is Verb.CREATE:
        return tuple(definition_words.contents(step.definition))
    held = before.row(ObjectRow, step.name)
    if held is None or held.definition is None:
        return ()
    return tuple(definition_words.differences(held.definition, step.definition))
