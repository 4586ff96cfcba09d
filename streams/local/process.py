"""One process on this machine, known by more than its number.

The kernel gives a pid to another process once the first is gone. A process is therefore remembered as its pid, the
boot it lived in and the tick it started at; a signal goes through a pidfd that was opened before the three were
compared, so it can never reach a stranger.

Linux only: pidfd and /proc.
"""

import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

_GONE = ("Z", "X")
_THREADS, _START_TICKS = 16, 18
"""Places in `/proc/PID/stat` behind the state."""

_KILLED_LIMIT_S = 10.0
"""Longer than a process takes to end that can no longer do anything else."""


class Process(msgspec.Struct, frozen=True):
    """`started` is opaque: equal for two sightings of one process, different for any two processes."""

    pid: int
    started: str


def identify(pid: int) -> Process | None:
    """The process that has this pid now; None if there is none, or only what its parent has not yet collected.

    One that was killed is a zombie as soon as its first thread is; its ports and locks are free when the last one is.
    """
    state, *fields = _stat(pid)
    if state in _GONE and (not fields or int(fields[_THREADS]) <= 1):
        return None
    start_ticks = fields[_START_TICKS]
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Process(pid, f"{boot_id}/{start_ticks}")


def is_paused(pid: int) -> bool:
    """Whether it stands still for SIGSTOP: a signal takes effect only when the process is given the processor."""
    return _stat(pid)[0] == "T"


def _stat(pid: int) -> list[str]:
    """State, parent and what else the kernel says of a process, in its order."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ["X"]
    return stat.rpartition(")")[2].split()  # the name before it may hold blanks and brackets


def this_process() -> Process:
    found = identify(os.getpid())
    assert found is not None
    return found


def is_alive(process: Process) -> bool:
    return identify(process.pid) == process


def spawn(command: Sequence[str], output: Path) -> Process:
    """Start a process that outlives this one if nobody stops it, its output appended to a file.

    It leads a session of its own: a Ctrl-C in our terminal reaches us alone, and we stop it in order.
    """
    to_file = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        list(command),
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.fspath(output), to_file, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )
    return identify(pid) or Process(pid, "ended at once")


def wait_for_exit(process: Process, timeout_s: float) -> bool:
    """True once the process is gone; False if it is still there after `timeout_s`."""
    with _handle(process) as pidfd:
        return pidfd is None or _has_ended(pidfd, process.pid, timeout_s)


def terminate(process: Process, limit_s: float) -> bool:
    """End the process; True if it went by itself within `limit_s` of SIGTERM, False if it had to be killed."""
    with _handle(process) as pidfd:
        if pidfd is None:
            return True
        _send(pidfd, signal.SIGTERM)
        if _has_ended(pidfd, process.pid, limit_s):
            return True
        _send(pidfd, signal.SIGKILL)
        _has_ended(pidfd, process.pid, _KILLED_LIMIT_S)
        return False


@contextmanager
def _handle(process: Process) -> Iterator[int | None]:
    """A pidfd of exactly this process, None if it is gone."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield pidfd if is_alive(process) else None
    finally:
        os.close(pidfd)


def _send(pidfd: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def _has_ended(pidfd: int, pid: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if not poll.poll(timeout_s * 1000):
        return False
    with suppress(ChildProcessError):  # the parent collects it; if that is not us, it is no child of ours
        os.waitpid(pid, os.WNOHANG)
    return True
