"""A node's lease: until when it may act, by its own clock (the argument stands in `events/leases.py`).

The lease runs fence_ms from the time a heartbeat was handed over, read before that, and only once the log has echoed
exactly that heartbeat and everything before the echo is applied. Nothing else extends it: no answer of a broker, no
snapshot, no later heartbeat, no echo of another sequence. Checks compare now with the published deadline; no task has
to run for a lease to end.
"""

from topolog.events.ids import Incarnation

_NS_PER_MS = 1_000_000
SENT_KEPT = 1024
"""Heartbeats in flight that are remembered: many fences' worth at the regular beat."""


class Lease:
    """The lease of one incarnation. Times are ns of the holder's clock (CLOCK_BOOTTIME).

    `generation` rises whenever the lease is voided or starts anew: a read that began in one generation and ended in
    another did not run under one lease. `anchor_ns`: when the newest heartbeat that was echoed, in this incarnation or
    a former one, was handed over; None if none was. All that was in the log then was applied later on.
    """

    def __init__(self, incarnation: Incarnation, generation: int = 0, anchor_ns: int | None = None) -> None:
        self.incarnation = incarnation
        self.generation = generation
        self.anchor_ns = anchor_ns
        self.deadline_ns = -1
        self._sent: dict[int, int] = {}

    def sent(self, sequence: int, at_ns: int) -> None:
        """Heartbeat `sequence` is about to be handed to the producer; `at_ns` was read before."""
        self._sent[sequence] = at_ns
        if len(self._sent) > SENT_KEPT:
            del self._sent[next(iter(self._sent))]

    def echoed(self, sequence: int, fence_ms: int, now_ns: int) -> None:
        """The log holds the echo of exactly this heartbeat, and everything before the echo is applied by `now_ns`."""
        deadline_ns = self.deadline_behind(sequence, fence_ms)
        at_ns = self._sent.pop(sequence, None)
        if at_ns is None:
            return
        for earlier in [each for each in self._sent if each < sequence]:
            del self._sent[earlier]
        if not self.is_valid(now_ns):
            self.generation += 1
        self.anchor_ns = at_ns
        self.deadline_ns = deadline_ns

    def deadline_behind(self, sequence: int, fence_ms: int) -> int:
        """Until when it would last if the log held the echo of this heartbeat."""
        at_ns = self._sent.get(sequence)
        return self.deadline_ns if at_ns is None else max(self.deadline_ns, at_ns + fence_ms * _NS_PER_MS)

    def void(self) -> None:
        """This incarnation acts no more, whatever echoes still arrive."""
        self._sent.clear()
        self.deadline_ns = -1
        self.generation += 1

    def is_valid(self, now_ns: int) -> bool:
        return now_ns <= self.deadline_ns

    def remaining_ms(self, now_ns: int) -> int:
        """How long the lease still runs, 0 if it is over."""
        return max(0, self.deadline_ns - now_ns) // _NS_PER_MS
