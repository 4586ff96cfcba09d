"""A rendezvous for tests: one look at the log and at the pages, and what is to be reported by now."""

from collections.abc import Callable, Iterator, Sequence

from topolog.events import merkle
from topolog.events import repair_definition as rd
from topolog.events import repair_requests as rr
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.errors import ReplicaFailed
from topolog.events.log import InMemoryLog
from topolog.events.merkle import Leaf
from topolog.events.repair_plan import Difference, differences, direction, findings, lasting
from topolog.events.repair_tasks import Findings, Pair, Purpose, Step, Task, TaskId, TaskKind, TaskStatus
from topolog.events.replica import RowDigest
from topolog.events.sessions import SegmentRow, SessionRow, SessionStatus, open_sessions, running
from topolog.events.state import State
from topolog.events.token_range import coarsened, of_buckets
from topolog.events.topics import PARTITIONS, Topic
from topolog.events.tree_pages import PageKind, TreePage, digest_of
from topolog.streams.rules.repair_steps import pairs, present
from topolog.streams.validator.pages import Assembly, Expected, item_pages, items, whole, with_last

Report = rr.ComparisonReported | rr.FindingsReported


class Rendezvous:
    """Reports each comparison once. While it `is_down` it reports nothing; `distort` changes what it says."""

    def __init__(self, log: InMemoryLog, name: str = "rendezvous") -> None:
        self.is_down = False
        self.is_hasty = False
        """It compares each two as soon as both are there, whatever the session says."""

        self.distort: Callable[[Report], Report] = lambda report: report
        self._log = log
        self._name = name
        self._sequence = 0
        self._said: set[tuple[object, ...]] = set()
        self._head: tuple[RequestId, bytes, str, str] = (RequestId(name, 0), b"", "", "")
        self._log_id = b""

    def told(self, state: State, log_id: bytes | None) -> list[bytes]:
        """The requests that are to be sent now."""
        if self.is_down or log_id is None:
            return []
        self._log_id = log_id
        return [
            CODEC.encode(self.distort(report))
            for session in open_sessions(state)
            if session.status is SessionStatus.RUNNING
            for row in running(state, session)
            if row.step is not None
            for report in self._of(state, session, row, row.step)
        ]

    def _of(self, state: State, session: SessionRow, row: SegmentRow, step: Step) -> Iterator[Report]:
        done = {task.replica: task for task in row.tasks if task.status is TaskStatus.DONE}
        place = (row.session, row.index, step.number)
        is_whole = bool(row.tasks) and len(done) == len(present(row))
        is_early = session.definition.rendezvous is rd.Rendezvous.EARLY or self.is_hasty
        if step.kind is TaskKind.LEAVES and (is_whole or is_early):
            for left, right in (each for each in pairs(session, row) if done.keys() >= {*each}):
                both = (_id(row, step, done[left]), _id(row, step, done[right]))
                pair = self._pair(session, row, step, done[left], done[right])
                if pair and self._is_new(*place, both):
                    yield rr.ComparisonReported(*self._next(), *place, both, pair)
        if step.kind is TaskKind.DIGESTS and is_whole:
            ids = tuple(_id(row, step, task) for task in done.values())
            if self._is_new(*place, ids):
                yield rr.FindingsReported(*self._next(), *place, ids, self._findings(state, session, row, step))

    def _next(self) -> tuple[RequestId, bytes, str, str]:
        self._sequence += 1
        return RequestId(self._name, self._sequence), self._log_id, self._name, ""

    def _is_new(self, *what: object) -> bool:
        is_new = what not in self._said
        self._said.add(what)
        return is_new

    def _pair(self, session: SessionRow, row: SegmentRow, step: Step, left: Task, right: Task) -> Pair | None:
        one, other = self._leaves(session, row, step, left), self._leaves(session, row, step, right)
        if one is None or other is None:
            return None
        differ = merkle.differing(one, other)
        counts: dict[int, int] = {}
        for leaf in (*one, *other):
            counts[leaf.bucket] = max(leaf.rows, counts.get(leaf.bucket, 0))
        found = [counts[number] for number in differ]
        return Pair(
            left.replica,
            right.replica,
            coarsened(of_buckets(differ, step.bits), 4096, step.ranges),
            len(differ),
            len(counts),
            sum(found),
            max(found, default=0),
        )

    def _leaves(self, session: SessionRow, row: SegmentRow, step: Step, task: Task) -> list[Leaf] | None:
        assert session.spec is not None
        spec = session.spec
        payloads = self._payloads(
            session,
            _id(row, step, task),
            task,
            PageKind.LEAVES,
            lambda found: merkle.root(spec.id, step.bits, (leaf for each in found for leaf in merkle.decode(each))),
        )
        return None if payloads is None else [leaf for each in payloads for leaf in merkle.decode(each)]

    def _findings(self, state: State, session: SessionRow, row: SegmentRow, step: Step) -> Findings:
        assert session.spec is not None
        digests = {}
        for task in row.tasks:
            payloads = self._payloads(session, _id(row, step, task), task, PageKind.DIGESTS, digest_of)
            assert payloads is not None, "pages are sent before they are reported"
            digests[task.replica] = list(items(payloads, RowDigest))
        found, gone = differences(digests), 0
        if step.purpose is Purpose.RECHECK:
            found, gone = lasting(self._former(row, step), found)
        pages = list(item_pages(found))
        for number, (payload, is_last) in enumerate(with_last(pages)):
            task_id = TaskId(row.session, row.index, step.number, "", 0)
            page = TreePage(task_id, 0, session.spec.id, PageKind.FINDINGS, number, is_last, payload)
            self._log.put(Topic.TREES, str(row.session), CODEC.encode(page))
        return findings(
            found,
            direction(state, session, row),
            pages=len(pages),
            digest=digest_of(pages),
            gone=gone,
            within=step.ranges,
        )

    def _former(self, row: SegmentRow, step: Step) -> list[Difference]:
        of = TaskId(row.session, row.index, step.of, "", 0)
        payloads = [page.payload for page in self._pages() if page.task == of]
        return list(items(payloads, Difference))

    def _payloads(
        self, session: SessionRow, id_: TaskId, task: Task, kind: PageKind, digest: Callable[[Sequence[bytes]], bytes]
    ) -> Sequence[bytes] | None:
        assert session.spec is not None
        assert task.result is not None
        expected = Expected(id_, kind, session.spec.id, task.result.digest, task.result.pages)
        assembly = Assembly(expected, digest)
        for page in self._pages():
            assembly.add(page)
        try:
            return whole(assembly)
        except ReplicaFailed:
            return None

    def _pages(self) -> Iterator[TreePage]:
        for number in range(PARTITIONS[Topic.TREES]):
            for entry in self._log.entries(Topic.TREES, number):
                page = CODEC.read(entry.value)
                if isinstance(page, TreePage):
                    yield page


def _id(row: SegmentRow, step: Step, task: Task) -> TaskId:
    return TaskId(row.session, row.index, step.number, task.replica, task.attempt)
