"""When a node notes its past on its disk: before whatever it does that the disk does not know (`events/views.py`).

By the thread that applies the log, once for a set and before anybody hears of the set: the own joining, hence before
the first heartbeat; the view that it makes, hence before the first write under it; the renewal of the own lease, hence
before that counts. By the thread that beats: numbers of heartbeats, when no other sync has reserved enough of them.

A sync that fails ends the node. Below BASELINE_LEVEL, and without a disk, nothing is noted.
"""

import threading
from collections.abc import Sequence

from topolog.events.failpoints import reach
from topolog.events.fold import Folded
from topolog.events.levels import BASELINE_LEVEL
from topolog.events.terms import ClusterRow
from topolog.events.views import Past, newest_point
from topolog.streams.node.core import NodeCore
from topolog.streams.node.past import noted, with_reserve
from topolog.streams.node.past_disk import PastDisk
from topolog.streams.rules.past import check, judge


class Noting:
    """`past`: what the disk says."""

    def __init__(self, core: NodeCore, disk: PastDisk | None) -> None:
        self._core = core
        self._disk = disk
        self._syncing = threading.Lock()
        self.past = disk.load() if disk else None

    def to_join_with(self) -> Past | None:
        """What a request to join says, at the end of the log. Raises Refused where no coordinator would judge it."""
        core, past = self._core, self.past
        if past is None or self._is_due:
            return past
        assert core.log_id is not None, "the log is read to its end"
        judged = judge(core.state, core.log_id, core.folded, core.node, past)  # a log of before there were pasts
        check(core.state, core.log_id, core.folded, core.node, past, judged)
        raise AssertionError("a past names points, and such a log has none")

    def note(self, found: Sequence[Folded]) -> None:
        """A set has been folded, and nobody has heard of it."""
        if self._disk is None or not self._is_due:
            return
        core = self._core
        echo, newest = core.echo_behind(found), newest_point(core.state)
        if echo is None:
            return
        assert core.log_id is not None and newest is not None, "views are kept from this level on"
        with self._syncing:
            past = noted(self.past, core.log_id, core.node, newest, echo, core.sent)
            if past != self.past:
                self._sync(self._disk, past)

    def may_beat(self) -> bool:
        """Whether the next heartbeat of this life may be sent, as far as the disk goes; reserves its number."""
        if self._disk is None or not self._is_due:
            return True
        if self._has_reserved:
            return True
        with self._syncing:
            if self.past is None or self.past.echo.incarnation != self._core.incarnation:
                return False  # the set that makes it one to be noted is about to be
            if not self._has_reserved:
                self._sync(self._disk, with_reserve(self.past, self._core.sent))
        return True

    @property
    def _has_reserved(self) -> bool:
        past, core = self.past, self._core
        return past is not None and past.echo.incarnation == core.incarnation and past.reserved > core.sent

    @property
    def _is_due(self) -> bool:
        row = self._core.state.get(ClusterRow, "")
        return row is not None and row.feature_level >= BASELINE_LEVEL

    def _sync(self, disk: PastDisk, past: Past) -> None:
        reach("node.past-syncing")
        disk.store(past)
        self.past = past
        reach("node.past-synced")
