"""What a service asks before it acts: may I, now? And after a read: was I allowed to, all the while?

No check covers a pause that comes after it. A read is therefore checked again when it is done; a write carries a token
(the position that made its sender responsible, or the incarnation of the object), and stores refuse lower ones.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from topolog.events.errors import Fenced, NotFound, TopologError
from topolog.streams.clock import Clock
from topolog.streams.node.lease import Lease

_LOGGER = logging.getLogger("topolog.node")
_NS_PER_MS = 1_000_000


class Holder(Protocol):
    """What a guard looks at: a session."""

    failure: TopologError | None

    @property
    def lease(self) -> Lease: ...

    @property
    def heartbeat_ms(self) -> int: ...

    @property
    def margin_ms(self) -> int: ...


class LeaseGuard:
    """The lease of a node, as its service sees it. Any thread may ask; each answer is computed from the clock.

    That of a client says that it has heard of the cluster within a fence: nobody waits for it to end.
    """

    def __init__(self, clock: Clock, holder: Holder, *, is_client: bool = False) -> None:
        self._is_client = is_client
        self._clock = clock
        self._holder = holder
        self._process = os.getpid()
        self._is_told = False
        self._longest_ns = self._warned_ns = 0

    @property
    def longest_ms(self) -> int:
        """The longest operation so far that acted on one check: what may be done behind the end of a lease."""
        return self._longest_ns // _NS_PER_MS

    @property
    def is_valid(self) -> bool:
        return not self._is_copy and self._holder.lease.is_valid(self._clock.boottime_ns())

    @property
    def remaining_ms(self) -> int:
        """How long the lease still runs unless it is renewed, 0 if it is over."""
        return 0 if self._is_copy else self._holder.lease.remaining_ms(self._clock.boottime_ns())

    def require(self) -> None:
        """Return if this node may act now; raise Fenced if not, or the error that ended the node for good."""
        if self._holder.failure is not None:
            raise self._holder.failure
        if not self.is_valid and self._is_client:
            raise Fenced(
                "This client has not heard of the cluster for longer than the fence, and does not know what holds now.",
                retry_after_ms=self._holder.heartbeat_ms,
                hint="It recovers by itself once it hears of it again; `max_age_s` takes an older answer.",
            )
        if not self.is_valid:
            raise Fenced(
                "This node holds no valid lease and must not answer.",
                retry_after_ms=self._holder.heartbeat_ms,
                hint="It recovers by itself once it has read the log again; retry, or ask another node.",
            )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Check before and after a read: whatever was read inside is valid if this exits without Fenced. So is what
        was not found: a pause may lie between the look and the answer that there is none."""
        self.require()
        generation = self._holder.lease.generation
        try:
            yield
        except NotFound:
            self._require_still(generation)
            raise
        self._require_still(generation)

    def _require_still(self, generation: int) -> None:
        self.require()
        if self._holder.lease.generation != generation:
            raise Fenced("The lease changed during the read.", retry_after_ms=0, hint="Read again.")

    def acted(self, began_ns: int, ended_ns: int) -> None:
        """An operation with effects has ended; `began_ns` was read before its check, both by the holder's clock.

        A lease that ends right behind the check is outlived by this much, and margin_ms is all that others wait beyond
        it. A read takes none of that, for it is checked again when it is done; nor does the thread that applies the
        log, for a lease that is renewed late ends earlier. The first operation that takes more than half of the
        margin is logged, and then each that takes at least twice as long as the one logged last (LE12).
        """
        took_ns, margin_ms = ended_ns - began_ns, self._holder.margin_ms
        self._longest_ns = max(self._longest_ns, took_ns)
        if took_ns * 2 > margin_ms * _NS_PER_MS and took_ns >= 2 * self._warned_ns:
            self._warned_ns = took_ns
            share = "all" if took_ns > margin_ms * _NS_PER_MS else "more than half"
            _LOGGER.warning(
                "An operation took %d ms behind its lease check: %s of the margin of %d ms that others wait.",
                *(took_ns // _NS_PER_MS, share, margin_ms),
            )

    def fence_child(self) -> None:
        """A forked child holds a copy of the lease and none of the threads that keep it: it starts fenced."""
        self._is_told = True

    @property
    def _is_copy(self) -> bool:
        """Told by the fork, or seen by the process id: nobody tells a child that was forked outside of Python."""
        return self._is_told or os.getpid() != self._process
