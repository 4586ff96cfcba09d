"""What the log says of objects, by a reading of its own: which definition was in force when, by true time.

The rules TA1 to TA34 a second time, straight from the decisions' words. Of `events/objects.py` it takes only the
numbers that are given there, and checks that none is given twice.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from topolog.events import objects as ob
from topolog.events.ids import NOWHERE, Position
from topolog.events.object_definition import Definition, ObjectKind, Step, Verb
from topolog.events.objects import ChangeStatus, object_row
from topolog.events.state import State
from topolog.streams.simulation.ledger import Standing
from topolog.streams.simulation.rules import Broken, Rule


class Span(msgspec.Struct, eq=False):
    """A definition that was committed: in force from one true time to another, None if it is yet.

    `born`: where the object was created. `lives`: since which commit each column number is in use.
    `generation`: how many definitions of the object were in force before.
    """

    name: str
    kind: ObjectKind
    incarnation: int
    born: Position
    definition: Definition
    lives: Mapping[int, Position]
    generation: int
    from_ns: int
    until_ns: int | None = None

    def overlaps(self, began_ns: int, ended_ns: int) -> bool:
        return self.from_ns <= ended_ns and (self.until_ns is None or self.until_ns >= began_ns)


class Pending(msgspec.Struct, eq=False):
    """What an open change would make of a `base`, None if it makes it anew; over at `until_ns`."""

    base: Span | None
    step: Step
    version: int
    from_ns: int
    until_ns: int | None = None


class _Change(msgspec.Struct):
    status: ChangeStatus
    prepared: Standing | None = None
    pending: Sequence[Pending] = ()
    closed: Sequence[tuple[int, int | None]] = ()


class SchemaLedger:
    """`committed_through`: the newest preparation that is committed. `closed`: incarnations, and with None beside them
    or a column number, what is closed."""

    def __init__(self, state: State) -> None:
        self.committed_through = NOWHERE
        self.closed: set[tuple[int, int | None]] = set()
        self.spans: dict[str, list[Span]] = {}
        self.pendings: dict[str, list[Pending]] = {}
        self.generations: dict[int, int] = {}
        self._state = state
        self._changes: dict[Position, _Change] = {}
        self._incarnations: set[int] = set()
        self._columns: dict[int, set[int]] = {}
        self._used: dict[tuple[int, int], int] = {}

    def judge(self, standing: Standing) -> None:
        """One decision; the state is that of the end of its set. Raises Broken."""
        match standing.event:
            case ob.SchemaChangeQueued():
                self._changes[standing.place.position] = _Change(ChangeStatus.QUEUED)
            case ob.SchemaChangePrepared() as event:
                self._prepare(event, standing)
            case ob.SchemaChangeCommitted(changes=numbers):
                for number in numbers:
                    self._commit(number, standing)
            case ob.SchemaChangeRolledBack(change=number):
                change = self._end(number, ChangeStatus.ROLLED_BACK, standing)
                for pending in change.pending:
                    pending.until_ns = standing.at_ns

    def prepared(self, number: Position) -> Standing | None:
        """Where a change was prepared, if it was."""
        return self._changes[number].prepared

    def closed_by(self, number: int) -> Sequence[tuple[int, int | None]]:
        """What the commit of the change has closed: an incarnation, with None or one of its columns."""
        change = self._changes.get(Position(number))
        return change.closed if change else ()

    def in_force(self, name: str) -> Span | None:
        spans = self.spans.get(name)
        return spans[-1] if spans and spans[-1].until_ns is None else None

    def during(self, name: str, began_ns: int, ended_ns: int) -> Iterator[Span]:
        """The definitions that were in force at some moment of this time."""
        return (each for each in self.spans.get(name, ()) if each.overlaps(began_ns, ended_ns))

    def about(self, name: str) -> Sequence[Pending]:
        """What changes would have made of it, or have."""
        return self.pendings.get(name, ())

    def generation(self, incarnation: int, version: int) -> int | None:
        """How many definitions precede this version, committed or not; None for one that nobody has prepared."""
        return self._used.get((incarnation, version))

    def _prepare(self, event: ob.SchemaChangePrepared, standing: Standing) -> None:
        number = standing.place.position if event.change is None else event.change
        change = self._changes.setdefault(number, _Change(ChangeStatus.QUEUED))
        if change.status is not ChangeStatus.QUEUED:
            raise Broken(Rule.ONE_END, f"change {number} is prepared, and is {change.status.value}")
        names = [name for step in event.steps for name in (step.name, step.new_name) if name]
        for name in names:
            if any(each.until_ns is None for each in self.about(name)):
                raise Broken(Rule.ONE_END, f"change {number} begins while another one of {name} is open")
        change.status, change.prepared = ChangeStatus.PREPARED, standing
        change.pending = [self._pending(step, standing) for step in event.steps]
        for step, pending in zip(event.steps, change.pending, strict=True):
            for name in filter(None, (step.name, step.new_name)):
                self.pendings.setdefault(name, []).append(pending)

    def _pending(self, step: Step, standing: Standing) -> Pending:
        row, base = object_row(self._state, step.name), self.in_force(step.name)
        if row is None or (base is None) is not (step.verb is Verb.CREATE):
            raise Broken(Rule.ONE_END, f"{step.verb.value} of {step.name}, whose row is {row}")
        if base is None:
            if row.incarnation in self._incarnations:
                raise Broken(Rule.INCARNATIONS, f"{step.name} is {row.incarnation}, which another one was")
            self._incarnations.add(row.incarnation)
        elif row.incarnation != base.incarnation:
            raise Broken(Rule.INCARNATIONS, f"{step.name} was {base.incarnation} and becomes {row.incarnation}")
        self._note_columns(step, row.incarnation, base)
        self._used[row.incarnation, row.pending_version] = base.generation + 1 if base else 0
        return Pending(base, step, row.pending_version, standing.at_ns)

    def _note_columns(self, step: Step, incarnation: int, base: Span | None) -> None:
        ever = self._columns.setdefault(incarnation, set())
        kept = {each.number for each in base.definition.columns} if base else set()
        found = [each.number for each in step.definition.columns] if step.definition else []
        if step.kind is ObjectKind.TABLE and (ever.intersection(found) - kept or len(found) != len(set(found))):
            raise Broken(Rule.INCARNATIONS, f"{step.name}: column numbers {found} behind {sorted(ever)}")
        ever.update(found)

    def _commit(self, number: Position, standing: Standing) -> None:
        change = self._end(number, ChangeStatus.COMMITTED, standing)
        if change.prepared is None:
            return
        self.committed_through = max(self.committed_through, change.prepared.place.position)
        closed: list[tuple[int, int | None]] = []
        for pending in change.pending:
            pending.until_ns = standing.at_ns
            closed += self._take(pending, standing)
        change.closed = closed
        self.closed.update(closed)

    def _take(self, pending: Pending, standing: Standing) -> Iterator[tuple[int, int | None]]:
        """A definition ends, another one begins; what of data is closed by that."""
        base, step = pending.base, pending.step
        if base is not None:
            base.until_ns = standing.at_ns
        if step.verb is Verb.DROP or step.definition is None:
            assert base is not None, "what is dropped was there"
            yield base.incarnation, None
            return
        name, numbers = step.new_name or step.name, [each.number for each in step.definition.columns]
        row = object_row(self._state, name)
        if row is None or row.definition != step.definition or (base and row.incarnation != base.incarnation):
            raise Broken(Rule.INCARNATIONS, f"{name} is committed as {step.definition}, and is {row}")
        before, born = (base.lives, base.born) if base else ({}, standing.place.position)
        lives = {each: before.get(each, standing.place.position) for each in numbers}
        span = Span(
            name,
            step.kind,
            row.incarnation,
            born,
            step.definition,
            lives,
            base.generation + 1 if base else 0,
            standing.at_ns,
        )
        self.spans.setdefault(name, []).append(span)
        self.generations[row.incarnation] = span.generation
        for each in before:
            if each not in lives and step.kind is ObjectKind.TABLE:
                yield row.incarnation, each

    def _end(self, number: Position, status: ChangeStatus, standing: Standing) -> _Change:
        change = self._changes.get(number)
        if change is None or change.status in (ChangeStatus.COMMITTED, ChangeStatus.ROLLED_BACK):
            was = change.status.value if change else "unknown"
            raise Broken(Rule.ONE_END, f"change {number}, {was}, is {status.value} at {standing.place.position}")
        change.status = status
        return change
