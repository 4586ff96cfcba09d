"""A process that has loaded all that the processes of a test need, and forks one whenever it is told to.

A Python that loads the node client takes 0.6 s of a core, and the failpoints take a hundred processes. A fork takes
next to nothing, and is as good: the nursery has no thread, no connection and no log, so a child is like a process that
has just loaded its modules. What it draws is its own (Python seeds `random` anew in a child).

A request is one message: the name of a module of this folder and the arguments of its `main`, as JSON, with four
descriptors: the child's three streams, and where its number is written when it has begun, and its exit code when it has
ended. The nursery ends with its end of the sockets, and its children with the nursery.
"""

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Final

from topolog.streams.local.stopping import PIPE_VARIABLE

MODULES: Final = ("armed", "actor", "member", "schema_reader", "validating")
_PACKAGE = "tests.broker"
_MESSAGE_BYTES_MAX = 65_536
_STREAMS = 3


class Forked:
    """A child of the nursery, to be used like a `subprocess.Popen` of text."""

    def __init__(self, end: socket.socket, request: list[str]) -> None:
        (stdin, mine), (out, stdout), (err, stderr), (self._status, status) = (os.pipe() for _ in range(4))
        theirs = [stdin, stdout, stderr, status]
        socket.send_fds(end, [json.dumps(request).encode()], theirs)
        for descriptor in theirs:
            os.close(descriptor)
        self.stdin = os.fdopen(mine, "w", buffering=1)
        self.stdout, self.stderr = os.fdopen(out, buffering=1), os.fdopen(err, buffering=1)
        self.returncode: int | None = None
        self._told = b""
        pid = self._line(None)
        assert pid is not None
        self.pid = pid

    def poll(self) -> int | None:
        return self._ended(0.0)

    def wait(self, timeout: float) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a fork of the nursery", timeout)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _ended(self, timeout_s: float) -> int | None:
        if self.returncode is None:
            self.returncode = self._line(timeout_s)
            if self.returncode is not None:
                os.close(self._status)
        return self.returncode

    def _line(self, timeout_s: float | None) -> int | None:
        """The next number that the nursery has written; None if it does not come in time."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._told:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._status], [], [], left)[0]:
                return None
            data = os.read(self._status, 100)
            assert data, "the nursery has died"
            self._told += data
        line, _, self._told = self._told.partition(b"\n")
        return int(line)


class Nursery:
    """The nursery's process, as a test holds it."""

    def __init__(self) -> None:
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{_PACKAGE}.nursery", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads of numpy's do not outlive a fork
            )

    def fork(self, module: str, *arguments: str) -> Forked:
        """`python -m tests.broker.MODULE ARGUMENTS`."""
        return Forked(self._end, [module, *arguments])

    def close(self) -> None:
        self._end.close()
        self._process.wait(10)


# The nursery's own process.


def tend(end: socket.socket) -> list[str]:
    """Fork when told to. Returns in each child, with what it is to be; in the nursery itself never."""
    living: dict[int, tuple[int, int]] = {}
    alive, kept_open = os.pipe()
    os.environ[PIPE_VARIABLE] = str(alive)
    poll = select.poll()
    poll.register(end, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor != end.fileno():
                poll.unregister(descriptor)
                _bury(descriptor, *living.pop(descriptor))
                continue
            message, given, _, _ = socket.recv_fds(end, _MESSAGE_BYTES_MAX, _STREAMS + 1)
            if not message:
                sys.exit()
            *streams, status = given
            pid = os.fork()
            if not pid:
                end.close()
                _begin(streams, [kept_open, *given, *living, *(kept for _, kept in living.values())])
                return list(json.loads(message))
            for stream in streams:
                os.close(stream)
            os.write(status, b"%d\n" % pid)
            living[pidfd := os.pidfd_open(pid)] = pid, status
            poll.register(pidfd, select.POLLIN)


def _begin(streams: list[int], others: list[int]) -> None:
    """In a child: its streams are its own, and nothing of the nursery's stays open."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for descriptor in others:
        os.close(descriptor)


def _bury(pidfd: int, pid: int, status: int) -> None:
    _, code = os.waitpid(pid, 0)
    os.close(pidfd)
    try:
        os.write(status, b"%d\n" % os.waitstatus_to_exitcode(code))
    except BrokenPipeError:  # its test has ended
        pass
    finally:
        os.close(status)


def main(number: str) -> None:
    mains = {name: importlib.import_module(f"{_PACKAGE}.{name}").main for name in MODULES}
    module, *arguments = tend(socket.socket(fileno=int(number)))
    mains[module](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
