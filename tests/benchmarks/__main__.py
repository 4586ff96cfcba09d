"""All benchmarks, one after the other, each in a process of its own; then the README's table of figures, drawn anew.

    python -m tests.benchmarks [--only NAME …] [--quick] [--busy] [--redraw] [--cache DIR]

Before each one the machine has to be quiet: load at most 1, for which five minutes are waited; else nothing is measured
and nothing written, unless `--busy` is given, and then the table says how busy it was. `--quick` runs small sizes, to
see that everything works, and writes nothing. `--redraw` only draws the table from what docs/figures has.
"""

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.figures import FIGURES, RUNS, Run
from tests.benchmarks.results import LOAD_MAX, ROOT, Machine, Result, append, commit, redraw, told_lines
from tests.benchmarks.told import Value, heard

PATIENCE_S = 300.0
_LOOK_S = 5.0


class Failed(Exception):
    """A benchmark ended badly, took too long or told nothing."""


def command(run: Run, *, is_quick: bool, cache: Path | None = None) -> list[str]:
    words = [
        sys.executable,
        "-m",
        f"tests.benchmarks.{run.module}",
        *(run.quick if is_quick else run.arguments).split(),
    ]
    if cache and run.kept:
        words += [run.kept, str(cache / run.name)]
    return [*words, "--json"]


def measured(run: Run, *, is_quick: bool, cache: Path | None) -> dict[str, Value]:
    """What it tells; raises Failed. The group of its processes is killed if it is not over in time."""
    with subprocess.Popen(
        command(run, is_quick=is_quick, cache=cache),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=run.limit_s)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
            os.killpg(process.pid, signal.SIGKILL)  # its broker and members too
            if isinstance(error, KeyboardInterrupt):
                raise
            raise Failed(f"{run.name} was not over after {run.limit_s} s.") from error
    if process.returncode:
        raise Failed(f"{run.name} ended with {process.returncode}:\n{output}")
    try:
        return heard(output)
    except ValueError as error:
        raise Failed(f"{run.name} has told nothing:\n{output}") from error


def is_quiet(patience_s: float) -> bool:
    """Whether the load is, or comes, down in time: the benchmark before is still in its mean."""
    until_s = time.monotonic() + patience_s
    while os.getloadavg()[0] > LOAD_MAX:
        if time.monotonic() >= until_s:
            return False
        time.sleep(_LOOK_S)
    return True


def machine() -> Machine:
    fields = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    names = (value.strip() for key, value in fields.items() if key.strip() == "model name")
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    name = next(names, platform.machine())
    kernel, python = platform.release().partition("-")[0], platform.python_version()
    return Machine(name, os.cpu_count() or 1, round(memory_bytes / (1 << 30)), kernel, python)


def one(run: Run, arguments: argparse.Namespace) -> None:
    """Measure it and keep the result, unless it was a quick one."""
    load, began_s = os.getloadavg()[0], time.monotonic()
    print(f"{run.name}: {run.module} {run.quick if arguments.quick else run.arguments} (load {load:.1f})", flush=True)
    figures = measured(run, is_quick=arguments.quick, cache=arguments.cache)
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    took_s = round(time.monotonic() - began_s, 1)
    result = Result(run.name, at, commit(), round(load, 2), machine(), run.arguments, took_s, figures)
    if arguments.quick:
        print(f"  works, {len(figures)} figures in {took_s} s", flush=True)
        return
    append(result)
    redraw(FIGURES)
    print("\n".join(told_lines(result, FIGURES)), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[run.name for run in RUNS], metavar="NAME", help="these alone")
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    parser.add_argument("--busy", action="store_true", help="measure though the machine has other work")
    parser.add_argument("--redraw", action="store_true", help="only draw the table anew")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="where large stores are kept for the next time")
    arguments = parser.parse_args()
    if arguments.redraw:
        print("The table has changed." if redraw(FIGURES) else "The table is as it was.")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    failed = 0
    for run in RUNS:
        if arguments.only and run.name not in arguments.only:
            continue
        if not (arguments.busy or arguments.quick or is_quiet(PATIENCE_S)):
            print(f"The load is {os.getloadavg()[0]:.1f}: nothing is measured. --busy measures all the same.")
            return 1
        try:
            one(run, arguments)
        except Failed as error:
            failed += 1
            print(f"  {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
