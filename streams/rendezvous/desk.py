"""Follows `decisions`, keeps what faust reads of `trees`, compares what is due, and reports it: all in one thread.

Threats. A page is handed in before the log that it belongs to is folded; pages come faster than they are looked at; the
process dies between a comparison and its report; the log voids a record.

Invariant. What is due is compared and reported as long as the log asks for it.

Argument. What is due is a function of the pages and of the state (`meeting.py`), and a process that starts reads both
again. It carries no safety (`repair_reports.py`): the coordinator takes the first report that is valid, so one that is
sent twice, by this life or another, changes nothing. Pages are read only once the log has been read to its end
(`is_ready`), so what is over is known to be over, and is not kept.
"""

import logging
import math
import queue
from collections import Counter
from collections.abc import Sequence

from topolog.events.codec import CODEC
from topolog.events.errors import DamagedStore, Poisoned
from topolog.events.failpoints import reach
from topolog.events.fold import Fold, Ignored
from topolog.events.ids import Offset
from topolog.events.log import Entry, LogReader, LogWriter
from topolog.events.lookahead import LookAhead
from topolog.events.repair_tasks import PAGES_DAMAGED, TaskId
from topolog.events.requesters import highest_of
from topolog.events.terms import ClusterRow
from topolog.events.topics import Topic
from topolog.events.tree_answers import Aside
from topolog.events.tree_pages import TreePage
from topolog.streams.clock import Clock
from topolog.streams.local.stopping import Stop
from topolog.streams.rendezvous.meeting import HELD_BYTES_MAX, KINDS, Meeting
from topolog.streams.rendezvous.reporting import Reports
from topolog.streams.restoring import Restorer

_LOGGER = logging.getLogger("topolog.rendezvous")

INBOX_MAX = 32
"""Records that faust has read and this thread has not: some 20 MB."""

SAID_MAX = 1_000
"""Pages that people hear of; all are counted."""

_POLL_S = 0.05
_ROOM_S = 0.2
_AGAIN_NS = 1_000_000_000
_DAMAGED_NS = 10 * _AGAIN_NS
"""For so long what can be compared with nothing may be put right by pages that are not read yet: another process may
have sent the same attempt before, and was given up."""

_DEFAULT_FENCE_MS = 20_000
_USUAL = (Aside.LATE, Aside.UNKNOWN_SESSION, Aside.NO_ROOM)
"""Of these nobody need hear: a process that starts reads what is over."""


class Desk:
    """`take` and the attributes belong to any thread, the rest to the one that runs it. `name` is unique to this life.

    `log_id`: which log it follows, once it `is_ready`. `readings`: how often the pages have been begun anew; `pages`:
    how many it has read; `wants_more`: they should be read once more.
    """

    def __init__(
        self, reader: LogReader, writer: LogWriter, clock: Clock, name: str, life: int, limit: int = HELD_BYTES_MAX
    ) -> None:
        self.log_id: bytes | None = None
        self.is_ready = False
        self.readings = 0
        self.pages = 0
        self.wants_more = False
        self.meeting = Meeting(limit)
        self._clock = clock
        self._reader = LookAhead(reader)
        self._reports = Reports(writer, clock, name, life, lambda requester: highest_of(self._fold.state, requester))
        self._inbox: queue.Queue[bytes | None] = queue.Queue(INBOX_MAX)
        self._said: set[tuple[int, Aside]] = set()
        self._fold = Fold()
        self._is_dirty = True
        self._again_ns = math.inf
        self._damaged_ns: dict[TaskId, float] = {}
        now_ns = clock.monotonic_ns()
        self._restorer: Restorer | None = Restorer(self._reader, now_ns)
        self._restore(self._restorer, (), now_ns)

    def take(self, value: bytes | None) -> bool:
        """A record of `trees`, or None before the first one of a new reading. False if there has been no room for a
        moment: try again."""
        try:
            self._inbox.put(value, timeout=_ROOM_S)
        except queue.Full:
            return False
        return True

    def run(self, stopping: Stop) -> None:
        """Until told to stop; raises what ends it for good."""
        while not stopping.is_set():
            self.step(_POLL_S)

    def step(self, timeout_s: float) -> None:
        """Read what is there, waiting up to `timeout_s` for the first record of the log; report what follows."""
        entries = self._reader.poll(timeout_s if self._inbox.empty() else 0)
        if self._restorer:
            self._restore(self._restorer, entries, self._clock.monotonic_ns())
            return
        self._read(entries)
        self._take_in()
        if any(kind in KINDS for kind, _ in self._fold.state.drain()):
            self.meeting.sweep(self._fold.state, self._fold.header.position)
            self._is_dirty = True
        if not self.is_ready:
            self._be_ready()
        elif self._is_dirty or self._clock.monotonic_ns() >= self._again_ns:
            self._is_dirty, self._again_ns = False, math.inf
            self._compare()
        self.wants_more = self.meeting.wants_more
        self._say()
        self._reports.serve()

    def _be_ready(self) -> None:
        if self._reader.at_end(Topic.DECISIONS) and self._fold.header.log_id is not None:
            self.log_id, self.is_ready = self._fold.header.log_id, True

    @property
    def reported(self) -> Counter[str]:
        """What it has reported, by what came out: equal, different, rows, damaged."""
        return self._reports.reported

    @property
    def differing_leaves(self) -> int:
        return self._reports.differing_leaves

    @property
    def unanswered(self) -> int:
        """Reports that have no outcome yet."""
        return self._reports.unanswered

    # What is read.

    def _restore(self, restorer: Restorer, entries: Sequence[Entry], now_ns: int) -> None:
        restored = restorer.step(entries, now_ns)
        if restored:
            self._restorer, self._fold = None, restored.fold

    def _start_over(self) -> None:
        self._fold, self.is_ready = Fold(), False
        self._reader.assign({(Topic.DECISIONS, 0): Offset(0)})

    def _read(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            try:
                found = self._fold.read(entry.stamp, entry.value)
            except Poisoned as poisoned:
                self._reader.look_ahead(self._fold, poisoned, entry.offset)
                return
            except DamagedStore as error:
                _LOGGER.warning("The log is read from its beginning: %s", error.message)
                self._start_over()
                return
            if isinstance(found, Ignored):
                continue
            self._reader.counted(entry, self._fence_ms)
            for folded in found:
                self._reports.note(folded.event)

    def _take_in(self) -> None:
        for _ in range(INBOX_MAX):
            try:
                value = self._inbox.get_nowait()
            except queue.Empty:
                return
            if value is None:
                self.meeting.begin_anew()
                self.readings += 1
            else:
                self._put(value)

    def _put(self, value: bytes) -> None:
        self.pages += 1
        page = CODEC.read(value)
        if not isinstance(page, TreePage):
            self.meeting.aside[Aside.NOT_A_PAGE] += 1
            self._say_once(0, Aside.NOT_A_PAGE, "A record")
            return
        aside = self.meeting.add(page, self._fold.state, self._fold.header.position)
        if aside is None:
            self._is_dirty = True
        elif aside not in _USUAL:
            self._say_once(page.task.session, aside, f"A page of {page.task}")

    def _say_once(self, session: int, aside: Aside, what: str) -> None:
        if (session, aside) not in self._said and len(self._said) < SAID_MAX:
            self._said.add((session, aside))
            _LOGGER.warning("%s is put aside: %s.", what, aside.value)

    # What is said.

    def _compare(self) -> None:
        state = self._fold.state
        for due in self.meeting.due(state):
            for told in self.meeting.compare(due, state):
                reach("rendezvous.compared")
                if not self._reports.report(told, self._fold.header.log_id or b"", self._level):
                    self.meeting.untold(told)
                    self._again_ns = self._clock.monotonic_ns() + _AGAIN_NS
        self._refuse()

    def _refuse(self) -> None:
        """Report what cannot be compared and has not been put right for a while, again as long as that is so."""
        now_ns, damaged = self._clock.monotonic_ns(), self.meeting.damaged(self._fold.state)
        waits = {task: _DAMAGED_NS if told.code == PAGES_DAMAGED else 0 for task, told in damaged.items()}
        self._damaged_ns = {task: self._damaged_ns.get(task, now_ns + wait_ns) for task, wait_ns in waits.items()}
        for task, told in damaged.items():
            if now_ns >= self._damaged_ns[task]:
                self._reports.refuse(task, told, self._fold.header.log_id or b"", self._level)
                self._damaged_ns[task] = now_ns + _DAMAGED_NS
        self._again_ns = min([self._again_ns, *self._damaged_ns.values()])

    def _say(self) -> None:
        said, self.meeting.said = self.meeting.said, []
        for line in said:
            _LOGGER.warning("%s", line)

    @property
    def _row(self) -> ClusterRow | None:
        return self._fold.state.get(ClusterRow, "")

    @property
    def _level(self) -> int:
        row = self._row
        return row.feature_level if row else 0

    @property
    def _fence_ms(self) -> int:
        row = self._row
        return row.fence_ms if row else _DEFAULT_FENCE_MS
