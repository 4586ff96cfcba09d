"""Every field of every form, and the right that it takes: what can lose data takes that of dropping it.

The fields are those of the forms themselves, and of a field that is one of some words, all its words: who adds one has
to decide here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from topolog.events.asked import RequestId
from topolog.events.baseline import ClusterStateRow
from topolog.events.claims import ClaimsRow, UsersRow
from topolog.events.cluster_state import ClusterState
from topolog.events.group_definition import Affinity, LossPolicy
from topolog.events.groups import GroupRow
from topolog.events.ids import Position, Version
from topolog.events.object_definition import Column, ColumnType, Definition, ObjectKind, Statement, Step, Verb
from topolog.events.objects import ChangeRow, ChangeStatus, ObjectRow, ObjectStatus
from topolog.events.operations import is_operation
from topolog.events.repair_definition import SessionDefinition, SessionKind
from topolog.events.sessions import SessionRow, SessionStatus, session_key
from topolog.projections.api import forms
from topolog.projections.api.access.asked_changes import change
from topolog.projections.api.access.grants import Right
from topolog.projections.api.access.losses import UNKNOWN, Stands

Json = dict[str, Any]
CHANGE, ADMINISTER = Right.CHANGE, Right.ADMINISTER
DAY_MS = 86_400_000


class Rows:
    """What stands, by kind and key."""

    def __init__(self, rows: Mapping[tuple[type, str], Any]) -> None:
        self._rows = rows

    def row(self, kind: type, key: str) -> Any:
        return self._rows.get((kind, key))

    def rows(self, kind: type) -> Iterator[tuple[str, Any]]:
        return ((key, row) for (each, key), row in self._rows.items() if each is kind)


def group(policy: LossPolicy = LossPolicy.READ_WRITE_SAFE, affinity: Affinity | None = None) -> GroupRow:
    rules = affinity or Affinity("host", {"rack": "r1", "disk": "ssd"}, "zone")
    return GroupRow("g", 1, 64, 2, rules, policy, persistent=False, created_at=Position(3))


def table(ttl_ms: int, *, change: int | None = None) -> ObjectRow:
    definition = Definition((Column("id", ColumnType.INT64, 1),), "id", ttl_ms)
    status = ObjectStatus.USING if change is None else ObjectStatus.PRE_ALTER
    number = None if change is None else Position(change)
    row = ObjectRow(ObjectKind.TABLE, "shop.t", 1, status, Version(1), definition, Position(3))
    return msgspec.structs.replace(row, change=number)


def staged(number: int, status: ChangeStatus, verb: Verb, kind: ObjectKind, name: str, over: str = "") -> ChangeRow:
    """A change of one object, as it stands while it is queued and from then on."""
    definition = Definition(over=over) if over else None
    is_queued = status is ChangeStatus.QUEUED
    statements = (Statement(verb, kind, name, definition),) if is_queued else ()
    steps = () if is_queued else (Step(verb, kind, name, definition),)
    return ChangeRow(Position(number), f"op/{number}", status, statements, steps, None)


ENDED, PREPARED, QUEUED = ChangeStatus.ROLLED_BACK, ChangeStatus.PREPARED, ChangeStatus.QUEUED
CHANGES = (
    staged(20, PREPARED, Verb.DROP, ObjectKind.TABLE, "shop.t"),
    staged(21, QUEUED, Verb.ALTER, ObjectKind.TABLE, "shop.t"),
    staged(22, PREPARED, Verb.ALTER, ObjectKind.VIEW, "shop.v", over="shop.t"),
    staged(23, ENDED, Verb.DROP, ObjectKind.GRANT, "ada@shop.t"),
    staged(24, PREPARED, Verb.DROP, ObjectKind.VIEW, "shop.v"),
    staged(25, QUEUED, Verb.ALTER, ObjectKind.VIEW, "shop.v"),
    staged(30, PREPARED, Verb.DROP, ObjectKind.GRANT, "ada@shop.t"),
    staged(31, QUEUED, Verb.ALTER, ObjectKind.GRANT, "ada@shop.t"),
    staged(32, PREPARED, Verb.CREATE, ObjectKind.GRANT, "ada@shop.t"),
    staged(33, PREPARED, Verb.ALTER, ObjectKind.VIEW, "shop.v", over="shop.u"),
    staged(34, QUEUED, Verb.ALTER, ObjectKind.VIEW, "shop.v", over="shop.t"),
)


def compared(kind: SessionKind) -> SessionRow:
    return SessionRow(Position(3), SessionDefinition("shop.t", kind), SessionStatus.RUNNING)


STANDS: Stands = Rows(
    {
        **{(ChangeRow, str(each.number)): each for each in CHANGES},
        (ObjectRow, "shop.v"): ObjectRow(
            ObjectKind.VIEW, "shop.v", 2, ObjectStatus.USING, Version(1), Definition(over="shop.t"), Position(4)
        ),
        (GroupRow, "g"): group(),
        (GroupRow, "bare"): group(LossPolicy.IGNORE, Affinity()),
        (ObjectRow, "shop.t"): table(DAY_MS),
        (ObjectRow, "shop.all"): table(0),
        (ObjectRow, "shop.changing"): table(DAY_MS, change=9),
        (ObjectRow, "shop.waited"): table(DAY_MS),
        (ClaimsRow, "shop.waited"): ClaimsRow(alone=(Position(9),)),
        (UsersRow, "shop.seen"): UsersRow(("shop.other",)),
        (UsersRow, "shop.granted"): UsersRow(("ada@shop.granted",)),
        (SessionRow, session_key(3)): compared(SessionKind.PREVIEW),
        (SessionRow, session_key(4)): compared(SessionKind.REPAIR),
    }
)


def alter(name: str = "g", **said: Any) -> Json:
    return {"kind": "alter-group", "name": name, **said}


def schema(**statement: Any) -> Json:
    said = {"verb": "ALTER", "kind": "TABLE", "name": "shop.t", **statement}
    return {"kind": "schema-change", "statements": [said]}


def column(verb: str, **said: Any) -> Json:
    return schema(columns=[{"verb": verb, "name": "ssn", **said}])


def created(**definition: Any) -> Json:
    return schema(verb="CREATE", definition=definition)


def session(**said: Any) -> Json:
    return {"kind": "start-session", "table": "shop.t", **said}


def pace(session: int, **said: Any) -> Json:
    return {"kind": "alter-session", "session": session, **said}


def schedule(**said: Any) -> Json:
    return {"kind": "set-schedule", "name": "nightly", "every_ms": DAY_MS, "definition": {"table": "shop.t", **said}}


Case = tuple[Json, Right]


def always(right: Right, *bodies: Json) -> tuple[Case, ...]:
    return tuple((each, right) for each in bodies)


OF_SESSION: Mapping[str, Any] = {
    # A preview writes nothing, whatever else it says; a repair takes the right of `session` for all of it.
    "table": "shop.u",
    "policy": ("REPORT", "PULL", "UNION"),
    "source": "R1",
    "version_column": "changed_at",
    "tombstone_column": "gone",
    "grace_ms": 5,
    "reviewed_at_ms": 5,
    "deletes_extra": True,
    "replicas": ["R1"],
    "node": "R1",
    "initiator": "R1",
    "datacenter": "eu",
    "ranges": ["FULL"],
    "columns": ["a"],
    "ignored": ["a"],
    "strength": ("FAST", "STRONG", "PROOF"),
    "mode": ("HASHED", "ORDERED"),
    "bits": 3,
    "order": ("PARALLEL", "SEQUENTIAL", "DATACENTER_PARALLEL"),
    "rendezvous": ("EARLY", "ALL"),
    "segments": 2,
    "parallel": 2,
    "intensity": 50,
    "retries": 1,
    "halves": True,
    "recheck": False,
    "allow_partial": True,
    "queues": True,
    "preview": 47,
    "prepare_ms": 5,
    "stall_ms": 5,
    "deadline_ms": 5,
}


def of_session(prefix: str, asked: Any) -> Iterator[tuple[str, tuple[Case, ...]]]:
    for field, value in OF_SESSION.items():
        yield f"{prefix}{field}", always(CHANGE, *(asked(**{field: each}) for each in _each(value)))
    repairs = [asked(session="REPAIR", policy=policy) for policy in ("REPORT", "PULL", "UNION")]
    yield f"{prefix}session", (*always(CHANGE, asked(session="PREVIEW")), *always(ADMINISTER, *repairs))


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


TABLE: Mapping[str, tuple[Case, ...]] = {
    "propose.definition": always(CHANGE, {"kind": "propose", "definition": {"name": "T", "fields": {"a": "int"}}}),
    "propose.based_on": always(CHANGE, {"kind": "propose", "definition": {"name": "T"}, "based_on": 3}),
    "remove.resource": always(ADMINISTER, *({"kind": "remove", "resource": r, "name": "x"} for r in ("type", "node"))),
    "remove.name": always(ADMINISTER, {"kind": "remove", "resource": "type", "name": "x"}),
    "raise-level.level": always(ADMINISTER, {"kind": "raise-level", "level": 2}),
    # What is created is not there: nothing of it can be lost, whatever it says.
    **{
        f"create-group.{field}": always(CHANGE, *({"kind": "create-group", "name": "new", field: v} for v in values))
        for field, values in {
            "name": ("new", "g"),
            "partitions": (1,),
            "backups": (0,),
            "exclude_neighbours_by": ("", "host"),
            "node_filter": ({}, {"rack": "r9"}),
            "backup_filter": ("", "rack"),
            "loss_policy": ("IGNORE", "READ_WRITE_SAFE", "READ_ONLY_SAFE"),
            "persistent": (True, False),
        }.items()
    },
    "alter-group.name": always(CHANGE, alter(), alter("unknown")),
    "alter-group.partitions": always(CHANGE, alter(partitions=1)),  # never changes, and is refused
    "alter-group.persistent": always(CHANGE, alter(persistent=False)),  # so here
    "alter-group.backups": (
        *always(CHANGE, alter(backups=2), alter(backups=3)),
        *always(ADMINISTER, alter(backups=1), alter(backups=0), alter("unknown", backups=9)),
    ),
    "alter-group.exclude_neighbours_by": (
        *always(CHANGE, alter(exclude_neighbours_by="host"), alter("bare", exclude_neighbours_by="host")),
        *always(ADMINISTER, alter(exclude_neighbours_by=""), alter(exclude_neighbours_by="rack")),
        *always(ADMINISTER, alter("unknown", exclude_neighbours_by="host")),
    ),
    "alter-group.node_filter": (
        *always(CHANGE, alter(node_filter={}), alter(node_filter={"rack": "r1"})),
        *always(CHANGE, alter(node_filter={"rack": "r1", "disk": "ssd"}), alter("unknown", node_filter={})),
        *always(ADMINISTER, alter(node_filter={"rack": "r2", "disk": "ssd"}), alter(node_filter={"no": "body"})),
        *always(ADMINISTER, alter(node_filter={"rack": "r1", "disk": "ssd", "no": "body"})),
        *always(ADMINISTER, alter("bare", node_filter={"no": "body"}), alter("unknown", node_filter={"rack": "r1"})),
    ),
    "alter-group.backup_filter": (
        *always(CHANGE, alter(backup_filter="zone"), alter("bare", backup_filter="")),
        *always(ADMINISTER, alter(backup_filter=""), alter(backup_filter="rack"), alter("bare", backup_filter="rack")),
        *always(ADMINISTER, alter("unknown", backup_filter="")),
    ),
    "alter-group.loss_policy": (
        *always(CHANGE, alter(loss_policy="READ_WRITE_SAFE"), alter(loss_policy="READ_ONLY_SAFE")),
        *always(CHANGE, alter("bare", loss_policy="IGNORE"), alter("unknown", loss_policy="READ_ONLY_SAFE")),
        *always(ADMINISTER, alter(loss_policy="IGNORE"), alter("unknown", loss_policy="IGNORE")),
    ),
    "drop-group.name": always(ADMINISTER, {"kind": "drop-group", "name": "g"}),
    "reset-group.name": always(ADMINISTER, {"kind": "reset-group", "name": "g"}),
    "lease-terms.fence_ms": always(ADMINISTER, {"kind": "lease-terms", "fence_ms": 9}),
    "lease-terms.margin_ms": always(ADMINISTER, {"kind": "lease-terms", "margin_ms": 9}),
    "cluster-state.state": always(
        ADMINISTER, *({"kind": "cluster-state", "state": s} for s in ("ACTIVE", "ACTIVE_READ_ONLY", "INACTIVE"))
    ),
    "hold.on": always(CHANGE, {"kind": "hold", "on": True}, {"kind": "hold", "on": False}),
    # What would drop a last copy is refused by the rules (LAST_COPY) unless the loss is accepted.
    "baseline.verb": always(
        CHANGE, *({"kind": "baseline", "verb": v, "nodes": ["n"]} for v in ("SET", "ADD", "REMOVE"))
    ),
    "baseline.nodes": always(CHANGE, {"kind": "baseline", "verb": "SET", "nodes": ["n1"]}),
    "baseline.version": always(CHANGE, {"kind": "baseline", "verb": "SET", "version": "3.0"}),
    "baseline.accept_loss": (
        *always(CHANGE, {"kind": "baseline", "verb": "REMOVE", "nodes": ["n"], "accept_loss": False}),
        *always(ADMINISTER, {"kind": "baseline", "verb": "REMOVE", "nodes": ["n"], "accept_loss": True}),
    ),
    "auto-adjust.enabled": always(CHANGE, {"kind": "auto-adjust", "enabled": True}),
    "auto-adjust.soft_ms": always(CHANGE, {"kind": "auto-adjust", "soft_ms": 1}),
    "auto-adjust.hard_ms": always(CHANGE, {"kind": "auto-adjust", "hard_ms": 1}),
    "drain.node": always(CHANGE, {"kind": "drain", "node": "n1"}),  # counts until others have its copies
    "drain.cancel": always(CHANGE, {"kind": "drain", "node": "n1", "cancel": True}),
    "schema-change.deadline_ms": always(CHANGE, {**schema(properties={"a": "b"}), "deadline_ms": 5}),
    "schema-change.statements": always(CHANGE, schema(properties={"a": "b"})),
    "schema-change.statements.verb": (
        *always(CHANGE, created(), schema(properties={"a": "b"}), schema(verb="RENAME", new_name="shop.u")),
        *always(ADMINISTER, schema(verb="DROP")),
    ),
    "schema-change.statements.kind": (
        *always(CHANGE, *(schema(kind=kind, verb="CREATE", definition={}) for kind in ("DATABASE", "TABLE", "VIEW"))),
        *always(CHANGE, schema(kind="VIEW", verb="DROP"), schema(kind="VIEW", verb="DROP", name="shop.seen")),
        *always(ADMINISTER, schema(kind="VIEW", verb="DROP", name="shop.granted")),  # its grants go with it
        *always(ADMINISTER, *(schema(kind=kind, verb="DROP") for kind in ("DATABASE", "TABLE", "GRANT"))),
        *always(ADMINISTER, schema(kind="GRANT", verb="CREATE", definition={"privileges": ["READ"]})),
    ),
    "schema-change.statements.name": always(CHANGE, schema(), schema(name="shop.unknown")),
    "schema-change.statements.new_name": always(CHANGE, schema(verb="RENAME", new_name="shop.u")),
    "schema-change.statements.if_needed": (
        *always(CHANGE, schema(verb="CREATE", definition={}, if_needed=True)),
        *always(ADMINISTER, schema(verb="DROP", if_needed=True)),
    ),
    "schema-change.statements.planned_on": always(CHANGE, schema(properties={"a": "b"}, planned_on=3)),
    "schema-change.statements.properties": always(CHANGE, schema(properties={"a": "b"})),
    "schema-change.statements.unset": always(CHANGE, schema(unset=["a"])),
    "schema-change.statements.privileges": always(ADMINISTER, schema(kind="GRANT", privileges=["READ", "WRITE"])),
    "schema-change.statements.ttl_ms": (
        *always(CHANGE, schema(ttl_ms=DAY_MS), schema(ttl_ms=DAY_MS + 1), schema(ttl_ms=0)),
        *always(CHANGE, schema(name="shop.all", ttl_ms=0), schema(name="shop.unknown", ttl_ms=0)),
        *always(ADMINISTER, schema(ttl_ms=1), schema(name="shop.all", ttl_ms=DAY_MS)),
        *always(ADMINISTER, schema(name="shop.unknown", ttl_ms=2 * DAY_MS)),
        *always(ADMINISTER, schema(name="shop.changing", ttl_ms=2 * DAY_MS)),
        *always(ADMINISTER, schema(name="shop.waited", ttl_ms=2 * DAY_MS)),
    ),
    # A definition says what is created; what a view shows from then on is shown to whoever has rights on it.
    "schema-change.statements.definition": (
        *always(CHANGE, created()),
        *always(ADMINISTER, schema(kind="VIEW", definition={"over": "shop.t"})),
    ),
    "schema-change.statements.definition.columns": always(CHANGE, created(columns=[{"name": "a", "type": "INT32"}])),
    "schema-change.statements.definition.columns.name": always(
        CHANGE, created(columns=[{"name": "a", "type": "INT32"}])
    ),
    "schema-change.statements.definition.columns.type": always(
        CHANGE,
        *(created(columns=[{"name": "a", "type": each.value}]) for each in ColumnType if each.value != "UNKNOWN"),
    ),
    "schema-change.statements.definition.key": always(CHANGE, created(key="id")),
    "schema-change.statements.definition.ttl_ms": always(CHANGE, created(ttl_ms=1)),
    "schema-change.statements.definition.properties": always(CHANGE, created(properties={"a": "b"})),
    "schema-change.statements.definition.over": (
        *always(CHANGE, schema(kind="VIEW", verb="CREATE", definition={"over": "shop.t"})),
        *always(ADMINISTER, schema(kind="VIEW", definition={"over": "shop.t"})),
    ),
    "schema-change.statements.definition.privileges": always(
        ADMINISTER, schema(kind="GRANT", verb="CREATE", definition={"privileges": ["READ", "WRITE"]})
    ),
    "schema-change.statements.columns": always(CHANGE, column("ADD", type="INT32")),
    "schema-change.statements.columns.verb": (
        *always(CHANGE, column("ADD", type="INT32"), column("RENAME", new_name="b")),
        *always(ADMINISTER, column("DROP"), column("RETYPE", type="INT64")),
    ),
    "schema-change.statements.columns.name": always(CHANGE, column("ADD", type="INT32")),
    "schema-change.statements.columns.type": always(
        CHANGE, *(column("ADD", type=each.value) for each in ColumnType if each.value != "UNKNOWN")
    ),
    "schema-change.statements.columns.new_name": always(CHANGE, column("RENAME", new_name="b")),
    # Who calls off what takes a right away leaves the right; of what is over it is refused whoever asks.
    "cancel-change.change": (
        *always(CHANGE, *({"kind": "cancel-change", "change": n} for n in (20, 21, 22, 23, 24, 25))),
        *always(ADMINISTER, *({"kind": "cancel-change", "change": n} for n in (30, 31, 32, 33, 34))),
        *always(ADMINISTER, {"kind": "cancel-change", "change": 9}),
    ),
    **dict(of_session("start-session.", session)),
    # A preview writes nothing; what lets a repair go on takes what beginning it does, and stopping it nothing more.
    "alter-session.session": always(CHANGE, pace(3), pace(4), pace(9)),
    "alter-session.paused": (
        *always(CHANGE, pace(3, paused=False), pace(3, paused=True), pace(4, paused=True), pace(9, paused=True)),
        *always(ADMINISTER, pace(4, paused=False), pace(9, paused=False), pace(4, paused=True, parallel=5)),
    ),
    "alter-session.intensity": (
        *always(CHANGE, pace(3, intensity=5)),
        *always(ADMINISTER, pace(4, intensity=5), pace(9, intensity=5)),
    ),
    "alter-session.parallel": (
        *always(CHANGE, pace(3, parallel=5)),
        *always(ADMINISTER, pace(4, parallel=5), pace(9, parallel=5)),
    ),
    "abort-sessions.session": always(CHANGE, *({"kind": "abort-sessions", "session": each} for each in (3, None))),
    "set-schedule.name": always(CHANGE, schedule()),
    "set-schedule.every_ms": always(CHANGE, schedule()),
    "set-schedule.paused": (
        *always(CHANGE, {**schedule(), "paused": True}),
        *always(ADMINISTER, {**schedule(session="REPAIR", policy="PULL"), "paused": True}),
    ),
    "set-schedule.definition": always(CHANGE, schedule()),
    **dict(of_session("set-schedule.definition.", schedule)),
    "drop-schedule.name": always(CHANGE, {"kind": "drop-schedule", "name": "nightly"}),
    "withdraw-replica.table": always(CHANGE, {"kind": "withdraw-replica", "table": "shop.t", "name": "R1"}),
    "withdraw-replica.name": always(CHANGE, {"kind": "withdraw-replica", "table": "shop.t", "name": "R1"}),
}

WITHOUT_FIELDS = {"exchange": CHANGE, "warm": ADMINISTER}
"""What a form takes that says nothing but why."""


def fields(of: msgspec.inspect.Type, path: str) -> Iterator[tuple[str, msgspec.inspect.Type]]:
    """Every field of a form, and of what stands in it, by its path."""
    match of:
        case msgspec.inspect.StructType():
            for field in of.fields:
                if field.name != "reason":
                    yield f"{path}.{field.name}", field.type
                    yield from fields(field.type, f"{path}.{field.name}")
        case msgspec.inspect.VarTupleType():
            yield from fields(of.item_type, path)
        case msgspec.inspect.UnionType():
            for each in of.types:
                yield from fields(each, path)


def words(of: msgspec.inspect.Type) -> set[Any]:
    """All that a field can say, of one that is one of some words."""
    match of:
        case msgspec.inspect.LiteralType():
            return set(of.values)
        case msgspec.inspect.VarTupleType():
            return words(of.item_type)
        case msgspec.inspect.UnionType():
            return {word for each in of.types for word in words(each)}
    return set()


def found_in(body: Any, path: list[str]) -> Iterator[Any]:
    """What a body says in this field."""
    for each in body if isinstance(body, list) else [body]:
        if not path:
            yield each
        elif isinstance(each, dict) and path[0] in each:
            yield from found_in(each[path[0]], path[1:])


DERIVED = {
    path: of
    for form in forms.FORMS
    for path, of in fields(msgspec.inspect.type_info(form), str(form.__struct_config__.tag))
}


def rights(body: Json, stands: Stands = STANDS) -> set[Right]:
    form = forms.read_form(msgspec.json.encode({"reason": "it has to be", **body}))
    return {each.right for each in change(form, "main", stands, is_dry_run=False).asked}


def test_every_field_of_every_form_is_decided() -> None:
    """A field that nobody has looked at here could lose data by the right of those who may not."""
    assert set(TABLE) == set(DERIVED)
    assert set(WITHOUT_FIELDS) == {str(form.__struct_config__.tag) for form in forms.FORMS} - {
        path.partition(".")[0] for path in DERIVED
    }


@pytest.mark.parametrize("path", sorted(TABLE))
def test_a_field_takes_the_right_of_what_it_can_lose(path: str) -> None:
    kind, *inner = path.split(".")
    said = [each for body, _ in TABLE[path] for each in found_in(body, inner)]
    assert all(body["kind"] == kind for body, _ in TABLE[path])
    assert said, "a case has to say something in the field that it is about"
    assert words(DERIVED[path]) <= {word for each in said for word in _each_of(each)}, "each word is to be decided"
    for body, right in TABLE[path]:
        assert rights(body) == {right}, body


def test_what_takes_the_right_to_administer_is_taken_from_operations_alone() -> None:
    """A member that writes `requests` must not get what the API would deny to an operator without that right."""
    bodies = [body for path in TABLE for body, right in TABLE[path] if right is ADMINISTER]
    bodies += [{"kind": kind} for kind, right in WITHOUT_FIELDS.items() if right is ADMINISTER]
    taken = []
    for body in bodies:
        request = forms.to_request(forms.read_form(msgspec.json.encode(body)), RequestId("t", 1), bytes(16), "ann")
        if not is_operation(request):
            taken.append(body)
    assert taken == []


def _each_of(said: Any) -> list[Any]:
    return said if isinstance(said, list) else [said] if not isinstance(said, dict) else []


@pytest.mark.parametrize(("kind", "right"), WITHOUT_FIELDS.items())
def test_a_form_without_fields_takes_what_it_does(kind: str, right: Right) -> None:
    assert rights({"kind": kind}) == {right}


def test_where_nobody_knows_what_stands_all_that_could_lose_counts_as_losing() -> None:
    """A reader that has stopped, or whose store cannot be read: what it shows may be long past."""
    cases = [(body, path) for path in TABLE for body, right in TABLE[path] if right is ADMINISTER]
    assert [body for body, _ in cases if rights(body, UNKNOWN) != {ADMINISTER}] == []
    ungranted = schema(kind="VIEW", verb="DROP", name="shop.seen")
    for harmless in (alter(backups=3), alter(backup_filter="zone"), schema(ttl_ms=2 * DAY_MS), ungranted):
        assert (rights(harmless), rights(harmless, UNKNOWN)) == ({CHANGE}, {ADMINISTER})


@pytest.mark.parametrize(
    ("state", "target", "right"),
    [
        (ClusterState.ACTIVE, None, CHANGE),
        (ClusterState.ACTIVE, ClusterState.INACTIVE, ADMINISTER),
        (ClusterState.ACTIVE, ClusterState.ACTIVE_READ_ONLY, ADMINISTER),
        (ClusterState.INACTIVE, None, ADMINISTER),
        (ClusterState.INACTIVE, ClusterState.ACTIVE, ADMINISTER),
        (ClusterState.ACTIVE_READ_ONLY, None, ADMINISTER),
    ],
)
def test_to_let_a_stopped_cluster_go_takes_the_right_to_start_it(
    state: ClusterState, target: ClusterState | None, right: Right
) -> None:
    """OP11: with hold ended a cluster that an admin had stopped served again by itself."""
    stands = Rows({(ClusterStateRow, ""): ClusterStateRow(state, Position(3), target)})
    let_go, held = ({"kind": "hold", "on": on} for on in (False, True))
    assert (rights(let_go, stands), rights(held, stands)) == ({right}, {CHANGE})
    assert (rights(let_go, UNKNOWN), rights(held, UNKNOWN)) == ({ADMINISTER}, {CHANGE})


def test_a_dry_run_of_a_loss_takes_the_right_to_read() -> None:
    form = forms.read_form(msgspec.json.encode(alter(backups=0)))
    assert {each.right for each in change(form, "main", STANDS, is_dry_run=True).asked} == {Right.READ}


def test_one_loss_among_many_statements_takes_the_right_over_its_object() -> None:
    body = {
        "kind": "schema-change",
        "statements": [
            *schema(properties={"a": "b"})["statements"],
            *schema(name="shop.all", columns=[{"verb": "DROP", "name": "ssn"}])["statements"],
        ],
    }
    asked = change(forms.read_form(msgspec.json.encode(body)), "main", STANDS, is_dry_run=False)
    assert {(each.right, each.name) for each in asked.asked} == {(CHANGE, "shop.t"), (ADMINISTER, "shop.all")}
    assert asked.lost == ("column ssn",)


@pytest.mark.parametrize(
    "statement",
    [schema(kind="VIEW", definition={"over": "shop.t"}), schema(kind="GRANT", privileges=["READ", "WRITE"])],
    ids=["view", "grant"],
)
def test_what_shows_more_to_others_is_not_said_to_lose_data(statement: Json) -> None:
    """It takes the right to administer all the same: what was seen cannot be taken back."""
    asked = change(forms.read_form(msgspec.json.encode(statement)), "main", STANDS, is_dry_run=False)
    assert ({each.right for each in asked.asked}, asked.lost) == ({ADMINISTER}, ())


@pytest.mark.parametrize(
    ("verb", "right"), [("CREATE", CHANGE), ("ALTER", ADMINISTER)], ids=["what is created", "what is altered"]
)
def test_a_view_takes_the_right_over_its_table_too(verb: str, right: Right) -> None:
    """Whoever may change one view must not show by it a table that is not theirs."""
    form = forms.read_form(msgspec.json.encode(schema(kind="VIEW", name="v", verb=verb, definition={"over": "shop.t"})))
    asked = change(form, "main", STANDS, is_dry_run=False).asked
    assert {(each.right, each.resource, each.name) for each in asked} == {
        (right, "table-views", "v"),
        (right, "tables", "shop.t"),
    }
