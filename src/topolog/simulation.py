"""`topolog simulate`: seeds of the simulation, one case of it, or stalls. It needs neither settings nor a broker."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from topolog.command_line import say
from topolog.events.errors import BadInput
from topolog.projections.cli.exit_codes import ExitCode
from topolog.settings import duration_ms, duration_text

T = TypeVar("T")
_SPAN = "10s"


def simulate(
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="How many seeds.")] = 1000,
    first: Annotated[int, typer.Option(min=0, metavar="S", help="The first of them.")] = 0,
    span: Annotated[str, typer.Option(metavar="TIME", help="Simulated time with faults, in each.")] = _SPAN,
    shrink: Annotated[str, typer.Option(metavar="TIME", help="How long to shorten a failing seed, at most.")] = "60s",
    replay: Annotated[str, typer.Option(metavar="CASE", help="Run one case only: its JSON, or a file with it.")] = "",
    stalls: Annotated[int, typer.Option(min=0, metavar="N", help="Count false removals over so many stalls.")] = 0,
) -> int:
    """Run the real cores through seeded faults on a log in memory; exit code 8 with the story of a rule that broke."""
    from topolog.streams.simulation import seeds as many

    if replay:
        violation = many.replayed(many.case_from(_text_or_file(replay)))
        typer.echo(violation or "No rule is broken.")
        return ExitCode.FOUND if violation else ExitCode.OK
    if stalls:
        return _count_false_removals(stalls)
    span_ms, shrink_ms = _duration("--span", span), _duration("--shrink", shrink)
    positions = terms = left = 0
    with contextlib.closing(many.outcomes(range(first, first + seeds), span_ms)) as ended:
        for outcome in _with_progress(ended, seeds):
            if outcome.violation:
                return _tell_shortened(outcome.seed, outcome.violation, span_ms, shrink_ms)
            positions, terms, left = positions + outcome.positions, terms + outcome.terms, left + outcome.nodes_left
    say(f"{seeds} seeds from {first}, {span} with faults each: {positions} positions, {terms} terms, {left} left.")
    typer.echo("No rule is broken.")
    return ExitCode.OK


def _tell_shortened(seed: int, story: str, span_ms: int, shrink_ms: int) -> int:
    """The story of a seed that broke a rule, shortened as far as time allows; Ctrl-C is the end of that time."""
    from topolog.streams.simulation.seeds import case_text, shortest

    say(f"Seed {seed} breaks a rule. Shortening it takes at most {duration_text(shrink_ms)}; Ctrl-C ends it sooner.")
    best = shortest(seed, span_ms, until_s=time.monotonic() + shrink_ms / 1000)
    spanned = "" if span_ms == duration_ms(_SPAN) else f" --span {duration_text(span_ms)}"
    typer.echo(f"{best or story}\n\nTo see the whole seed again: topolog simulate --seeds 1 --first {seed}{spanned}")
    if best:
        typer.echo(f"To see this part of it again: topolog simulate --replay '{case_text(best.case)}'")
    return ExitCode.FOUND


def _count_false_removals(stalls: int) -> int:
    from topolog.streams.simulation.seeds import tallies
    from topolog.streams.simulation.stalls import STALLS_EACH

    worlds = -(-stalls // STALLS_EACH)
    count = removals = terms = lived_s = 0
    false: list[str] = []
    with contextlib.closing(tallies(range(worlds))) as ended:
        for tally in _with_progress(ended, worlds, "worlds"):
            count, removals, terms = count + tally.stalls.total(), removals + tally.removals, terms + tally.terms
            lived_s, false = lived_s + tally.lived_s, false + tally.false
    say(f"{count} stalls in {worlds} worlds and {lived_s} s of theirs, {terms} terms.")
    say(f"{removals - len(false)} nodes were removed that had stood still for a fence themselves.")
    typer.echo("\n\n".join([*false, f"False removals: {len(false)}."]))
    return ExitCode.FOUND if false else ExitCode.OK


def _text_or_file(given: str) -> str:
    if given.lstrip().startswith("{"):
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{given} cannot be read: {error}.", hint="Name a file, or give the JSON itself.") from error


def _duration(flag: str, text: str) -> int:
    try:
        found = duration_ms(text)
    except ValueError as error:
        raise BadInput(f"{flag} {text!r}: {error}.") from error
    if not found:
        raise BadInput(f"{flag} {text!r} is no time at all.")
    return found


def _with_progress(ended: Iterable[T], total: int, what: str = "seeds") -> Iterator[T]:
    """What has ended, one by one: with a bar on a terminal, with ten lines in all elsewhere."""
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            yield from bar.track(ended, total=total)
        return
    for count, one in enumerate(ended, 1):
        yield one
        if count * 10 // total > (count - 1) * 10 // total:
            say(f"{count} of {total} {what}")
