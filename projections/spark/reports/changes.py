"""Changes and refusals: who asked for what, why, and what came of it.

Every decision that answers a request is its one outcome (K7), so the types that have a `request` are what is counted,
whichever they are. What validators, the rendezvous and nodes tell of work that goes on is a request too, and by far the
most frequent one: `is_report` says so, and neither the sentence nor the pictures have it.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.codec import DECISIONS
from topolog.events.metadata import MetadataUpdateRejected
from topolog.events.objects import DataDeletionConfirmed
from topolog.events.repair import PairCompared, RowsCompared, TaskCompleted, TaskFailed, TaskProgressed
from topolog.events.requests import RequestRefused, RequestUnchanged
from topolog.projections.spark.reports.forms import Bars, Fact, Picture, Report, many
from topolog.projections.spark.reports.landed import Landed

ANSWERS = tuple(each for each in DECISIONS if "request" in getattr(each, "__struct_fields__", ()))
"""The decisions that may be the outcome of a request."""

WORK_REPORTS = (TaskProgressed, TaskCompleted, TaskFailed, PairCompared, RowsCompared, DataDeletionConfirmed)
"""What answers a program that tells how its work goes on."""

REFUSED = (RequestRefused, MetadataUpdateRejected)
OUTCOMES = ("GRANTED", "UNCHANGED", "REFUSED")
_NAMED = 15
_UNKNOWN = "(nobody named)"


def facts(landed: Landed) -> DataFrame:
    """position, logged_at, actor, reason, requester, what (the decision; of a refusal what it was about), outcome
    (GRANTED, UNCHANGED, REFUSED), code and rule of a refusal, is_report, date."""
    several = reduce(DataFrame.unionByName, [_of_type(landed, each) for each in ANSWERS])
    asked = several.where(F.col("request").isNotNull())
    return landed.asked(
        landed.counted(asked).select(
            "position",
            "logged_at",
            F.col("by.actor").alias("actor"),
            F.col("by.reason").alias("reason"),
            F.col("request.requester").alias("requester"),
            "what",
            "outcome",
            "code",
            "rule",
            F.col("what").isin([each.__name__ for each in WORK_REPORTS]).alias("is_report"),
        ),
        "logged_at",
    )


def _of_type(landed: Landed, type_: type) -> DataFrame:
    request = "request struct<requester:string>"
    nothing = F.lit(None).cast("string")
    outcome = "REFUSED" if type_ in REFUSED else "UNCHANGED" if type_ is RequestUnchanged else "GRANTED"
    refused = "subject" if type_ is RequestRefused else "type_name" if type_ is MetadataUpdateRejected else ""
    fields = f"{request}, {refused} string, code string, rule string" if refused else request
    found = landed.typed(type_.__name__, fields)
    what = F.substring_index("subject", " ", 1) if type_ is RequestRefused else F.lit(type_.__name__)
    return found.select(
        "offset",
        "by",
        "request",
        what.alias("what"),
        F.lit(outcome).alias("outcome"),
        (F.col("code") if refused else nothing).alias("code"),
        (F.col("rule") if refused else nothing).alias("rule"),
    )


def summary(facts: DataFrame) -> DataFrame:
    """By actor, reason, what was asked for and what came of it; the most frequent first, reports behind all others."""
    return (
        facts.groupBy("is_report", "actor", "reason", "what", "outcome", "code")
        .agg(
            F.count("*").alias("count"),
            F.min("logged_at").alias("first"),
            F.max("logged_at").alias("last"),
        )
        .orderBy("is_report", F.desc("count"), "actor", "reason", "what", "outcome", "code")
        .select("actor", "reason", "what", "outcome", "code", "count", "first", "last", "is_report")
    )


def sentence(rows: Sequence[Fact]) -> str:
    reports = sum(row["count"] for row in rows if row["is_report"])
    rows = [row for row in rows if not row["is_report"]]
    if not rows:
        return f"Nobody asked for anything; {many(reports, 'report')} of work that went on."
    by_outcome = {outcome: sum(row["count"] for row in rows if row["outcome"] == outcome) for outcome in OUTCOMES}
    whole = sum(by_outcome.values())
    busiest = max(_actors(rows).items(), key=lambda pair: sum(pair[1].values()))
    said = f"{many(whole, 'request')}, {by_outcome['REFUSED']:,} of them refused; most came from {busiest[0]}"
    refused = [row for row in rows if row["outcome"] == "REFUSED"]
    if not refused:
        return f"{said}."
    worst = max(refused, key=lambda row: row["count"])
    why = f", who gave as reason {worst['reason']!r}" if worst["reason"] else ""
    whose = f"{worst['code']} of {worst['actor'] or _UNKNOWN}{why}"
    return f"{said}. The most frequent refusal is {whose}: {worst['count']:,}."


def pictures(rows: Sequence[Fact]) -> tuple[Picture, ...]:
    rows = [row for row in rows if not row["is_report"]]
    if not rows:
        return ()
    actors = _actors(rows)
    named = sorted(actors, key=lambda actor: -sum(actors[actor].values()))[:_NAMED]
    parts = tuple(
        (outcome.lower(), tuple(float(actors[actor].get(outcome, 0)) for actor in named)) for outcome in OUTCOMES
    )
    found: list[Picture] = [Bars("Who asked, and what came of it", "requests (count)", tuple(named), parts)]
    codes: dict[str, int] = {}
    for row in rows:
        if row["outcome"] == "REFUSED":
            codes[row["code"]] = codes.get(row["code"], 0) + row["count"]
    if codes:
        worst = sorted(codes, key=lambda code: -codes[code])[:_NAMED]
        counts = tuple(float(codes[code]) for code in worst)
        found.append(Bars("Why requests were refused", "refusals (count)", tuple(worst), (("", counts),)))
    return tuple(found)


def _actors(rows: Sequence[Fact]) -> dict[str, dict[str, int]]:
    actors: dict[str, dict[str, int]] = {}
    for row in rows:
        counts = actors.setdefault(row["actor"] or _UNKNOWN, {})
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + row["count"]
    return actors


REPORT = Report("changes", "Who asked for what, why, and what was refused?", facts, summary, sentence, pictures)
