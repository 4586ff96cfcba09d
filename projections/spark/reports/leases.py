"""Leases: who came and went, how near its fence each node has been, and who was without a lease.

Comings and goings are decisions. Margins, fencings and returns are what lease health has measured, minute by minute:
where that was not run they are null, which is not the same as none. A minute is told again as long as it is in the
window; what counts is its fullest telling. `silent_ms` is the time from a node's last renewal to its leaving: what its
end has cost the others.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.health import FLAPS_IN_WINDOW, MINUTE_MS, WINDOW_MINUTES
from topolog.projections.spark.reports.forms import Bars, Fact, Picture, Report, many, span
from topolog.projections.spark.reports.landed import Landed, ms_between

_FIGURES = ("beats", "gaps", "gap_max_ms", "missed", "lost", "fencings", "returns", "starts")
_HEALTH = (
    "node string, log_id binary, fence_ms bigint, heartbeat_ms bigint, minutes array<struct<start_ms:bigint,"
    f"figures:struct<{','.join(f'{name}:bigint' for name in _FIGURES)}>>>"
)
REASONS = ("LEFT", "FENCED", "DIED", "STUCK", "REMOVED", "REPLACED")
_NAMED = 20


def facts(landed: Landed) -> DataFrame:
    """By node and day: joined, and how often it left for which reason (left, fenced, died, stuck, removed, replaced),
    silent_ms (the longest); of lease health margin_ms (the smallest), fence_ms, thin_minutes (half of the slack was
    gone), fencings, returns, starts, flapping_minutes, lost (heartbeats), or null."""
    days = landed.asked(_decided(landed), "logged_at").groupBy("node", "date")
    decided = days.agg(
        F.sum("joined").alias("joined"),
        *(F.count_if(F.col("left_for") == reason).alias(reason.lower()) for reason in REASONS),
        F.max("silent_ms").alias("silent_ms"),
    )
    measured = landed.asked(_minutes(landed), "minute").groupBy("node", "date")
    health = measured.agg(
        F.min("margin_ms").alias("margin_ms"),
        F.max("fence_ms").alias("fence_ms"),
        F.count_if("is_thin").alias("thin_minutes"),
        *(F.sum(name).alias(name) for name in ("fencings", "returns", "starts", "missed", "lost")),
        F.count_if("is_flapping").alias("flapping_minutes"),
    )
    return decided.join(health, ["node", "date"], "full").fillna(
        0, subset=["joined", *(reason.lower() for reason in REASONS)]
    )


def _decided(landed: Landed) -> DataFrame:
    joined = landed.typed("NodeJoined", "joiner struct<node:string>")
    gone = landed.typed("NodeLeft", "node string, reason string, renewed_at bigint")
    gone = gone.withColumnRenamed("reason", "left_for")
    both = joined.withColumn("node", F.col("joiner.node")).withColumn("joined", F.lit(1)).drop("joiner")
    counted = landed.counted(both.unionByName(gone, allowMissingColumns=True))
    renewed = landed.positions().select(F.col("position").alias("renewed_at"), F.col("logged_at").alias("heard_at"))
    return counted.join(renewed, "renewed_at", "left").withColumn("silent_ms", ms_between("heard_at", "logged_at"))


def _minutes(landed: Landed) -> DataFrame:
    """A line per node and minute of lease health: its figures, its margin, whether the node flapped in the window that
    ends with it."""
    told = landed.measured("LeaseHealth", _HEALTH).where(F.hex("log_id") == F.lit(landed.log_id.upper()))
    lines = told.select("node", "fence_ms", "heartbeat_ms", "offset", F.explode("minutes").alias("of"))
    fullest = F.max_by(
        F.struct("of.figures", "fence_ms", "heartbeat_ms"), F.struct(F.col("of.figures.beats"), F.col("offset"))
    )
    minutes = lines.groupBy("node", F.col("of.start_ms").alias("start_ms")).agg(fullest.alias("said"))
    flat = minutes.select("node", "start_ms", "said.fence_ms", "said.heartbeat_ms", "said.figures.*")
    window = Window.partitionBy("node").orderBy("start_ms").rangeBetween(-(WINDOW_MINUTES - 1) * MINUTE_MS, 0)
    flaps = F.sum(F.col("starts") + F.col("returns")).over(window)
    margin = F.when(F.col("gaps") > 0, F.col("fence_ms") - F.col("gap_max_ms"))
    return (
        flat.withColumn("minute", F.timestamp_millis("start_ms"))
        .withColumn("margin_ms", margin)
        .withColumn("is_thin", margin < F.floor((F.col("fence_ms") - F.col("heartbeat_ms")) / 2))
        .withColumn("is_flapping", flaps >= FLAPS_IN_WINDOW)
    )


def summary(facts: DataFrame) -> DataFrame:
    """By node, those first that came nearest to their fence, or were behind it."""
    sums = ("joined", *(reason.lower() for reason in REASONS))
    measured = ("fencings", "returns", "starts", "thin_minutes", "flapping_minutes", "missed", "lost")
    return (
        facts.groupBy("node")
        .agg(
            F.min("margin_ms").alias("margin_ms"),
            F.min_by("fence_ms", "margin_ms").alias("fence_ms"),
            *(F.sum(name).alias(name) for name in (*measured, *sums)),
            F.max("silent_ms").alias("silent_ms"),
        )
        .orderBy(F.desc(F.coalesce("fencings", F.lit(0)) + F.col("fenced") + F.col("died")), "margin_ms", "node")
    )


def sentence(rows: Sequence[Fact]) -> str:
    fenced, died, stuck = (sum(row[name] for row in rows) for name in ("fenced", "died", "stuck"))
    said = (
        f"{many(len(rows), 'node')}: {fenced:,} left because their lease ran out, {died:,} died, {stuck:,} were stuck"
    )
    measured = [row for row in rows if row["margin_ms"] is not None]
    if not measured:
        return f"{said}. Lease health was not measured: `topolog run lease-health` does."
    nearest = min(measured, key=lambda row: row["margin_ms"])
    fencings = sum(row["fencings"] for row in measured)
    flapping = [row["node"] for row in measured if row["flapping_minutes"]]
    fence, gap = span(nearest["fence_ms"]), span(nearest["fence_ms"] - nearest["margin_ms"])
    if nearest["margin_ms"] < 0:
        said += f". {nearest['node']} was behind its fence of {fence}: {gap} between two heartbeats"
    else:
        said += f". Nearest to its fence of {fence} was {nearest['node']}, with {span(nearest['margin_ms'])} left"
    said += f"; {many(fencings, 'time')} a node was without a lease"
    return f"{said}; flapping: {', '.join(flapping[:5])}." if flapping else f"{said}; none flapped."


def pictures(rows: Sequence[Fact]) -> tuple[Picture, ...]:
    found: list[Picture] = []
    measured = sorted((row for row in rows if row["margin_ms"] is not None), key=lambda row: row["margin_ms"])[:_NAMED]
    if measured:
        left = tuple(max(0, row["margin_ms"]) / 1000 for row in measured)
        eaten = tuple(row["fence_ms"] / 1000 - here for row, here in zip(measured, left, strict=True))
        found.append(
            Bars(
                "How near its fence each node has been",
                "of the fence at the longest gap between heartbeats (s)",
                tuple(row["node"] for row in measured),
                (("left", left), ("eaten by the gap", eaten)),
            )
        )
    left_ever = [row for row in rows if any(row[reason.lower()] for reason in REASONS)]
    gone = sorted(left_ever, key=lambda row: -sum(row[reason.lower()] for reason in REASONS))[:_NAMED]
    parts = tuple((reason.lower(), tuple(float(row[reason.lower()]) for row in gone)) for reason in REASONS)
    if gone:
        found.append(Bars("Why nodes left", "leaves (count)", tuple(row["node"] for row in gone), parts))
    return tuple(found)


REPORT = Report(
    "leases",
    "Which nodes lost their lease, how near were the others, and who flapped?",
    facts,
    summary,
    sentence,
    pictures,
)
