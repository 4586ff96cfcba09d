"""How a process with a faust app ends: in order, or the hard way.

Threat. A faust that stands in a rebalance does not hear that it is to stop (measured: not within 25 s), and whoever
supervises it kills it in the end without a word.

So a process that is told to stop and has not after `STOP_LIMIT_S` ends itself, and says so. Only apps may be ended like
that whose topics say all that they need to go on.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Iterator

from topolog.streams.local.stopping import Stop

STOP_LIMIT_S = 4.0
"""How long faust may take to stop in order, within what a supervisor allows a role."""

_LOOK_AGAIN_S = 0.1
_LOGGER = logging.getLogger("topolog.faust")


@contextlib.contextmanager
def ending_hard(stopping: Stop) -> Iterator[threading.Event]:
    """An event that is set when this process is told to stop; `STOP_LIMIT_S` later it ends, whoever still works."""
    told, has_ended = threading.Event(), threading.Event()

    def watch() -> None:
        while not has_ended.is_set():
            if stopping.wait(_LOOK_AGAIN_S):
                told.set()
                if not has_ended.wait(STOP_LIMIT_S):
                    _LOGGER.warning("faust does not stop; ending without it. What it had not told is read again.")
                    os._exit(0)

    watcher = threading.Thread(target=watch, name="end")
    watcher.start()
    try:
        yield told
    finally:
        has_ended.set()
        watcher.join()
