"""A page's console blocks, run as they stand in a terminal beside `topolog up --demo`, and compared line by line.

What differs from run to run (positions, times, ids, which of the five nodes) is masked on both sides; what does not,
such as exit codes and versions, is compared. A line `…` stands for any number of lines. What is told to be left running
goes on beside the rest until a line `^C`. TOPOLOG_WRITE_README=1 puts the real output into the page, for review.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
PATIENCE_S = 120.0
SPARK_S = 400.0
"""Starting Spark, and compiling what it does for the first time, take half a minute on a quiet machine."""

SHOWN_LINES_MAX = 14
LEFT_RUNNING = ("topolog demo load", "topolog demo stranger --hangs", "topolog demo validator shop.customer")
CTRL_C = "^C"
REPORT_LINES = 7
"""Of what was left running, at its end."""

MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "LOG"),
    (re.compile(r"\b(api|n\d)-([0-9a-f]{10}|[0-9a-f]{16})\b"), "REQUESTER"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "URL"),
    (re.compile(r"/\S+ in the copy of n\d: .* was .*, is .*"), "/KEY in the copy of NODE: …"),
    (re.compile(r"\b(n[1-5](, | and ))*n[1-5]\b"), "NODE"),
    (re.compile(r"\b(decimal|double)\b"), "decimal or double, as who came first has it"),
    (re.compile(r"\b(c1|c2)\b"), "COORDINATOR"),
    (re.compile(r"evidence\.applied [^;]*; "), ""),  # changes only if a node has joined between two acceptances
    (re.compile(r"heartbeats/\d"), "heartbeats/N"),
    (re.compile(r"\d+ (ms|s) old"), "AGE old"),
    (re.compile(r"\d+ (ms|s) ago"), "AGE ago"),
    (re.compile(r"\s+"), " "),
)
NUMBER = re.compile(r"-?\b\d+(,\d{3})*\b")
"""Counts are told by some commands as 1,464, from a thousand on."""

SAME_IN_EACH_RUN = re.compile(
    r"exit \d+|version \d+( → \d+)?|GRANTED \d+|REQUESTER/\d+|fields\.\w+ = \w+; \w+\.schemas\.\d+|position 2,|"
    r"[Pp]artition(/| )rows/\d+|last copy of .*|partition \d+ the \d servers|acting → backup( \d+)+|"
    r"\d nodes are refused|\d silent, \d valid|\d of \d members of the baseline|"
    r"rows that differ \d+ \(\d+ CHANGED\)|\d+ rows of shop.customer differ|\d+ rows would|in 1 landing"
)


def masked(line: str) -> str:
    for pattern, mask in MASKS:
        line = pattern.sub(mask, line)
    return mask_numbers(line).strip()


def mask_numbers(line: str) -> str:
    """Every number but those of which each run has the same."""
    kept = [*SAME_IN_EACH_RUN.finditer(line)]
    starts, ends = [0, *(each.end() for each in kept)], [*(each.start() for each in kept), len(line)]
    between = [NUMBER.sub("N", line[start:end]) for start, end in zip(starts, ends, strict=True)]
    return "".join(part + same for part, same in zip(between, [*(each[0] for each in kept), ""], strict=True))


class Shell:
    """A second terminal: `topolog` on the PATH, a folder of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._running: list[subprocess.Popen[str]] = []

    def run(self, command: str) -> list[str]:
        """What the command prints, both streams in the order of a terminal."""
        if command in LEFT_RUNNING:
            return self._leave_running(command)
        if command == CTRL_C:
            return self._interrupt()
        done = subprocess.run(
            ["bash", "-c", command],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder,
            env=self._environment,
            timeout=SPARK_S if "topolog spark" in command else PATIENCE_S,
        )
        return done.stdout.splitlines()

    def _leave_running(self, command: str) -> list[str]:
        """In a terminal of its own; its first line."""
        started = subprocess.Popen(
            command.split(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder,
            env=self._environment,
            process_group=0,
        )
        self._running.append(started)
        assert started.stdout is not None
        return [started.stdout.readline().rstrip("\n")]

    def _interrupt(self) -> list[str]:
        """The newest: what it had to say since, and in the end; it found nothing wrong."""
        newest = self._running[-1]
        newest.send_signal(signal.SIGINT)
        said, _ = newest.communicate(timeout=PATIENCE_S)
        self._running.pop()
        assert newest.returncode == 0, said
        return said.splitlines()

    def close(self) -> None:
        for each in self._running:
            each.kill()
            each.communicate()


@contextmanager
def beside_the_demo(folder: Path, unused_port: Callable[[], int], **settings: str) -> Iterator[Shell]:
    """`topolog up --demo` with an empty home, and a terminal beside it; all types of the demo are agreed.

    `settings`: of the environment, such as TOPOLOG_LEASE__FENCE.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TOPOLOG_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_STATE_HOME": str(folder / "state"),
        "TOPOLOG_BROKER__PORT": str(unused_port()),
        "TOPOLOG_API__PORT": str(unused_port()),
        "COLUMNS": "120",
        "NO_COLOR": "1",
        **settings,
    }
    up = subprocess.Popen(
        ["topolog", "up", "--demo"], stderr=subprocess.PIPE, text=True, env=environment, cwd=folder, process_group=0
    )
    said: list[str] = []
    is_up = threading.Event()

    def listen() -> None:
        assert up.stderr is not None
        for line in up.stderr:
            said.append(line)
            if line.startswith("topolog is up"):
                is_up.set()
        is_up.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    shell = Shell(folder, environment)
    try:
        assert is_up.wait(PATIENCE_S)
        assert any(line.startswith("topolog is up") for line in said), "".join(said)
        _await_rows(shell)
        yield shell
    finally:
        shell.close()
        up.send_signal(signal.SIGINT)
        code = up.wait(60)
        listener.join(10)
        assert up.stderr is not None
        up.stderr.close()
    assert code == 0, "".join(said)


def _await_rows(shell: Shell) -> None:
    """All five nodes are members and their six types are agreed."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S)):
        nodes = [line for line in shell.run("topolog get nodes -o name") if line.startswith("node/")]
        types = [line for line in shell.run("topolog get types -o name") if line.startswith("type/")]
        if len(nodes) == 5 and len(types) >= 6:
            return
        pause.wait(1.0)
    raise AssertionError(f"the demo has {nodes} and {types} after {PATIENCE_S:g} s")


def steps(block: str) -> list[tuple[str, list[str]]]:
    """(command, expected lines) pairs of one console block."""
    steps: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ ") or line == CTRL_C:
            steps.append((line.removeprefix("$ "), []))
        else:
            steps[-1][1].append(line)
    return steps


def is_shown(expected: list[str], printed: list[str]) -> bool:
    """Whether the masked lines agree, whatever their order: lists are in the order of joining, which differs."""
    rest = sorted(map(masked, printed))
    wanted = sorted(masked(line) for line in expected if line.strip() != "…")
    for line in wanted:
        if line not in rest:
            return False
        rest.remove(line)
    return not any(rest) or len(wanted) < len(expected)


def run(demo: Shell, page: Path, blocks: Iterable[str]) -> None:
    """Each command of these blocks of the page prints what the page shows, but for what differs from run to run."""
    if os.environ.get("TOPOLOG_WRITE_README"):
        _write_anew(demo, page, blocks)
        return
    for block in blocks:
        for command, expected in steps(block):
            printed = demo.run(command)
            assert is_shown(expected, printed), f"$ {command}\n{page.name}: {expected}\nprinted: {printed}"


def _write_anew(demo: Shell, page: Path, blocks: Iterable[str]) -> None:
    text = page.read_text()
    for block in blocks:
        lines: list[str] = []
        for command, _ in steps(block):
            printed = demo.run(command)
            lines += [command if command == CTRL_C else f"$ {command}"]
            lines += [line.rstrip() for line, _ in groupby(_shortened(command, printed))]
        text = text.replace(block, "\n".join(lines) + "\n", 1)
    page.write_text(text)


def _shortened(command: str, printed: list[str]) -> list[str]:
    if command == CTRL_C:
        return ["…", *printed[-REPORT_LINES:]] if printed else []
    return printed if len(printed) <= SHOWN_LINES_MAX else [*printed[: SHOWN_LINES_MAX - 4], "…"]
