"""What clients of the store were told, and whether what they find later is that. Pure.

A row has one writer, which counts: it writes 1, 2, 3 … and one at a time. A number whose write was not answered may be
stored or not, and a late copy of that request may still arrive when the row has long gone on; so such a row gets no
further number, and another row takes its place. What is found must lie between the last number that was acknowledged
and the last that was sent.

When the last copy of a partition is gone, everything in it is, and no store can help that. The log says when: the
partition is LOST, and begins a new life with its reset. What was sent in a former life is *gone*, not lost.
"""

from dataclasses import dataclass, field
from enum import Enum

import msgspec


class Verdict(Enum):
    KEPT = "kept"
    GONE = "gone"
    LOST = "lost"


@dataclass
class Row:
    """`life` is the partition's when the number that is acknowledged was sent."""

    key: str
    partition: int
    acknowledged: int = 0
    sent: int = 0
    life: int = 0
    in_doubt: bool = False

    def send(self, life: int) -> int:
        """The number to write now: the next one, or once more the one that is in doubt."""
        if self.sent == self.acknowledged and not self.in_doubt:
            self.sent += 1
        self._sent_in = life
        return self.sent

    def acknowledge(self) -> None:
        self.acknowledged, self.life = self.sent, self._sent_in

    def see(self, found: int | None, life: int) -> None:
        """What was read counts as acknowledged; `life` is the partition's when the read was sent."""
        if found is not None and found > self.acknowledged:
            self.acknowledged, self.life = found, life

    def judge(self, found: int | None, life: int) -> Verdict:
        """What it means that `found` (None: no row) is read in this life of the partition."""
        if self.acknowledged <= (found or 0) <= self.sent:
            return Verdict.KEPT
        return Verdict.LOST if life == self.life else Verdict.GONE

    _sent_in: int = 0


class Pause(msgspec.Struct, frozen=True):
    """From the first question to a partition until it had answered: both the read and the write of a client. Time for
    which the partition was lost does not count."""

    partition: int
    seconds: float


@dataclass
class Definitions:
    """What was shown of tables: how many rows, of which tables, which of them had gone, and what was not as defined."""

    rows: int = 0
    tables: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    wrong: dict[str, str] = field(default_factory=dict)


@dataclass
class Ledger:
    """What happened to the clients of one run, or to one of them."""

    writes: int = 0
    reads: int = 0
    gone: int = 0
    gone_with: set[int] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    unread: int = 0
    longest: Pause = field(default_factory=lambda: Pause(0, 0.0))
    definitions: Definitions = field(default_factory=Definitions)

    def paused(self, pause: Pause) -> None:
        self.longest = max(self.longest, pause, key=lambda each: each.seconds)

    def judged(self, row: Row, found: int | None, life: int) -> Verdict:
        verdict = row.judge(found, life)
        if verdict is Verdict.GONE:
            self.gone += 1
            self.gone_with.add(row.partition)
        elif verdict is Verdict.LOST:
            self.lost[row.key] = f"{row.acknowledged} was acknowledged, {found or 'nothing'} is there"
        return verdict

    def add(self, other: "Ledger") -> None:
        self.writes += other.writes
        self.reads += other.reads
        self.gone += other.gone
        self.gone_with |= other.gone_with
        self.lost |= other.lost
        self.unread += other.unread
        self.paused(other.longest)
