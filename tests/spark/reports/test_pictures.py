"""Pictures: what is drawn is what was told, whatever the names and numbers are."""

import re

import pytest

from topolog.projections.spark.reports.forms import Bars, Course, many, span
from topolog.projections.spark.reports.pictures import svg


def texts(drawn: str) -> list[str]:
    return re.findall(r">([^<>]+)</text>", drawn)


def test_bars_have_names_numbers_a_title_and_an_axis_with_its_unit() -> None:
    drawn = texts(svg(Bars("Who waits", "time (s)", ("n1", "n2"), (("", (12.0, 3.5)),))))
    assert {"Who waits", "time (s)", "n1", "n2", "12", "3.5"} <= set(drawn)


def test_parts_are_named_in_a_legend() -> None:
    drawn = texts(svg(Bars("t", "s", ("n1",), (("left", (1.0,)), ("eaten", (2.0,))))))
    assert {"left", "eaten"} <= set(drawn)


def test_a_course_names_days_and_lines() -> None:
    days = tuple(f"2026-11-{number:02}" for number in range(1, 29))
    picture = Course("t", "ms", days, (("median", tuple(float(number) for number in range(28))),))
    drawn = texts(svg(picture))
    assert {"day (UTC)", "ms", "median", "2026-11-01"} <= set(drawn)
    assert sum(text.startswith("2026-11") for text in drawn) <= 7, "as many as can be read"


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("values", [(None, 5.0, None), (0.0, 0.0, 0.0), (0.0, 1e9, 3.0)])
def test_days_without_a_value_and_zeros_can_be_drawn(values: tuple[float | None, ...], is_log: bool) -> None:
    days = ("2026-11-01", "2026-11-02", "2026-11-03")
    assert svg(Course("t", "ms", days, (("all", values),), is_log=is_log)).startswith("<svg")
    assert svg(Course("t", "ms", days, (("all", values),), is_stacked=True)).startswith("<svg")


def test_names_of_strangers_break_nothing() -> None:
    drawn = svg(Bars("t", "s", ("$x_{1", "<b>&", "a" * 300, "\x1b[31m"), (("", (1.0, 2.0, 3.0, 0.0)),)))
    assert "<b>" not in drawn
    assert f"{'a' * 43}…" in texts(drawn)
    assert "$x_{1" in texts(drawn)


def test_the_same_picture_is_the_same_bytes() -> None:
    picture = Bars("t", "s", ("n1",), (("", (1.0,)),))
    assert svg(picture) == svg(picture)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (850, "850 ms"),
        (12_400, "12.4 s"),
        (200_000, "3.3 min"),
        (18_720_000, "5.2 h"),
        (3 * 86_400_000, "3.0 d"),
    ],
)
def test_spans_are_told_in_their_unit(ms: int, text: str) -> None:
    assert span(ms) == text


def test_one_is_no_plural() -> None:
    assert (many(1, "wait"), many(2_000, "wait")) == ("1 wait", "2,000 waits")
