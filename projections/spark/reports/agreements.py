"""Agreements: how long from a proposal until it held everywhere, and when a silent server made it wait out a fence.

TYPE is a version of a type, until it was accepted; REMOVAL the removal of one; SCHEMA a change of tables, from the
decision that gave it its number until it was committed or rolled back. An acceptance counts for every pending version
up to its own, and a removal ends those that it finds. `presumed` names whom the verdict presumed fenced: there the time
is that of the wait, not that of the cluster.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.projections.spark.reports.forms import Bars, Course, Fact, Picture, Report, days_of, many, span
from topolog.projections.spark.reports.landed import Landed, ms_between

_EVIDENCE = "evidence struct<presumed_fenced:array<string>>"
_NOBODY = "array<string>"
_PROPOSED, _ACCEPTED, _REMOVED = 0, 1, 2
"""In the order of one version: an acceptance ends what was proposed before, a removal what is pending then."""


def facts(landed: Landed) -> DataFrame:
    """kind, subject, version, proposed (position), proposed_at, ended_at, outcome (ACCEPTED, REMOVED, COMMITTED,
    ROLLED_BACK, OPEN), latency_ms (null while open), presumed, actor, reason, date."""
    found = _versions(landed).unionByName(_removals(landed)).unionByName(_changes(landed))
    found = found.withColumn("latency_ms", ms_between("proposed_at", "ended_at")).withColumn(
        "presumed", F.coalesce("presumed", F.array().cast(_NOBODY))
    )
    return landed.asked(found, "proposed_at")


def _versions(landed: Landed) -> DataFrame:
    proposed = landed.typed("MetadataUpdateProposed", "type_name string, version bigint")
    accepted = landed.typed("MetadataUpdateAccepted", f"type_name string, version bigint, {_EVIDENCE}")
    removed = landed.typed("MetadataRemoveAccepted", f"type_name string, floor bigint, {_EVIDENCE}")
    several = proposed.withColumn("what", F.lit(_PROPOSED))
    several = several.unionByName(accepted.withColumn("what", F.lit(_ACCEPTED)), allowMissingColumns=True)
    removed = removed.withColumnRenamed("floor", "version").withColumn("what", F.lit(_REMOVED))
    several = landed.counted(several.unionByName(removed))
    backwards = Window.partitionBy("type_name").orderBy(F.desc("version"), F.desc("what"), F.desc("position"))
    end = F.when(F.col("what") != _PROPOSED, F.struct("what", "logged_at", "evidence"))
    ended = several.withColumn(
        "end", F.last(end, ignorenulls=True).over(backwards.rowsBetween(Window.unboundedPreceding, -1))
    )
    outcome = F.when(F.col("end.what") == _ACCEPTED, "ACCEPTED").when(F.col("end.what") == _REMOVED, "REMOVED")
    return _told(
        ended.where(F.col("what") == _PROPOSED),
        "TYPE",
        F.col("type_name"),
        outcome,
        F.col("end.evidence"),
        "end.logged_at",
    )


def _removals(landed: Landed) -> DataFrame:
    proposed = landed.counted(landed.typed("MetadataRemoveProposed", "type_name string, version bigint"))
    accepted = landed.counted(landed.typed("MetadataRemoveAccepted", f"type_name string, floor bigint, {_EVIDENCE}"))
    accepted = accepted.select(
        "type_name", F.col("floor").alias("version"), F.col("logged_at").alias("ended"), "evidence"
    )
    both = proposed.join(accepted, ["type_name", "version"], "left")
    outcome = F.when(F.col("ended").isNotNull(), "REMOVED")
    return _told(both, "REMOVAL", F.col("type_name"), outcome, F.col("evidence"), "ended")


def _changes(landed: Landed) -> DataFrame:
    """A change has the number of the first decision about it."""
    names = "array<struct<name:string>>"
    queued = landed.typed("SchemaChangeQueued", f"statements {names}").withColumnRenamed("statements", "steps")
    prepared = landed.typed("SchemaChangePrepared", f"change bigint, steps {names}")
    committed = landed.typed("SchemaChangeCommitted", f"changes array<bigint>, {_EVIDENCE}")
    committed = committed.withColumn("change", F.explode("changes")).drop("changes")
    rolled_back = landed.typed("SchemaChangeRolledBack", "change bigint")
    several = queued
    for each, outcome in ((prepared, None), (committed, "COMMITTED"), (rolled_back, "ROLLED_BACK")):
        told = each.withColumn("outcome", F.lit(outcome).cast("string"))
        several = several.unionByName(told, allowMissingColumns=True)
    several = landed.counted(several).withColumn("change", F.coalesce("change", "position"))
    first = F.min_by(F.struct("position", "logged_at", "by", "steps"), "position")
    end = F.max(F.when(F.col("outcome").isNotNull(), F.struct("position", "logged_at", "outcome", "evidence")))
    changes = several.groupBy("change").agg(first.alias("first"), end.alias("end"))
    flat = changes.select("first.*", "end", F.lit(None).cast("bigint").alias("version"))
    subject = F.array_join(F.array_distinct(F.transform("steps", lambda each: each["name"])), ", ")
    return _told(flat, "SCHEMA", subject, F.col("end.outcome"), F.col("end.evidence"), "end.logged_at")


def _told(found: DataFrame, kind: str, subject: Column, outcome: Column, evidence: Column, ended_at: str) -> DataFrame:
    return found.select(
        F.lit(kind).alias("kind"),
        subject.alias("subject"),
        "version",
        F.col("position").alias("proposed"),
        F.col("logged_at").alias("proposed_at"),
        F.col(ended_at).alias("ended_at"),
        F.coalesce(outcome, F.lit("OPEN")).alias("outcome"),
        evidence["presumed_fenced"].alias("presumed"),
        "by.actor",
        "by.reason",
    )


def summary(facts: DataFrame) -> DataFrame:
    """By day and kind: how many, how long the half of them took at most, and 95 of 100; `waited_out` counts those that
    waited for the fence of a silent server, and `slowest` is the one that took longest."""
    slowest = F.max_by(F.concat_ws(" ", "subject", F.concat(F.lit("v"), F.col("version"))), "latency_ms")
    return (
        facts.groupBy("date", "kind")
        .agg(
            F.count("*").alias("count"),
            F.count_if(F.col("outcome") == "OPEN").alias("open"),
            F.count_if(F.col("outcome") == "ROLLED_BACK").alias("rolled_back"),
            F.percentile_approx("latency_ms", 0.5).alias("p50_ms"),
            F.percentile_approx("latency_ms", 0.95).alias("p95_ms"),
            F.max("latency_ms").alias("max_ms"),
            F.count_if(F.size("presumed") > 0).alias("waited_out"),
            slowest.alias("slowest"),
        )
        .orderBy(F.desc("date"), "kind")
    )


def sentence(rows: Sequence[Fact]) -> str:
    count, opened = (sum(row[name] for row in rows) for name in ("count", "open"))
    ended = [row for row in rows if row["max_ms"] is not None]
    said = f"{many(count, 'proposal')}"
    if not ended:
        return f"{said}, and none has come to its end."
    worst = max(ended, key=lambda row: row["max_ms"])
    waited_out = sum(row["waited_out"] for row in rows)
    said += f"; the slowest was {worst['slowest']} on {worst['date']}: {span(worst['max_ms'])}"
    said += f"; {waited_out:,} had to wait out the fence of a silent server" if waited_out else ""
    return f"{said}; {opened:,} still open." if opened else f"{said}."


def pictures(rows: Sequence[Fact]) -> tuple[Picture, ...]:
    """A course of each kind that there was on several days; of the others only how long the slowest took."""
    days, found, single = days_of(rows), list[Picture](), dict[str, float]()
    for kind, title in _TITLES.items():
        by_day = {row["date"].isoformat(): row for row in rows if row["kind"] == kind and row["max_ms"] is not None}
        if len(by_day) == 1:
            single[_NAMES[kind]] = max(row["max_ms"] for row in by_day.values()) / 1000
        if len(by_day) > 1:
            lines = tuple(
                (label, tuple(by_day[day][name] if day in by_day else None for day in days))
                for name, label in (("p50_ms", "median"), ("p95_ms", "95 of 100"), ("max_ms", "slowest"))
            )
            found.append(Course(title, "time until it held everywhere (ms)", days, lines, is_log=True))
    if single:
        values = (("", tuple(single.values())),)
        found.append(Bars("How long the slowest took", "time until it held everywhere (s)", tuple(single), values))
    return tuple(found)


_NAMES = {"TYPE": "version of a type", "REMOVAL": "removal of a type", "SCHEMA": "change of tables"}
_TITLES = {
    "TYPE": "How long versions of types took from proposed to accepted",
    "REMOVAL": "How long removals of types took",
    "SCHEMA": "How long changes of tables took from decided to committed",
}

REPORT = Report(
    "agreements", "How long did it take until what was proposed held everywhere?", facts, summary, sentence, pictures
)
