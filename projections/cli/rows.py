"""Rows of an answer as a table for people."""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from topolog.projections.cli.column import Column
from topolog.projections.cli.problems import Json
from topolog.projections.cli.terminal import plain

_STYLES = {
    "MEMBER": "green",
    "STOPPING": "yellow",
    "LEFT": "dim",
    "VALID": "green",
    "SILENT": "red",
    "OVERDUE": "red",
    "GRANTED": "green",
    "REFUSED": "red",
    "UNCHANGED": "dim",
    "UNKNOWN": "yellow",
    "PREPARED": "yellow",
    "QUEUED": "yellow",
    "COMMITTED": "green",
    "ROLLED_BACK": "red",
    "USING": "green",
    "AGREE": "green",
    "REPAIRED": "green",
    "DIFFER": "red",
    "INCONCLUSIVE": "yellow",
    "SUCCEEDED": "green",
    "PARTIAL": "yellow",
    "FAILED": "red",
    "ABORTED": "red",
    "EXPIRED": "red",
}

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


def cell(value: object) -> Text:
    """A value as a table shows it, coloured where a colour helps to find it."""
    shown = plain(value)
    return Text(shown, style=_STYLES.get(shown, ""))
