"""What `topolog verify projections` shows of stores: how each stands, what differs in it, its exit code."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from topolog.projections.cli.client import Answer
from topolog.projections.cli.column import Column, field, listed
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.options import Shape
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.rows import Rows
from topolog.projections.cli.terminal import Screen, clean, plain

if TYPE_CHECKING:
    from topolog.projections.self_check.verdict import Verdict

_SHOWN = 20
"""Differences of a store that a table shows; the other formats have as many as are told in detail."""
_SHOWN_CHARS = 48


def show_verdicts(screen: Screen, shape: Shape, verdicts: "Sequence[Verdict]") -> None:
    """In the format asked for. Exits: 8 if one differs, 1 if one is of another log."""
    print_answer(screen, shape, _answer(verdicts), _VIEW)
    raise typer.Exit(_exit_code(verdicts))


def _exit_code(verdicts: "Sequence[Verdict]") -> ExitCode:
    from topolog.projections.self_check.verdict import State

    if any(each.state is State.OTHER_LOG for each in verdicts):
        return ExitCode.ERROR
    return ExitCode.OK if all(each.state.is_well for each in verdicts) else ExitCode.FOUND


def _answer(verdicts: "Sequence[Verdict]") -> Answer:
    """As the API answers, so that it is printed the same way."""
    return Answer(200, {"kind": "ProjectionStores", "items": [item_of(each) for each in verdicts]})


def item_of(verdict: "Verdict") -> Json:
    """As the formats for programs have it."""
    item: Json = msgspec.to_builtins(verdict)
    for shown, finding in zip(item["findings"], verdict.findings, strict=True):
        shown["name"] = str(finding.place)
    return item


def _page(answer: Answer, wide: bool) -> RenderableType:
    parts: list[RenderableType] = [Rows(answer.items, _COLUMNS, wide=wide)]
    for item in answer.items:
        parts += details(item, wide=wide)
    return Group(*parts)


def details(item: Json, *, wide: bool) -> list[RenderableType]:
    """What differs in one store, and why it could not be read or compared."""
    parts: list[RenderableType] = []
    about = " ".join(str(item[part]) for part in ("why", "hint") if item[part])
    rows = [row for finding in listed(item, "findings") for row in _finding_rows(dict(finding))]
    if about or rows:
        parts.append(Text(f"\n{clean(str(item['folder']))}", "bold"))
    if about:
        parts.append(Text(clean(about)))
    if rows:
        parts.append(Rows(rows[:_SHOWN], _FINDING_COLUMNS, wide=wide))
    if len(rows) > _SHOWN or int(item["differences"]) > len(listed(item, "findings")):
        parts.append(Text(f"… of {item['differences']} rows that differ; -o json tells more.", "dim"))
    return parts


def _finding_rows(finding: Json) -> list[Json]:
    """One per field that differs."""
    fields = listed(finding, "differences") or [{}]
    return [{**finding, **each} for each in fields]


def _brief(value: object) -> str:
    """A whole row is more than a line can show."""
    shown = plain(value)
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"


_COLUMNS = (
    field("STATE", "state"),
    field("FOLDER", "folder"),
    field("POSITION", "position"),
    field("BEHIND", "behind"),
    field("ROWS", "rows"),
    field("DIFFERENCES", "differences"),
    field("BUCKETS", "buckets", wide=True),
    field("DIFFERING BUCKETS", "differing_buckets", wide=True),
    field("DIGEST", "digest", wide=True),
)
_FINDING_COLUMNS: tuple[Column, ...] = (
    field("WHAT", "what"),
    field("ROW", "name"),
    field("FIELD", "field"),
    replace(field("EXPECTED", "expected", folds=True), brief=_brief),
    replace(field("FOUND", "found", folds=True), brief=_brief),
    field("WHY", "why", wide=True),
)
_VIEW = View(_COLUMNS, lambda item: str(item["folder"]), _page)
