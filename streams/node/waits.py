"""What callers wait for: conditions on what this node has applied, looked at each time something was.

Each wait is a `concurrent.futures.Future`, so that one core serves blocking and asyncio callers alike.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as OutOfTime
from typing import Any, Generic, TypeVar

from topolog.events.errors import TopologError

T = TypeVar("T")
Condition = Callable[[], T | None]
"""Gives the result once there is one; raises to fail its caller."""


class Pending(Generic[T]):
    """An answer that may have to be waited for: blocking with `result`, or by awaiting `future`.

    `finish` makes the answer of what the future gave, in the thread of the caller; it may raise. `late(timeout_s)` is
    the error for a caller whose time is over.
    """

    def __init__(self, future: Future[Any], finish: Callable[[Any], T], late: Callable[[float], TopologError]) -> None:
        self.future = future
        self.finish = finish
        self.late = late

    def result(self, timeout_s: float) -> T:
        try:
            found = self.future.result(timeout_s)
        except OutOfTime:
            self.future.cancel()
            raise self.late(timeout_s) from None
        return self.finish(found)


class Waits:
    """Open waits of one node. `check` runs on the thread that applies the log, `when` on any."""

    def __init__(self) -> None:
        self._open: list[tuple[Condition[Any], Future[Any]]] = []
        self._lock = threading.Lock()
        self._failure: BaseException | None = None

    def when(self, condition: Condition[T]) -> Future[T]:
        """A future of the condition's result; resolved at once if it holds already."""
        future: Future[T] = Future()
        with self._lock:
            if self._failure is not None:
                future.set_exception(self._failure)
            elif not _resolve(condition, future):
                self._open.append((condition, future))
        return future

    def check(self) -> None:
        """Something has been applied: resolve every wait whose condition holds now."""
        with self._lock:
            self._open = [wait for wait in self._open if not _resolve(*wait)]

    def fail(self, error: BaseException) -> None:
        """No condition will hold any more."""
        with self._lock:
            self._failure = error
            for _, future in self._open:
                if future.set_running_or_notify_cancel():
                    future.set_exception(error)
            self._open.clear()


def _resolve(condition: Condition[T], future: Future[T]) -> bool:
    """Whether the wait is over: it has a result, it failed, or its caller gave up."""
    if future.cancelled():
        return True
    try:
        result = condition()
    except Exception as error:  # noqa: BLE001 (whatever it is, it belongs to the caller who waits)
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
        return True
    if result is None:
        return False
    if future.set_running_or_notify_cancel():  # else given up while we looked
        future.set_result(result)
    return True
