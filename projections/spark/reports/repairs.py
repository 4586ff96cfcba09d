"""Repair coverage: which part of each table was compared or repaired last, and how long ago.

A session says at its end of which tokens it is true (`SessionEnded.covered`): those of a PREVIEW were compared, those
of a REPAIR are equal since. The ring of a table is cut wherever a coverage begins or ends; of each piece the newest
coverage counts. What no session has ever covered is a piece without a time. Ages are those at the end of what is asked
about.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.token_range import RING
from topolog.projections.spark.reports.forms import Bars, Fact, Picture, Report, many, span
from topolog.projections.spark.reports.landed import Landed

AGES = (("day", 1), ("week", 7), ("month", 30))
"""Columns of the summary: the share that is not older, in days."""

_RANGES = "array<struct<start:bigint,`end`:bigint>>"
_DEFINITION = "definition struct<`table`:string,kind:string>"
_NAMED = 20


def facts(landed: Landed) -> DataFrame:
    """table, start and end (tokens), share of the ring, compared_at (by either kind), repaired_at, and their ages, null
    where it never was; as_of."""
    covered = _covered(landed)
    tables = landed.counted(landed.typed("ReplicaDeclared", "replica struct<`table`:string>")).select("replica.table")
    known = tables.unionByName(covered.select("table")).distinct()
    whole = known.select("table", F.explode(F.array(F.lit(0).cast("bigint"), F.lit(RING))).alias("token"))
    borders = covered.select("table", F.explode(F.array("start", "end")).alias("token")).unionByName(whole).distinct()
    of_table = Window.partitionBy("table").orderBy("token")
    pieces = borders.withColumn("end", F.lead("token").over(of_table)).where(F.col("end").isNotNull())
    pieces = pieces.withColumnRenamed("token", "start")
    newest = (
        pieces.alias("piece")
        .join(
            covered.alias("of"),
            (F.col("piece.table") == F.col("of.table"))
            & (F.col("of.start") <= F.col("piece.start"))
            & (F.col("of.end") >= F.col("piece.end")),
            "left",
        )
        .groupBy("piece.table", "piece.start", "piece.end")
        .agg(
            F.max("of.logged_at").alias("compared_at"),
            F.max(F.when(F.col("of.kind") == "REPAIR", F.col("of.logged_at"))).alias("repaired_at"),
        )
    )
    now = landed.end
    return newest.select(
        "table",
        "start",
        "end",
        ((F.col("end") - F.col("start")) / F.lit(float(RING))).alias("share"),
        "compared_at",
        (F.unix_millis(now) - F.unix_millis("compared_at")).alias("compared_age_ms"),
        "repaired_at",
        (F.unix_millis(now) - F.unix_millis("repaired_at")).alias("repaired_age_ms"),
        now.alias("as_of"),
    )


def _covered(landed: Landed) -> DataFrame:
    """table, kind, start, end, logged_at of whatever the end of a session says that it covered."""
    opened = landed.counted(landed.typed("SessionOpened", f"session bigint, {_DEFINITION}"))
    sessions = opened.select(F.coalesce("session", "position").alias("session"), "definition")
    ended = landed.counted(landed.typed("SessionEnded", f"session bigint, covered {_RANGES}"))
    both = ended.join(sessions, "session").select(
        "definition.table", "definition.kind", F.explode("covered").alias("of"), "logged_at"
    )
    return both.select("table", "kind", F.col("of.start").alias("start"), F.col("of.end").alias("end"), "logged_at")


def summary(facts: DataFrame) -> DataFrame:
    """By table the share (percent) that was compared within a day, a week, a month of the end, before that, or never;
    the same for repaired; the age of what was compared longest ago."""

    def percent(share: Column) -> Column:
        return F.round(F.lit(100.0) * F.coalesce(F.sum(share), F.lit(0.0)), 4)

    columns = []
    for kind in ("compared", "repaired"):
        age, younger = F.col(f"{kind}_age_ms"), F.lit(-1)
        for name, days in AGES:
            limit = F.lit(days * 24 * 3_600_000)
            is_in = (age > younger) & (age <= limit)
            columns.append(percent(F.when(is_in, F.col("share"))).alias(f"{kind}_{name}"))
            younger = limit
        columns.append(percent(F.when(age > younger, F.col("share"))).alias(f"{kind}_older"))
        columns.append(percent(F.when(age.isNull(), F.col("share"))).alias(f"{kind}_never"))
    oldest = F.max("compared_age_ms").alias("oldest_ms")
    return facts.groupBy("table").agg(*columns, oldest).orderBy(F.desc("compared_never"), F.desc("oldest_ms"), "table")


def sentence(rows: Sequence[Fact]) -> str:
    never = [row for row in rows if row["compared_never"] >= 100]
    partly = [row for row in rows if 0 < row["compared_never"] < 100]
    said = many(len(rows), "table")
    if never:
        said += f"; never compared: {', '.join(row['table'] for row in never[:5])}"
    if partly:
        worst = partly[0]
        said += f"; of {worst['table']} {worst['compared_never']:.3g} % were never compared"
    ages = [row for row in rows if row["oldest_ms"] is not None]
    if ages:
        oldest = max(ages, key=lambda row: row["oldest_ms"])
        said += f"; the oldest comparison that counts is {span(oldest['oldest_ms'])} old, of {oldest['table']}"
    return f"{said}."


def pictures(rows: Sequence[Fact]) -> tuple[Picture, ...]:
    named = rows[:_NAMED]
    labels = (("day", "within a day"), ("week", "within a week"), ("month", "within 30 days"), ("older", "longer ago"))
    found = []
    for kind, title in (
        ("compared", "How much of each table was compared, and how long ago"),
        ("repaired", "How much of each table was repaired, and how long ago"),
    ):
        parts = tuple(
            (label, tuple(float(row[f"{kind}_{name}"]) for row in named))
            for name, label in (*labels, ("never", "never"))
        )
        if any(value for label, values in parts if label != "never" for value in values) or kind == "compared":
            found.append(
                Bars(title, "share of the table's tokens (%)", tuple(row["table"] for row in named), parts, True)
            )
    return tuple(found)


REPORT = Report(
    "repairs", "How much of each table was compared or repaired, and how long ago?", facts, summary, sentence, pictures
)
