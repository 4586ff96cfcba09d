"""What the rendezvous says: findings as pages on `trees`, and its reports on `requests`.

Threats. A report of rows is decided and its pages are nowhere; a report is lost on its way, or nobody answers it.

Invariant. A report of rows is appended only when the broker has all pages of its findings.

Argument. Pages are waited for; where one is lost nothing is reported, and its caller compares again. A report that the
broker does not take is appended again, the same bytes, until its outcome is read: it has one, however often it comes.
"""

import logging
from collections import Counter
from collections.abc import Callable

from topolog.events import repair_requests as rr
from topolog.events.asked import RequestId, RequestRef
from topolog.events.asking import OpenRequests, encode_request
from topolog.events.codec import CODEC
from topolog.events.errors import BadInput, Overloaded, TopologError, Unreachable
from topolog.events.failpoints import reach
from topolog.events.ids import Offset
from topolog.events.log import LogWriter
from topolog.events.repair_tasks import Pair, TaskId
from topolog.events.requesters import requester_of
from topolog.events.requests import RequestRefused, shortened
from topolog.events.topics import Topic
from topolog.events.tree_pages import PageKind, TreePage
from topolog.streams.clock import Clock
from topolog.streams.rendezvous.comparing import Found
from topolog.streams.rendezvous.meeting import Compared, Damage

_LOGGER = logging.getLogger("topolog.rendezvous")
_NS_PER_S = 1_000_000_000

DELIVERY_LIMIT_S = 30
"""How long the broker may take to have the pages of findings, before they are made again."""

_FLUSH_S = 0.05


class Reports:
    """Those of one life. Everything belongs to one thread; `name` is unique to this life, `highest`: up to which
    number the log has outcomes of a requester."""

    def __init__(self, writer: LogWriter, clock: Clock, name: str, life: int, highest: Callable[[str], int]) -> None:
        self._writer = writer
        self._clock = clock
        self._name = name
        self._life = life
        self._ids = OpenRequests(requester_of(name, life), highest)
        self._unanswered: dict[RequestId, bytes] = {}
        self._unsent: list[RequestId] = []
        self.reported: Counter[str] = Counter()
        self.differing_leaves = 0

    @property
    def unanswered(self) -> int:
        return len(self._unanswered)

    def report(self, told: Compared, log_id: bytes, level: int) -> bool:
        """Whether the report is on its way, or never can be; if not, it is to be tried again."""
        row, result = told.segment, told.result
        if isinstance(result, Found) and not self._send_findings(told, result):
            return False
        head = self._head(log_id)
        if head is None:
            return False
        where = (row.session, row.index, told.step.number, told.attempts)
        request: rr.ComparisonReported | rr.FindingsReported
        if isinstance(result, Pair):
            request = rr.ComparisonReported(*head, *where, result)
            self.reported["different" if result.leaves else "equal"] += 1
            self.differing_leaves += result.leaves
            what = f"{result.left}, {result.right}: {result.leaves} of {result.leaves_compared} leaves differ"
        else:
            request = rr.FindingsReported(*head, *where, result.findings)
            self.reported["rows"] += 1
            what = f"{result.findings.rows} rows differ"
        _LOGGER.info("Session %d, segment %d, step %d: %s.", row.session, row.index, told.step.number, what)
        return self._ask(request, level)

    def refuse(self, task: TaskId, damage: Damage, log_id: bytes, level: int) -> bool:
        """That what was sent for a task cannot be compared; True as for `report`."""
        head = self._head(log_id)
        if head is None:
            return False
        self.reported["damaged"] += 1
        _LOGGER.warning("What was sent for %s cannot be compared: %s", task, damage.why)
        message = shortened(f"what it sent cannot be compared: {damage.why}")
        return self._ask(rr.TaskReported(*head, task, self._life, 0, 0, damage.code, message), level)

    def _head(self, log_id: bytes) -> tuple[RequestId, bytes, str, str] | None:
        """With which a report begins; None if too many are open."""
        try:
            return self._ids.next_id(), log_id, self._name, ""
        except Overloaded as error:
            _LOGGER.warning("%s", error)
            return None

    def _ask(self, request: rr.RepairRequest, level: int) -> bool:
        try:
            self._unanswered[request.id] = encode_request(request, level)
        except BadInput as error:
            self._ids.close(request.id)
            _LOGGER.warning("This cannot be reported: %s", error)
            return True
        self._send(request.id)
        reach("rendezvous.reported")
        return True

    def note(self, event: object) -> None:
        """A decision: that on an own report closes it."""
        ref = getattr(event, "request", None)
        request = RequestId(ref.requester, ref.sequence) if isinstance(ref, RequestRef) else None
        if request is None or self._unanswered.pop(request, None) is None:
            return
        self._ids.close(request)
        if isinstance(event, RequestRefused):
            _LOGGER.info("A report on %s does not count: %s: %s", event.subject, event.code, event.message)

    def serve(self) -> None:
        """Learn what the broker has taken, and send again what it has not."""
        unsent, self._unsent = self._unsent, []
        for request in unsent:
            self._send(request)
        try:
            self._writer.serve()
        except Unreachable as error:
            _LOGGER.warning("A report may be late: %s", error)

    def _send_findings(self, told: Compared, result: Found) -> bool:
        """Whether the broker has all pages of the findings."""
        row, payloads = told.segment, result.payloads
        task = TaskId(row.session, row.index, told.step.number, "", 0)
        taken, lost = [], list[str]()

        def on_delivery(error: TopologError | None, offset: Offset | None) -> None:
            if error is None:
                taken.append(offset)
            else:
                lost.append(error.message)

        try:
            for number, payload in enumerate(payloads):
                is_last = number + 1 == len(payloads)
                page = TreePage(task, self._life, told.spec_id, PageKind.FINDINGS, number, is_last, payload)
                self._writer.append(Topic.TREES, str(row.session), CODEC.encode(page), on_delivery=on_delivery)
            until_ns = self._clock.monotonic_ns() + DELIVERY_LIMIT_S * _NS_PER_S
            while len(taken) < len(payloads) and not lost and self._clock.monotonic_ns() < until_ns:
                self._writer.flush(_FLUSH_S)
        except Unreachable as error:
            lost.append(error.message)
        if len(taken) < len(payloads):
            reason = lost[0] if lost else "no answer"
            _LOGGER.warning("The findings of session %d are not sent yet: %s", row.session, reason)
            return False
        reach("rendezvous.findings-sent")
        return True

    def _send(self, request: RequestId) -> None:
        value = self._unanswered.get(request)
        if value is None:
            return
        try:
            self._writer.append(
                Topic.REQUESTS,
                request.requester,
                value,
                on_delivery=lambda error, _: None if error is None else self._unsent.append(request),
            )
        except Unreachable as error:
            _LOGGER.warning("A report is not sent yet: %s", error)
            self._unsent.append(request)
