"""A report of an archive as CSV: names that strangers have chosen are cells among others."""

import csv
from io import StringIO

from topolog.commands.spark_report import _csv
from topolog.projections.spark.reports.making import Made


def told(*names: str) -> list[list[str]]:
    """The cells of a report on these, as whoever opens it reads them."""
    rows = tuple({"node": name, "died": -3, "share": -0.5} for name in names)
    head, *cells = csv.reader(StringIO(_csv(Made("leases", "", "", ("node", "died", "share"), rows, (), 0.1))))
    assert head == ["node", "died", "share"]
    return cells


def test_no_cell_of_a_report_is_a_formula() -> None:
    """OP14: a spreadsheet runs it with whoever looks at the report. Numbers stay numbers."""
    names = ("=cmd|'/c calc'!A1", "+1+cmd", "-1+cmd", "@SUM(A1)")
    assert told(*names) == [[f"'{name}", "-3", "-0.5"] for name in names]


def test_what_a_stranger_wrote_into_a_report_ends_no_line_and_drives_no_terminal() -> None:
    """What stands behind the end of a line is a row, and a formula again."""
    names = ("\t=1", "\r=1", "\n=1", "n1\r=cmd", "\x1b]0;owned\x07")
    assert told(*names) == [[repr(name)[1:-1], "-3", "-0.5"] for name in names]
