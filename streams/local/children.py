"""The child processes of one supervisor: started, watched, started again, stopped in order.

Each child leads a session of its own, so that a Ctrl-C reaches only the supervisor, and holds the read end of a pipe
(stopping.py), so that it ends with a supervisor that was killed. Should one not notice, because it was paused, the next
supervisor of the folder finds it in `children.json` and ends it. What a child says goes to `logs/<name>.log`.
"""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from topolog.events.errors import BadInput
from topolog.streams.local.data_folder import write_atomically
from topolog.streams.local.process import Process, identify, terminate
from topolog.streams.local.roles import Role
from topolog.streams.local.stopping import PIPE_VARIABLE

Say = Callable[[str], None]

RESTART_PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # short enough to be a stand-by soon, growing to spare the machine
STEADY_S = 60.0  # who has lived so long begins again with the shortest pause
LOG_BYTES_MAX = 10 << 20
TAIL_BYTES = 4096
LOOK_AGAIN_S = 0.02


class Left(msgspec.Struct, frozen=True):
    """What `children.json` holds: the processes that a killed supervisor has left."""

    processes: tuple[Process, ...]


class Child:
    """One role and its process, if it has one now."""

    def __init__(self, role: Role, log: Path) -> None:
        self.role = role
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.starts_again_at: float | None = None
        self._pauses = iter(RESTART_PAUSES_S)
        self._started_at = 0.0

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def start(self, environment: Mapping[str, str], supervisor_pipe: int) -> None:
        """Start the process; raises BadInput if its command or its log file cannot be used."""
        self.starts_again_at = None
        self._started_at = time.monotonic()
        try:
            roll(self.log)
            with self.log.open("ab") as output:
                self.process = subprocess.Popen(
                    self.role.command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**environment, PIPE_VARIABLE: str(supervisor_pipe)},
                    pass_fds=(supervisor_pipe,),
                    start_new_session=True,
                )
        except OSError as error:
            what = "The disk is full" if error.errno == errno.ENOSPC else error.strerror
            raise BadInput(f"The {self.role.title} cannot be started: {what} ({error.filename}).") from error

    def collect(self) -> str | None:
        """How the process ended, once, if it has ended since the last call."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        pid, self.process = self.process.pid, None
        end = f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
        line = last_line(self.log)
        return f"{self.role.title} (pid {pid}) {end}{f'; its last line: {line}' if line else ''}"

    def plan_restart(self) -> float:
        """Start again after a pause that grows from one early end to the next; the pause in seconds."""
        now = time.monotonic()
        if now - self._started_at >= STEADY_S:
            self._pauses = iter(RESTART_PAUSES_S)
        pause_s = next(self._pauses, RESTART_PAUSES_S[-1])
        self.starts_again_at = now + pause_s
        return pause_s

    def send(self, number: signal.Signals) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


class Children:
    """All child processes of this supervisor, whose folder is `folder`."""

    def __init__(self, folder: Path, environment: Mapping[str, str], say: Say) -> None:
        self.logs = folder / "logs"
        self._record = folder / "children.json"
        self._environment = environment
        self._say = say
        self._children: dict[str, Child] = {}
        self._their_end, self._our_end = os.pipe()

    def __getitem__(self, name: str) -> Child:
        return self._children[name]

    def end_left_behind(self) -> None:
        """End what a supervisor that was killed has left here; as a rule it has ended by itself."""
        try:
            left = msgspec.json.decode(self._record.read_bytes(), type=Left)
        except (FileNotFoundError, msgspec.MsgspecError):
            return
        for process in left.processes:
            if identify(process.pid) == process:
                self._say(f"ending process {process.pid}, which an earlier `up` left behind")
                terminate(process, limit_s=2.0)

    def start(self, roles: Iterable[Role]) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        for role in roles:
            child = self._children[role.name] = Child(role, self.logs / f"{role.name}.log")
            self._start(child)

    def is_running(self, role: Role) -> bool:
        child = self._children.get(role.name)
        return child is not None and child.process is not None and child.process.poll() is None

    def watch(self) -> None:
        """Say who has ended and what happens next; start those again whose pause is over."""
        for child in self._children.values():
            end = child.collect()
            if end is None:
                if child.starts_again_at is not None and time.monotonic() >= child.starts_again_at:
                    self._start(child)
                    self._say(f"{child.role.title} runs again (pid {child.pid})")
            elif child.role.restarts:
                self._say(f"{end}. It starts again in {child.plan_restart():g} s.")
            else:
                self._say(f"{end}. To start it again: {child.role.by_hand}")

    def ended(self) -> str | None:
        """How a child ended, if one has: while everything is starting that is a reason to stop."""
        return next((end for child in self._children.values() if (end := child.collect())), None)

    def stop(self, roles: Iterable[Role], hurries: Callable[[], bool]) -> None:
        """Ask these to stop, all at once; kill those that take longer than their limit, or all if it `hurries`.

        A paused process is continued, since it would not hear otherwise.
        """
        children = [child for role in roles if (child := self._children.get(role.name))]
        for child in children:
            child.starts_again_at = None
            child.send(signal.SIGTERM)
            child.send(signal.SIGCONT)
        asked_at = time.monotonic()
        while running := [child for child in children if child.process and child.process.poll() is None]:
            late = [c for c in running if hurries() or time.monotonic() - asked_at > c.role.stop_limit_s]
            for child in late:
                why = "is not waited for" if hurries() else "does not stop"
                self._say(f"{child.role.title} (pid {child.pid}) {why}; it is killed")
                child.send(signal.SIGKILL)
                self._wait_killed(child)
            time.sleep(LOOK_AGAIN_S)

    def close(self) -> None:
        """After the last `stop`: nothing of ours is left."""
        os.close(self._our_end)
        os.close(self._their_end)
        self._record.unlink(missing_ok=True)

    def _start(self, child: Child) -> None:
        child.start(self._environment, self._their_end)
        running = [c.pid for c in self._children.values() if c.pid]
        found = tuple(process for pid in running if (process := identify(pid)))
        write_atomically(self._record, Left(found))

    def _wait_killed(self, child: Child) -> None:
        assert child.process is not None
        with suppress(subprocess.TimeoutExpired):  # a process inside the kernel ends when it leaves it
            child.process.wait(1.0)


def roll(log: Path) -> None:
    """Keep one older file, so that logs end somewhere."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > LOG_BYTES_MAX:
            log.replace(log.with_name(f"{log.name}.1"))


def last_line(log: Path) -> str:
    """The last line that says what happened: no blank one, not the hint that follows an error."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
        return next((line.rstrip(".") for line in reversed(lines) if line and not line.startswith("Hint:")), "")
    return ""
