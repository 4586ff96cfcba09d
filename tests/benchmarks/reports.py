"""How long reports take over 10 and 50 million decisions, beside a plain Python reader of the same Parquet files.

    python -m tests.benchmarks.reports --events 10_000_000 --folder FOLDER

Spark makes the typed tables, the positions and the tenures itself, as an archive of a busy cluster would have them:
half of the decisions are renewals of leases, which no report reads but all positions count. What positions and tenures
cost to derive is not in the figures: it is paid once per record, and told apart by `--judge`, which times it over the
records of a simulated log.
"""

import argparse
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from tests.unit.projections.archive.by_hand import land
from tests.unit.projections.chronicle import Chronicle

from topolog.projections.archive import positions as judged
from topolog.projections.archive import tenures
from topolog.projections.archive.landings import FORMAT, About, Archive, Landing, opened
from topolog.projections.archive.positions import Positions
from topolog.projections.archive.spans import Span
from topolog.projections.spark.reports.forms import Report
from topolog.projections.spark.reports.landed import Days, Landed
from topolog.projections.spark.reports.making import REPORTS
from topolog.projections.spark.session import SessionSettings, spark_session

BLOCK = 100
START_MS = 1_800_000_000_000
PACE_MS = 20
NODES, TYPES, TABLES, PARTITIONS = 300, 2_000, 100, 100_000

Fields = dict[str, Column]


def block() -> Column:
    """The number of the hundred decisions that this one stands in."""
    return F.floor(F.col("offset") / BLOCK)


def request() -> Column:
    return F.struct(F.concat(F.lit("cli-"), block() % 50).alias("requester"), block().alias("sequence"))


def node() -> Column:
    return F.concat(F.lit("n"), block() % NODES)


def evidence() -> Column:
    nobody = F.array().cast("array<string>")
    fenced = F.when(block() % 1_000 == 0, F.array(node())).otherwise(nobody)
    return F.struct(nobody.alias("applied"), nobody.alias("left"), fenced.alias("presumed_fenced"))


def version(major: Column) -> Column:
    return F.struct(major.cast("bigint").alias("major"), F.lit(0).cast("bigint").alias("minor"))


def covered() -> Column:
    start = (block() % 64) * (1 << 26)
    return F.array(F.struct(start.alias("start"), (start + (1 << 26)).alias("end")))


def tables() -> list[tuple[str, int, int, Fields]]:
    """(type, which of a hundred decisions, how many, its fields)."""
    name, number = F.concat(F.lit("type"), block() % TYPES), (block() * 10 + F.col("offset") % 10).alias("version")
    trigger = F.struct(
        F.lit("LEAVE").alias("type"),
        node().alias("subject"),
        version(block()).alias("version"),
        (block() * BLOCK).alias("at"),
    )
    waited = F.array(F.struct(node().alias("node"), (block() % 500).alias("waited_ms")))
    session = F.floor(F.col("offset") / BLOCK) * BLOCK + 88
    definition = F.struct(F.concat(F.lit("table"), block() % TABLES).alias("table"), F.lit("REPAIR").alias("kind"))
    return [
        ("MetadataUpdateProposed", 50, 10, {"request": request(), "type_name": name, "version": number}),
        ("MetadataUpdateAccepted", 60, 10, {"type_name": name, "version": number, "evidence": evidence()}),
        ("TaskProgressed", 70, 10, {"request": request(), "rows": block()}),
        (
            "RequestRefused",
            80,
            4,
            {
                "request": request(),
                "subject": F.concat(F.lit("node "), node()),
                "code": F.concat(F.lit("CODE_"), block() % 9),
                "rule": F.lit("R1"),
            },
        ),
        ("NodeJoined", 84, 2, {"request": request(), "joiner": F.struct(node().alias("node"))}),
        ("NodeLeft", 86, 2, {"node": node(), "reason": F.lit("DIED"), "renewed_at": F.col("offset") - 30}),
        (
            "SessionOpened",
            88,
            1,
            {"request": request(), "session": F.lit(None).cast("bigint"), "definition": definition},
        ),
        ("SessionEnded", 89, 1, {"request": request(), "session": session, "covered": covered()}),
        ("ExchangeStarted", 90, 1, {"triggers": F.array(trigger), "awaited": F.array(F.struct(node().alias("node")))}),
        ("ExchangeCompleted", 91, 1, {"waited": waited, "unheard": F.array().cast("array<string>")}),
        ("HandOverPrepared", 92, 1, {"node": node()}),
        ("AffinitySwitched", 93, 1, {"prepared": F.col("offset") - 1, "version": version(block())}),
    ]


def made(spark: SparkSession, folder: Path, events: int) -> tuple[Archive, Positions, list[Path]]:
    """An archive of so many decisions, as reports read it."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "landings").mkdir(parents=True)
    logged_at = F.timestamp_millis(F.col("offset") * PACE_MS + START_MS)
    stamp = F.struct(
        F.lit("").alias("cause"),
        F.concat(F.lit("actor"), block() % 40).alias("actor"),
        F.concat(F.lit("why "), block() % 7).alias("reason"),
    )
    for name, first, count, fields in tables():
        offsets = spark.range(events // BLOCK * count).select(
            (F.floor(F.col("id") / count) * BLOCK + first + F.col("id") % count).alias("offset")
        )
        log = F.struct(F.lit("decisions").alias("topic"), F.col("offset"), logged_at.alias("appended_at")).alias("log")
        columns = [column.alias(field) for field, column in fields.items()]
        offsets.select(log, stamp.alias("stamp"), *columns).coalesce(4).write.parquet(str(folder / "tables" / name))
    counted = spark.range(events).withColumnRenamed("id", "offset").select(
        "offset", F.col("offset").alias("position"), F.col("offset").alias("set_end"),
        F.lit(1).cast("bigint").alias("term"), logged_at.alias("logged_at"),
    )  # fmt: skip
    counted.write.parquet(str(folder / "derived" / "positions"))
    _tenures(spark, events // 50, logged_at).write.parquet(str(folder / "derived" / "tenures"))
    files = sorted(str(path.relative_to(folder)) for path in (folder / "tables").rglob("*.parquet"))
    landing = Landing(0, "benchmark", (Span("decisions", 0, 0, events),), {}, tuple(files), 0)
    (folder / "landings" / f"{0:012}.json").write_bytes(msgspec.json.encode(landing))
    (folder / "archive.json").write_bytes(msgspec.json.encode(About(FORMAT, "benchmark", bytes(16).hex())))
    found = sorted((folder / "derived" / "positions").glob("*.parquet"))
    end_ms = START_MS + events * PACE_MS
    told = Positions(tuple(found), events, {}, (), events - 1, "", events, end_ms)
    return Archive(folder), told, sorted((folder / "derived" / "tenures").glob("*.parquet"))


def _tenures(spark: SparkSession, lines: int, logged_at: Column) -> DataFrame:
    """Each partition loses its primary and has one again, in turn."""
    offset = (F.col("id") * 50).alias("offset")
    turn = F.floor(F.col("id") / PARTITIONS) % 2
    return spark.range(lines).select("id", offset).select(
        F.lit("orders").alias("group"), (F.col("id") % PARTITIONS).cast("int").alias("partition"),
        F.col("offset").alias("position"), logged_at.alias("logged_at"),
        F.when(turn == 0, "n1").alias("primary"), F.lit(False).alias("is_stopped"), F.lit(False).alias("is_lost"),
        F.lit(True).alias("is_there"),
    )  # fmt: skip


# A plain reader, without Spark.


def lines(archive: Archive, name: str, columns: list[str]) -> Iterator[dict[str, Any]]:
    for path in archive.files(f"tables/{name}"):
        for batch in pq.ParquetFile(path).iter_batches(columns=columns):
            yield from batch.to_pylist()


def times(positions: Positions) -> dict[int, int]:
    """When the decision at each offset was logged (ms)."""
    found: dict[int, int] = {}
    for path in positions.files:
        for batch in pq.ParquetFile(path).iter_batches(columns=["offset", "logged_at"]):
            at = batch.column("logged_at").cast("timestamp[ms]", safe=False).cast("int64").to_pylist()
            found.update(zip(batch.column("offset").to_pylist(), at, strict=True))
    return found


def plain_changes(archive: Archive, requested: Sequence[str]) -> Counter[tuple[str, ...]]:
    """As the report `changes` counts: without the time of each, which would need all positions in memory."""
    found: Counter[tuple[str, ...]] = Counter()
    for name in requested:
        columns = ["stamp", *(["subject", "code"] if name == "RequestRefused" else [])]
        for line in lines(archive, name, columns):
            refused = name == "RequestRefused"
            what = line["subject"].split(" ")[0] if refused else name
            outcome = "REFUSED" if refused else "GRANTED"
            found[line["stamp"]["actor"], line["stamp"]["reason"], what, outcome, line.get("code") or ""] += 1
    return found


def plain_agreements(archive: Archive, positions: Positions) -> Counter[str]:
    """How many versions were accepted, and how long they took in all."""
    at = times(positions)
    proposed = {
        (line["type_name"], line["version"]): at[line["log"]["offset"]]
        for line in lines(archive, "MetadataUpdateProposed", ["log", "type_name", "version"])
    }
    found: Counter[str] = Counter()
    for line in lines(archive, "MetadataUpdateAccepted", ["log", "type_name", "version"]):
        since = proposed.pop((line["type_name"], line["version"]), None)
        if since is not None:
            found["count"] += 1
            found["ms"] += at[line["log"]["offset"]] - since
    return found


def write_facts(landed: Landed, report: Report, where: str) -> None:
    report.facts(landed).write.mode("overwrite").parquet(where)


def summarised(spark: SparkSession, report: Report, where: str) -> int:
    return len(report.summary(spark.read.parquet(where)).collect())


def timed(name: str, events: int, action: Callable[[], Any]) -> Any:
    began_s = time.monotonic()
    found = action()
    took_s = time.monotonic() - began_s
    print(f"{name:34} {took_s:8.1f} s   {events / took_s / 1e6:7.2f} M decisions/s", flush=True)
    return found


def judge(folder: Path, nodes: int = 20, rounds: int = 400) -> None:
    """What positions and tenures cost per record."""
    chronicle = Chronicle().start()
    for number in range(nodes):
        chronicle.join(f"n{number}")
    for number in range(rounds):
        chronicle.propose(f"type{number % 50}", {"id": "long", f"f{number}": "long"})
        for _ in range(20):
            chronicle.renew("n1", "n2", "n3")
    shutil.rmtree(folder, ignore_errors=True)
    with opened(folder, "main") as archive:
        land(archive, chronicle.entries)
    count = len(chronicle.entries)
    positions = timed(f"positions of {count:,} records", count, lambda: judged.brought_forward(archive))
    timed("tenures (one fold) of them", count, lambda: tenures.brought_forward(archive, positions))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--no-plain", action="store_true", help="leave the plain reader out: it needs much memory")
    parser.add_argument("--memory", default="3g")
    asked = parser.parse_args()
    if asked.judge:
        judge(asked.folder)
        return
    with spark_session(asked.folder / "spark", SessionSettings(cores=2, memory=asked.memory)) as spark:
        archive, positions, files = timed(
            "making the archive", asked.events, lambda: made(spark, asked.folder / "archive", asked.events)
        )
        landed = Landed(spark, archive, positions, Days())
        landed.folded = tuple(files)
        for report in REPORTS:
            where = str(asked.folder / "made" / report.name)
            timed(f"{report.name}: facts", asked.events, partial(write_facts, landed, report, where))
            timed(f"{report.name}: summary", asked.events, partial(summarised, spark, report, where))
        summary = spark.read.parquet(str(asked.folder / "made" / "changes")).groupBy("outcome").count().collect()
        told = {row["outcome"]: row["count"] for row in summary}
        accepted = spark.read.parquet(str(asked.folder / "made" / "agreements")).where("outcome = 'ACCEPTED'")
        requested = [name for name, *_, fields in tables() if "request" in fields]
        latency = accepted.agg(F.count("*").alias("count"), F.sum("latency_ms").alias("ms")).first()
    if not asked.no_plain:
        counts = timed("changes, plain Python", asked.events, lambda: plain_changes(archive, requested))
        plain = {name: sum(count for key, count in counts.items() if key[3] == name) for name in told}
        assert plain == told, (plain, told)
        same = timed("agreements, plain Python", asked.events, lambda: plain_agreements(archive, positions))
        assert latency is not None
        assert (same["count"], same["ms"]) == (latency["count"], latency["ms"]), (same, latency)


if __name__ == "__main__":
    main()
