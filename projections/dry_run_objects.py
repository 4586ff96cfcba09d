"""What a request about objects would lead to, in words: its steps, behind whom it would wait, what would be lost."""

from collections.abc import Iterator, Sequence

from topolog.events import claims
from topolog.events.decision import Decision
from topolog.events.ids import Position
from topolog.events.object_definition import Definition, ObjectKind, Step, Verb
from topolog.events.objects import (
    ObjectRow,
    SchemaChangePrepared,
    SchemaChangeQueued,
    SchemaChangeRolledBack,
    claims_of,
)
from topolog.events.state import State
from topolog.projections import change_rows, definition_words, queries
from topolog.projections.sentences import listed
from topolog.projections.store import Reading

_STEPS_MAX = 100


def sentences(reading: Reading, before: State, decision: Decision) -> Iterator[str]:
    """What would become of the change; nothing of other decisions. `before` has the claims of those that are open."""
    match decision:
        case SchemaChangeQueued():
            ahead = claims.before(before, claims_of(before, decision.statements), Position(reading.position + 1))
            waits = listed([f"change {number} (which has {name})" for name, number in ahead.items()])
            yield f"It would wait behind {waits}, and be planned again when its turn comes."
        case SchemaChangePrepared():
            silent_ms = queries.cluster_row(reading).proceed_ms
            yield f"It would {definition_words.does(decision.steps)}."
            yield f"It is in force when every server has applied it, {silent_ms} ms later at most if one is silent."
        case SchemaChangeRolledBack():
            row = change_rows.row_ever(reading, decision.change)
            does = f" ({definition_words.does(change_rows.actions_of(reading, row))})" if row else ""
            yield f"Change {decision.change}{does} would be given up, and everything be as it was before it."


def warnings(reading: Reading, decision: Decision) -> Iterator[str]:
    """Data that would be deleted, and what goes beside what was named."""
    if not isinstance(decision, SchemaChangePrepared):
        return
    tables = [each.name for each in decision.steps if each.kind is ObjectKind.TABLE and each.verb is Verb.DROP]
    if tables:
        yield f"all data of {listed(tables)} {'is' if len(tables) == 1 else 'are'} deleted"
    for step in decision.steps:
        if columns := _dropped(reading, step):
            yield f"what {listed(columns)} of {step.name} holds is deleted"


def _dropped(reading: Reading, step: Step) -> Sequence[str]:
    row = reading.row(ObjectRow, step.name)
    if step.verb is not Verb.ALTER or step.definition is None or row is None or row.definition is None:
        return ()
    kept = {column.number for column in step.definition.columns}
    return [column.name for column in row.definition.columns if column.number not in kept]


def details(reading: Reading, decision: Decision) -> Iterator[str]:
    """Each step in a line, with what it changes."""
    steps = decision.steps if isinstance(decision, SchemaChangePrepared) else ()
    for step in steps[:_STEPS_MAX]:
        row = reading.row(ObjectRow, step.name)
        was = row.definition if row and row.definition else Definition()
        said = definition_words.does([step])
        differs = list(definition_words.differences(was, step.definition)) if step.definition else []
        yield f"{said}: {', '.join(differs)}" if differs and step.verb is not Verb.RENAME else said
    if len(steps) > _STEPS_MAX:
        yield f"and {len(steps) - _STEPS_MAX} more"
