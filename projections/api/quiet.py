"""Keeps what anybody can make this process complain of from filling its log: of the same complaint one a minute."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PAUSE_S = 60.0
_KINDS_MAX = 1_000

_Kind = tuple[int, str, type[BaseException] | None]


class Quiet(logging.Filter):
    """Lets a warning or an error through unless the same, whatever its arguments, was let through within a minute; says
    how many it has kept back since. Errors that were raised are the same if they are of one type."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._said_s: dict[_Kind, float] = {}
        self._kept_back: dict[_Kind, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno not in (logging.WARNING, logging.ERROR):
            return True
        text = str(record.msg)
        kind, now_s = (record.levelno, text, record.exc_info[0] if record.exc_info else None), self._now_s()
        if now_s - self._said_s.get(kind, -_PAUSE_S) < _PAUSE_S:
            self._kept_back[kind] = self._kept_back.get(kind, 0) + 1
            return False
        if len(self._said_s) >= _KINDS_MAX:
            self._said_s.clear()
        self._said_s[kind] = now_s
        if kept_back := self._kept_back.pop(kind, 0):
            record.msg = f"{text.rstrip()} ({kept_back} more were not told.)"
        return True


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """The loggers of these names make the same complaint once a minute."""
    each = Quiet()
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addFilter(each)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(each)
