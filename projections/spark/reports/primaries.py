"""Time without a primary: for how long on which day nobody acted for a partition, and why.

NOBODY: the primary had left, or none was chosen yet. HAND_OVER: it had stopped for the one that follows. LOST: no owner
was left. Counted from the set that ended the acting to the set that began it again, by the log's own time: a primary
that died acted for nobody before its leaving was logged, which report `leases` has (`silent_ms`).
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.projections.spark.reports.forms import Bars, Course, Fact, Picture, Report, days_of, span
from topolog.projections.spark.reports.landed import Landed

_WHYS = (("nobody_ms", "nobody acts"), ("hand_over_ms", "handing over"), ("lost_ms", "lost"))
_NAMED = 15


def facts(landed: Landed) -> DataFrame:
    """group, partition, date, without_ms, which is nobody_ms + hand_over_ms + lost_ms; times it was so; longest_ms, of
    those that touch the day, all of it; partitions the group had; known_ms, for how much of the day it is known."""
    lines = _spans(landed)
    gaps = _by_day(lines.where("is_without"))
    of_why = {
        why: F.sum(F.when(F.col("why") == why, F.col("ms")).otherwise(0)) for why in ("NOBODY", "HAND_OVER", "LOST")
    }
    found = gaps.groupBy("group", "partition", "date").agg(
        F.sum("ms").alias("without_ms"),
        of_why["NOBODY"].alias("nobody_ms"),
        of_why["HAND_OVER"].alias("hand_over_ms"),
        of_why["LOST"].alias("lost_ms"),
        F.count_distinct("gap").alias("times"),
        F.max("gap_ms").alias("longest_ms"),
    )
    sizes = lines.groupBy("group").agg(
        (F.max("partition") + 1).alias("partitions"),
        F.min("logged_at").alias("logged_at"),
        F.max("until").alias("until"),
    )
    known = _by_day(sizes).withColumnRenamed("ms", "known_ms").drop("logged_at", "until")
    return landed.asked(found.where(F.col("without_ms") > 0).join(known, ["group", "date"]), "date")


def _spans(landed: Landed) -> DataFrame:
    """A line per tenure, from its beginning to the next one's; `gap` numbers the times without a primary, `gap_ms` is
    the whole length of one."""
    of_one = Window.partitionBy("group", "partition").orderBy("position")
    lines = landed.tenures().withColumn("until", F.coalesce(F.lead("logged_at").over(of_one), landed.end))
    is_without = F.col("is_there") & (F.col("primary").isNull() | F.col("is_stopped"))
    why = F.when(F.col("is_lost"), "LOST").when(F.col("is_stopped") & F.col("primary").isNotNull(), "HAND_OVER")
    lines = lines.withColumn("is_without", is_without).withColumn("why", F.coalesce(why, F.lit("NOBODY")))
    begins = is_without & ~F.coalesce(F.lag("is_without").over(of_one), F.lit(False))
    lines = lines.withColumn("gap", F.sum(begins.cast("int")).over(of_one))
    ms = F.unix_millis("until") - F.unix_millis("logged_at")
    whole = Window.partitionBy("group", "partition", "gap")
    return lines.withColumn("gap_ms", F.sum(F.when(F.col("is_without"), ms).otherwise(0)).over(whole))


def _by_day(spans: DataFrame) -> DataFrame:
    """A line for each day that a span touches, with the `ms` of it on that day."""
    days = F.sequence(F.to_date("logged_at"), F.to_date("until"), F.expr("interval 1 day"))
    several = spans.withColumn("date", F.explode(days))
    start = F.greatest(F.col("logged_at"), F.col("date").cast("timestamp"))
    end = F.least(F.col("until"), F.date_add("date", 1).cast("timestamp"))
    return several.withColumn("ms", F.unix_millis(end) - F.unix_millis(start)).where(F.col("ms") > 0)


def summary(facts: DataFrame) -> DataFrame:
    """By group and day; `served` is the share (percent) of the known time of all partitions with a primary, `worst` the
    partition that was without one for longest."""
    worst = F.max_by(F.struct("partition", "without_ms"), F.struct("without_ms", -F.col("partition")))
    return (
        facts.groupBy("date", "group")
        .agg(
            F.count("*").alias("partitions"),
            F.first("partitions").alias("of"),
            F.first("known_ms").alias("known_ms"),
            F.sum("without_ms").alias("without_ms"),
            *(F.sum(name).alias(name) for name, _ in _WHYS),
            F.max("longest_ms").alias("longest_ms"),
            worst.alias("worst"),
        )
        .withColumn("served", F.round(F.lit(100.0) * (1 - F.col("without_ms") / (F.col("of") * F.col("known_ms"))), 6))
        .select(
            "date",
            "group",
            "partitions",
            "of",
            "without_ms",
            *(name for name, _ in _WHYS),
            "longest_ms",
            F.col("worst.partition").alias("worst"),
            F.col("worst.without_ms").alias("worst_ms"),
            "served",
        )
        .orderBy(F.desc("date"), F.desc("without_ms"), "group")
    )


def sentence(rows: Sequence[Fact]) -> str:
    worst = max(rows, key=lambda row: row["worst_ms"])
    longest = max(row["longest_ms"] for row in rows)
    lost_ms = sum(row["lost_ms"] for row in rows)
    lost = f" {span(lost_ms)} of partition time was lost partitions." if lost_ms else ""
    return (
        f"{worst['group']}/{worst['worst']} had no primary for {span(worst['worst_ms'])} on {worst['date']}, the most "
        f"of all; no time without one lasted longer than {span(longest)}.{lost}"
    )


def pictures(rows: Sequence[Fact]) -> tuple[Picture, ...]:
    days = days_of(rows)
    lines = []
    for name, label in _WHYS:
        by_day = {day: sum(row[name] for row in rows if row["date"].isoformat() == day) / 1000 for day in days}
        if any(by_day.values()):
            lines.append((label, tuple(by_day[day] for day in days)))
    groups = sorted({row["group"] for row in rows}, key=lambda name: -_total(rows, name))[:_NAMED]
    parts = tuple(
        (label, tuple(sum(row[name] for row in rows if row["group"] == group) / 1000 for group in groups))
        for name, label in _WHYS
    )
    return (
        Course(
            "Time without a primary, all partitions added up", "partition time (s)", days, tuple(lines), is_stacked=True
        ),
        Bars("Which groups were without a primary", "partition time (s)", tuple(groups), parts),
    )


def _total(rows: Sequence[Fact], group: str) -> int:
    return sum(int(row["without_ms"]) for row in rows if row["group"] == group)


REPORT = Report(
    "primaries",
    "For how long had which partitions no primary, and why?",
    facts,
    summary,
    sentence,
    pictures,
    folds=True,
)
