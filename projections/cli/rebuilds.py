"""What `topolog spark rebuild` shows: where each rebuild stands, what the store beside it has otherwise, exit codes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from topolog.projections.cli.client import Answer
from topolog.projections.cli.column import field
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.options import Shape
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.problems import Json
from topolog.projections.cli.rows import Rows
from topolog.projections.cli.store_verdicts import details, item_of
from topolog.projections.cli.terminal import Screen, clean

if TYPE_CHECKING:
    from topolog.projections.archive.rebuilding import Outcome


def show_rebuilds(screen: Screen, shape: Shape, rebuilds: "Sequence[Outcome]", *, were_awaited: bool) -> None:
    """In the format asked for. Exits: 8 if one failed or a store beside one differs, 1 if one was refused, 7 if one was
    to be taken over in time and was not."""
    answer = Answer(200, {"kind": "Rebuilds", "items": [_item(each) for each in rebuilds]})
    print_answer(screen, shape, answer, _VIEW)
    raise typer.Exit(_exit_code(rebuilds, were_awaited=were_awaited))


def _exit_code(rebuilds: "Sequence[Outcome]", *, were_awaited: bool) -> ExitCode:
    from topolog.projections.archive.rebuilding import Standing

    standings = {each.standing for each in rebuilds}
    if Standing.REFUSED in standings:
        return ExitCode.ERROR
    if Standing.FAILED in standings or any(each.verdict and not each.verdict.state.is_well for each in rebuilds):
        return ExitCode.FOUND
    return ExitCode.UNKNOWN if were_awaited and Standing.OFFERED in standings else ExitCode.OK


def _item(outcome: "Outcome") -> Json:
    item: Json = msgspec.to_builtins(outcome)
    rate = round(outcome.decisions / outcome.seconds) if outcome.seconds else None
    return {**item, "rate": rate, "verdict": item_of(outcome.verdict) if outcome.verdict else None}


def _page(answer: Answer, wide: bool) -> RenderableType:
    parts: list[RenderableType] = [Rows(answer.items, _COLUMNS, wide=wide)]
    for item in answer.items:
        if about := " ".join(str(item[part]) for part in ("error", "hint") if item[part]):
            parts.append(Text(f"\n{clean(str(item['cluster']))}: {clean(about)}"))
        if item["verdict"]:
            parts += details(item["verdict"], wide=wide)
    return Group(*parts)


_COLUMNS = (
    field("CLUSTER", "cluster"),
    field("STANDING", "standing"),
    field("POSITION", "position"),
    field("STATE HASH", "state_hash"),
    field("DECISIONS", "decisions"),
    field("SECONDS", "seconds"),
    field("PER SECOND", "rate"),
    field("BESIDE IT", "verdict.state"),
    field("DIFFERENCES", "verdict.differences", wide=True),
    field("IGNORED", "ignored", wide=True),
    field("CHAIN", "chain", wide=True),
    field("FOLDER", "folder", wide=True),
)
_VIEW = View(_COLUMNS, lambda item: str(item["cluster"]), _page)
