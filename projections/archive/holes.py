"""Offsets that an archive lacks, and whether anything stood there that counts: one rule for all who read it. Pure.

Threats. A landing, a day or the beginning of the log is gone. Whoever judges or folds what is left gets a history that
never was and does not notice: a record that is missing is taken for one that was lost on its way to the log, and the
rest of its term for nothing.

Invariant. Whoever has read an archive to its end, and finds no hole open, has accepted what the topic's readers have.

Argument. Offsets may be missing rightly, for the end of a transaction takes one, and so does what was never accepted.
So a hole is in doubt until a record behind it that carries a chain hash is accepted: that chain is over all that counts
before it, so nothing of the kind stood in the hole. The start of a term proves nothing, for it carries no chain, and
neither does what is ignored. If something did stand there, no such record can be accepted: the rest of its term is
ignored as behind a gap, and the second record of the next term continues another chain (LogDiverged), which is then the
archive's fault and not the log's.
"""

from collections import deque

import msgspec

from topolog.events.errors import Permanent
from topolog.events.stamp import opens_term

_LAND_IT = "Land what the topic still has of it: `topolog spark archive`, where --since and --until name the days."


class ArchiveIncomplete(Permanent):
    """Records that count are not in the archive, or nothing in it shows that none is missing."""

    code = "archive_incomplete"


class Hole(msgspec.Struct, frozen=True):
    """Offsets from `start` to before `end` that the archive does not have."""

    start: int
    end: int


class Holes:
    """The holes that are in doubt. Whoever reads tells of each offset that is not the next one, and of what counts."""

    def __init__(self) -> None:
        self._in_doubt: deque[Hole] = deque()

    @property
    def first(self) -> Hole | None:
        return self._in_doubt[0] if self._in_doubt else None

    def found(self, start: int, end: int) -> None:
        """Behind what stands before `start` the next record has offset `end`."""
        self._in_doubt.append(Hole(start, end))

    def counted(self, offset: int, stamp: bytes) -> None:
        """A record was accepted; holes behind it may have been told of already."""
        if self._in_doubt and not opens_term(stamp):
            while self._in_doubt and self._in_doubt[0].end <= offset:
                self._in_doubt.popleft()

    def read_again(self, start: int) -> None:
        """What stands from `start` on is told of again."""
        self._in_doubt = deque(hole for hole in self._in_doubt if hole.end <= start)

    def incomplete(self, folder: object) -> ArchiveIncomplete | None:
        """Why what was read in `folder` is not what the topic held, None if nothing speaks against it."""
        hole = self.first
        if hole is None:
            return None
        if hole.start == 0:
            why = f"does not begin where the log does: its first record of decisions has offset {hole.end}"
        else:
            why = (
                f"lacks offsets {hole.start} to {hole.end - 1} of decisions, and no record behind them shows that "
                "nothing stood there that counts"
            )
        return ArchiveIncomplete(f"The archive in {folder} {why}.", hint=_LAND_IT)
