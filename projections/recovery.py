"""How far a reader is that has just started: what an orchestrator asks that would else restart it again and again."""

import time
from collections.abc import Callable

import msgspec

from topolog.events.ids import Offset
from topolog.projections.layout import Meta
from topolog.projections.upkeep.pace import Pace

_ASK_EVERY_S = 5.0


class Recovering(msgspec.Struct, frozen=True):
    """`position` of about `of`, which is None while the log has not said where it ends; `rate` is records per
    second."""

    position: int
    of: int | None
    rate: float
    eta_s: int | None


def eta_s(position: int, of: int | None, rate: float) -> int | None:
    """How long it takes at this rate, None if nobody knows."""
    if of is None or (rate <= 0 and position < of):
        return None
    return round((of - position) / rate) if position < of else 0


class Recovery:
    """From the start of a process until it has first read to the end; one thread notes, any thread asks."""

    def __init__(self, end: Callable[[], Offset | None], now_s: Callable[[], float]) -> None:
        """`end` asks the log for the offset behind its newest record, and may take a second."""
        self._end = end
        self._now_s = now_s
        self._pace = Pace(None, now_s, time.sleep)
        self._asked_at_s: float | None = None
        self._to: Offset | None = None
        self.is_over = False
        self.told = Recovering(-1, None, 0.0, None)

    def note(self, meta: Meta, *, at_end: bool) -> None:
        """Where the reader stands, and whether that is the end."""
        if self.is_over:
            return
        self.is_over = at_end
        if at_end:
            self.told = Recovering(meta.position, meta.position, 0.0, 0)
            return
        self._ask()
        read_to = 0 if meta.last_offset is None else meta.last_offset + 1
        of = None if self._to is None else meta.position + max(0, self._to - read_to)
        rate = self._pace.rate(meta.position)
        self.told = Recovering(meta.position, of, round(rate, 1), eta_s(meta.position, of, rate))

    def _ask(self) -> None:
        if self._to is None and (self._asked_at_s is None or self._now_s() - self._asked_at_s >= _ASK_EVERY_S):
            self._asked_at_s = self._now_s()
            self._to = self._end()
