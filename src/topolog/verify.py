"""`topolog verify`: whether what is kept more than once is the same. Of `projections`: topolog's own stores."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from topolog.command_line import Config, Set
from topolog.command_line import settings as settings_of
from topolog.events.errors import BadInput
from topolog.events.topics import PLANS, Topic
from topolog.projections.cli.client import Answer
from topolog.projections.cli.column import Column, field, listed
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.options import Shape
from topolog.projections.cli.output import Rows, View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.terminal import Screen, StatusLine, clean, plain

if TYPE_CHECKING:
    from topolog.projections.self_check.rebuild import Rebuild
    from topolog.projections.self_check.verdict import Verdict
    from topolog.settings import Settings

_SHOWN = 20
"""Differences of a store that a table shows; the other formats have as many as are told in detail."""
_SHOWN_CHARS = 48


def verify_projections(
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="A projector's data folder; may be repeated.", show_default="projector.data"
        ),
    ] = None,
    mend: Annotated[
        bool, typer.Option("--mend", help="Write what differs as the log has it; the projector must be stopped.")
    ] = False,
    no_log: Annotated[
        bool, typer.Option("--no-log", help="Compare the folders with each other only; needs no broker.")
    ] = False,
    config: Config = None,
    pairs: Set = None,
    *,
    shape: Shape,
) -> None:
    """Compare stores of projectors with a rebuild from the log, each at its own position (docs/self-check.md).

    Exit code 8 if one differs, 1 if one is of another log.
    """
    settings = settings_of(config, pairs)
    folders = list(dict.fromkeys(folder.expanduser().absolute() for folder in data or [settings.projector.data]))
    screen = Screen(no_color=shape.no_color)
    with StatusLine() as line:
        verdicts = _compared(folders, mend=mend) if no_log else _checked(settings, folders, line.show, mend=mend)
    print_answer(screen, shape, _answer(verdicts), _VIEW)
    raise typer.Exit(_exit_code(verdicts))


def _compared(folders: Sequence[Path], *, mend: bool) -> "Sequence[Verdict]":
    from topolog.projections.self_check import between

    if mend:
        raise BadInput("Without the log nobody knows which store is right.", hint="Leave out --no-log, or --mend.")
    if len(folders) < 2:
        raise BadInput("--no-log compares stores with each other.", hint="Name two or more, each with --data.")
    return between.compare(folders)


def _checked(
    settings: "Settings", folders: Sequence[Path], told: Callable[[str], None], *, mend: bool
) -> "Sequence[Verdict]":
    from topolog.projections.self_check import checking
    from topolog.projections.self_check.verdict import with_distances

    in_order = checking.nearest_first(folders)
    with _rebuilding(settings, told) as rebuild:
        if mend:
            return with_distances(checking.mend(rebuild, folder, told) for folder in in_order)
        return with_distances(checking.check(rebuild, folder) for folder in in_order)


@contextlib.contextmanager
def _rebuilding(settings: "Settings", told: Callable[[str], None]) -> "Iterator[Rebuild]":
    """A rebuild of the cluster's log, in a folder that goes with it."""
    from topolog.events.kafka import KafkaReader
    from topolog.events.kafka_admin import KafkaAdmin
    from topolog.projections.self_check.rebuild import Rebuild

    name = settings.cluster.name
    KafkaAdmin(settings.kafka).wait_for_leaders(name, [plan for plan in PLANS if plan.topic is Topic.DECISIONS])
    with (
        contextlib.closing(KafkaReader(settings.kafka, name)) as reader,
        tempfile.TemporaryDirectory(prefix="topolog-rebuild-") as folder,
        contextlib.closing(Rebuild(reader, name, Path(folder) / "store", time.monotonic, told)) as rebuild,
    ):
        yield rebuild


def _exit_code(verdicts: "Sequence[Verdict]") -> ExitCode:
    from topolog.projections.self_check.verdict import State

    if any(each.state is State.OTHER_LOG for each in verdicts):
        return ExitCode.ERROR
    return ExitCode.OK if all(each.state.is_well for each in verdicts) else ExitCode.FOUND


def _answer(verdicts: "Sequence[Verdict]") -> Answer:
    """As the API answers, so that it is printed the same way."""
    return Answer(200, {"kind": "ProjectionStores", "items": [_item(each) for each in verdicts]})


def _item(verdict: "Verdict") -> Json:
    item: Json = msgspec.to_builtins(verdict)
    for shown, finding in zip(item["findings"], verdict.findings, strict=True):
        shown["name"] = str(finding.place)
    return item


def _page(answer: Answer, wide: bool) -> RenderableType:
    parts: list[RenderableType] = [Rows(answer.items, _COLUMNS, wide=wide)]
    for item in answer.items:
        parts += _details(item, wide=wide)
    return Group(*parts)


def _details(item: Json, *, wide: bool) -> list[RenderableType]:
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
