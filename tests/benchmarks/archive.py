"""The archive: records landed a second from a real broker, beside a plain Python reader of the same topics.

    python -m tests.benchmarks.archive [--records 2000000] [--rounds 2] [--python 300000] [--clusters 1 10 100]

The records are decisions of 13 types with their stamps, half of them in `decisions` and half in `requests`, each of
one partition: two tasks on two cores. Landing writes every record as it came and decoded; the plain reader reads and
decodes with fastavro, and writes nothing. The broker runs on the same cores. With --clusters a tenth of the records is
landed again by one job for so many clusters, one of which has a hundred times as much as each other: when all that the
others have has landed, and when all has. The figures are this machine's.
"""

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from tests.benchmarks.processor import measured
from tests.soak.ports import free_row
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_projector import eventful

from topolog.events.codec import CODEC
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.log import Entry
from topolog.events.topics import PLANS, Topic
from topolog.projections.archive import topics
from topolog.projections.archive.landings import opened
from topolog.projections.spark import batches
from topolog.projections.spark.fleet import Fleet
from topolog.projections.spark.pipeline import Pipeline
from topolog.projections.spark.session import SessionSettings, spark_session
from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.jars import CONNECTORS, default_cache, fetch_jars

CLUSTER = "benchmark"
BOTH = (Topic.DECISIONS, Topic.REQUESTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--python", type=int, default=300_000, help="records that the plain reader reads")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--clusters", type=int, nargs="*", default=[1, 10, 100])
    parser.add_argument("--batch", type=int, default=batches.RECORDS_PER_BATCH_MAX)
    arguments = parser.parse_args()
    batches.RECORDS_PER_BATCH_MAX = arguments.batch
    with (
        tempfile.TemporaryDirectory() as scratch,
        LocalBroker(Path(scratch) / "kafka", port=free_row(2)).running() as at,
    ):
        kafka = {"bootstrap.servers": at.bootstrap}
        KafkaAdmin(kafka).create_topics(CLUSTER, PLANS)
        entries = eventful(Chronicle(CLUSTER).start()).entries
        size = sum(len(each.value) + sum(len(value) for _, value in each.headers) for each in entries) // len(entries)
        write(kafka, entries, arguments.records)
        print(f"{arguments.records} records of {size} bytes on average; load {os.getloadavg()[0]:.1f}")
        print("| what | records | seconds | processor s | records/s |")
        print("|---|---:|---:|---:|---:|")
        jars = tuple(fetch_jars(default_cache(CONNECTORS), print, CONNECTORS))
        with spark_session(Path(scratch) / "spark", SessionSettings(cores=2, memory="3g", jars=jars)) as session:
            for _ in range(arguments.rounds):
                cost, count = measured(lambda: read(kafka, arguments.python))
                row("plain reader, decoded", count, cost.wall, cost.processor)
            for number in range(arguments.rounds):
                folder = Path(scratch) / f"archive-{number}"
                cost, count = measured(lambda: land(session, kafka, folder))  # noqa: B023 (called at once)
                row("landed" + (", first time in a JVM" if number == 0 else ""), count, cost.wall, cost.processor)
                files = [path.stat().st_size for path in folder.rglob("*.parquet")]
                print(f"  {len(files)} files, {sum(files) / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f}")
            for count in arguments.clusters:
                land_fleet(session, kafka, entries, Path(scratch) / f"fleet-{count}", count, arguments.records // 10)


def row(what: str, count: int, wall_s: float, processor_s: float) -> None:
    print(f"| {what} | {count} | {wall_s:.1f} | {processor_s:.1f} | {count / wall_s:,.0f} |", flush=True)


def write(kafka: dict[str, str], entries: Sequence[Entry], records: int, cluster: str = CLUSTER) -> None:
    with contextlib.closing(KafkaWriter(kafka, cluster, linger_ms=50)) as writer:
        for number in range(records):
            entry = entries[number // 2 % len(entries)]
            writer.append(BOTH[number % 2], CLUSTER, entry.value, entry.headers)
            if number % 20_000 == 0:
                writer.flush(60)
        assert writer.flush(60) == 0


def read(kafka: dict[str, str], records: int) -> int:
    """The plain reader."""
    count = 0
    with contextlib.closing(KafkaReader(kafka, CLUSTER)) as reader:
        reader.assign({(topic, 0): None for topic in BOTH})
        until_s = time.monotonic() + 600
        while count < records and time.monotonic() < until_s:
            for entry in reader.poll(1.0):
                CODEC.decode(entry.value)
                count += 1
    return count


def land_fleet(
    session: SparkSession, kafka: dict[str, str], entries: Sequence[Entry], folder: Path, count: int, records: int
) -> None:
    """The first of the clusters has a hundred parts of the records, each other one has one."""
    admin, names = KafkaAdmin(kafka), [f"of-{count}-{number}" for number in range(count)]
    part = records // (100 + count - 1)
    for number, name in enumerate(names):
        admin.create_topics(name, [plan for plan in PLANS if plan.topic in topics.TOPICS])
        write(kafka, entries, part * (100 if number == 0 else 1), name)
    others_s, batches.RECORDS_PER_BATCH_MAX = 0.0, records // 4
    with Fleet(folder, f"of-{count}-*", admin, kafka, lambda name: topics.log_id(kafka, name), lambda: 0) as fleet:
        began_s = time.perf_counter()
        while fleet.round(session).left:
            if not others_s and not any(found.behind for found in fleet.progress() if found.cluster != names[0]):
                others_s = time.perf_counter() - began_s
        landed, wall_s = sum(found.rows["records"] for found in fleet.progress()), time.perf_counter() - began_s
    print(
        f"| {count} clusters, all but the large one after {others_s:.1f} s | {landed} | {wall_s:.1f} | | "
        f"{landed / wall_s:,.0f} |",
        flush=True,
    )


def land(session: SparkSession, kafka: dict[str, str], folder: Path) -> int:
    with opened(folder, CLUSTER) as archive:
        stream = Pipeline(archive, KafkaAdmin(kafka), kafka, lambda: 0, print, BOTH).stream(session, once=True)
        while not stream.wait(0.5):
            pass
        return archive.rows()["records"]


if __name__ == "__main__":
    main()
