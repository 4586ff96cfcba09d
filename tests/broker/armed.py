"""A coordinator, node or projector that dies where it is told to, for `test_failpoints.py`.

    armed ENTRY CLUSTER BOOTSTRAP coordinator INSTANCE
    armed ENTRY CLUSTER BOOTSTRAP prompt INSTANCE
    armed ENTRY CLUSTER BOOTSTRAP snapshots INSTANCE
    armed ENTRY CLUSTER BOOTSTRAP guarded INSTANCE GATHER_MS WARN_MS EVICT_MS
    armed ENTRY CLUSTER BOOTSTRAP projector FOLDER
    armed ENTRY CLUSTER BOOTSTRAP api FOLDER
    armed ENTRY CLUSTER BOOTSTRAP node NAME FOLDER FIELD
    armed ENTRY CLUSTER BOOTSTRAP asker NAME TABLE

ENTRY is one of TOPOLOG_FAILPOINT, empty for none. `prompt` is a coordinator that claims at once, for when
nobody else leads, `snapshots` one that takes a snapshot at once, `guarded` one that has a sentinel, and waits so long
for maps. An API says its URL in a line of JSON. A node proposes a type with the field, and leaves. An
asker, a client, asks for a table as soon as its coordinator has retired. Each is a fork of `nursery.py`.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tests.broker.conftest import eventually

from topolog.events import failpoints
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.leases import NodeKind
from topolog.events.object_definition import Column, ColumnType, Definition, ObjectKind, Statement, Verb
from topolog.events.object_requests import SchemaChangeRequested
from topolog.events.object_types import ObjectType
from topolog.projections.projector import Projector
from topolog.streams.clock import SystemClock
from topolog.streams.coordinator.certificate import run_beside_sentinel
from topolog.streams.coordinator.driver import Driver, LeaseTerms
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.local.stopping import stopping_when_told
from topolog.streams.node.client import Node
from topolog.streams.node.sentinel import Sentinel
from topolog.streams.rules.exchange import Patience

TERMS = LeaseTerms(fence_ms=2_000, margin_ms=500, heartbeat_ms=200)
PATIENCE_S = 30.0
PROMPT_MS = 300
NEVER = Cadence(positions=0)
AT_ONCE = Cadence(positions=1, piece_bytes=2_000)


def coordinate(
    kafka: dict[str, str], cluster: str, instance: str, cadence: Cadence = NEVER, takeover_ms: int | None = None
) -> None:
    with (
        stopping_when_told(os.environ) as stopping,
        contextlib.closing(KafkaReader(kafka, cluster)) as reader,
        contextlib.closing(KafkaWriter(kafka, cluster, linger_ms=2)) as writer,
    ):
        driver = Driver(
            reader, writer, SystemClock(), cluster, instance, terms=TERMS, takeover_ms=takeover_ms, cadence=cadence
        )
        driver.run(stopping.is_set)


def coordinate_guarded(kafka: dict[str, str], cluster: str, instance: str, *waits_ms: str) -> None:
    patience = Patience(**dict(zip(Patience.__struct_fields__, map(int, waits_ms), strict=True)))
    with (
        stopping_when_told(os.environ) as stopping,
        contextlib.closing(KafkaReader(kafka, cluster)) as reader,
        contextlib.closing(KafkaWriter(kafka, cluster, linger_ms=2)) as writer,
    ):
        driver = Driver(reader, writer, SystemClock(), cluster, instance, terms=TERMS, cadence=NEVER, patience=patience)
        run_beside_sentinel(driver, Sentinel(kafka, cluster), stopping.is_set)


def project(kafka: dict[str, str], cluster: str, folder: str) -> None:
    projector = Projector(KafkaReader(kafka, cluster), Path(folder), cluster)
    while projector.stopped is None:
        projector.step(0.1)
    sys.exit(projector.stopped)


def say(what: str, **facts: str) -> None:
    sys.stdout.write(json.dumps({"said": what} | facts) + "\n")
    sys.stdout.flush()


def answer(kafka: dict[str, str], cluster: str, folder: str) -> None:
    from topolog.projections.api.server import Source, serve

    address = kafka["bootstrap.servers"]
    reader, writer = KafkaReader(kafka, cluster), KafkaWriter(kafka, cluster)
    serve(
        [Source(cluster, reader, writer, Path(folder))],
        "127.0.0.1",
        0,
        address=address,
        on_ready=lambda url: say("ready", url=url),
    )


def live(kafka: dict[str, str], cluster: str, name: str, folder: str, field: str) -> None:
    known = ((ObjectType(f"Declared-{field}", {"id": "long"}), 0), (ObjectType(f"Known-{field}", {"id": "long"}), 0))
    with Node(cluster, name, kafka=kafka, folder=Path(folder), types=known, join_timeout_s=PATIENCE_S) as node:
        node.propose(ObjectType("Busy", {field: "long"}), timeout_s=PATIENCE_S)


def ask(kafka: dict[str, str], cluster: str, name: str, table: str) -> None:
    definition = Definition((Column("id", ColumnType.INT64),), "id")
    with Node(cluster, name, kafka=kafka, kind=NodeKind.CLIENT, join_timeout_s=PATIENCE_S) as node:
        core, requests = node._session.core, node._session.requests
        say("member")
        eventually(lambda: core.fold.header.closed, "the coordinator to retire")
        statement = Statement(Verb.CREATE, ObjectKind.TABLE, table, definition)
        requests.send(SchemaChangeRequested(requests.next_id(), core.log_id or b"", name, "", (statement,)))


def main(entry: str, cluster: str, bootstrap: str, role: str, *arguments: str) -> None:
    failpoints.arm({failpoints.VARIABLE: entry})
    roles: Mapping[str, Callable[..., None]]
    snapshots, prompt = partial(coordinate, cadence=AT_ONCE), partial(coordinate, takeover_ms=PROMPT_MS)
    roles = {
        "coordinator": coordinate,
        "prompt": prompt,
        "snapshots": snapshots,
        "guarded": coordinate_guarded,
        "projector": project,
        "api": answer,
        "node": live,
        "asker": ask,
    }
    roles[role]({"bootstrap.servers": bootstrap}, cluster, *arguments)
