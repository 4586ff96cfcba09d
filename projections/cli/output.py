"""One answer in each output format: who prints what is decided here and nowhere else."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import yaml
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from topolog.projections.cli.client import Answer
from topolog.projections.cli.column import Column, to_the_second
from topolog.projections.cli.moments import age
from topolog.projections.cli.options import Format, Shape
from topolog.projections.cli.problems import Json
from topolog.projections.cli.terminal import Screen, cell, plain


@dataclass(frozen=True)
class View:
    """How one kind of answer looks: the columns of its rows, their names, and the page for people if it has one.

    `page` gets the answer and whether wide is wanted; without it people see the table of the rows. `warnings` are for
    people whatever the format.
    """

    columns: Sequence[Column]
    name_of: Callable[[Json], str]
    page: Callable[[Answer, bool], RenderableType] | None = None
    warnings: Callable[[Answer], Sequence[str]] = lambda _: ()


def print_answer(screen: Screen, shape: Shape, answer: Answer, view: View, *, is_past: bool = False) -> None:
    """The answer on stdout; on stderr the position it reflects and what else its reader should know.

    Of an answer about the past the age of what the reader knows says nothing: the position's time does.
    """
    match shape.output:
        case Format.TABLE | Format.WIDE:
            _print_page(screen, answer, view, wide=shape.output is Format.WIDE)
        case Format.JSON:
            screen.data(json.dumps(answer.body, indent=2, ensure_ascii=False) + "\n")
        case Format.JSONL:
            screen.data("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in answer.items))
        case Format.YAML:
            screen.data(yaml.safe_dump(answer.body, sort_keys=False, allow_unicode=True))
        case Format.NAME:
            screen.data("".join(f"{view.name_of(item)}\n" for item in answer.items))
        case Format.CSV:
            screen.data(_csv(answer.items, view.columns))
    _print_footer(screen, answer, is_past=is_past)
    for warning in view.warnings(answer):
        screen.note(f"Warning: {warning}", style="yellow")


FOLDED_WIDTH = 12
"""How narrow a column of long text may get. What is still too wide is left to the terminal to break, and nothing is
cut off."""

_GAP = 2


class Rows:
    """A table without lines around it, which copies well; numbers stand to the right.

    On a narrow terminal long text folds, everything else keeps its width: a name that is cut off is no name.
    """

    def __init__(self, items: Sequence[Json], columns: Sequence[Column], *, wide: bool) -> None:
        self._columns = [column for column in columns if wide or not column.wide]
        values = [[column.of(item) for item in items] for column in self._columns]
        self._is_number = [bool(held) and all(map(_is_number, held)) for held in values]
        self._cells = [
            [Text(column.title, "bold"), *(cell(column.brief(value)) for value in held)]
            for column, held in zip(self._columns, values, strict=True)
        ]
        self._widths = [max(shown.cell_len for shown in cells) for cells in self._cells]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        gaps = _GAP * (len(self._columns) - 1)
        folds = sum(self._widths) + gaps > options.max_width >= sum(self._least_widths()) + gaps
        yield from console.render(self._folding_table(), options) if folds else self._lines()

    def _least_widths(self) -> Iterator[int]:
        for column, width in zip(self._columns, self._widths, strict=True):
            yield min(width, FOLDED_WIDTH) if column.folds else width

    def _lines(self) -> Iterator[Segment]:
        """Every row as one line, written out directly: a hundred thousand decisions take a second, not a minute."""
        for row in zip(*self._cells, strict=True):
            for shown, width, is_number in zip(row, self._widths, self._is_number, strict=True):
                padding = " " * (width - shown.cell_len)
                text = f"{padding}{shown.plain}" if is_number else f"{shown.plain}{padding}"
                yield Segment(text, Style.parse(str(shown.style)))
                yield Segment(" " * _GAP)
            yield Segment.line()

    def _folding_table(self) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
        for column, least, is_number in zip(self._columns, self._least_widths(), self._is_number, strict=True):
            justify: JustifyMethod = "right" if is_number else "left"
            table.add_column(justify=justify, no_wrap=not column.folds, overflow="fold", min_width=least)
        for row in zip(*self._cells, strict=True):
            table.add_row(*row)
        return table


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def _print_page(screen: Screen, answer: Answer, view: View, *, wide: bool) -> None:
    if view.page:
        screen.view(view.page(answer, wide))
    elif answer.items:
        screen.view(Rows(answer.items, view.columns, wide=wide))
    else:
        screen.note("There is nothing to show.", style="")


def _csv(items: Sequence[Json], columns: Sequence[Column]) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([column.title.lower().replace(" ", "_") for column in columns])
    for item in items:
        values = (column.of(item) for column in columns)
        writer.writerow(["" if value in (None, "", []) else plain(value) for value in values])
    return written.getvalue()


def _print_footer(screen: Screen, answer: Answer, *, is_past: bool) -> None:
    as_of = answer.as_of
    if answer.next:
        screen.note(f"The first {len(answer.items)}; there are more: --limit N or --all.", style="")
    if "position" in as_of:
        known_ms = int(as_of.get("age_ms") or 0)
        when = f"{to_the_second(as_of.get('time'))} (the past)".lstrip() if is_past else f"{age(known_ms)} old"
        screen.note(f"as of position {as_of['position']}, {when}")
    if as_of.get("stopped"):
        screen.note(f"Warning: the reader behind this answer has stopped: {as_of['stopped']}", style="yellow")
