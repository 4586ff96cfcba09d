"""The rendezvous for tests: the real meeting of pages, which looks at the log in memory when it is told to."""

from collections.abc import Callable, Iterator

from topolog.events import repair_requests as rr
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.ids import Position
from topolog.events.log import InMemoryLog
from topolog.events.repair_tasks import Pair, TaskId
from topolog.events.requesters import requester_of
from topolog.events.state import State
from topolog.events.topics import PARTITIONS, Topic
from topolog.events.tree_pages import PageKind, TreePage
from topolog.streams.rendezvous.comparing import Found
from topolog.streams.rendezvous.meeting import Compared, Damage, Meeting

Report = rr.ComparisonReported | rr.FindingsReported


class Rendezvous:
    """Reports each comparison once, and what cannot be compared at once. While it `is_down` it reports nothing;
    `distort` changes what it says of what it has compared."""

    def __init__(self, log: InMemoryLog, log_id: bytes, name: str = "rendezvous") -> None:
        self.is_down = False
        self.distort: Callable[[Report], Report] = lambda report: report
        self.meeting = Meeting()
        self._log = log
        self._log_id = log_id
        self._name = name
        self._sequence = 0
        self._read = dict.fromkeys(range(PARTITIONS[Topic.TREES]), 0)

    def restart(self) -> None:
        """Another process, which reads all that is kept and may say again what was said."""
        self.meeting = Meeting()
        self._read = dict.fromkeys(self._read, 0)

    def told(self, state: State, position: Position) -> list[bytes]:
        """The requests that are to be sent now; `position` is that of the state."""
        if self.is_down:
            return []
        self._look(state, position)
        reports = []
        for due in self.meeting.due(state):
            reports += [self._report(told) for told in self.meeting.compare(due, state)]
        refused = [self._refusal(task, told) for task, told in self.meeting.damaged(state).items()]
        return [CODEC.encode(each) for each in (*map(self.distort, reports), *refused)]

    def _look(self, state: State, position: Position) -> None:
        for page in self._new_pages():
            self.meeting.add(page, state, position)
        self.meeting.sweep(state, position)

    def _new_pages(self) -> Iterator[TreePage]:
        for number, read in self._read.items():
            entries = self._log.entries(Topic.TREES, number)[read:]
            self._read[number] = read + len(entries)
            pages = (CODEC.read(entry.value) for entry in entries)
            yield from (page for page in pages if isinstance(page, TreePage))

    def _head(self) -> tuple[RequestId, bytes, str, str]:
        self._sequence += 1
        return RequestId(requester_of(self._name, 1), self._sequence), self._log_id, self._name, ""

    def _refusal(self, task: TaskId, told: Damage) -> rr.TaskReported:
        return rr.TaskReported(*self._head(), task, 0, 0, 0, told.code, told.why)

    def _report(self, told: Compared) -> Report:
        head = self._head()
        row, result = told.segment, told.result
        where = (row.session, row.index, told.step.number, told.attempts)
        if isinstance(result, Pair):
            return rr.ComparisonReported(*head, *where, result)
        self._send(told, result)
        return rr.FindingsReported(*head, *where, result.findings)

    def _send(self, told: Compared, found: Found) -> None:
        task = TaskId(told.segment.session, told.segment.index, told.step.number, "", 0)
        for number, payload in enumerate(found.payloads):
            is_last = number + 1 == len(found.payloads)
            page = TreePage(task, 0, told.spec_id, PageKind.FINDINGS, number, is_last, payload)
            self._log.put(Topic.TREES, str(task.session), CODEC.encode(page))
