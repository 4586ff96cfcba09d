"""Examples of objects and changes, as /openapi.json shows them."""

from topolog.projections.object_resources import ChangeStep, ObjectColumn, ObjectDefinition, SchemaChange, SchemaObject

_COLUMNS = (ObjectColumn("id", "INT64", 1), ObjectColumn("price", "INT32", 2))

ORDERS = SchemaObject(
    name="shop.orders",
    kind="TABLE",
    state="PRE_ALTER",
    incarnation=2,
    version=1,
    definition=ObjectDefinition(columns=_COLUMNS, key="id", ttl_ms=2_592_000_000, properties={"team": "sales"}),
    committed_at=44,
    pending=ObjectDefinition(
        columns=(*_COLUMNS, ObjectColumn("note", "STRING", 3)),
        key="id",
        ttl_ms=2_592_000_000,
        properties={"team": "sales"},
    ),
    pending_version=2,
    change=47,
    queue=(51,),
    actions=("wait change/47", "cancel change/47", "alter", "rename", "drop"),
)
CHANGE = SchemaChange(
    number=47,
    state="PREPARED",
    does="alter table shop.orders",
    steps=(ChangeStep("ALTER", "TABLE", "shop.orders", "", ("+ note STRING",)),),
    request="api-1/7",
    actor="ann",
    reason="customers write notes",
    time="2026-11-21T02:00:00.000Z",
    age_ms=14_000,
    prepared_at=47,
    closed_at=None,
    closed_time=None,
    deadline_ms=60_000,
    behind=(),
    asked=("n1", "n2", "n3"),
    silent=("n3",),
    at_most_ms=11_000,
    in_force_by=None,
    evidence=None,
    undeleted=(),
    code="",
    rule="",
    message="",
    facts={},
)
