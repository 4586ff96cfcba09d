"""A validator's loop: a core on a real log and a real clock, and a worker for each of its replicas.

One thread follows `decisions` from a snapshot on, or from its beginning, tells the core what it has read and what its
workers have come to, and does what the core says. What takes long is done by the workers' threads.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from topolog.events.asked import RequestId
from topolog.events.errors import DamagedStore, Poisoned, TopologError, Unreachable
from topolog.events.fold import Fold, Ignored
from topolog.events.ids import Offset
from topolog.events.log import Entry, LogReader, LogWriter
from topolog.events.lookahead import LookAhead
from topolog.events.repair_tasks import TaskId
from topolog.events.replica import Cut
from topolog.events.terms import ClusterRow
from topolog.events.topics import Topic
from topolog.streams.clock import Clock
from topolog.streams.local.stopping import Stop
from topolog.streams.restoring import Restorer
from topolog.streams.validator import core as c
from topolog.streams.validator.measures import ValidatorMeasures
from topolog.streams.validator.tasks import Work
from topolog.streams.validator.worker import Fence

_LOGGER = logging.getLogger("topolog.validator")
_NS_PER_MS = 1_000_000

PROGRESS_MS = 3_000
"""How often it is said how far a task has come, if it has come further."""

LISTEN_MS = 500
"""How often the log is asked whether it holds no more than has been read, while tasks are under way."""

ANSWER_MS_MAX = 1_000
"""How old its answer can be (`LogReader.hears`)."""

WITHDRAWAL_MS = 5_000
"""How long an end in order waits for the outcomes of what it has asked for."""

_STEP_S = 0.05
_DEFAULT_FENCE_MS = 20_000


class Hands(Protocol):
    """What does the tasks of one replica: a `Worker`."""

    fence: Fence
    progress: tuple[TaskId, int, int] | None
    failure: TopologError | None

    def begin(self, work: Work) -> None: ...

    def release(self, cut: Cut) -> None: ...

    def ended(self) -> list[c.Ended]: ...


class Driver:
    """One validator process. `workers` are by the ids of the core's replicas."""

    def __init__(
        self, reader: LogReader, writer: LogWriter, clock: Clock, core: c.Core, workers: Mapping[str, Hands]
    ) -> None:
        self.core = core
        self._reader = LookAhead(reader)
        self._writer = writer
        self._clock = clock
        self._workers = workers
        self.measures = ValidatorMeasures()
        self._next_progress_ns = 0
        self._next_listen_ns = 0
        self._is_caught_up = False
        now_ns = clock.monotonic_ns()
        self._restorer: Restorer | None = Restorer(self._reader, now_ns)
        self._restore(self._restorer, (), now_ns)

    @property
    def replicas(self) -> int:
        return len(self._workers)

    @property
    def busy(self) -> int:
        """How many of them have a task under way; any thread may ask."""
        return self.core.busy

    def run(self, stopping: Stop) -> None:
        """Step until told to stop, then withdraw; raises what ends this validator for good."""
        while not stopping.is_set():
            self.step(_STEP_S)
        self.withdraw()

    def withdraw(self) -> None:
        """Say that nobody serves these replicas any more, and wait, not for long, until that is decided."""
        self.core.withdraw()
        deadline_ns = self._clock.monotonic_ns() + WITHDRAWAL_MS * _NS_PER_MS
        self._act()
        while not self.core.is_idle and self._clock.monotonic_ns() < deadline_ns:
            self.step(_STEP_S)

    def step(self, timeout_s: float) -> None:
        """Read what is there, waiting up to `timeout_s` for the first record; do what follows."""
        entries = self._reader.poll(timeout_s)
        if self._restorer:
            self._restore(self._restorer, entries, self._clock.monotonic_ns())
            return
        self._read(entries)
        for worker in self._workers.values():
            if worker.failure is not None:
                raise worker.failure  # and nothing is said of the task: the log asks the next life for it
            for ended in worker.ended():
                self.measures.note(ended)
                self.core.ended(ended)
        self._is_caught_up = self._is_caught_up or self._reader.at_end(Topic.DECISIONS)
        if self._is_caught_up:
            self.core.advance()
            self._tell_progress()
        self._act()
        self._listen()
        self._serve()
        if self.core.failure is not None:
            raise self.core.failure

    def _restore(self, restorer: Restorer, entries: Sequence[Entry], now_ns: int) -> None:
        restored = restorer.step(entries, now_ns)
        if restored:
            self._restorer = None
            self.core.begin_from(restored.fold)

    def _start_over(self) -> None:
        self.core.begin_from(Fold())
        self._is_caught_up = False
        self._reader.assign({(Topic.DECISIONS, 0): Offset(0)})

    def _read(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            try:
                found = self.core.read(entry)
            except Poisoned as poisoned:
                self._reader.look_ahead(self.core.fold, poisoned, entry.offset)
                return
            except DamagedStore as error:
                _LOGGER.warning("The log is read from its beginning: %s", error.message)
                self._start_over()
                return
            if not isinstance(found, Ignored):
                self._reader.counted(entry, self._fence_ms)

    def _tell_progress(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._next_progress_ns:
            return
        self._next_progress_ns = now_ns + PROGRESS_MS * _NS_PER_MS
        for worker in self._workers.values():
            if worker.progress is not None:
                self.core.progressed(*worker.progress)

    def _act(self) -> None:
        """First what stops, then what is said, then what begins."""
        actions, self.core.actions = self.core.actions, []
        for action in actions:
            if isinstance(action, c.Stop):
                self._workers[action.replica].fence.stop(action.task)
        outbox, self.core.outbox = self.core.outbox, []
        for outgoing in outbox:
            self._send(outgoing)
        for action in actions:
            match action:
                case c.Begin():
                    self._workers[action.work.replica].begin(action.work)
                case c.Release():
                    self._workers[action.replica].release(action.cut)
        said, self.core.said = self.core.said, []
        for line in said:
            _LOGGER.info("%s", line)

    def _send(self, outgoing: c.Outgoing) -> None:
        on_delivery = partial(self._on_delivery, outgoing.id)
        try:
            self._writer.append(Topic.REQUESTS, outgoing.key, outgoing.value, on_delivery=on_delivery)
        except Unreachable as error:
            _LOGGER.warning("goes on trying: %s", error)
            self.core.resend(outgoing.id)

    def _on_delivery(self, request: RequestId, error: TopologError | None, _: Offset | None) -> None:
        if error is not None:
            _LOGGER.warning("request %s is sent again: %s", request, error)
            self.core.resend(request)

    def _listen(self) -> None:
        """Tell the workers when the log held nothing that has not been read, and acted upon in this step."""
        if self._is_caught_up and self.core.is_resting:
            return
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._next_listen_ns and self._reader.hears(Topic.DECISIONS):
            self._next_listen_ns = now_ns + LISTEN_MS * _NS_PER_MS
            if self._is_caught_up:
                for worker in self._workers.values():
                    worker.fence.heard(now_ns - ANSWER_MS_MAX * _NS_PER_MS)
            self._is_caught_up = True

    def _serve(self) -> None:
        try:
            self._writer.serve()
        except Unreachable as error:
            _LOGGER.warning("goes on trying: %s", error)

    @property
    def _fence_ms(self) -> int:
        row = self.core.state.get(ClusterRow, "")
        return row.fence_ms if row else _DEFAULT_FENCE_MS
