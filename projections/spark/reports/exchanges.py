"""Exchanges: how long they took, in which stage, and for whom they waited longest.

QUEUED is the time from the event that asked for an exchange to its beginning, ANSWERS until the last server has
answered, OUTCOME from there to the end; HAND_OVER is a switch of primaries, which asks nobody but the one that hands
over. Whoever an exchange was completed without has kept it waiting to its end. The durations are those of `topolog get
exchanges`: between sets, by the log's own time.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.projections.spark.reports.forms import Bars, Fact, Picture, Report, many, span
from topolog.projections.spark.reports.landed import Landed, ms_between

_TRIGGERS = (
    "triggers array<struct<type:string,subject:string,at:bigint,version:struct<major:bigint,minor:bigint>>>, "
    "awaited array<struct<node:string>>"
)
_NAMED = 15
"""Culprits that a picture has room for."""


def facts(landed: Landed) -> DataFrame:
    """kind, version, types, started (position), started_at, completed_at (null while open), duration_ms, queued_ms,
    answers_ms, outcome_ms, was_overdue, culprit and for how long it was waited for, unheard, date."""
    found = _exchanges(landed).unionByName(_hand_overs(landed))
    end = F.coalesce("completed_at", landed.end)
    return landed.asked(found.withColumn("duration_ms", F.unix_millis(end) - F.unix_millis("started_at")), "started_at")


def _exchanges(landed: Landed) -> DataFrame:
    """One is open at a time, so what follows a beginning belongs to it."""
    started = landed.typed("ExchangeStarted", _TRIGGERS).withColumn("began", F.lit(1))
    merged = landed.typed("ExchangeMerged", _TRIGGERS)
    overdue = landed.typed("ExchangeOverdue").withColumn("was_overdue", F.lit(True))
    completed = landed.typed(
        "ExchangeCompleted", "waited array<struct<node:string,waited_ms:bigint>>, unheard array<string>"
    )
    completed = completed.withColumn("is_end", F.lit(True))
    left = landed.typed("NodeLeft", "node string").withColumnRenamed("node", "gone")
    several = started
    for each in (merged, overdue, completed, left):
        several = several.unionByName(each, allowMissingColumns=True)
    in_order = Window.orderBy("position")
    numbered = landed.counted(several).withColumn("number", F.sum("began").over(in_order))
    begun = F.struct("position", "logged_at", "triggers", "awaited")
    took_up = F.array_sort(F.collect_list(F.when(F.col("triggers").isNotNull(), begun)))
    gone = F.collect_list(F.when(F.col("gone").isNotNull(), F.struct("logged_at", "gone")))
    found = (
        numbered.where(F.col("number").isNotNull())
        .groupBy("number")
        .agg(
            F.min("position").alias("started"),
            F.min("logged_at").alias("started_at"),
            F.max(F.when(F.col("is_end"), F.col("logged_at"))).alias("completed_at"),
            took_up.alias("took_up"),
            gone.alias("gone"),
            F.coalesce(F.max("was_overdue"), F.lit(False)).alias("was_overdue"),
            F.max(F.when(F.col("is_end"), F.struct("position", "waited", "unheard"))).alias("said"),
        )
        .withColumn("triggers", F.flatten(F.transform("took_up", lambda each: each["triggers"])))
        .withColumn("asked", F.col("triggers")[0]["at"])
    )
    asked = landed.positions().select(F.col("position").alias("asked"), F.col("logged_at").alias("asked_at"))
    return _with_stages(found.join(asked, "asked", "left"))


def _with_stages(found: DataFrame) -> DataFrame:
    """Who was waited for longest: of those who answered, who left unanswered, or was not heard until the end."""
    duration = ms_between("started_at", "completed_at")
    answered = F.transform(
        "said.waited", lambda each: F.struct(each["waited_ms"].alias("ms"), each["node"].alias("node"))
    )
    longest = F.array_max(F.concat(answered, _left_unanswered()))
    is_deaf = F.size("said.unheard") > 0
    answers = F.when(is_deaf, duration).when(longest.isNotNull(), F.least(longest["ms"], duration))
    version = F.col("triggers")[0]["version"]
    return found.select(
        F.lit("EXCHANGE").alias("kind"),
        F.concat_ws(".", version["major"], version["minor"]).alias("version"),
        F.array_distinct(F.transform("triggers", lambda each: each["type"])).alias("types"),
        "started",
        "started_at",
        "completed_at",
        ms_between("asked_at", "started_at").alias("queued_ms"),
        F.when(F.col("completed_at").isNotNull(), F.coalesce(answers, F.lit(0))).alias("answers_ms"),
        (duration - F.coalesce(answers, F.lit(0))).alias("outcome_ms"),
        "was_overdue",
        F.when(is_deaf, F.col("said.unheard")[0]).otherwise(longest["node"]).alias("culprit"),
        F.when(is_deaf, duration).otherwise(longest["ms"]).alias("culprit_ms"),
        F.coalesce("said.unheard", F.array().cast("array<string>")).alias("unheard"),
    )


def _left_unanswered() -> Column:
    """Servers that were asked and left before they had answered: waited for until they left."""
    asked = F.flatten(F.transform("took_up", lambda each: F.transform(each["awaited"], lambda one: one["node"])))
    answered = F.coalesce(F.transform("said.waited", lambda each: each["node"]), F.array().cast("array<string>"))
    meanwhile = F.filter(
        "gone",
        lambda each: (
            F.array_contains(asked, each["gone"])
            & ~F.array_contains(answered, each["gone"])
            & (F.col("completed_at").isNull() | (each["logged_at"] <= F.col("completed_at")))
        ),
    )
    return F.transform(
        meanwhile,
        lambda each: F.struct(
            (F.unix_millis(each["logged_at"]) - F.unix_millis("started_at")).alias("ms"), each["gone"].alias("node")
        ),
    )


def _hand_overs(landed: Landed) -> DataFrame:
    """Those that are done, as an exchange of type SWITCH; who handed over is whom it waited for."""
    prepared = landed.counted(landed.typed("HandOverPrepared", "node string")).select(
        F.col("position").alias("prepared"), F.col("logged_at").alias("started_at"), F.col("node").alias("culprit")
    )
    switched = landed.counted(
        landed.typed("AffinitySwitched", "prepared bigint, version struct<major:bigint,minor:bigint>")
    )
    none = F.lit(None).cast("bigint")
    return switched.join(prepared, "prepared").select(
        F.lit("HAND_OVER").alias("kind"),
        F.concat_ws(".", "version.major", "version.minor").alias("version"),
        F.array(F.lit("SWITCH")).alias("types"),
        F.col("prepared").alias("started"),
        "started_at",
        F.col("logged_at").alias("completed_at"),
        none.alias("queued_ms"),
        none.alias("answers_ms"),
        none.alias("outcome_ms"),
        F.lit(False).alias("was_overdue"),
        "culprit",
        ms_between("started_at", "logged_at").alias("culprit_ms"),
        F.array().cast("array<string>").alias("unheard"),
    )


def summary(facts: DataFrame) -> DataFrame:
    """By stage, and in the stages that wait for somebody by whom they waited for longest; the costliest first."""
    is_exchange = F.col("kind") == "EXCHANGE"
    nobody = F.lit(None).cast("string")
    stages = F.array(
        F.struct(F.lit("QUEUED").alias("stage"), nobody.alias("culprit"), F.col("queued_ms").alias("ms")),
        F.struct(F.lit("ANSWERS").alias("stage"), F.col("culprit"), F.col("answers_ms").alias("ms")),
        F.struct(F.lit("OUTCOME").alias("stage"), nobody.alias("culprit"), F.col("outcome_ms").alias("ms")),
    )
    hand_over = F.array(F.struct(F.lit("HAND_OVER").alias("stage"), F.col("culprit"), F.col("culprit_ms").alias("ms")))
    told = facts.select("was_overdue", F.explode(F.when(is_exchange, stages).otherwise(hand_over)).alias("of"))
    told = told.select("was_overdue", "of.*").where(F.col("ms").isNotNull())
    told = told.where((F.col("stage") != "ANSWERS") | F.col("culprit").isNotNull())  # the others waited for nobody
    return (
        told.groupBy("stage", "culprit")
        .agg(
            F.count("*").alias("count"),
            F.percentile_approx("ms", 0.5).alias("p50_ms"),
            F.percentile_approx("ms", 0.95).alias("p95_ms"),
            F.max("ms").alias("max_ms"),
            F.sum("ms").alias("total_ms"),
            F.count_if((F.col("stage") == "ANSWERS") & F.col("was_overdue")).alias("overdue"),
        )
        .orderBy(F.desc("total_ms"), "stage", "culprit")
    )


def sentence(rows: Sequence[Fact]) -> str:
    waits = [row for row in rows if row["culprit"]]
    exchanges = sum(row["count"] for row in rows if row["stage"] == "OUTCOME")
    said = f"{many(exchanges, 'exchange')} completed"
    switched = sum(row["count"] for row in rows if row["stage"] == "HAND_OVER")
    said += f" and {many(switched, 'hand-over')}" if switched else ""
    if not waits:
        return f"{said}; they waited for nobody."
    worst = max(waits, key=lambda row: row["total_ms"])
    overdue = sum(row["overdue"] for row in rows)
    late = f"; {many(overdue, 'exchange')} overdue" if overdue else ""
    return (
        f"{said}. Most time was spent waiting for {worst['culprit']}: {span(worst['total_ms'])} in "
        f"{many(worst['count'], 'wait')}, the longest {span(worst['max_ms'])}{late}."
    )


def pictures(rows: Sequence[Fact]) -> tuple[Picture, ...]:
    stages = tuple(dict.fromkeys(row["stage"] for row in rows))
    by_stage = [
        (label, sum(row["total_ms"] for row in rows if row["stage"] == stage) / 1000)
        for stage, label in _STAGES.items()
        if stage in stages
    ]
    waits: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["culprit"]:
            waits.setdefault(row["culprit"], {})[row["stage"]] = row["total_ms"] / 1000
    named = sorted(waits, key=lambda name: -sum(waits[name].values()))[:_NAMED]
    parts = tuple(
        (label, tuple(waits[name].get(stage, 0.0) for name in named))
        for stage, label in (("ANSWERS", "its answer to an exchange"), ("HAND_OVER", "its hand-over"))
    )
    return (
        Bars(
            "Where the time of exchanges goes",
            "time in all exchanges (s)",
            tuple(name for name, _ in by_stage),
            (("", tuple(seconds for _, seconds in by_stage)),),
        ),
        Bars("Whom exchanges waited for longest", "time waited for (s)", tuple(named), parts),
    )


_STAGES = {
    "QUEUED": "waiting for its turn",
    "ANSWERS": "waiting for answers",
    "OUTCOME": "deciding",
    "HAND_OVER": "handing over",
}

REPORT = Report(
    "exchanges", "How long did exchanges take, in which stage, and because of whom?", facts, summary, sentence, pictures
)
