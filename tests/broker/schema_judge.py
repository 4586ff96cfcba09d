"""Whether answers of members came from definitions that a commit had ended by then: decided from the log alone.

What the log made of a name, one decision after the other, are its eras. An answer is legal if some era that was not
known to be over when the answer was about to end gives it: by its own definition, or by one that was prepared in it,
for between the two servers may answer by either. So after a commit is known nothing that it has ended is answered any
more, and nothing at all is answered of what was never committed.

This is a second reading: it takes steps from the events and counts incarnations itself, and folds no state.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from tests.broker.schema_answers import Act, Answer
from tests.broker.schema_operator import Known

from topolog.events.ids import Position
from topolog.events.object_definition import FOREVER, WIDER, Column, Definition, Privilege, Step, Verb
from topolog.events.objects import (
    SchemaChangeCommitted,
    SchemaChangePrepared,
    SchemaChangeQueued,
    SchemaChangeRolledBack,
)

NEVER_NS = (1 << 63) - 1


class Era(msgspec.Struct):
    """What a name was from one commit to the next. `asked_ns`: nobody had asked for it before. `over_ns`: when its end
    was known. `prepared`: definitions that changes were to give it meanwhile, whatever became of these, each with the
    time at which it was asked for."""

    incarnation: int
    definition: Definition | None
    asked_ns: int
    over_ns: int = NEVER_NS
    prepared: list[tuple[int, Definition]] = []


class Eras:
    """The eras of all names of one log, in order, as far as it is read. `asked_ns` by number of the request."""

    def __init__(self, asked_ns: Mapping[int, int]) -> None:
        self._eras: dict[str, list[Era]] = {}
        self._asked_ns = asked_ns
        self._begun_ns: dict[Position, int] = {}
        self._steps: dict[Position, tuple[Step, ...]] = {}
        self._incarnations: dict[tuple[Position, str], int] = {}
        self._given = 0

    def of(self, name: str) -> list[Era]:
        return self._eras.setdefault(name, [Era(0, None, 0)])

    def since(self, name: str, ns: int) -> list[Era]:
        """Those that were not known to be over then."""
        eras = self.of(name)
        return eras[bisect_left(eras, ns, key=lambda era: era.over_ns) :]

    def read(self, known: Known) -> None:
        position = known.folded.place.position
        match known.folded.event:
            case SchemaChangeQueued(request=request):
                self._begun_ns[position] = self._asked_ns.get(request.sequence, 0)
            case SchemaChangePrepared() as prepared:
                number = position if prepared.change is None else prepared.change
                if prepared.request is not None:
                    self._begun_ns[number] = self._asked_ns.get(prepared.request.sequence, 0)
                self._prepare(number, prepared.steps)
            case SchemaChangeCommitted(changes=changes):
                for number in changes:
                    for step in self._steps.pop(number, ()):
                        self._commit(number, step, known.ns)
            case SchemaChangeRolledBack(change=change):
                self._steps.pop(change, None)

    def _prepare(self, number: Position, steps: tuple[Step, ...]) -> None:
        self._steps[number] = steps
        for step in steps:
            if step.verb is Verb.CREATE:
                self._given += 1
                self._incarnations[number, step.name] = self._given
            elif step.verb is Verb.ALTER:
                assert step.definition is not None
                self.of(step.name)[-1].prepared.append((self._begun_ns[number], step.definition))

    def _commit(self, number: Position, step: Step, ns: int) -> None:
        before, begun_ns = self.of(step.name)[-1], self._begun_ns[number]
        if step.verb is Verb.RENAME:
            self._begin(step.new_name, Era(before.incarnation, step.definition, begun_ns), ns)
        incarnation = self._incarnations.get((number, step.name), before.incarnation)
        definition = None if step.verb in (Verb.RENAME, Verb.DROP) else step.definition
        self._begin(step.name, Era(incarnation if definition else 0, definition, begun_ns), ns)

    def _begin(self, name: str, era: Era, ns: int) -> None:
        self.of(name)[-1].over_ns = ns
        self._eras[name].append(era)


def stale(answers: Iterable[Answer], eras: Eras) -> Iterator[tuple[Answer, Sequence[Era]]]:
    """The answers that nothing justifies, each with the eras of its name that were not known to be over."""
    for answer in answers:
        possible = [era for era in eras.since(answer.name, answer.closing_ns) if era.asked_ns <= answer.ended_ns]
        if not any(_gives(era, answer) for era in possible):
            yield answer, possible


def _gives(era: Era, answer: Answer) -> bool:
    if era.definition is None:
        return answer.act is Act.ABSENT
    both = [era.definition, *(each for asked_ns, each in era.prepared if asked_ns <= answer.ended_ns)]
    match answer.act:
        case Act.READ:
            return answer.incarnation == era.incarnation and any(answer.columns == each.columns for each in both)
        case Act.WROTE:
            return answer.incarnation == era.incarnation and all(
                _suits(column, era.definition) for column in answer.columns
            )
        case Act.ALLOWED:
            return Privilege.READ in era.definition.privileges
        case Act.KEPT:
            return _at_least(answer.ttl_ms, era.definition.ttl_ms or FOREVER)
        case Act.ABSENT:
            return False


def _suits(column: Column, definition: Definition) -> bool:
    """Whether what is written to the column can be read by the definition."""
    held = definition.column(column.name)
    return held is not None and held.number == column.number and held.type in (column.type, *WIDER.get(column.type, ()))


def _at_least(ttl_ms: int, other_ms: int) -> bool:
    return ttl_ms == FOREVER or FOREVER != other_ms <= ttl_ms
