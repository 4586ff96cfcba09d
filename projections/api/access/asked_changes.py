"""What a form of POST /requests changes, and the right that takes. Pure.

What takes data away, lets a node go, or alters the terms under which all live needs `administer`, and a reason: whoever
reads the log a year later must not find a dropped group without a word. A dry run changes nothing and needs `read`.
"""

from collections.abc import Iterator

import msgspec

from topolog.projections.api import baseline_forms, forms, objects_forms, repair_forms
from topolog.projections.api.access.grants import Asked, Right

_KINDS = {
    "DATABASE": "databases",
    "TABLE": "tables",
    "VIEW": "table-views",
    "GRANT": "grants",
}


class Change(msgspec.Struct, frozen=True):
    """A form as the audit names it: `what` is its kind, `asked` all that it needs."""

    what: str
    asked: tuple[Asked, ...]
    reason: str

    @property
    def is_protected(self) -> bool:
        return any(each.right is Right.ADMINISTER for each in self.asked)

    @property
    def subjects(self) -> str:
        return ", ".join(
            dict.fromkeys(f"{each.resource}/{each.name}" if each.name else each.resource for each in self.asked)
        )


def change(form: forms.Form, cluster: str, *, is_dry_run: bool) -> Change:
    """What the form needs, of which all must be granted."""
    asked = tuple(
        Asked(Right.READ if is_dry_run else right, cluster, resource, name)
        for right, resource, name in dict.fromkeys(_needs(form))
    )
    what = str(form.__struct_config__.tag)
    return Change(what, asked, getattr(form, "reason", ""))


_Need = tuple[Right, str, str | None]


def _needs(form: forms.Form) -> Iterator[_Need]:
    match form:
        case forms.Propose() | forms.Remove():
            yield _of_type_or_node(form)
        case forms.CreateGroup() | forms.AlterGroup():
            yield Right.CHANGE, "groups", form.name
        case forms.DropGroup() | forms.ResetGroup():
            yield Right.ADMINISTER, "groups", form.name
        case objects_forms.ChangeSchema():
            for statement in form.statements:
                yield from _of_statement(statement)
        case objects_forms.CancelChange():
            yield Right.CHANGE, "changes", str(form.change)
        case _ if isinstance(form, repair_forms.RepairForm):
            yield from _of_repair(form)
        case _:
            yield _of_cluster(form)


def _of_type_or_node(form: forms.Propose | forms.Remove) -> _Need:
    if isinstance(form, forms.Propose):
        name = form.definition.get("name")
        return Right.CHANGE, "types", name if isinstance(name, str) else None
    return (Right.CHANGE, "types", form.name) if form.resource == "type" else (Right.ADMINISTER, "nodes", form.name)


def _of_statement(statement: objects_forms.StatementForm) -> Iterator[_Need]:
    is_dear = statement.kind == "GRANT" or (statement.verb == "DROP" and statement.kind != "VIEW")
    right = Right.ADMINISTER if is_dear else Right.CHANGE
    yield right, _KINDS[statement.kind], statement.name
    if statement.new_name:
        yield right, _KINDS[statement.kind], statement.new_name


def _of_repair(form: repair_forms.RepairForm) -> Iterator[_Need]:
    match form:
        case repair_forms.StartSession() | repair_forms.WithdrawReplica():
            yield Right.CHANGE, "replicas", form.table
        case repair_forms.SetSchedule():
            yield Right.CHANGE, "schedules", form.name
            yield Right.CHANGE, "replicas", form.definition.table
        case repair_forms.DropSchedule():
            yield Right.CHANGE, "schedules", form.name
        case repair_forms.AlterSession() | repair_forms.AbortSessions():
            yield Right.CHANGE, "sessions", None if form.session is None else str(form.session)


def _of_cluster(form: forms.Form) -> _Need:
    match form:
        case forms.StartExchange():
            return Right.CHANGE, "exchanges", None
        case baseline_forms.Drain():
            return Right.CHANGE, "nodes", form.node
        case baseline_forms.ChangeBaseline():
            return (Right.ADMINISTER if form.accept_loss else Right.CHANGE), "baselines", None
        case baseline_forms.AdjustBaseline() | baseline_forms.Hold():
            return Right.CHANGE, "baselines", None
        case _:  # the state, the feature level, the terms of leases, and what nobody has thought of here
            return Right.ADMINISTER, "cluster", None
