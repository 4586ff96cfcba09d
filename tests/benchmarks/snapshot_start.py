"""How long a node reads until it stands at the end of the log, with a snapshot and without one (K10).

    python tests/benchmarks/snapshot_start.py [--positions 100000 1000000] [--types 2000] [--tail 2000]

The log is made by a real core, without a broker's answers, and put on a real broker; so is its snapshot. Measured is
the loop of a node that does not join: from its start to the end of the log. The log is that of a cluster at work: half
of its decisions are proposals and acceptances of types, half are renewals of leases.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.told import Value, add_json, tell

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events.asked import Request, RequestId
from topolog.events.codec import CODEC
from topolog.events.errors import TopologError
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Offset, Position
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.leases import FENCING, NodeKind
from topolog.events.levels import FIRST_LEVEL
from topolog.events.log import Entry
from topolog.events.stamp import HEADER_NAME
from topolog.events.terms import LogStarted
from topolog.events.topics import PLANS, Topic
from topolog.streams.clock import SystemClock
from topolog.streams.coordinator.core import Core, Outgoing
from topolog.streams.coordinator.snapshots import Cadence, Snapshots
from topolog.streams.local.broker import LocalBroker
from topolog.streams.node.session import Session

LOG_ID = bytes(range(16))
NODE = m.Joiner("n1", 1, NodeKind.SERVER, "", {}, (FENCING,))
IN_FLIGHT_MAX = 20_000


class Work:
    """A leading core whose records go to the broker and are read back at once, as if the broker had answered."""

    def __init__(self, writer: KafkaWriter, cluster: str, types: int) -> None:
        self._writer = writer
        self._cluster = cluster
        self._types = types
        self._core = Core("c1", 1)
        self._offset = 0
        self._in_flight = 0
        self._asked = 0
        self._beats = 0
        self._snapshots: Snapshots | None = None
        self._core.found(LogStarted(LOG_ID, cluster, 20_000, 5_000, 1_000, FIRST_LEVEL))
        self._land()
        self._core.claim()
        self._land()
        self._ask(m.JoinRequested(self._next_id(), LOG_ID, "n1", "", NODE))

    @property
    def position(self) -> int:
        return self._core.confirmed.position

    def step(self) -> None:
        """Propose a version of some type, and let it be accepted by the heartbeat that follows."""
        number = self._asked
        definition = md.ObjectType(f"T{number % self._types}", {"id": "long", f"f{number // self._types}": "long"})
        self._ask(md.UpdateRequested(self._next_id(), LOG_ID, "bench", "", definition, 0))
        self._beat()
        self._core.renew()
        self._land()

    def take_snapshot(self) -> None:
        snapshots = Snapshots(self._core, self._writer, SystemClock(), self._cluster, Cadence(positions=1))
        self._snapshots = snapshots
        self.step()
        while not snapshots.count:
            snapshots.step()
            self._writer.flush(0.01)
        self._land()

    def _next_id(self) -> RequestId:
        self._asked += 1
        return RequestId(f"bench{self._asked // 64 % 100}", self._asked)

    def _ask(self, request: Request) -> None:
        self._core.ask(Entry(Topic.OPERATIONS, 0, Offset(self._asked), "", CODEC.encode(request), (), 0))
        self._land()

    def _beat(self) -> None:
        self._beats += 1
        header = self._core.confirmed
        applied = m.Applied(LOG_ID, header.position, header.chain)
        beat = m.Heartbeat(
            NodeId("n1"), Incarnation(1), self._beats, applied, Position(NOWHERE), None, NODE.capabilities, False, b""
        )
        self._core.hear(Entry(Topic.HEARTBEATS, 0, Offset(self._beats), "n1", CODEC.encode(beat), (), 0))
        self._core.settle()
        self._land()

    def _land(self) -> None:
        outbox, self._core.outbox = self._core.outbox, []
        for outgoing in outbox:
            self._append(outgoing)
            headers = ((HEADER_NAME, outgoing.stamp),)
            entry = Entry(Topic.DECISIONS, 0, Offset(self._offset), None, outgoing.value, headers, 0)
            self._core.read(entry)
            if self._snapshots:
                self._snapshots.note_read_back(entry)
            self._offset += 1

    def _append(self, outgoing: Outgoing) -> None:
        def answered(error: TopologError | None, _: Offset | None) -> None:
            assert error is None, error
            self._in_flight -= 1

        self._in_flight += 1
        stamp = ((HEADER_NAME, outgoing.stamp),)
        self._writer.append(Topic.DECISIONS, self._cluster, outgoing.value, stamp, answered)
        while self._in_flight > IN_FLIGHT_MAX:
            self._writer.flush(0.05)


def start_s(kafka: dict[str, str], cluster: str, end: int) -> tuple[float, Position | None]:
    """Seconds until a node's loop has folded everything up to position `end`, and where it began."""
    reader, writer = KafkaReader(kafka, cluster), KafkaWriter(kafka, cluster)
    began = time.perf_counter()
    session = Session(reader, writer, SystemClock(), m.Joiner("n2", 0, NodeKind.CLIENT, "", {}, ()))
    while session.core.folded < end:
        session.step(0.05)
    taken = time.perf_counter() - began
    reader.close()
    writer.close()
    return taken, session.started_from


def measure(bootstrap: str, positions: int, arguments: argparse.Namespace, told: dict[str, Value]) -> Iterator[str]:
    kafka = {"bootstrap.servers": bootstrap}
    cluster = f"bench-{os.getpid()}-{positions}"
    KafkaAdmin(kafka).create_topics(cluster, PLANS)
    writer = KafkaWriter(kafka, cluster, linger_ms=5)
    work = Work(writer, cluster, arguments.types)
    while work.position < positions - arguments.tail:
        work.step()
    writer.flush(60)
    without, started_from = start_s(kafka, cluster, work.position)
    assert started_from is None
    told[f"without_s.{positions}"] = without
    yield f"{work.position:>10,} positions  without a snapshot {without:8.2f} s"
    began = time.perf_counter()
    work.take_snapshot()
    taking = time.perf_counter() - began
    while work.position < positions:
        work.step()
    writer.flush(60)
    with_one, started_from = start_s(kafka, cluster, work.position)
    assert started_from is not None
    told[f"with_s.{positions}"] = with_one
    tail = work.position - started_from
    yield f"{work.position:>10,} positions  with a snapshot    {with_one:8.2f} s  ({tail:,} behind it)"
    yield f"{'':>21}  to take it         {taking:8.2f} s"
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--types", type=int, default=2_000, help="types in the state")
    parser.add_argument("--tail", type=int, default=2_000, help="positions behind the snapshot")
    parser.add_argument("--bootstrap", default="", help="a Kafka that runs already; else one is started")
    add_json(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.bootstrap:
            run(arguments.bootstrap, arguments)
        else:
            with LocalBroker(Path(folder) / "data", port=19_592).running() as status:
                run(status.bootstrap, arguments)


def run(bootstrap: str, arguments: argparse.Namespace) -> None:
    told: dict[str, Value] = {}
    for positions in arguments.positions:
        for line in measure(bootstrap, positions, arguments, told):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    tell(arguments, told)


if __name__ == "__main__":
    main()
