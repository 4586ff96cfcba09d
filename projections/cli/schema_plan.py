"""What `topolog apply` has to ask for: the objects that are wanted against those that are there, and nothing else.

The plan is a value of both, so that what is shown is what is sent. Each statement names on what it rests: since which
position the object is as it was seen, or that there was none; so a change by somebody else in between refuses the plan
(PLAN_IS_OLD) and never mixes with it.

Nothing is dropped unless that is asked for (`prune`), and then only in databases that are wanted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from topolog.events.object_definition import (
    ABSENT,
    STATEMENTS_MAX,
    Column,
    ColumnAction,
    ColumnVerb,
    Definition,
    ObjectKind,
    Statement,
    Verb,
    database_of,
    grant_on,
    object_of,
    principal_of,
)
from topolog.projections import definition_words


class Wanted(msgspec.Struct, frozen=True):
    """An object as the file wants it. `renamed_from`: the name that it has had; `renamed_columns`: the former name of a
    column by its name. `says`: what the file says of it at all; what it leaves out stays as it is."""

    kind: ObjectKind
    name: str
    definition: Definition
    renamed_from: str = ""
    renamed_columns: Mapping[str, str] = {}
    says: frozenset[str] = frozenset()


class Present(msgspec.Struct, frozen=True):
    """An object that is there; `dropped_by` is the number of the change that is about to drop it."""

    kind: ObjectKind
    name: str
    definition: Definition
    committed_at: int
    dropped_by: int | None = None


class PlanLine(msgspec.Struct, frozen=True):
    """One line of the plan as people read it: `sign` is +, ~ or -, `details` what changes within."""

    sign: str
    text: str
    details: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """What is asked for, in this order, and the same for people. `kept`: what is there and not wanted, and stays.
    `problems`: why the file cannot be applied."""

    statements: tuple[Statement, ...] = ()
    lines: tuple[PlanLine, ...] = ()
    kept: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def loses_data(self) -> bool:
        """Whether a table, or a column of one, is dropped; a database is never."""
        return any(
            (each.verb is Verb.DROP and each.kind is ObjectKind.TABLE)
            or any(action.verb is ColumnVerb.DROP for action in each.columns)
            for each in self.statements
        )


_ORDER = (ObjectKind.DATABASE, ObjectKind.TABLE, ObjectKind.VIEW, ObjectKind.GRANT)


def plan(wanted: Sequence[Wanted], present: Sequence[Present], *, prune: bool) -> Plan:
    """The statements that lead from what is present to what is wanted: drops first, then what is altered, created."""
    present = _following(wanted, present)
    there = {each.name: each for each in present}
    steps: list[tuple[Statement, PlanLine]] = []
    kept: list[str] = []
    problems: list[str] = []
    taken = {each.renamed_from for each in wanted if each.renamed_from and each.name not in there}
    for each in sorted(wanted, key=lambda each: _ORDER.index(each.kind)):
        held, former = there.get(each.name), there.get(each.renamed_from)
        if held is None and former is not None:
            steps.append(_rename(each, former))
            problems += _changes_too(each, former)
        elif held is None and each.renamed_from:
            problems.append(f"{each.name} is not there, nor is {each.renamed_from}, from which it was renamed")
        elif held is None:
            steps.append(_create(each))
        elif held.kind is not each.kind:
            problems.append(f"{each.name} is there, and is a {definition_words.noun(held.kind)}")
        elif held.dropped_by is not None:
            problems.append(f"{each.name} is being dropped: `topolog wait change/{held.dropped_by}`, then apply again")
        else:
            steps += _alter(each, held, prune=prune, kept=kept, problems=problems)
    drops = []
    for unwanted in _unwanted(wanted, present, taken):
        if prune:
            drops.append(_drop(unwanted))
        else:
            kept.append(f"{definition_words.noun(unwanted.kind)} {unwanted.name}")
    found = [*drops, *steps]
    if len(found) > STATEMENTS_MAX:
        problems.append(f"it takes {len(found)} statements, a change has at most {STATEMENTS_MAX}: apply it in parts")
    return Plan(tuple(each for each, _ in found), tuple(line for _, line in found), tuple(kept), tuple(problems))


def _following(wanted: Sequence[Wanted], present: Sequence[Present]) -> Sequence[Present]:
    """What is present as the renames of the file will leave it: grants on what gets another name, and views over it,
    go with that."""
    names = {each.name for each in present}
    renamed = {each.renamed_from: each.name for each in wanted if each.renamed_from in names and each.name not in names}
    return [_moved(each, renamed) for each in present]


def _moved(held: Present, renamed: Mapping[str, str]) -> Present:
    if held.kind is ObjectKind.GRANT and (new_name := renamed.get(object_of(held.name))):
        return msgspec.structs.replace(held, name=grant_on(principal_of(held.name), new_name))
    if new_name := renamed.get(held.definition.over):
        return msgspec.structs.replace(held, definition=msgspec.structs.replace(held.definition, over=new_name))
    return held


def _unwanted(wanted: Iterable[Wanted], present: Iterable[Present], taken: set[str]) -> Iterator[Present]:
    """What is there beside what is wanted, in databases that are wanted; what needs others comes first."""
    names = {each.name for each in wanted}
    databases = {each.name for each in wanted if each.kind is ObjectKind.DATABASE}
    staying = (each for each in present if each.dropped_by is None)
    beside = (each for each in staying if each.name not in names | taken and _database(each.name) in databases)
    return iter(sorted(beside, key=lambda each: (-_ORDER.index(each.kind), each.name)))


def _database(name: str) -> str:
    return database_of(object_of(name) or name)


def _drop(present: Present) -> tuple[Statement, PlanLine]:
    statement = Statement(Verb.DROP, present.kind, present.name, planned_on=present.committed_at)
    return statement, PlanLine("-", f"{definition_words.noun(present.kind)} {present.name}")


def _create(wanted: Wanted) -> tuple[Statement, PlanLine]:
    statement = Statement(Verb.CREATE, wanted.kind, wanted.name, wanted.definition, planned_on=ABSENT)
    details = tuple(f"+ {each}" for each in definition_words.contents(wanted.definition))
    return statement, PlanLine("+", f"{definition_words.noun(wanted.kind)} {wanted.name}", details)


def _rename(wanted: Wanted, former: Present) -> tuple[Statement, PlanLine]:
    statement = Statement(Verb.RENAME, former.kind, former.name, new_name=wanted.name, planned_on=former.committed_at)
    return statement, PlanLine("~", f"{definition_words.noun(former.kind)} {former.name} renamed to {wanted.name}")


def _changes_too(wanted: Wanted, former: Present) -> Iterator[str]:
    if former.kind is not wanted.kind:
        yield f"{former.name} is a {definition_words.noun(former.kind)}, and cannot become {wanted.name}"
    elif _alter(wanted, former, prune=True, kept=[], problems=[]):
        yield (
            f"{wanted.name} is renamed and altered at once, which takes two changes: apply the file first with what "
            f"{former.name} is now"
        )


def _alter(
    wanted: Wanted, held: Present, *, prune: bool, kept: list[str], problems: list[str]
) -> list[tuple[Statement, PlanLine]]:
    """One statement with all that is to change, or none."""
    was, then = held.definition, wanted.definition
    if held.kind is ObjectKind.VIEW:
        return _alter_view(wanted, held, prune=prune, kept=kept)
    actions, after = _columns(wanted, held, prune=prune, kept=kept)
    problems += _renamed_and_retyped(held, actions)
    problems += _former_columns(wanted, held)
    if held.kind is ObjectKind.TABLE and then.key and then.key not in (was.key, _former(wanted, was.key)):
        problems.append(f"{held.name} has its rows named by {was.key}, and cannot change to {then.key}")
    ttl_ms = then.ttl_ms if "ttl" in wanted.says and then.ttl_ms != was.ttl_ms else None
    properties, unset = _properties(wanted, held, prune=prune, kept=kept)
    privileges = () if set(then.privileges) == set(was.privileges) else then.privileges
    if not (actions or ttl_ms is not None or properties or unset or privileges):
        return []
    statement = Statement(
        Verb.ALTER,
        held.kind,
        held.name,
        columns=actions,
        ttl_ms=ttl_ms,
        properties=properties,
        unset=unset,
        privileges=privileges,
        planned_on=held.committed_at,
    )
    whole = Definition(
        columns=after,
        ttl_ms=was.ttl_ms if ttl_ms is None else ttl_ms,
        properties=_set(was, properties, unset),
        privileges=privileges or was.privileges,
    )
    details = tuple(definition_words.differences(was, whole))
    return [(statement, PlanLine("~", f"{definition_words.noun(held.kind)} {held.name}", details))]


def _alter_view(wanted: Wanted, held: Present, *, prune: bool, kept: list[str]) -> list[tuple[Statement, PlanLine]]:
    """What a view shows is replaced as a whole; a file that names no columns leaves those that it has."""
    was, then = held.definition, wanted.definition
    shows = {column.name for column in then.columns}
    is_other = then.over != was.over or (shows and shows != {column.name for column in was.columns})
    properties, unset = _properties(wanted, held, prune=prune, kept=kept)
    if not (is_other or properties or unset):
        return []
    statement = Statement(
        Verb.ALTER,
        held.kind,
        held.name,
        definition=Definition(columns=then.columns, over=then.over) if is_other else None,
        properties=properties,
        unset=unset,
        planned_on=held.committed_at,
    )
    details = (*(_shown_anew(was, then) if is_other else ()), *_of_properties(was, _set(was, properties, unset)))
    return [(statement, PlanLine("~", f"view {held.name}", details))]


def _shown_anew(was: Definition, then: Definition) -> Iterator[str]:
    """Columns by their names, for the file has no others."""
    if then.over != was.over:
        yield f"~ over {was.over} -> {then.over}{'' if then.columns else ', all columns'}"
    held, shows = ({column.name for column in each.columns} for each in (was, then))
    yield from (f"+ {column.name}" for column in then.columns if column.name not in held)
    yield from (f"- {column.name}" for column in was.columns if then.columns and column.name not in shows)


def _of_properties(was: Definition, properties: Mapping[str, str]) -> Iterator[str]:
    return definition_words.differences(was, msgspec.structs.replace(was, properties=properties))


def _renamed_and_retyped(held: Present, actions: Sequence[ColumnAction]) -> Iterator[str]:
    renamed = {each.new_name for each in actions if each.verb is ColumnVerb.RENAME}
    for each in actions:
        if each.verb is ColumnVerb.RETYPE and each.name in renamed:
            yield f"column {each.name} of {held.name} is renamed and gets another type, which takes two changes"


def _former_columns(wanted: Wanted, held: Present) -> Iterator[str]:
    """A column that is not there yet has to come from one that is, and that nothing else of the file is."""
    was = {column.name for column in held.definition.columns}
    taken = {column.name: column.name for column in wanted.definition.columns if column.name in was}
    for name, former in wanted.renamed_columns.items():
        if name in was:
            continue
        if former not in was:
            yield f"{held.name} has no column {name}, nor {former}, from which it was renamed"
        elif former in taken:
            yield f"column {former} of {held.name} would become {taken[former]} and {name}"
        taken.setdefault(former, name)


def _set(was: Definition, properties: Mapping[str, str], unset: Sequence[str]) -> dict[str, str]:
    return {**{name: text for name, text in was.properties.items() if name not in unset}, **properties}


def _former(wanted: Wanted, key: str) -> str:
    """The name that the file has for the column which has been `key`."""
    return next((name for name, former in wanted.renamed_columns.items() if former == key), key)


def _columns(
    wanted: Wanted, held: Present, *, prune: bool, kept: list[str]
) -> tuple[tuple[ColumnAction, ...], tuple[Column, ...]]:
    """What is to be done with the columns, and what they are then, as far as people are shown it."""
    actions: list[ColumnAction] = []
    after: list[Column] = []
    was = {column.name: column for column in held.definition.columns}
    used: set[str] = set()
    for column in wanted.definition.columns:
        former = wanted.renamed_columns.get(column.name, "")
        found = was.get(column.name) or was.get(former)
        if found is None:
            actions.append(ColumnAction(ColumnVerb.ADD, column.name, column.type))
            after.append(Column(column.name, column.type, -1 - len(after)))
            continue
        used.add(found.name)
        if found.name != column.name:
            actions.append(ColumnAction(ColumnVerb.RENAME, found.name, new_name=column.name))
        if found.type is not column.type:
            actions.append(ColumnAction(ColumnVerb.RETYPE, column.name, column.type))
        after.append(Column(column.name, column.type, found.number))
    for column in was.values():
        if column.name in used:
            continue
        if prune:
            actions.append(ColumnAction(ColumnVerb.DROP, column.name))
        else:
            kept.append(f"column {column.name} of {held.name}")
            after.append(column)
    return tuple(actions), tuple(after)


def _properties(
    wanted: Wanted, held: Present, *, prune: bool, kept: list[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    was, then = held.definition.properties, wanted.definition.properties
    beside = tuple(name for name in was if name not in then) if "properties" in wanted.says else ()
    if beside and not prune:
        kept += [f"property {name} of {held.name}" for name in beside]
    return {name: text for name, text in then.items() if was.get(name) != text}, beside if prune else ()
