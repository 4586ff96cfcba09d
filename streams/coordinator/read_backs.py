"""Since when decisions have been read back, and which of them have waited long enough.

Each position waits as long as the terms in force there say (`events/lease_terms.py`). Once one has, so has every
earlier one, though its own wait may have begun with a longer fence: all leases that could miss the earlier decision
could miss the later one too, and none of those is left.
"""

from collections import deque

from topolog.events.ids import NOWHERE, Position

_NS_PER_MS = 1_000_000
_KEPT = 1_000
"""So a wait of proceed_ms may last a thousandth longer."""


class ReadBacks:
    """What one leader has read back; a new leader has waited for nothing."""

    def __init__(self) -> None:
        self.waited_through = NOWHERE
        self._noted_ns = 0
        self._due: deque[tuple[int, Position]] = deque()

    def note(self, now_ns: int, position: Position, proceed_ms: int) -> None:
        """Everything up to `position` is read back by now, and `proceed_ms` is the largest in force there."""
        proceed_ns = proceed_ms * _NS_PER_MS
        if self._due and now_ns - self._noted_ns < proceed_ns // _KEPT:
            return
        self._noted_ns = now_ns
        due_ns = now_ns + proceed_ns
        while self._due and self._due[-1][0] >= due_ns:
            self._due.pop()
        self._due.append((due_ns, position))

    def pass_time(self, now_ns: int) -> Position:
        """The last position that has waited long enough by now."""
        while self._due and self._due[0][0] <= now_ns:
            self.waited_through = self._due.popleft()[1]
        return self.waited_through
