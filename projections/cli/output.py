"""One answer in each output format: who prints what is decided here and nowhere else."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topolog.projections.cli.client import Answer
from topolog.projections.cli.column import Column, to_the_second
from topolog.projections.cli.documents import as_json, as_yaml
from topolog.projections.cli.moments import age
from topolog.projections.cli.options import Format, Shape
from topolog.projections.cli.problems import Json
from topolog.projections.cli.terminal import Screen, in_one_line, plain
from topolog.projections.spreadsheets import cell

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class View:
    """How one kind of answer looks: the columns of its rows, their names, and the page for people if it has one.

    `page` gets the answer and whether wide is wanted; without it people see the table of the rows, `folded` unless it
    is wide. `warnings` are for people whatever the format.
    """

    columns: Sequence[Column]
    name_of: Callable[[Json], str]
    page: "Callable[[Answer, bool], RenderableType] | None" = None
    warnings: Callable[[Answer], Sequence[str]] = lambda _: ()
    folded: Callable[[Sequence[Json]], Sequence[Json]] = lambda items: items


def print_answer(screen: Screen, shape: Shape, answer: Answer, view: View, *, is_past: bool = False) -> None:
    """The answer on stdout; on stderr the position it reflects and what else its reader should know.

    Of an answer about the past the age of what the reader knows says nothing: the position's time does.
    """
    match shape.output:
        case Format.TABLE | Format.WIDE:
            _print_page(screen, answer, view, wide=shape.output is Format.WIDE)
        case Format.JSON:
            screen.data(as_json(answer.body, indent=2, is_seen=screen.is_seen))
        case Format.JSONL:
            screen.data("".join(as_json(item, is_seen=screen.is_seen) for item in answer.items))
        case Format.YAML:
            screen.data(as_yaml(answer.body, is_seen=screen.is_seen))
        case Format.NAME:
            screen.data("".join(f"{in_one_line(view.name_of(item))}\n" for item in answer.items))
        case Format.CSV:
            screen.data(_csv(answer.items, view.columns))
    _print_footer(screen, answer, is_past=is_past)
    for warning in view.warnings(answer):
        screen.note(f"Warning: {warning}", style="yellow")


def _print_page(screen: Screen, answer: Answer, view: View, *, wide: bool) -> None:
    if view.page:
        screen.view(view.page(answer, wide))
    elif answer.items:
        from topolog.projections.cli.rows import Rows

        screen.view(Rows(answer.items if wide else view.folded(answer.items), view.columns, wide=wide))
    else:
        screen.note("There is nothing to show.", style="")


def _csv(items: Sequence[Json], columns: Sequence[Column]) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([column.title.lower().replace(" ", "_") for column in columns])
    for item in items:
        writer.writerow([csv_cell(column.of(item)) for column in columns])
    return written.getvalue()


def csv_cell(value: object) -> object:
    """A value of an answer as a cell: nothing as nothing, a number as it is."""
    return "" if value in (None, "", []) else cell(plain(value))


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
