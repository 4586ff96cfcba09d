"""Where tasks are done: in a process of its own beside the projector, so that reads and live projecting do not wait.

Threats. A fold in a thread beside takes the interpreter from every read for as long as it may hold it; one that runs
out of memory takes the projector with it; one that outlives its projector writes where the next one builds.

Argument. A process has an interpreter, a memory and a priority of its own. It is told nothing and tells through a pipe;
when the pipe's other end is gone, because the projector has closed it or has died, it ends at once, wherever it is.
What it had done by then is in the store that it builds.
"""

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Protocol

from topolog.events.errors import Retriable, TopologError
from topolog.events.failpoints import arm
from topolog.events.log import LogReader
from topolog.projections.upkeep.doing import do
from topolog.projections.upkeep.tasks import Failed, Report, Task

OpenReader = Callable[[], LogReader]
"""Makes a reader of the log in another process: a function of a module, or a `partial` of one, and its arguments."""

NICENESS = 10
"""What is done beside has time that nobody else wants."""

_STOP_S = 5.0


class Work(Protocol):
    """A task that is being done. One thread asks."""

    def reports(self) -> list[Report]:
        """What it has told since it was asked last."""

    def is_over(self) -> bool:
        """Whether it has ended; `reports` has all of it then."""

    def stop(self) -> None:
        """End it wherever it is, and wait until it has ended."""


class Workshop(Protocol):
    def begin(self, task: Task) -> Work: ...


class Processes:
    """Each task in a new process, which opens a reader of its own."""

    def __init__(self, open_reader: OpenReader) -> None:
        self._open_reader = open_reader

    def begin(self, task: Task) -> Work:
        return _ProcessWork(self._open_reader, task)


class _ProcessWork:
    def __init__(self, open_reader: OpenReader, task: Task) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would take along locks that other threads hold
        self._pipe, theirs = context.Pipe()
        name = f"topolog-{type(task).__name__.lower()}"
        self._process = context.Process(target=_run, args=(theirs, open_reader, task), name=name, daemon=True)
        self._process.start()
        theirs.close()

    def reports(self) -> list[Report]:
        found: list[Report] = []
        with suppress(EOFError, OSError):
            while self._pipe.poll():
                found.append(self._pipe.recv())
        return found

    def is_over(self) -> bool:
        return not self._process.is_alive()

    def stop(self) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join(_STOP_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _run(pipe: Connection, open_reader: OpenReader, task: Task) -> None:
    """The process of a task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the projector's, who ends this
    os.nice(NICENESS)
    arm(os.environ)
    logging.basicConfig(level=logging.WARNING)
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
    try:
        do(task, open_reader, pipe.send)
    except TopologError as error:
        pipe.send(failure(error))


def _end_with(pipe: Connection) -> None:
    """Ends the process as soon as nobody is at the other end."""
    with suppress(EOFError, OSError):
        pipe.recv()
    os._exit(1)


def failure(error: TopologError) -> Failed:
    """What is told of a task that ends with this error."""
    return Failed(error.code, str(error), isinstance(error, Retriable))
