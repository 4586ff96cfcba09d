"""What a form could lose, given what stands now: that takes the right and the reason that dropping it would. Pure.

Threat: data goes by another verb than DROP. A column; all rows by a time to live of a millisecond; copies by fewer
backups or by a filter that admits nobody; lost partitions that begin empty under IGNORE; rows that a repair writes
over.

Invariant: a form that is not named here leaves every row and every copy that there is. Shorter, fewer and narrower are
so beside what stands; where nobody knows what stands, whatever could be so counts as so.
"""

from collections.abc import Iterator
from typing import Protocol, TypeVar

import msgspec

from topolog.events.claims import ClaimsRow
from topolog.events.group_definition import Affinity, GroupDefinition, LossPolicy, lost_by
from topolog.events.groups import GroupRow
from topolog.events.object_definition import FOREVER, ObjectKind, Statement, Step, Verb, is_shorter_ttl
from topolog.events.objects import ChangeRow, ObjectRow
from topolog.events.repair_definition import SessionKind
from topolog.events.sessions import SessionRow, session_key
from topolog.events.state import Row
from topolog.projections.api import forms, objects_forms, repair_forms

R = TypeVar("R", bound=Row)


class Stands(Protocol):
    """What is served now, as far as it is known."""

    def row(self, kind: type[R], key: str) -> R | None: ...

    def rows(self, kind: type[R]) -> Iterator[tuple[str, R]]: ...


class _Unknown:
    def row(self, kind: type[R], key: str) -> R | None:
        return None

    def rows(self, kind: type[R]) -> Iterator[tuple[str, R]]:
        return iter(())


UNKNOWN = _Unknown()
"""Nobody knows what stands."""


def of_group(form: forms.AlterGroup, stands: Stands) -> tuple[str, ...]:
    """The fields by which copies, or what they hold, can be lost."""
    row = stands.row(GroupRow, form.name)
    if row is not None:
        return lost_by(row.definition, _altered(row.definition, form))
    lost = {
        "backups": form.backups is not None,
        "node_filter": bool(form.node_filter),
        "exclude_neighbours_by": form.exclude_neighbours_by is not None,
        "backup_filter": form.backup_filter is not None,
        "loss_policy": form.loss_policy == LossPolicy.IGNORE.value,
    }
    return tuple(f"{field} of a group that is not known here" for field, is_lost in lost.items() if is_lost)


def of_statement(statement: objects_forms.StatementForm, stands: Stands) -> tuple[str, ...]:
    """What of an object is lost: all of it, columns, rows by their age."""
    return tuple(_of_statement(statement, stands))


def of_cancellation(change: int, stands: Stands) -> tuple[tuple[ObjectKind, str], ...] | None:
    """The grants, and the views that are to show something else, of a change that is under way: calling it off leaves
    the rights that it takes. None if nobody knows the change."""
    row = stands.row(ChangeRow, str(change))
    if row is None:
        return None
    parts: tuple[Statement | Step, ...] = (*row.statements, *row.steps) if row.is_open else ()
    return tuple((each.kind, each.name) for each in parts if _is_about_rights(each, stands))


def of_session(form: repair_forms.SessionForm) -> tuple[str, ...]:
    """A repair writes over what differs from the side, or from the newest of the column, that its asker has chosen."""
    return ("rows that the repair writes over",) if form.session != "PREVIEW" else ()


def _is_about_rights(part: Statement | Step, stands: Stands) -> bool:
    if part.kind is not ObjectKind.VIEW or part.verb is not Verb.ALTER or part.definition is None:
        return part.kind is ObjectKind.GRANT
    row = stands.row(ObjectRow, part.name)
    now = row.definition if row is not None and isinstance(part, Step) else None  # what is queued may find another one
    return now is None or (now.over, now.columns) != (part.definition.over, part.definition.columns)


def of_alteration(form: repair_forms.AlterSession, stands: Stands) -> tuple[str, ...]:
    """A repair that is let go on, or goes faster, writes over what it would as one that is begun."""
    goes_on = form.paused is False or form.intensity is not None or form.parallel is not None
    row = stands.row(SessionRow, session_key(form.session))
    if not goes_on or (row is not None and row.definition.kind is SessionKind.PREVIEW):
        return ()
    unknown = "" if row else ", if it is one: the session is not known here"
    return (f"rows that the repair writes over{unknown}",)


def _altered(now: GroupDefinition, form: forms.AlterGroup) -> GroupDefinition:
    given = {field: value for field in Affinity.__struct_fields__ if (value := getattr(form, field)) is not None}
    return msgspec.structs.replace(
        now,
        backups=now.backups if form.backups is None else form.backups,
        affinity=msgspec.structs.replace(now.affinity, **given),
        loss_policy=now.loss_policy if form.loss_policy is None else LossPolicy(form.loss_policy),
    )


def _of_statement(statement: objects_forms.StatementForm, stands: Stands) -> Iterator[str]:
    if statement.verb == "DROP" and statement.kind not in ("VIEW", "GRANT"):  # these hold no rows
        yield f"all of {statement.name}"
    for each in statement.columns:
        if each.verb not in ("ADD", "RENAME"):
            yield f"column {each.name}"
    if statement.ttl_ms is not None:
        now_ms = _ttl_ms(statement.name, stands)
        if is_shorter_ttl(statement.ttl_ms, now_ms):
            yield "ttl_ms" if now_ms is not None else "ttl_ms beside one that is not known here, or about to change"


def _ttl_ms(name: str, stands: Stands) -> int | None:
    """The time to live that the object has, and has still when a change comes to its turn; None if nobody knows."""
    row, claims = stands.row(ObjectRow, name), stands.row(ClaimsRow, name)
    if row is None or row.definition is None or row.change is not None or (claims is not None and claims.alone):
        return None
    return row.definition.ttl_ms or FOREVER
