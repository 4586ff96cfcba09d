"""A cluster to which something of everything has happened, for tests that look at each view of the console.

Five servers share two groups out; one of them died and its partitions moved; types were agreed on, one was refused and
one is pending; tables were made, replicas compared and repaired; somebody sent what nobody could read. At its end an
exchange waits for n3.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.projections.repairing import Rounds, definition, differing_tables, rows, union_definition
from tests.unit.projections.serving import served
from tests.unit.projections.sharing import Sharing
from tests.unit.streams.rules.exchanging import passed

from topolog.events.baseline import StateChangeFinished, cluster_state
from topolog.events.codec import CODEC
from topolog.events.evidence import Evidence
from topolog.events.exchange import open_exchange
from topolog.events.health import Figures, HealthHeard, LeaseHealth, Minute
from topolog.events.ids import Incarnation, NodeId, Offset, Position
from topolog.events.object_types import ObjectType
from topolog.events.repair_definition import SessionKind
from topolog.events.repair_tasks import TaskKind
from topolog.events.terms import changed_view
from topolog.events.topics import Topic
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
SHOP: Json = {"verb": "CREATE", "kind": "DATABASE", "name": "shop", "definition": {}}
ORDERS: Json = {
    "verb": "CREATE",
    "kind": "TABLE",
    "name": "shop.orders",
    "definition": {"columns": [{"name": "id", "type": "INT64"}, {"name": "price", "type": "INT32"}], "key": "id"},
}
PRICES: Json = {
    "verb": "CREATE",
    "kind": "VIEW",
    "name": "shop.prices",
    "definition": {"over": "shop.orders", "columns": ["price"]},
}
ADA: Json = {"verb": "CREATE", "kind": "GRANT", "name": "ada@shop.orders", "definition": {"privileges": ["READ"]}}
NOTE: Json = {
    "verb": "ALTER",
    "kind": "TABLE",
    "name": "shop.orders",
    "columns": [{"verb": "ADD", "name": "note", "type": "STRING"}],
}


class Told(msgspec.Struct, frozen=True):
    """Where to look: a session, and positions before and after the death of n2."""

    session: int
    repair: int
    quiet: int
    after_death: int


@contextmanager
def told(chronicle: Chronicle, projector: Projector) -> Iterator[tuple[httpx.Client, Told]]:
    """A client of the API over the whole story."""
    writer = AnsweringWriter(chronicle, projector)
    with served(projector, Requester(writer, "api-1", "broker:9092")) as client:
        client.follow_redirects = True
        yield client, _happened(chronicle, projector, writer, client)


def _happened(chronicle: Chronicle, projector: Projector, writer: AnsweringWriter, client: httpx.Client) -> Told:
    cluster = Sharing(chronicle)
    cluster.join("n1", "n2", "n3", "n4", rack="r1")
    _beat(chronicle, 3, "n1", "n2", "n3", "n4")
    projector.step()
    _activated(chronicle, client)
    _follow(cluster).create("orders", 64, 1, persistent=False)
    cluster.create("stock", 32, 1)
    cluster.rest()
    _agreed(chronicle)
    projector.step()
    _made(client, SHOP, ORDERS, PRICES, ADA)
    _follow(cluster)
    rounds = Rounds(chronicle)
    preview, repair = _compared(rounds)
    _beat(chronicle, 6, "n1", "n2", "n3", "n4")
    quiet = chronicle.position
    after_death = _died_and_came_back(_follow(cluster))
    chronicle.lead("c2")
    chronicle.propose("Invoice", {"number": "long", "total": "double"}, actor="bea", reason="billing")
    rounds.schedule("nightly", definition("stock"), 86_400_000)
    running = rounds.start(definition("orders"), reason="again")
    rounds.run_until(running, TaskKind.LEAVES)
    writer.accepts = False
    while projector.step():
        pass
    _made(client, NOTE)
    _unreadable(chronicle)
    _without_n6(_follow(cluster))
    _heard(chronicle)
    cluster.send_map("n1", "n2")
    while projector.step():
        pass
    return Told(preview, repair, quiet, after_death)


def _compared(rounds: Rounds) -> tuple[int, int]:
    """Sessions that have compared and repaired; their numbers."""
    differing_tables(rounds)
    preview = rounds.start(union_definition(segments=2), reason="after the outage")
    rounds.run(preview)
    _beat(rounds.chronicle, 1, "n1", "n2", "n3", "n4")
    for name in ("R3", "R4", "R5"):
        rounds.declare(name, rows(*range(1, 12)), table="stock", datacenter="ams")
    rounds.tables["stock"]["R5"].pop(4)
    rounds.run(rounds.start(definition("stock", segments=4), reason="weekly"))
    _beat(rounds.chronicle, 1, "n1", "n2", "n3", "n4")
    repair = rounds.start(union_definition(SessionKind.REPAIR, preview=Position(preview)), reason="as seen")
    rounds.run(repair)
    return preview, repair


def _died_and_came_back(cluster: Sharing) -> int:
    """n2 falls silent and is out, then comes back, with n5; the position between."""
    chronicle = cluster.chronicle
    _beat(chronicle, 6, "n1", "n3", "n4")
    _follow(cluster).leave("n2")
    cluster.settle_exchange()
    after_death = chronicle.position
    cluster.rest()
    _beat(chronicle, 3, "n1", "n3", "n4")
    _follow(cluster).join("n2", "n5", rack="r1")
    _exchanged(cluster, {"n2": 220, "n5": 940})
    cluster.rest()
    _beat(chronicle, 8, "n1", "n2", "n3", "n4", "n5")
    return after_death


def _without_n6(cluster: Sharing) -> None:
    """n6, n7 and n8 join, and n6 answers nothing: the exchange is completed without it, and the log names it."""
    chronicle = cluster.chronicle
    cluster.join("n6", "n7", "n8", rack="r2")
    _beat(chronicle, 2, "n1", "n2", "n4", "n5")
    _follow(cluster).settle_exchange()
    cluster.answer("n7", "n8")
    chronicle.now_ms += 50
    passed(cluster, "gather")
    cluster.settle_exchange()
    chronicle.now_ms += 12_000
    passed(cluster, "warn")
    cluster.settle_exchange()
    chronicle.now_ms += 2_000


def _activated(chronicle: Chronicle, client: httpx.Client) -> None:
    """An operator activates the cluster, which sets its first baseline."""
    body = {"kind": "cluster-state", "state": "ACTIVE", "reason": "the shop opens"}
    answer = client.post(f"{MAIN}/requests", json=body)
    assert answer.status_code == 200, answer.text
    state = chronicle.fold.state
    started = cluster_state(state).started_at
    assert started is not None
    chronicle.decide(StateChangeFinished(started, Evidence(applied=("n1",)), changed_view(state)))


def _follow(cluster: Sharing) -> Sharing:
    """It goes on behind what others wrote."""
    cluster.position = cluster.chronicle.position
    return cluster


def _beat(chronicle: Chronicle, times: int, *nodes: str) -> None:
    for _ in range(times):
        chronicle.now_ms += 4_000
        chronicle.renew(*nodes)


def _agreed(chronicle: Chronicle) -> None:
    """Types that are proposed and accepted, one that grows, one that contradicts what is there."""
    members = ("n1", "n2", "n3", "n4")
    for name, fields in (("Customer", {"id": "long", "name": "String"}), ("Order", {"id": "long", "at": "Date"})):
        chronicle.propose(name, fields, reason="the shop opens")
        chronicle.accept(name, *members)
    chronicle.propose("Customer", {"id": "long", "name": "String", "city": "String"}, actor="bob")
    chronicle.accept("Customer", *members[:3], presumed_fenced=("n4",))
    former = ObjectType("Order", {"id": "long", "at": "Date"})
    chronicle.reject("Order", former, ObjectType("Order", {"id": "String"}))


def _made(client: httpx.Client, *statements: Json) -> None:
    answer = client.post(f"{MAIN}/requests", json={"kind": "schema-change", "statements": statements})
    assert answer.status_code == 200, answer.text


def _exchanged(cluster: Sharing, waited_ms: dict[str, int]) -> None:
    """An exchange whose answers took so long."""
    cluster.settle_exchange()
    row = open_exchange(cluster.state)
    assert row is not None
    cluster.chronicle.now_ms += max(waited_ms.values())
    cluster.answer(*waited_ms)
    for node, each_ms in waited_ms.items():
        answer = cluster._answers[NodeId(node)]
        cluster._answers[NodeId(node)] = msgspec.structs.replace(answer, waited_ms=each_ms)
    cluster.settle_exchange()


def _unreadable(chronicle: Chronicle) -> None:
    said = {"topic": "requests", "partition": "0", "offset": "17", "message": "no record this version knows"}
    headers = [(f"__dlq.errors.{name}", text.encode()) for name, text in said.items()]
    chronicle.log.put(Topic.DEAD, "type Customer", b"\xc3\x01 a newer one", headers)


def _heard(chronicle: Chronicle) -> None:
    """What the worker that measures heartbeats says: n4 is late at times."""
    for node, late_ms in (("n1", 200), ("n2", 250), ("n4", 11_000), ("n5", 300)):
        figures = Figures(beats=9, gaps=8, gap_max_ms=1_000 + late_ms, lateness_ms=1_600, jitter_ms=800, starts=1)
        minutes = tuple(Minute(chronicle.now_ms // 60_000 * 60_000 - back * 60_000, figures) for back in (2, 1, 0))
        found = LeaseHealth(
            node=NodeId(node),
            incarnation=Incarnation(2 if node == "n2" else 1),
            log_id=LOG_ID,
            partition=0,
            offset=Offset(8),
            sequence=9,
            beat_ms=chronicle.now_ms,
            lateness_ms=200,
            fence_ms=20_000,
            heartbeat_ms=1_000,
            fenced=False,
            released=False,
            minutes=minutes,
            whole=figures,
        )
        chronicle.log.put(Topic.LEASE_HEALTH, node, CODEC.encode(found))
    heard = HealthHeard("pid-1", LOG_ID, 0, Offset(9), True, 0)
    chronicle.log.put(Topic.LEASE_HEALTH, "", CODEC.encode(heard))
