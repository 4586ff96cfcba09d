"""`topolog spark report`: answers that need all of history, as tables, on the terminal, and as a page with pictures."""

import tempfile
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topolog.commands.command_line import Config, Set, say, settings_of
from topolog.commands.spark import SparkOptions, session
from topolog.events.errors import BadInput
from topolog.projections.cli.column import field
from topolog.projections.cli.documents import escaped
from topolog.projections.cli.rows import Rows
from topolog.projections.cli.terminal import Screen, StatusLine, in_one_line
from topolog.projections.spreadsheets import cell
from topolog.settings.values import home_path

if TYPE_CHECKING:
    from topolog.projections.spark.reports.making import Made, Whole

ROWS_SHOWN = 20


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True)
class Between:
    """Which days are reported."""

    since: Annotated[str | None, typer.Option(metavar="DAY", help="The first day (UTC), such as 2026-11-01.")] = None
    until: Annotated[str | None, typer.Option(metavar="DAY", help="The last day (UTC).")] = None


def report(
    archive: Annotated[
        Path, typer.Option("--from", metavar="ARCHIVE", help="What `topolog spark archive` has landed.")
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="primaries, exchanges, agreements, leases, changes, repairs; all if none is named.",
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="Keep them here: Parquet tables and index.html.")
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="table is for people; csv takes one NAME.")
    ] = Output.TABLE,
    config: Config = None,
    pairs: Set = None,
    *,
    between: Between,
    spark: SparkOptions,
) -> None:
    """Make reports of an archive: what happened, how long it took, and because of whom (docs/reports.md)."""
    from topolog.projections.archive.landings import Archive
    from topolog.projections.spark.jobs import run
    from topolog.projections.spark.reports import keeping, making
    from topolog.projections.spark.reports.landed import Days, landed_in

    settings, reports = settings_of(config, spark.over(pairs)), making.chosen(names or ())
    if output is Output.CSV and len(reports) > 1:
        raise BadInput("-o csv prints one table.", hint="Name one report, such as `topolog spark report exchanges`.")
    days = Days(_day(between.since, "--since"), _day(between.until, "--until"))
    if days.first and days.last and days.first > days.last:
        raise BadInput(f"{days.first} is behind {days.last}.", hint="--since is the first day, --until the last.")
    held = Archive(home_path(archive, "--from").absolute())  # Spark's own folder is another one
    kept = home_path(to, "--to").absolute() if to else None
    if kept:
        keeping.check_folder(kept)
    with tempfile.TemporaryDirectory(prefix="topolog-report-") as scratch, StatusLine() as line:
        folder = Path(scratch)
        with session(folder / "spark", settings.spark, with_connectors=False) as started:
            landed = landed_in(started, held, days, line.show)
            if any(report.folds for report in reports):
                landed.folded  # noqa: B018 (folds here, where whoever interrupts ends it at once)

            def make(tables: Path) -> "Whole":
                return run(started, lambda: making.make(landed, tables, reports, line.show))

            whole = keeping.keep(kept, make) if kept else make(folder / "tables")
    _show(whole, output)
    if kept:
        say(f"The tables and the page are in {kept}: open {kept / keeping.PAGE}")


def _day(text: str | None, option: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise BadInput(
            f"{option} takes a day, not {text!r}.", hint="Such as 2026-11-01; days are those of UTC."
        ) from None


def _show(whole: "Whole", output: Output) -> None:
    from topolog.projections.spark.reports import making

    screen = Screen()
    if output is Output.JSON:
        text = making.as_json(whole)
        screen.data(escaped(text) if screen.is_seen else text)
    for made in whole.made:
        if output is Output.TABLE:
            _show_one(screen, made)
        elif output is Output.CSV:
            screen.data(_csv(made))
    for warning in whole.warnings:
        screen.note(f"Warning: {warning}", style="yellow")
    held = whole.positions
    screen.note(
        f"as of {held.logged_at:%Y-%m-%d %H:%M:%S} UTC; chain verified from the first record to position "
        f"{held.verified_at} ({held.chain})"
    )


def _show_one(screen: Screen, made: "Made") -> None:
    from rich.text import Text

    screen.view(Text(f"{made.name}: {made.sentence}", style="bold"))
    if made.rows:
        items = [_plain(row) for row in made.rows[:ROWS_SHOWN]]
        screen.view(Rows(items, [field(name.upper(), name) for name in made.columns], wide=False))
    if len(made.rows) > ROWS_SHOWN:
        screen.note(f"The first {ROWS_SHOWN} of {len(made.rows)} rows; all of them: -o json, -o csv, or --to FOLDER.")
    screen.data("\n")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    from topolog.projections.spark.reports.making import plain

    return {name: plain(value) for name, value in row.items()}


def _csv(made: "Made") -> str:
    import csv
    import io

    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(made.columns)
    writer.writerows(map(_cell, _plain(row).values()) for row in made.rows)
    return written.getvalue()


def _cell(value: object) -> object:
    """The end of a line within a name would begin a row, and a formula in it; on a terminal the rest would drive it."""
    return cell(in_one_line(value) if isinstance(value, str) else value)
