"""`topolog simulate`: seeds of the simulation, one case of it, or stalls. It needs neither settings nor a broker."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from topolog.commands.command_line import say
from topolog.events.errors import BadInput
from topolog.projections.cli.exit_codes import ExitCode
from topolog.settings.types import duration_ms, duration_text

if TYPE_CHECKING:
    from topolog.streams.simulation.seeds import Outcome

T = TypeVar("T")
_SPAN = "10s"
_SPAN_MS_MAX = duration_ms("1h")
_TAKES = {"replay": set[str](), "stalls": {"first"}, "keep_going": {"seeds", "first", "span"}}
"""The options that mean something beside one of these."""


def simulate(
    context: typer.Context,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="How many seeds.")] = 1000,
    first: Annotated[int, typer.Option(min=0, metavar="S", help="The first one; of --stalls the first world.")] = 0,
    span: Annotated[str, typer.Option(metavar="TIME", help="Simulated time with faults, in each.")] = _SPAN,
    shrink: Annotated[str, typer.Option(metavar="TIME", help="How long to shorten a failing seed, at most.")] = "60s",
    replay: Annotated[
        str | None, typer.Option(metavar="CASE", help="Run one case only: its JSON, or a file with it.")
    ] = None,
    stalls: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Count false removals over so many stalls, or some more.")
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on behind a seed that fails; all that fail are listed at the end.")
    ] = False,
) -> int:
    """Run the real cores through seeded faults on a log in memory; exit code 8 with the story of a rule that broke."""
    _check_only_one_task(context)
    with _ending_like_ctrl_c():
        if replay is not None:
            return _replay(replay)
        if stalls is not None:
            return _count_false_removals(stalls, first)
        numbers, span_ms, shrink_ms = range(first, first + seeds), _span_ms(span), _duration("--shrink", shrink)
        return _run_all(numbers, span_ms) if keep_going else _run_seeds(numbers, span_ms, shrink_ms)


def _check_only_one_task(context: typer.Context) -> None:
    """An option that would mean nothing beside the others is not passed over in silence."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    for task, allowed in _TAKES.items():
        beside = ", ".join(_flag(name) for name in given if name not in {task, *allowed})
        if task in given and beside:
            raise BadInput(f"{_flag(task)} takes no {beside}.", hint=f"Leave out {beside}.")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@contextlib.contextmanager
def _ending_like_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP end the task in order too, unless whoever started it lets it pass over them (`nohup`)."""
    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _replay(given: str) -> int:
    from topolog.streams.simulation.seeds import case_from, replayed

    violation = replayed(case_from(_text_or_file(given)))
    typer.echo(violation or "No rule is broken.")
    return ExitCode.FOUND if violation else ExitCode.OK


def _run_seeds(numbers: range, span_ms: int, shrink_ms: int) -> int:
    """Until one breaks a rule, whose story is told."""
    from topolog.streams.simulation import seeds as many

    sums = _Sums()
    with contextlib.closing(many.outcomes(numbers, span_ms)) as ended:
        for outcome in _with_progress(ended, len(numbers), "seed", lambda: ", none of which breaks a rule"):
            if outcome.violation:
                return _tell_shortened(outcome.seed, outcome.violation, span_ms, shrink_ms)
            sums.add(outcome)
    say(f"{_extent(numbers, span_ms)}: {sums}.")
    typer.echo("No rule is broken.")
    return ExitCode.OK


def _run_all(numbers: range, span_ms: int) -> int:
    """Whatever breaks a rule: a line about each such seed at once, and their numbers at the end, Ctrl-C's too."""
    from topolog.streams.simulation import seeds as many

    sums, failing = _Sums(), list[int]()
    with contextlib.closing(many.outcomes(numbers, span_ms)) as ended:
        for outcome in _with_progress(ended, len(numbers), "seed", lambda: f". {_verdict(failing)}"[:-1]):
            sums.add(outcome)
            if outcome.violation:
                failing.append(outcome.seed)
                typer.echo(outcome.violation.partition("\n")[0])
    say(f"{_extent(numbers, span_ms)}: {sums}.")
    if failing:
        say(f"The story of one of them: topolog simulate --seeds 1 --first {failing[0]}{_spanned(span_ms)}")
    typer.echo(_verdict(failing))
    return ExitCode.FOUND if failing else ExitCode.OK


def _verdict(failing: list[int]) -> str:
    if not failing:
        return "No rule is broken."
    return f"{_counted(len(failing), 'seed')} broke a rule: {', '.join(map(str, failing))}."


class _Sums:
    """What the seeds that broke no rule have been through."""

    def __init__(self) -> None:
        self._positions = self._terms = self._left = 0

    def add(self, outcome: "Outcome") -> None:
        self._positions += outcome.positions
        self._terms += outcome.terms
        self._left += outcome.nodes_left

    def __str__(self) -> str:
        left = _counted(self._left, "node")
        return f"{_counted(self._positions, 'position')}, {_counted(self._terms, 'term')}, {left} left"


def _extent(numbers: range, span_ms: int) -> str:
    return f"{_counted(len(numbers), 'seed')} from {numbers.start}, {duration_text(span_ms)} with faults each"


def _spanned(span_ms: int) -> str:
    return "" if span_ms == duration_ms(_SPAN) else f" --span {duration_text(span_ms)}"


def _tell_shortened(seed: int, story: str, span_ms: int, shrink_ms: int) -> int:
    """The story of a seed that broke a rule, shortened as far as time allows; Ctrl-C is the end of that time."""
    from topolog.streams.simulation.seeds import case_text, shortest

    say(f"Seed {seed} breaks a rule. Shortening it takes at most {duration_text(shrink_ms)}; Ctrl-C ends it sooner.")
    best = shortest(seed, span_ms, until_s=time.monotonic() + shrink_ms / 1000)
    again = f"topolog simulate --seeds 1 --first {seed}{_spanned(span_ms)}"
    typer.echo(f"{best or story}\n\nTo see the whole seed again: {again}")
    if best:
        typer.echo(f"To see this part of it again: topolog simulate --replay '{case_text(best.case)}'")
    return ExitCode.FOUND


def _count_false_removals(stalls: int, first: int) -> int:
    """All of these worlds, whatever is found in one; a story names its world, which is seen again by `--first`."""
    from topolog.streams.simulation.seeds import tallies
    from topolog.streams.simulation.stalls import STALLS_EACH

    worlds = -(-stalls // STALLS_EACH)
    count = removals = terms = lived_s = 0
    false: list[str] = []
    with contextlib.closing(tallies(range(first, first + worlds))) as ended:
        for tally in _with_progress(ended, worlds, "world"):
            count, removals, terms = count + tally.stalls.total(), removals + tally.removals, terms + tally.terms
            lived_s, false = lived_s + tally.lived_s, false + tally.false
    where = f"{_counted(worlds, 'world')} from {first}"
    say(f"{count} stalls in {where} and {lived_s} s of simulated time, {_counted(terms, 'term')}.")
    say(f"Removed, having stood still for a fence themselves: {_counted(removals - len(false), 'node')}.")
    typer.echo("\n\n".join([*false, f"False removals: {len(false)}."]))
    return ExitCode.FOUND if false else ExitCode.OK


def _text_or_file(given: str) -> str:
    if given.lstrip().startswith(("{", "[")):
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{given!r} cannot be read: {why}.", hint="Name a file, or give the JSON itself.") from error


def _span_ms(text: str) -> int:
    span_ms = _duration("--span", text)
    if span_ms > _SPAN_MS_MAX:
        raise BadInput(
            f"--span {text} is more than {duration_text(_SPAN_MS_MAX)}.",
            hint="Many short seeds find more than a long one.",
        )
    return span_ms


def _duration(flag: str, text: str) -> int:
    try:
        found = duration_ms(text)
    except ValueError as error:
        raise BadInput(f"{flag} {text!r}: {error}.") from error
    if not found:
        raise BadInput(f"{flag} {text!r} is no time at all.")
    return found


def _with_progress(ended: Iterable[T], total: int, what: str, verdict: Callable[[], str] = lambda: "") -> Iterator[T]:
    """What has ended, one by one: with a bar on a terminal, with ten lines in all elsewhere. Ctrl-C says how far it is,
    and the `verdict` on all that has ended by then."""
    count = 0
    try:
        for one in _shown(ended, total, what):
            count += 1
            yield one
    except KeyboardInterrupt:
        say(f"\nInterrupted: {count} of {_counted(total, what)} done{verdict()}.")
        raise


def _shown(ended: Iterable[T], total: int, what: str) -> Iterator[T]:
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            yield from bar.track(ended, total=total)
        return
    for count, one in enumerate(ended, 1):
        yield one
        if count * 10 // total > (count - 1) * 10 // total:
            say(f"{count} of {_counted(total, what)}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
