"""Does the tasks of one replica, one after the other, in a thread of its own.

Threats. Rows are written after the log has taken the task back, or by a process that was asleep while it did; a reading
goes on for an hour that nobody waits for any more; a replica raises something, and somebody waits for ever; a table has
become another since the session was opened.

Invariant. Each effect is preceded by a look at what the log asks for, as heard of it a moment ago. Each task that is
begun ends, with a result or a code.
"""

import logging
import queue
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

import msgspec

from topolog.events import merkle
from topolog.events.errors import ReplicaFailed, Retriable, RowTooLarge, SparkEnded, TopologError
from topolog.events.failpoints import reach
from topolog.events.merkle import Leaf
from topolog.events.repair_plan import Difference, planned
from topolog.events.repair_tasks import Result, TaskId, TaskKind
from topolog.events.replica import Cut, ReplicaDefinition, SentRow
from topolog.events.replica_access import Replica
from topolog.events.requests import shortened
from topolog.events.token_range import buckets, contains
from topolog.events.tree_answers import item_pages, leaf_pages
from topolog.events.tree_pages import PageKind
from topolog.events.tree_spec import fingerprint
from topolog.streams.clock import Clock
from topolog.streams.rules.repair_spec import reconciled
from topolog.streams.validator.core import Ended
from topolog.streams.validator.pages import Expected, items
from topolog.streams.validator.tasks import Work
from topolog.streams.validator.trees import Trees

T = TypeVar("T")
Targets = tuple[tuple[str, tuple[int, int] | None], ...]
"""As `SentRow.targets` has them."""

_LOGGER = logging.getLogger("topolog.validator")
_NS_PER_MS = 1_000_000

HEARD_MS_MAX = 5_000
"""Rows are written only if the log has been heard of within that time: whoever was asleep listens first."""

WRITE_ROWS = 10_000
"""Rows in one batch of a WRITE; a replica may ask for the fence more often."""

BATCH_BYTES = 32 << 20
"""Of rows in memory at a time, about, whether they are read to be sent or sent to be written."""

KEYS_FIRST, KEYS_MAX = 1_000, 10_000
"""Rows that a source reads at a time: before it is known how large they are, and at most."""


class Fence:
    """What the thread that follows the log has heard, for the one that works. Each method belongs to any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._stopped: TaskId | None = None
        self._is_closed = False
        self._heard_ns = clock.monotonic_ns()

    def heard(self, at_ns: int) -> None:
        """At that time the log held nothing that has not been read, and acted upon."""
        with self._changed:
            self._heard_ns = at_ns
            self._changed.notify_all()

    def stop(self, task: TaskId) -> None:
        with self._changed:
            self._stopped = task
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more is to be done here at all."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def ask(self, task: TaskId) -> None:
        """Raises ReplicaFailed FENCED if the task has been stopped."""
        if self._is_closed or self._stopped == task:
            raise ReplicaFailed("FENCED", f"The log no longer asks for {task}.")

    def check(self, task: TaskId) -> None:
        """As `ask`; before an effect. Waits for the log to be heard of if it has not been lately."""
        with self._changed:
            self.ask(task)
            while self._clock.monotonic_ns() - self._heard_ns > HEARD_MS_MAX * _NS_PER_MS:
                self._changed.wait(0.1)
                self.ask(task)


class Worker:
    """One replica's hands. `begin`, `release` and `ended` belong to whoever drives it, the rest to its own thread.

    `failure`: why nothing can be done in this process any more.
    """

    def __init__(
        self,
        replica: Replica,
        trees: Callable[[], Trees],
        clock: Clock,
        *,
        batch_rows: int = WRITE_ROWS,
    ) -> None:
        self.fence = Fence(clock)
        self.progress: tuple[TaskId, int, int] | None = None
        self.failure: TopologError | None = None
        self._replica = replica
        self._connect = trees
        self._trees: Trees | None = None
        self._clock = clock
        self._batch_rows = batch_rows
        self._jobs: queue.SimpleQueue[Work | Cut | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, work: Work) -> None:
        self._jobs.put(work)

    def release(self, cut: Cut) -> None:
        self._jobs.put(cut)

    def ended(self) -> list[Ended]:
        """What has ended since this was last asked."""
        found = []
        while not self._ended.empty():
            found.append(self._ended.get())
        return found

    def start(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """End the thread, not waiting for ever: what it was about is fenced off."""
        self.fence.close()
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while self.step():
            pass
        if self._trees is not None:
            self._trees.close()

    def step(self) -> bool:
        """Do the next thing, waiting for one; False if there is nothing more to do for good."""
        job = self._jobs.get()
        if isinstance(job, Work):
            self._ended.put(self._ended_by(job))
        elif job is not None:
            self._give_back(job)
        return job is not None

    def _give_back(self, cut: Cut) -> None:
        try:
            self._replica.release(cut)
        except Exception as error:  # noqa: BLE001 (whatever a replica raises: what it keeps too long fails no task)
            _LOGGER.warning("read point %s could not be released: %r", cut.name, error)

    def _ended_by(self, work: Work) -> Ended:
        """How the task ends: every failure has a code, or somebody would wait for ever (RE7)."""
        began_ns = self._clock.monotonic_ns()
        self.progress = (work.task, 0, 0)
        running = _Running(self, work)
        try:
            result = running.result()
        except ReplicaFailed as error:
            return running.failed(error.code, str(error))
        except Retriable as error:
            return running.failed("IO", str(error))
        except SparkEnded as error:
            self.failure = error
            return running.failed("INTERRUPTED", str(error))
        except TopologError as error:
            return running.failed(error.code.upper(), str(error))
        except Exception as error:  # a defect, of a replica or of ours
            _LOGGER.exception("%s has failed", work.task)
            return running.failed("FAILED", repr(error))
        worked_ms = (self._clock.monotonic_ns() - began_ns) // _NS_PER_MS
        result = msgspec.structs.replace(result, worked_ms=worked_ms)
        return Ended(work.task, result.rows, result.bytes, result, definition=running.definition)

    @property
    def trees(self) -> Trees:
        if self._trees is None:
            self._trees = self._connect()
        return self._trees

    @property
    def replica(self) -> Replica:
        return self._replica

    @property
    def batch_rows(self) -> int:
        return self._batch_rows


class _Running:
    """One task under way."""

    def __init__(self, worker: Worker, work: Work) -> None:
        self.definition: ReplicaDefinition | None = None
        self._worker = worker
        self._replica = worker.replica
        self._work = work
        self._rows = self._bytes = self._bytes_searched = 0

    def failed(self, code: str, message: str) -> Ended:
        return Ended(
            self._work.task, self._rows, self._bytes, None, code, shortened(message), definition=self.definition
        )

    def result(self) -> Result:
        self._ask()
        match self._work.step.kind:
            case TaskKind.PREPARE:
                return self._prepare()
            case TaskKind.LEAVES:
                return self._leaves()
            case TaskKind.DIGESTS:
                return self._digests()
            case TaskKind.SEND:
                return self._send()
            case TaskKind.WRITE:
                return self._write()
            case TaskKind.UNKNOWN:
                raise ReplicaFailed("UNSUPPORTED", "This version does not know what it is asked for.")

    # The five kinds of task.

    def _prepare(self) -> Result:
        """Whether it still is what the session was opened for, and a read point (RE14)."""
        work = self._work
        self.definition = now = self._replica.describe()
        check_schema(work, now)
        if not contains(now.ranges, work.step.ranges):
            raise ReplicaFailed("RANGE", f"{now.id} holds {_told(now)}, not all that is asked for.")
        if work.step.number == 1:
            self._worker.trees.note_start(work.task.session, work.task.segment)
        schema = fingerprint(now.columns, now.key)
        shared = work.cut if work.cut is not None and work.cut.schema == schema else None
        cut = self._replica.cut(self._progressed, shared)
        if cut is not None and cut.schema != schema:
            self._replica.release(cut)
            raise ReplicaFailed("INTERRUPTED", f"The columns of {now.id} have changed while its read point was fixed.")
        reach("validator.cut-fixed")
        return Result(cut)

    def _leaves(self) -> Result:
        work, bits = self._work, self._work.step.bits
        leaves = list(self._replica.leaves(work.spec, work.step.ranges, bits, work.cut, self._progressed))
        _check_leaves(work, leaves)
        pages, _ = self._send_pages(PageKind.LEAVES, leaf_pages(leaves))
        rows = sum(each.rows for each in leaves)
        return Result(None, merkle.root(work.spec.id, bits, leaves), pages, rows, self._bytes)

    def _digests(self) -> Result:
        work = self._work
        found = self._replica.digests(work.spec, work.step.ranges, work.cut, self._progressed)
        counted = _Counted()
        pages, digest = self._send_pages(PageKind.DIGESTS, item_pages(counted.through(found)))
        return Result(None, digest, pages, counted.count, self._bytes)

    def _send(self) -> Result:
        """A row that no page has room for is left out, and told of: it keeps no other one back."""
        counted, left = _Counted(), list[RowTooLarge]()
        payloads = item_pages(counted.through(self._rows_to_send()), too_large=left.append)
        pages, digest = self._send_pages(PageKind.ROWS, payloads)
        return Result(None, digest, pages, counted.count - len(left), self._bytes, skipped=len(left))

    def _write(self) -> Result:
        """Of its progress rows are those that are written: if it comes to no end, they are what is known of it."""
        written = size = skipped = seen = 0
        for count, batch in enumerate(self._batches()):
            if count:
                reach("validator.between-batches")
            self._check()
            before = (written, seen)
            one = self._replica.write(
                self._work.spec, batch, self._work.cut, self._check, self._progressed_behind(*before)
            )
            written, size, skipped = written + one.rows, size + one.bytes, skipped + one.skipped
            seen += sum(len(row.key) + len(row.values) for row in batch)
            self._progressed(written, seen)
        reach("validator.written")
        return Result(rows=written, bytes=size, skipped=skipped)

    # Rows on their way.

    def _rows_to_send(self) -> Iterator[SentRow]:
        """What the findings say that this source has to send, read at its read point."""
        plan: dict[str, Targets] = {}
        for difference in self._differences():
            found = planned(difference, self._work.way)
            if not found.targets or found.source != self._name:
                continue
            targets = tuple((target, difference.content_of(target)) for target in found.targets)
            if found.deletes:
                yield SentRow(difference.key, "", targets)
            else:
                plan[difference.key] = targets
            if len(plan) >= self._keys_at_once():
                yield from self._rows_of(plan)
                plan.clear()
        yield from self._rows_of(plan)

    def _keys_at_once(self) -> int:
        """As many as had room so far."""
        if not self._bytes:
            return KEYS_FIRST
        return min(KEYS_MAX, max(1, BATCH_BYTES * self._rows // self._bytes))

    def _rows_of(self, plan: Mapping[str, Targets]) -> Iterator[SentRow]:
        for key, values in self._replica.rows(self._work.spec, list(plan), self._work.cut) if plan else ():
            self._progressed(self._rows + 1, self._bytes + len(values))
            yield SentRow(key, values, plan[key])

    def _differences(self) -> Iterator[Difference]:
        task, step, findings = self._work.task, self._work.step, self._work.findings
        if findings is None:
            raise ReplicaFailed("PAGES_MISSING", "The log says nothing of what differs.")
        of = TaskId(task.session, task.segment, step.of, "", 0)
        expected = Expected(of, PageKind.FINDINGS, self._work.spec.id, findings.digest, findings.pages)
        return items(self._worker.trees.read(expected, self._searched), Difference)

    def _batches(self) -> Iterator[list[SentRow]]:
        """The rows that are meant for this replica, one source after the other, as their pages come."""
        spec_id = self._work.spec.id
        for source in self._work.sources:
            told = source.result
            expected = Expected(source.task, PageKind.ROWS, spec_id, told.digest, told.pages)
            payloads = self._worker.trees.read(expected, self._searched)
            rows = (row for row in items(payloads, SentRow) if self._name in dict(row.targets))
            while batch := list(self._some(rows)):
                yield batch

    def _some(self, rows: Iterator[SentRow]) -> Iterator[SentRow]:
        size = 0
        for row in islice(rows, self._worker.batch_rows):
            yield row
            size += len(row.values)
            if size >= BATCH_BYTES:
                return

    def _send_pages(self, kind: PageKind, payloads: Iterator[bytes]) -> tuple[int, bytes]:
        sent = self._worker.trees.send(self._work.task, kind, self._work.spec.id, payloads, self._ask)
        reach("validator.pages-sent")
        return sent

    # What the log says meanwhile.

    @property
    def _name(self) -> str:
        return self._work.task.replica

    def _ask(self) -> None:
        self._worker.fence.ask(self._work.task)

    def _check(self) -> None:
        self._worker.fence.check(self._work.task)

    def _progressed(self, rows: int, size: int) -> None:
        self._rows, self._bytes = max(rows, self._rows), max(size, self._bytes)
        self._worker.progress = (self._work.task, self._rows, self._bytes + self._bytes_searched)
        self._ask()

    def _searched(self, size: int) -> None:
        """To look for pages is progress too: it is not given up while it goes on."""
        self._bytes_searched = max(size, self._bytes_searched)
        self._progressed(self._rows, self._bytes)

    def _progressed_behind(self, rows: int, size: int) -> Callable[[int, int], None]:
        return lambda more, larger: self._progressed(rows + more, size + larger)


class _Counted:
    """Counts what passes."""

    def __init__(self) -> None:
        self.count = 0

    def through(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            self.count += 1
            yield item


def check_schema(work: Work, now: ReplicaDefinition) -> None:
    """Raises ReplicaFailed SCHEMA if the replica no longer has what the session's spec was made of (RE14).

    A type that the spec has widened for the sake of other replicas is what it was.
    """
    spec, asked = work.spec, work.way.definition
    types = {column.name: column.type for column in now.columns}
    ignored = set(asked.ignored).difference(now.key)
    compared = set(spec.column_names) if asked.columns else set(types) - ignored
    fit = all(reconciled([types.get(column.name, ""), column.type]) == column.type for column in spec.columns)
    if not fit or compared != set(spec.column_names) or (spec.key and spec.key != now.key):
        raise ReplicaFailed(
            "SCHEMA",
            f"{now.id} has {', '.join(f'{name} {type_}' for name, type_ in types.items())}, key {', '.join(now.key)}; "
            f"the session was opened for {', '.join(f'{each.name} {each.type}' for each in spec.columns)}, "
            f"key {', '.join(spec.key)}.",
        )


def _check_leaves(work: Work, leaves: Sequence[Leaf]) -> None:
    """What is compared must be a tree of what was asked for, whoever made it."""
    if any(each.rows > merkle.LEAF_ROWS_MAX for each in leaves):
        raise ReplicaFailed("LEAF_TOO_LARGE", f"A leaf has more than {merkle.LEAF_ROWS_MAX} rows.")
    spans = list(buckets(work.step.ranges, work.step.bits))
    starts = [span.start for span in spans]
    numbers = [each.bucket for each in leaves]
    is_asked = all(number in spans[bisect_right(starts, number) - 1] for number in numbers)
    if len(set(numbers)) < len(numbers) or not is_asked:
        raise ReplicaFailed("CORRUPT", "The replica has given a leaf twice, or one that nobody has asked for.")


def _told(now: ReplicaDefinition) -> str:
    return ", ".join(map(str, now.ranges)) or "nothing"
