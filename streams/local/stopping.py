"""How a process learns that it is to stop: a signal tells it, or its supervisor's end does.

A supervisor that is killed tells nobody. So each of its children holds the read end of a pipe whose write end is the
supervisor's alone: the kernel closes that end with the supervisor, whatever killed it, and the child reads end of
file. `PIPE_VARIABLE` in a child's environment is the number of its end.

A Stopping needs neither thread nor lock: the handler of a signal writes one byte, whoever waits polls descriptors. (A
handler that sets a `threading.Event` can meet its own thread inside the event's lock, and wait for itself.)
"""

import os
import select
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from topolog.events.errors import BadInput

PIPE_VARIABLE = "TOPOLOG_SUPERVISOR_PIPE"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop(Protocol):
    """What a loop asks between two steps; a `threading.Event` will do in a test."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds to be told; whether it was."""


class Told(BaseException):
    """Raised out of `Stopping.interrupting`; like KeyboardInterrupt no Exception, so that nobody swallows it."""


class Stopping:
    """Whether this process has been told to stop, and how often: told twice, it should hurry."""

    def __init__(self, supervisor_pipe: int | None = None) -> None:
        self.times = 0
        self._interrupts = False
        self._told, self._tell = os.pipe()
        self._poll = select.poll()
        self._poll.register(self._told, select.POLLIN)
        if supervisor_pipe is not None:
            self._poll.register(supervisor_pipe, select.POLLIN)  # it carries nothing: ready means closed

    def is_set(self) -> bool:
        return self.wait(0)

    def wait(self, timeout: float) -> bool:
        return bool(self._poll.poll(timeout * 1000))

    def tell(self) -> None:
        self.times += 1
        os.write(self._tell, b"!")
        if self._interrupts:
            raise Told

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Around a call that may take long and asks nobody: being told raises Told out of it, in the main thread."""
        self._interrupts = True
        try:
            if self.is_set():
                raise Told
            yield
        finally:
            self._interrupts = False

    def close(self) -> None:
        os.close(self._told)
        os.close(self._tell)


@contextmanager
def stopping_when_told(environ: Mapping[str, str]) -> Iterator[Stopping]:
    """Signals and, in a child of `topolog up`, the supervisor's end are told to the Stopping. Main thread only."""
    stopping = Stopping(_supervisor_pipe(environ))

    def handle(_number: int, _frame: FrameType | None) -> None:
        stopping.tell()

    former = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield stopping
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        stopping.close()


def end_with_supervisor(environ: Mapping[str, str]) -> None:
    """For a program that handles signals itself: SIGTERM to this process once its supervisor has ended."""
    pipe = _supervisor_pipe(environ)
    if pipe is not None:
        threading.Thread(target=_terminate_at_end_of, args=(pipe,), name="supervisor", daemon=True).start()


def _terminate_at_end_of(pipe: int) -> None:
    os.read(pipe, 1)  # nothing is ever written: it returns at the end
    os.kill(os.getpid(), signal.SIGTERM)


def _supervisor_pipe(environ: Mapping[str, str]) -> int | None:
    text = environ.get(PIPE_VARIABLE)
    if text is None:
        return None
    try:
        descriptor = int(text)
        os.set_inheritable(descriptor, False)
    except (ValueError, OSError) as error:
        raise BadInput(
            f"{PIPE_VARIABLE}={text} names no open descriptor.", hint="Only `topolog up` sets it."
        ) from error
    return descriptor
