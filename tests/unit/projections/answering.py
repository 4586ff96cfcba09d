"""A coordinator for tests of the API: it decides each request by the real rules as soon as it is appended."""

from tests.unit.projections.chronicle import Chronicle

from topolog.events.asked import Request, RequestRef
from topolog.events.asking import digest_of
from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.leases import NodeRow
from topolog.events.log import Headers, InMemoryWriter, OnDelivery
from topolog.events.requests import RequestRefused, is_forgotten, outcome_of
from topolog.events.topics import Topic
from topolog.projections.projector import Projector
from topolog.streams.rules import requests
from topolog.streams.rules.requests import Circumstances


class AnsweringWriter(InMemoryWriter):
    """A writer to a log whose coordinator answers at once. `mute`: it reads nothing. `accepts`: members apply at once.

    `lost`: the broker is gone, and nothing is delivered.
    """

    def __init__(self, chronicle: Chronicle, projector: Projector) -> None:
        super().__init__(chronicle.log, prompt=True)
        self._chronicle = chronicle
        self._projector = projector
        self.mute = False
        self.accepts = True
        self.lost = False

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if self.lost:
            return
        super().append(topic, key, value, headers, on_delivery)
        if not self.mute:
            self.decide(value)

    def decide(self, value: bytes) -> None:
        request = CODEC.decode(value)
        assert isinstance(request, Request)
        ref = RequestRef(request.id.requester, request.id.sequence, digest_of(value))
        state = self._chronicle.fold.state
        if outcome_of(state, ref) is None and not is_forgotten(state, ref):
            cause = f"operations@{len(self._chronicle.log.entries(Topic.OPERATIONS)) - 1} {ref}"
            self._chronicle.decide(
                *self._decisions(request, ref), cause=cause, actor=request.actor, reason=request.reason
            )
            if self.accepts:
                self.accept_all()
        self._projector.step()

    def accept_all(self) -> None:
        """Every member has applied everything, so everything pending is accepted."""
        self._chronicle.accept_pending()
        everybody = (row.node for _, row in self._chronicle.fold.state.rows(NodeRow))
        self._chronicle.settle_changes(*everybody)
        self._projector.step()

    def _decisions(self, request: Request, ref: RequestRef) -> list[Decision]:
        state = self._chronicle.fold.state
        try:
            return requests.decide(
                state, request, ref, Circumstances(self._chronicle.now_ms, self._chronicle.fold.header.position)
            )
        except Refused as refusal:
            return [RequestRefused(ref, request.subject, refusal.code, refusal.rule, str(refusal), refusal.facts)]
