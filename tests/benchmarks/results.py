"""Results as they are kept, and the table that is drawn from them.

A file of `docs/figures` has the results of one day and one commit, a JSON object a line; nothing in it is ever changed.
The table shows the newest result of each figure, wherever it stands, and when it was made. So it can be drawn again
from the same files at any time, and comes out the same.
"""

import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import msgspec
from tests.benchmarks.figures import Figure
from tests.benchmarks.told import Value

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "figures"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->"
LOAD_MAX = 1.0
"""Above this other work shares the processors, and a figure is as much that work's as ours."""

HEAD = "| | topolog | goal | met | peers | made |\n|---|---:|---:|---|---|---|"
_NONE = "–"


class Machine(msgspec.Struct, frozen=True):
    """What it was made on; memory in GB."""

    processor: str
    cores: int
    memory_gb: int
    kernel: str
    python: str


class Result(msgspec.Struct, frozen=True):
    """What one run has told. `commit` ends in `+` if files differed from it; `load` is that of the minute before."""

    run: str
    at: str
    commit: str
    load: float
    machine: Machine
    arguments: str
    took_s: float
    figures: Mapping[str, Value]


def append(result: Result, folder: Path = FOLDER) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.at[:10]}-{result.commit.removesuffix('+')}.jsonl"
    with path.open("ab") as file:
        file.write(msgspec.json.encode(result) + b"\n")
    return path


def results(folder: Path = FOLDER) -> list[Result]:
    """All that are kept, oldest first."""
    lines = (line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines())
    return sorted((msgspec.json.decode(line, type=Result) for line in lines), key=attrgetter("at"))


def newest(kept: Iterable[Result]) -> dict[tuple[str, str], Result]:
    """The newest result by run and key."""
    return {(result.run, key): result for result in kept for key in result.figures}


def drawn(figures: Sequence[Figure], kept: Iterable[Result]) -> str:
    """The table; what was not measured yet is only counted."""
    found = newest(kept)
    made = {result.at: result for result in found.values()}
    machines = sorted({_described(result.machine) for result in made.values()})
    lines = [f"Made by `make bench` on {'; '.join(machines)}.", ""] if machines else []
    known = [figure for figure in figures if (figure.run, figure.key) in found]
    lines += [HEAD] if known else []
    for section, each in groupby(known, attrgetter("section")):
        lines.append(f"| **{section}** | | | | | |")
        lines += [_row(figure, found[figure.run, figure.key]) for figure in each]
    if len(known) < len(figures):
        lines += [
            "",
            f"Not measured yet with it: {len(figures) - len(known)} of {len(figures)} figures (`make bench`).",
        ]
    return "\n".join(lines).lstrip("\n") + "\n"


def redraw(figures: Sequence[Figure], readme: Path = README, folder: Path = FOLDER) -> bool:
    """Put the table between its two marks; whether the file has changed. Raises ValueError if they are not there."""
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{readme.name} has no {BEGIN.strip()} … {END}")
    made = f"{before}{begin}{drawn(figures, results(folder))}{end}{after}"
    readme.write_text(made, encoding="utf-8")
    return made != text


def commit() -> str:
    """The short name of the commit that is checked out, with `+` if files differ from it."""
    name, changed = _git("rev-parse", "--short=8", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")
    kept = (line for line in changed.splitlines() if not line.endswith(("README.md", ".jsonl")))
    return f"{name}{'+' if any(kept) else ''}"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def _row(figure: Figure, result: Result) -> str:
    goal = f"{figure.sense.value} {_numbers(figure.goal)} {figure.unit}".strip() if figure.goal else _NONE
    value = result.figures[figure.key]
    shown = f"{_numbers(figure.values(value))} {figure.unit}".strip()
    met = "" if not figure.goal else "yes" if figure.is_met(value) else "**no**"
    busy = f", load {result.load:.0f}" if result.load > LOAD_MAX else ""
    made = f"{result.at[:10]} {result.commit}{busy}"
    return f"| {_named(figure)} | {shown} | {goal} | {met} | {figure.peers or _NONE} | {made} |"


def _named(figure: Figure) -> str:
    return f"{figure.what}, {' / '.join(figure.parts)}" if figure.parts else figure.what


def _numbers(values: Iterable[float]) -> str:
    return " / ".join(_number(each) for each in values)


def _number(value: float) -> str:
    """Three digits that count, or all in front of the point."""
    if value == int(value) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _described(machine: Machine) -> str:
    size = f"{machine.cores} cores of {machine.processor}, {machine.memory_gb} GB"
    return f"{size}, Linux {machine.kernel}, Python {machine.python}"


def told_lines(result: Result, figures: Sequence[Figure]) -> Iterator[str]:
    """What a run has told of the table, for people; what the table wants and it has not told is named too."""
    for figure in figures:
        if figure.run == result.run:
            value = result.figures.get(figure.key)
            told = "has not been told" if value is None else f"{_numbers(figure.values(value))} {figure.unit}"
            yield f"  {_named(figure)}: {told}"
