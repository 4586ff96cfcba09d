"""An incident: everything that was decided in a span of time, in order, as a notebook shows it."""

from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.codec import DECISIONS
from topolog.events.membership import LeasesRenewed
from topolog.projections.spark.reports.landed import Landed

_SHARED = ("date", "log", "stamp")


def incident(landed: Landed, start: datetime, end: datetime) -> DataFrame:
    """position, time, decision, actor, reason, cause and content (JSON) of all that counts, but for renewals of leases.

    `start` and `end` have a time zone.
    """
    several = None
    for name in (each.__name__ for each in DECISIONS if each is not LeasesRenewed):
        table = landed.whole(name)
        if table is None:
            continue
        fields = [field for field in table.columns if field not in _SHARED]
        told = table.select(
            F.col("log.offset").alias("offset"),
            F.lit(name).alias("decision"),
            "stamp.actor",
            "stamp.reason",
            "stamp.cause",
            F.to_json(F.struct(*fields)).alias("content"),
        )
        several = told if several is None else several.unionByName(told)
    assert several is not None, "what is judged has landed in a table, or in the quarantine"
    counted = landed.counted(several)
    ms = F.unix_millis("logged_at")
    within = counted.where((ms >= _ms(start)) & (ms < _ms(end)))
    columns = ("position", F.col("logged_at").alias("time"), "decision", "actor", "reason", "cause", "content")
    return within.select(*columns).orderBy("position")


def _ms(at: datetime) -> int:
    assert at.tzinfo is not None, "a time without a time zone is no time"
    return round(at.astimezone(UTC).timestamp() * 1000)
