"""Making reports: from an archive to Parquet tables, and to what people are shown of them.

Of each report there are two tables, `facts` and `summary`; what is shown is made of the summary alone, which is made of
the facts as they were written. A report without facts says so.
"""

import json
import time
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from pyspark.sql.types import TimestampType

from topolog.events.errors import BadInput
from topolog.projections.archive.derived import Told
from topolog.projections.archive.positions import Positions
from topolog.projections.spark.reports import agreements, changes, exchanges, leases, primaries, repairs
from topolog.projections.spark.reports.forms import Picture, Report
from topolog.projections.spark.reports.landed import Days, Landed
from topolog.projections.spark.steps import UNKNOWN_SCHEMA

REPORTS: tuple[Report, ...] = (
    primaries.REPORT,
    exchanges.REPORT,
    agreements.REPORT,
    leases.REPORT,
    changes.REPORT,
    repairs.REPORT,
)
NOTHING = "There is nothing to tell: the archive has no facts of this kind."
UNDECODED_NAMED = 5


class Made(msgspec.Struct, frozen=True):
    """One report. `rows` are those of the summary, none if there is nothing to tell; `took_s` is for people."""

    name: str
    question: str
    sentence: str
    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    pictures: tuple[Picture, ...]
    took_s: float


class Whole(msgspec.Struct, frozen=True):
    """What was made of an archive: of which records, and the reports."""

    cluster: str
    positions: Positions
    days: Days
    warnings: tuple[str, ...]
    made: tuple[Made, ...]


def chosen(names: Sequence[str]) -> tuple[Report, ...]:
    """The reports of these names, all if there are none; raises BadInput for a name that none has."""
    by_name = {report.name: report for report in REPORTS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise BadInput(f"There is no report {unknown[0]!r}.", hint=f"There are {', '.join(by_name)}.")
    return tuple(by_name[name] for name in dict.fromkeys(names)) or REPORTS


def make(landed: Landed, folder: Path, reports: Sequence[Report] = REPORTS, told: Told = lambda _: None) -> Whole:
    """Make these reports, as tables below `folder`, one after the other."""
    warnings = landed.steady(lambda: tuple(_warnings(landed)))
    made = []
    for report in reports:
        told(f"report {report.name}")
        made.append(_made(landed, report, folder / report.name))
    return Whole(landed.cluster, landed.judged, landed.days, warnings, tuple(made))


def _made(landed: Landed, report: Report, folder: Path) -> Made:
    began_s = time.monotonic()
    landed.steady(lambda: report.facts(landed).write.mode("overwrite").parquet(str(folder / "facts")))
    session = landed.session
    summary = report.summary(session.read.parquet(str(folder / "facts")))
    summary.coalesce(1).write.mode("overwrite").parquet(str(folder / "summary"))
    rows = tuple(
        row.asDict(recursive=True) for row in _for_people(session.read.parquet(str(folder / "summary"))).collect()
    )
    return Made(
        name=report.name,
        question=report.question,
        sentence=report.sentence(rows) if rows else NOTHING,
        columns=tuple(summary.columns),
        rows=rows,
        pictures=report.pictures(rows) if rows else (),
        took_s=time.monotonic() - began_s,
    )


def _for_people(summary: DataFrame) -> DataFrame:
    """With times as text (UTC): as values they would come in the time zone of this machine."""
    times = [field.name for field in summary.schema if isinstance(field.dataType, TimestampType)]
    return summary.withColumns({name: F.date_format(name, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'") for name in times})


def _warnings(landed: Landed) -> Iterable[str]:
    positions, days = landed.judged, landed.days
    if days.last and positions.logged_at.date() < days.last:
        yield f"The archive ends at {positions.logged_at:%Y-%m-%d %H:%M:%S} (UTC), before {days.last} does."
    undecoded = landed.undecoded().orderBy("position").limit(UNDECODED_NAMED).collect()
    for row in undecoded:
        said = f"The decision at position {row['position']} counts and is in no table ({row['reason']}): "
        if row["reason"] == UNKNOWN_SCHEMA:
            yield f"{said}a later release has written it. Land the topics anew with that one, in another folder."
        else:
            yield f"{said}live readers stop there until it is voided, and these reports do not tell of it."


def document(whole: Whole) -> dict[str, Any]:
    """All that was made, for programs."""
    return {
        "cluster": whole.cluster,
        "as_of": whole.positions.logged_at.isoformat(timespec="milliseconds"),
        "from": whole.days.first.isoformat() if whole.days.first else None,
        "until": whole.days.last.isoformat() if whole.days.last else None,
        "decisions": whole.positions.accepted - len(whole.positions.voided),
        "left_out": {**whole.positions.ignored, "VOIDED": len(whole.positions.voided)},
        "verified": {"position": whole.positions.verified_at, "chain": whole.positions.chain},
        "warnings": list(whole.warnings),
        "reports": [
            {
                "name": made.name,
                "question": made.question,
                "sentence": made.sentence,
                "rows": [{name: plain(value) for name, value in row.items()} for row in made.rows],
            }
            for made in whole.made
        ],
    }


def as_json(whole: Whole) -> str:
    return json.dumps(document(whole), indent=2, ensure_ascii=False) + "\n"


def plain(value: Any) -> Any:
    """A value of a row as JSON has it."""
    return value.isoformat() if isinstance(value, date) else value
