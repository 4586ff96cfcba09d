"""When a node notes its past on its disk: before whatever it does that the disk does not know (`events/views.py`).

By the thread that applies the log, once for a set and before anybody hears of the set: the own joining, hence before
the first heartbeat; the view that it makes, hence before the first write under it; the renewal of the own lease, hence
before that counts. What comes while the lease is over, and stays so, is not noted: nothing is written under it, and a
disk that named it would be refused by another copy of the log for nothing. By the thread that beats: numbers of
heartbeats, when no other sync has reserved enough of them.

A sync that fails ends the node. Without a disk nothing is noted.
"""

import threading
from collections.abc import Sequence

from topolog.events.failpoints import reach
from topolog.events.fold import Folded
from topolog.events.ids import Incarnation
from topolog.events.views import Past, newest_point
from topolog.streams.node.core import NodeCore
from topolog.streams.node.past import noted, with_reserve
from topolog.streams.node.past_disk import PastDisk


class Noting:
    """`past`: what the disk says."""

    def __init__(self, core: NodeCore, disk: PastDisk | None) -> None:
        self._core = core
        self._disk = disk
        self._syncing = threading.Lock()
        self.past = disk.load() if disk else None

    def note(self, found: Sequence[Folded], now_ns: int) -> None:
        """A set has been folded, and nobody has heard of it; `now_ns` is that of the lease's clock."""
        if self._disk is None:
            return
        core = self._core
        echo, newest = core.echo_behind(found), newest_point(core.state)
        if echo is None or (self._is_of(core.incarnation) and core.lease_behind(echo) < now_ns):
            return
        assert core.log_id is not None and newest is not None, "a joining makes a view"
        with self._syncing:
            past = noted(self.past, core.log_id, core.node, newest, echo, core.sent)
            if past != self.past:
                self._sync(self._disk, past)

    def may_beat(self) -> bool:
        """Whether the next heartbeat of this life may be sent, as far as the disk goes; reserves its number."""
        if self._disk is None or self._has_reserved:
            return True
        with self._syncing:
            if self.past is None or not self._is_of(self._core.incarnation):
                return False  # the set that makes it one to be noted is about to be
            if not self._has_reserved:
                self._sync(self._disk, with_reserve(self.past, self._core.sent))
        return True

    def _is_of(self, incarnation: Incarnation) -> bool:
        """Whether the disk names this life."""
        return self.past is not None and self.past.echo.incarnation == incarnation

    @property
    def _has_reserved(self) -> bool:
        past, core = self.past, self._core
        return past is not None and past.echo.incarnation == core.incarnation and past.reserved > core.sent

    def _sync(self, disk: PastDisk, past: Past) -> None:
        reach("node.past-syncing")
        disk.store(past)
        self.past = past
        reach("node.past-synced")
