"""Mutants of the files on which safety rests: does a unit test see each?

    python -m tests.mutation [--tool COSMIC_RAY] [--every N] [--page] [FILE …]

cosmic-ray makes the mutants: one small change each, of an operator, a comparison, a number, a loop. Each is made in a
copy of the tracked files, where the unit tests of its file run; this clone stays as it is. A mutant that changes
annotations alone says nothing, and is none. One that no test sees is explained in `EXPLAINED`, or is a gap.

Says each survivor at once; `--page` writes docs/mutants.md. Ends with 1 if more than 5 % are unexplained, with 2 if
cosmic-ray is not there.
"""

import argparse
import ast
import difflib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from tests.benchmarks.results import ROOT, commit
from tests.defects import Unfit, copied, run

PAGE = ROOT / "docs" / "mutants.md"
COSMIC_RAY = "cosmic-ray==8.7.0"
UNEXPLAINED_MAX = 0.05
LIMIT_S = 180.0
"""Longer than the tests of any file take; a mutant that makes them hang is seen."""

_ENDLESS = ("_Pow", "_LShift")
"""Operators that make of two times a number without end: each mutant would take that long, and all the memory."""

_PASSED = 0
_RULES = "tests/unit/streams/rules"
_EXCHANGES = tuple(
    f"{_RULES}/test_{name}.py" for name in ("exchange", "exchange_waiting", "loss", "copies", "placement")
)
TESTS = {
    "streams/rules/outcome.py": _EXCHANGES,
    "streams/rules/outcomes.py": (f"{_RULES}/test_outcomes.py", *_EXCHANGES),
    "streams/rules/verdict.py": (f"{_RULES}/test_verdict.py",),
    "streams/rules/membership.py": tuple(f"{_RULES}/test_{name}.py" for name in ("membership", "deaths", "past")),
    "streams/rules/responses.py": _EXCHANGES,
    "streams/rules/exchange.py": _EXCHANGES,
    "streams/rules/hand_over.py": (f"{_RULES}/test_hand_over.py", f"{_RULES}/test_drains.py"),
    "events/fold.py": ("tests/unit/events/test_fold.py", "tests/unit/events/test_voiding.py"),
    "events/stamp.py": ("tests/unit/events/test_stamp.py", "tests/unit/events/test_fold.py"),
    "events/views.py": (f"{_RULES}/test_views.py", f"{_RULES}/test_past.py"),
    "streams/node/lease.py": ("tests/unit/streams/node/test_lease.py",),
    "streams/coordinator/read_backs.py": (
        "tests/unit/streams/coordinator/test_driver.py",
        "tests/unit/streams/coordinator/test_lease_terms.py",
    ),
}
"""The files: what decides who acts, and what all readers judge the log by. The tests are those that are about them."""


class Explained(msgspec.Struct, frozen=True):
    """A survivor that is no gap: in `file` the line `was` becomes `became`, and `why` no test can tell."""

    file: str
    was: str
    became: str
    why: str


_HAND_OVER, _LEASE = "streams/rules/hand_over.py", "streams/node/lease.py"
_LEASE_BEGINS = (
    "def __init__(self, incarnation: Incarnation, generation: int = {}, anchor_ns: int | None = None) -> None:"
)
EXPLAINED: tuple[Explained, ...] = (
    *(
        Explained(_LEASE, "SENT_KEPT = 1024", f"SENT_KEPT = {size}", "How many are kept is a matter of memory.")
        for size in (1023, 1025)
    ),
    *(
        Explained(
            _LEASE,
            "if len(self._sent) > SENT_KEPT:",
            f"if len(self._sent) {sign} SENT_KEPT:",
            "It grows by one each time, and one more or less is a matter of memory.",
        )
        for sign in (">=", "==")
    ),
    *(
        Explained(_LEASE, _LEASE_BEGINS.format(0), _LEASE_BEGINS.format(first), "A generation is compared with others.")
        for first in (-1, 1)
    ),
    *(
        Explained(
            _HAND_OVER, "MOVED_AT_ONCE_MAX = 4_096", f"MOVED_AT_ONCE_MAX = {size}", "How many is a matter of size."
        )
        for size in (4095, 4097)
    ),
    Explained(
        "streams/rules/verdict.py",
        "if row.standing is Standing.LEFT",
        "if row.standing == Standing.LEFT",
        "A member of an enumeration equals itself alone.",
    ),
    Explained("streams/rules/verdict.py", "*,", "/,", "How parameters are passed is what the type checker sees."),
    Explained(
        _LEASE,
        "for earlier in [each for each in self._sent if each < sequence]:",
        "for earlier in [each for each in self._sent if each <= sequence]:",
        "That one was taken out before.",
    ),
    Explained(_LEASE, "self.generation += 1", "self.generation += 2", "It is another one, and a higher."),
    Explained(_LEASE, "self.deadline_ns = -1", "self.deadline_ns = - 2", "Both are before any time of a clock."),
    Explained(
        _LEASE,
        "return max(0, self.deadline_ns - now_ns) // _NS_PER_MS",
        "return max( 1, self.deadline_ns - now_ns) // _NS_PER_MS",
        "A nanosecond is no millisecond.",
    ),
)
"""Survivors that were looked at. What only a test of the simulation or of a broker sees is a gap, too."""


class Mutant(msgspec.Struct, frozen=True):
    """What cosmic-ray makes of `file`: the `occurrence`th place where `operator` applies."""

    file: str
    operator: str
    occurrence: int


class Survivor(msgspec.Struct, frozen=True):
    """A mutant that the tests do not see, by the lines that it changes."""

    file: str
    was: str
    became: str

    @property
    def why(self) -> str:
        """Why it is no gap; empty if nobody knows."""
        return next((each.why for each in EXPLAINED if (each.file, each.was, each.became) == self.key), "")

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.was, self.became


class Counted(msgspec.Struct, frozen=True):
    """How many mutants of a file ran, and which survived."""

    file: str
    ran: int
    survivors: tuple[Survivor, ...]


def mutants(tool: str, folder: Path, file: str) -> list[Mutant]:
    """All that cosmic-ray makes of the file in this copy."""
    session, config = folder / "mutants.sqlite", folder / "mutants.toml"
    session.unlink(missing_ok=True)
    config.write_text(
        f'[cosmic-ray]\nmodule-path = "{file}"\ntimeout = 1.0\nexcluded-modules = []\ntest-command = "true"\n'
        '[cosmic-ray.distributor]\nname = "local"\n',
        encoding="utf-8",
    )
    subprocess.run([tool, "init", config.name, session.name], cwd=folder, check=True)
    dumped = subprocess.run([tool, "dump", session.name], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    found = [json.loads(line)[0]["mutations"][0] for line in dumped.stdout.splitlines()]
    return sorted(
        (
            Mutant(file, each["operator_name"], each["occurrence"])
            for each in found
            if not each["operator_name"].endswith(_ENDLESS)
        ),
        key=lambda each: (each.operator, each.occurrence),
    )


def survivor(tool: str, folder: Path, mutant: Mutant) -> Survivor | bool:
    """The mutant if the tests of its file do not see it, True if they do, False if it is none."""
    path = folder / mutant.file
    before = path.read_text(encoding="utf-8")
    try:
        apply = [tool, "apply", mutant.file, mutant.operator, str(mutant.occurrence)]
        subprocess.run(apply, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        after = path.read_text(encoding="utf-8")
        if says_nothing(before, after):
            return False
        code, _ = run(TESTS[mutant.file], folder, LIMIT_S)
        return Survivor(mutant.file, *changed(before, after)) if code == _PASSED else True
    except Unfit:
        return True
    finally:
        path.write_text(before, encoding="utf-8")


def says_nothing(before: str, after: str) -> bool:
    """Whether the two differ in annotations alone; what is no Python is seen by any test."""
    try:
        return _without_annotations(before) == _without_annotations(after)
    except SyntaxError:
        return False


def _without_annotations(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def changed(before: str, after: str) -> tuple[str, str]:
    """The lines that differ, before and after, each as one."""
    lines = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    was, became = (" ".join(line[2:].strip() for line in lines if line.startswith(sign)) for sign in ("- ", "+ "))
    return was, became


def count(tool: str, file: str, every: int) -> Counted:
    """Run each `every`th mutant of the file."""
    with copied() as folder:
        code, output = run(TESTS[file], folder)
        if code != _PASSED:
            raise Unfit(f"Without a mutant the tests of {file} end with {code}.\n{output}")
        ran, survivors = 0, []
        for mutant in mutants(tool, folder, file)[::every]:
            found = survivor(tool, folder, mutant)
            ran += found is not False
            if isinstance(found, Survivor):
                survivors.append(found)
                print(f"{file}: {found.was}\n  -> {found.became}\n  {found.why or 'UNEXPLAINED'}", flush=True)
        return Counted(file, ran, tuple(survivors))


def unexplained(counted: Sequence[Counted]) -> float:
    """The share of the mutants that ran."""
    gaps = sum(not each.why for counts in counted for each in counts.survivors)
    return gaps / max(1, sum(each.ran for each in counted))


def page(counted: Sequence[Counted], every: int, name: str, at: datetime) -> str:
    """The page; `name` is that of the commit, with `+` if files differed from it, `at` in UTC."""
    which = "all" if every == 1 else f"one in {every}"
    lines = [
        "# Mutants",
        "",
        "Does a unit test see each small change of the files on which safety rests? Written by",
        "`python -m tests.mutation --page`, which `make test-deep` runs, not by hand; why a survivor is no gap is told",
        "there (`EXPLAINED`).",
        "",
        f"Commit `{name}`, {at:%Y-%m-%d}; of each file {which}; {unexplained(counted):.1%} are unexplained.",
        "",
        "| file | mutants | seen | explained | unexplained |",
        "|---|---|---|---|---|",
        *map(_row, counted),
        "",
        "## Survivors",
        "",
        "| file | was | became | why it is no gap |",
        "|---|---|---|---|",
        *(_told(each) for counts in counted for each in counts.survivors),
    ]
    return "\n".join(lines) + "\n"


def _row(counts: Counted) -> str:
    gaps = sum(not each.why for each in counts.survivors)
    explained = len(counts.survivors) - gaps
    return f"| `{counts.file}` | {counts.ran} | {counts.ran - len(counts.survivors)} | {explained} | {gaps} |"


def _told(found: Survivor) -> str:
    was, became = (text.replace("|", "\\|") for text in (found.was, found.became))
    return f"| `{found.file}` | `{was}` | `{became}` | {found.why or '**unexplained**'} |"


def _counted(tool: str, files: Sequence[str], every: int) -> Iterator[Counted]:
    for file in files:
        counts = count(tool, file, every)
        print(_row(counts), flush=True)
        yield counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="these alone")
    parser.add_argument("--tool", default="cosmic-ray", help="the program, if it is not on the PATH")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one mutant in N")
    parser.add_argument("--page", action="store_true", help="write docs/mutants.md")
    given = parser.parse_args()
    if unknown := [each for each in given.files if each not in TESTS]:
        parser.error(f"{unknown[0]} is none of {', '.join(TESTS)}")
    tool = shutil.which(given.tool)
    if tool is None:
        print(
            f"{given.tool} is not there. It is no part of this environment, which it would bring a web framework and a "
            f"database to. Install it into one of its own and name it: python3 -m venv ray && ray/bin/pip install "
            f"{COSMIC_RAY}, then --tool ray/bin/cosmic-ray (with make test-deep: on the PATH).",
            file=sys.stderr,
        )
        return 2
    name, at = commit(), datetime.now(UTC)
    try:
        counted = list(_counted(str(Path(tool).absolute()), given.files or list(TESTS), given.every))
    except Unfit as error:
        print(error, file=sys.stderr)
        return 1
    if given.page:
        PAGE.write_text(page(counted, given.every, name, at), encoding="utf-8")
    return int(unexplained(counted) > UNEXPLAINED_MAX)


if __name__ == "__main__":
    sys.exit(main())
