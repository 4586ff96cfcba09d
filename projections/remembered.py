"""What a process has worked out of the log once and need not again: nothing changes it any more."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

_KEPT = 1_024


class Remembered(Generic[T]):
    """The newest answers, by names that no other log has: a chain hash is part of each."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._held: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: Hashable, work_out: Callable[[], T]) -> T:
        """The answer of this name, worked out if it is not held; two threads may do that at a time."""
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
                return self._held[name]
        found = work_out()
        with self._lock:
            self._held[name] = found
            if len(self._held) > self._kept:
                self._held.popitem(last=False)
        return found
