"""An incident from the landed tables: what the fold accepted in a span of time, in its order."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.spark.reports.conftest import MakeLanded
from tests.spark.reports.history import DAY_MS, History
from tests.spark.reports.test_numbers import folded

from topolog.projections.archive.landings import Archive
from topolog.projections.spark.reports.incident import incident
from topolog.projections.spark.reports.landed import Days

SCRIPT = Path(__file__).parents[3] / "docs" / "incident.py"


def second_day(history: History) -> tuple[datetime, datetime]:
    start_ms = history.chronicle.entries[0].appended_at_ms + DAY_MS
    return datetime.fromtimestamp(start_ms / 1000, UTC), datetime.fromtimestamp((start_ms + DAY_MS) / 1000, UTC)


def test_it_has_every_decision_that_counts_in_order(landed: MakeLanded, history: History) -> None:
    start, end = second_day(history)
    expected = [
        (each.place.position, type(each.event).__name__, each.stamp.actor)
        for now_ms, decisions in folded(history)
        for each in decisions
        if start.timestamp() * 1000 <= now_ms < end.timestamp() * 1000 and type(each.event).__name__ != "LeasesRenewed"
    ]
    rows = incident(landed(Days()), start, end).collect()
    assert [(row.position, row.decision, row.actor) for row in rows] == expected
    assert len(rows) > 20
    left = next(row for row in rows if row.decision == "NodeLeft")
    assert json.loads(left.content)["node"] == "n3"


def test_the_script_prints_it(archive: Archive, history: History) -> None:
    """As a notebook's cell would."""
    start, end = (at.isoformat() for at in second_day(history))
    command = [sys.executable, str(SCRIPT), str(archive.folder), start, end]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "ExchangeOverdue" in done.stdout
