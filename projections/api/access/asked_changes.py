"""What a form of POST /requests changes, and the right that takes. Pure.

What can take data away (`losses.py`), shows more of it to others, lets a node go, or alters the terms under which all
live needs `administer`, and a reason: whoever reads the log a year later must not find a dropped group without a word.
A dry run changes nothing and needs `read`.
"""

from collections.abc import Iterator

import msgspec

from topolog.events.asked import Request
from topolog.events.baseline import ClusterStateRow
from topolog.events.baseline_requests import HoldRequested
from topolog.events.claims import UsersRow
from topolog.events.errors import NotFound
from topolog.events.groups import GroupAlterationRequested, GroupRow
from topolog.events.object_definition import ObjectKind
from topolog.events.object_requests import SchemaChangeRequested
from topolog.events.objects import ChangeRow
from topolog.projections.api import baseline_forms, forms, objects_forms, repair_forms
from topolog.projections.api.access import losses
from topolog.projections.api.access.grants import Asked, Right
from topolog.projections.api.access.losses import UNKNOWN, Stands
from topolog.projections.api.access.principals import Principal
from topolog.projections.queries import not_found

_KINDS = {
    "DATABASE": "databases",
    "TABLE": "tables",
    "VIEW": "table-views",
    "GRANT": "grants",
}


class Change(msgspec.Struct, frozen=True):
    """A form as the audit names it: `what` is its kind, `asked` all that it needs, `lost` what it could lose.

    `absent`: that what it would change is known not to be there.
    """

    what: str
    asked: tuple[Asked, ...]
    reason: str
    lost: tuple[str, ...] = ()
    absent: NotFound | None = None

    @property
    def is_protected(self) -> bool:
        return any(each.right is Right.ADMINISTER for each in self.asked)

    @property
    def subjects(self) -> str:
        return ", ".join(
            dict.fromkeys(f"{each.resource}/{each.name}" if each.name else each.resource for each in self.asked)
        )


def change(form: forms.Form, cluster: str, stands: Stands, *, is_dry_run: bool) -> Change:
    """What the form needs, of which all must be granted; `stands`: what it would change."""
    needs = list(dict.fromkeys(_needs(form, stands)))
    asked = (Asked(Right.READ if is_dry_run else need.right, cluster, need.resource, need.name) for need in needs)
    what = str(form.__struct_config__.tag)
    lost = dict.fromkeys(each for need in needs for each in need.lost)
    return Change(what, tuple(dict.fromkeys(asked)), getattr(form, "reason", ""), tuple(lost), _absent(form, stands))


def restrained(asked: Request, form: forms.Form, principal: Principal, cluster: str) -> Request:
    """The request as it is sent for this caller. Of who may not administer what it is about, the rules refuse it where
    it does harm by then: what stood when the door judged the form may be another thing once the request is decided.

    What is not restrained here rests on nothing that changes. The same form of the same caller gives the same bytes.
    """

    def is_restrained(needs: Iterator[_Need]) -> bool:
        return not all(principal.may(Asked(Right.ADMINISTER, cluster, each.resource, each.name)) for each in needs)

    match asked, form:
        case SchemaChangeRequested(), objects_forms.ChangeSchema():
            statements = tuple(
                msgspec.structs.replace(each, harmless=is_restrained(_of_statement(said, UNKNOWN)))
                for each, said in zip(asked.statements, form.statements, strict=True)
            )
            return msgspec.structs.replace(asked, statements=statements)
        case GroupAlterationRequested() | HoldRequested(), _:
            return msgspec.structs.replace(asked, harmless=is_restrained(_needs(form, UNKNOWN)) or None)
    return asked


def _absent(form: forms.Form, stands: Stands) -> NotFound | None:
    if stands is UNKNOWN:
        return None
    if isinstance(form, forms.AlterGroup) and stands.row(GroupRow, form.name) is None:
        return not_found(form.name, (name for name, _ in stands.rows(GroupRow)), "group")
    if isinstance(form, objects_forms.CancelChange) and stands.row(ChangeRow, str(form.change)) is None:
        return NotFound(f"There is no change {form.change}, or it is long over.", hint="See `topolog get changes`.")
    return None


class _Need(msgspec.Struct, frozen=True):
    right: Right
    resource: str
    name: str | None
    lost: tuple[str, ...] = ()


def _losing(resource: str, name: str, lost: tuple[str, ...]) -> _Need:
    return _Need(Right.ADMINISTER if lost else Right.CHANGE, resource, name, lost)


def _needs(form: forms.Form, stands: Stands) -> Iterator[_Need]:
    match form:
        case forms.Propose() | forms.Remove():
            yield _of_type_or_node(form)
        case forms.CreateGroup():
            yield _Need(Right.CHANGE, "groups", form.name)
        case forms.AlterGroup():
            yield _losing("groups", form.name, losses.of_group(form, stands))
        case forms.DropGroup() | forms.ResetGroup():
            yield _Need(Right.ADMINISTER, "groups", form.name)
        case objects_forms.ChangeSchema():
            for statement in form.statements:
                yield from _of_statement(statement, stands)
        case objects_forms.CancelChange():
            yield from _of_cancellation(form.change, losses.of_cancellation(form.change, stands))
        case _ if isinstance(form, repair_forms.RepairForm):
            yield from _of_repair(form, stands)
        case _:
            yield _of_cluster(form, stands)


def _of_type_or_node(form: forms.Propose | forms.Remove) -> _Need:
    """A proposal only adds; what is removed of a type, nothing that is stored can be read by any more."""
    if isinstance(form, forms.Propose):
        name = form.definition.get("name")
        return _Need(Right.CHANGE, "types", name if isinstance(name, str) else None)
    return _Need(Right.ADMINISTER, "types" if form.resource == "type" else "nodes", form.name)


def _of_statement(statement: objects_forms.StatementForm, stands: Stands) -> Iterator[_Need]:
    lost = losses.of_statement(statement, stands)
    is_protected = lost or _shows_more(statement) or _may_end_grants(statement, stands)
    right = Right.ADMINISTER if is_protected else Right.CHANGE
    yield _Need(right, _KINDS[statement.kind], statement.name, lost)
    if statement.new_name:
        yield _Need(right, _KINDS[statement.kind], statement.new_name, lost)
    if statement.kind == "VIEW" and statement.definition is not None and statement.definition.over:
        yield _Need(right, _KINDS["TABLE"], statement.definition.over, lost)


def _shows_more(statement: objects_forms.StatementForm) -> bool:
    """Whether others may see more by it: by a grant, or by another definition of a view on which they have rights."""
    is_redefined = statement.verb == "ALTER" and statement.definition is not None
    return statement.kind == "GRANT" or (statement.kind == "VIEW" and is_redefined)


def _may_end_grants(statement: objects_forms.StatementForm, stands: Stands) -> bool:
    """Whether grants go with the view that is dropped; to drop one by itself takes the right to administer."""
    if statement.verb != "DROP" or statement.kind != "VIEW":
        return False
    row = stands.row(UsersRow, statement.name)
    return stands is UNKNOWN if row is None else any("@" in each for each in row.names)


def _of_repair(form: repair_forms.RepairForm, stands: Stands) -> Iterator[_Need]:
    match form:
        case repair_forms.StartSession():
            yield _losing("replicas", form.table, losses.of_session(form))
        case repair_forms.WithdrawReplica():
            yield _Need(Right.CHANGE, "replicas", form.table)
        case repair_forms.SetSchedule():
            lost = losses.of_session(form.definition)
            yield _losing("schedules", form.name, lost)
            yield _losing("replicas", form.definition.table, lost)
        case repair_forms.DropSchedule():
            yield _Need(Right.CHANGE, "schedules", form.name)
        case repair_forms.AlterSession():
            yield _losing("sessions", str(form.session), losses.of_alteration(form, stands))
        case repair_forms.AbortSessions():
            yield _Need(Right.CHANGE, "sessions", None if form.session is None else str(form.session))


def _of_cancellation(change: int, rights: tuple[tuple[ObjectKind, str], ...] | None) -> Iterator[_Need]:
    """Who may not take a right away may not call off that it is."""
    right = Right.CHANGE if rights == () else Right.ADMINISTER
    yield _Need(right, "changes", str(change))
    for kind, name in rights or ():
        yield _Need(right, _KINDS[kind.value], name)


def _of_cluster(form: forms.Form, stands: Stands) -> _Need:
    match form:
        case forms.StartExchange():
            return _Need(Right.CHANGE, "exchanges", None)
        case baseline_forms.Drain():
            return _Need(Right.CHANGE, "nodes", form.node)
        case baseline_forms.ChangeBaseline():  # without `accept_loss` the rules refuse what drops a last copy
            return _Need(Right.ADMINISTER if form.accept_loss else Right.CHANGE, "baselines", None)
        case baseline_forms.Hold():
            right = Right.ADMINISTER if not form.on and _may_be_stopped(stands) else Right.CHANGE
            return _Need(right, "baselines", None)
        case baseline_forms.AdjustBaseline():
            return _Need(Right.CHANGE, "baselines", None)
        case _:  # the state, the feature level, the terms of leases, and what nobody has thought of here
            return _Need(Right.ADMINISTER, "cluster", None)


def _may_be_stopped(stands: Stands) -> bool:
    """Whether the cluster is not active, or not to stay so; without a row it is. Let go, it may serve by itself."""
    row = stands.row(ClusterStateRow, "")
    return stands is UNKNOWN if row is None else not row.is_active
