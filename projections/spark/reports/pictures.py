"""Pictures of reports: SVG that stands within a page, so that the page needs no network and no script.

Colours are those of Okabe and Ito, which people tell apart however they see colours; parts are hatched besides, and
what goes from good to bad goes from light to dark.
"""

import io
import math
from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from topolog.projections.spark.reports.forms import Bars, Course, Picture

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999")
_COLOUR_OF = {"refused": "#D55E00", "lost": "#D55E00", "unchanged": "#999999"}
"""What is bad is so in every picture."""
_ORDERED = ("#c6e2f3", "#7fb8dc", "#3d86b8", "#125082", "#d9d9d9")
_HATCHES = ("", "///", "...", "\\\\\\", "xx", "--", "++")
_MARKERS = ("o", "s", "^", "D", "v")
_INK, _FAINT = "#222222", "#dddddd"
_WIDTH_IN = 9.0
_NAME_MAX = 44
_DAYS_NAMED = 7
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "topolog",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 10,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "hatch.linewidth": 0.6,
    "text.parse_math": False,
}


def svg(picture: Picture) -> str:
    """The picture as an element of a page."""
    with rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_IN, _height_in(picture)), layout="constrained")
        axes = figure.add_subplot()
        if isinstance(picture, Bars):
            _bars(axes, picture)
        else:
            _course(axes, picture)
        axes.set_title(
            picture.title, loc="left", fontsize=12, fontweight="bold", pad=28 if _needs_legend(picture) else 10
        )
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    text = written.getvalue()
    return text[text.index("<svg") :]


def _height_in(picture: Picture) -> float:
    return 1.5 + 0.34 * max(2, len(picture.names)) if isinstance(picture, Bars) else 3.8


def _needs_legend(picture: Picture) -> bool:
    parts = picture.parts if isinstance(picture, Bars) else picture.lines
    return any(label for label, _ in parts)


def _bars(axes: Axes, picture: Bars) -> None:
    lines = list(range(len(picture.names)))
    starts = [0.0] * len(picture.names)
    for number, (label, values) in enumerate(picture.parts):
        if not any(values) and not picture.is_ordered:
            continue
        colours = _ORDERED if picture.is_ordered else _COLOURS
        is_hatched = not picture.is_ordered or number == len(picture.parts) - 1
        axes.barh(
            lines,
            values,
            left=starts,
            height=0.68,
            label=label,
            color=_COLOUR_OF.get(label, colours[number % len(colours)]),
            hatch=_HATCHES[min(number, len(_HATCHES) - 1)] if is_hatched else "",
            edgecolor="white",
            linewidth=0.6,
        )
        starts = [start + value for start, value in zip(starts, values, strict=True)]
    if not picture.is_ordered:
        for line, whole in zip(lines, starts, strict=True):
            axes.annotate(
                _number(whole), (whole, line), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9
            )
    axes.set_yticks(lines, [_short(name) for name in picture.names])
    axes.set_ylim(max(2, len(picture.names)) - 0.4, -0.6)
    axes.set_xlabel(picture.axis)
    axes.set_xlim(0, max(starts, default=1.0) * (1.0 if picture.is_ordered else 1.12) or 1.0)
    is_whole = all(value == int(value) for _, values in picture.parts for value in values)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=is_whole))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
    axes.xaxis.grid(visible=True, color=_FAINT)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    _legend(axes, picture)


def _course(axes: Axes, picture: Course) -> None:
    at = list(range(len(picture.days)))
    if picture.is_stacked:
        _columns(axes, picture)
    else:
        for number, (label, values) in enumerate(picture.lines):
            axes.plot(
                at,
                [float("nan") if value is None else value for value in values],
                label=label,
                color=_COLOURS[number % len(_COLOURS)],
                marker=_MARKERS[number % len(_MARKERS)],
                markersize=5,
                linewidth=1.6,
            )
    if picture.is_log and any(value for _, values in picture.lines for value in values):
        axes.set_yscale("log")
        axes.set_ylim(*_decades([value for _, values in picture.lines for value in values if value]))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
    axes.set_ylabel(picture.axis)
    axes.set_xlabel("day (UTC)")
    every = max(1, -(-len(picture.days) // _DAYS_NAMED))
    axes.set_xticks(at[::every], [day for number, day in enumerate(picture.days) if number % every == 0])
    axes.set_xlim(-0.6, len(picture.days) - 0.4)
    axes.yaxis.grid(visible=True, color=_FAINT)
    axes.set_axisbelow(True)
    _legend(axes, picture)


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """From the power of ten below all of them to the one above."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _columns(axes: Axes, picture: Course) -> None:
    bottoms = [0.0] * len(picture.days)
    for number, (label, values) in enumerate(picture.lines):
        heights = [value or 0.0 for value in values]
        axes.bar(
            range(len(heights)),
            heights,
            bottom=bottoms,
            width=0.7 if len(heights) > 3 else 0.3,
            label=label,
            color=_COLOUR_OF.get(label, _COLOURS[number % len(_COLOURS)]),
            hatch=_HATCHES[number % len(_HATCHES)],
            edgecolor="white",
            linewidth=0.6,
        )
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]


def _legend(axes: Axes, picture: Picture) -> None:
    if _needs_legend(picture):
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=6, frameon=False, borderaxespad=0.2, fontsize=9)


def _number(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.3g}"


def _short(name: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in name)
    return shown if len(shown) <= _NAME_MAX else f"{shown[: _NAME_MAX - 1]}…"
