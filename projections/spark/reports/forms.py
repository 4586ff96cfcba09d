"""What a report is, and the forms its picture may have. Nothing here draws: `pictures.py` does."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from pyspark.sql import DataFrame

from topolog.projections.spark.reports.landed import Landed

Fact = Mapping[str, Any]
"""One row of a summary."""


class Bars(msgspec.Struct, frozen=True):
    """Lying bars: a name and its parts, which add up. `axis` names what is measured and its unit.
    `is_ordered`: the parts go from good to bad, as ages do."""

    title: str
    axis: str
    names: tuple[str, ...]
    parts: tuple[tuple[str, tuple[float, ...]], ...]
    is_ordered: bool = False


class Course(msgspec.Struct, frozen=True):
    """Something by day. Points are joined where days follow each other; None where a day has none. `is_stacked`: parts
    of a whole, as columns."""

    title: str
    axis: str
    days: tuple[str, ...]
    lines: tuple[tuple[str, tuple[float | None, ...]], ...]
    is_stacked: bool = False
    is_log: bool = False


Picture = Bars | Course


class Report(msgspec.Struct, frozen=True):
    """A question and how it is answered.

    `facts` has a row for each thing that is counted, `summary` is what people are shown of them, the most important row
    first. `sentence` says what an operator wants to know first; it and `pictures` get the rows of the summary, at least
    one.
    """

    name: str
    question: str
    facts: Callable[[Landed], DataFrame]
    summary: Callable[[DataFrame], DataFrame]
    sentence: Callable[[Sequence[Fact]], str]
    pictures: Callable[[Sequence[Fact]], tuple[Picture, ...]]
    folds: bool = False
    """Whether its facts are made of tenures, for which the log is folded."""


def days_of(rows: Sequence[Fact]) -> tuple[str, ...]:
    """Every day from the first to the last that rows have (column `date`)."""
    dates = [row["date"] for row in rows]
    first, last = min(dates), max(dates)
    return tuple((first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1))


def span(milliseconds: float) -> str:
    """A length of time as people read it: 850 ms, 12.4 s, 3 min, 5.2 h, 3.1 d."""
    for unit, length, digits in (("d", 86_400_000, 1), ("h", 3_600_000, 1), ("min", 60_000, 1), ("s", 1_000, 1)):
        if milliseconds >= length * (2 if unit != "s" else 1):
            return f"{milliseconds / length:,.{digits}f} {unit}"
    return f"{milliseconds:,.0f} ms"


def many(count: int, noun: str) -> str:
    """`1 exchange`, `3 exchanges`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
