"""`topolog spark report` as it is typed."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.reports.history import day

from topolog.commands.spark import SparkOptions
from topolog.commands.spark_report import Between, Output, report
from topolog.events.errors import BadInput
from topolog.projections.archive.landings import Archive
from topolog.projections.spark.reports.making import REPORTS

SECONDS = 300


def typed(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "topolog", "spark", "report", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_all_reports_are_shown_and_kept(archive: Archive, tmp_path: Path) -> None:
    kept = tmp_path / "reports"
    done = typed("--from", str(archive.folder), "--to", str(kept))
    assert done.returncode == 0, done.stderr
    titles = [line.split(":")[0] for line in done.stdout.splitlines() if ": " in line]
    assert [title for title in titles if title.islower()] == [each.name for each in REPORTS]
    assert "STAGE" in done.stdout
    assert "chain verified from the first record to position" in done.stderr
    assert "<svg" in (kept / "index.html").read_text()
    document = json.loads((kept / "reports.json").read_text())
    assert [each["name"] for each in document["reports"]] == [each.name for each in REPORTS]


def test_a_table_of_some_days_for_programs(archive: Archive) -> None:
    words = ("leases", "--from", str(archive.folder), "--since", day(1), "--until", day(1), "-o", "csv")
    done = typed(*words)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {row["node"]: row["died"] for row in rows} == {"n2": "1", "n3": "2"}
    assert next(row for row in rows if row["node"] == "n2")["fencings"] == "4"


def test_what_is_wrong_is_said_before_spark_starts(archive: Archive, tmp_path: Path) -> None:
    for names, output, between, said in (
        (["lease"], Output.TABLE, Between(), "no report 'lease'"),
        (None, Output.CSV, Between(), "prints one table"),
        (None, Output.TABLE, Between("yesterday"), "takes a day"),
        (None, Output.TABLE, Between("2026-11-02", "2026-11-01"), "is behind"),
    ):
        with pytest.raises(BadInput, match=said):
            report(archive=archive.folder, names=names, output=output, between=between, spark=SparkOptions())
    with pytest.raises(BadInput, match="is no archive"):
        report(archive=tmp_path, between=Between(), spark=SparkOptions())
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        report(archive=archive.folder, to=tmp_path / "file", between=Between(), spark=SparkOptions())
