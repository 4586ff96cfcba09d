"""What a service declares to the cluster when it starts, and needs to find there: its groups, its tables; what it gives
up, and what it wants to have compared.

Every process of a service declares the same, each time it starts. So a declaration of what holds already costs nothing
but a look at what this node has applied, and one that is asked for twice is decided once.
"""

from collections.abc import Callable
from concurrent.futures import Future

from topolog.events.asked import UNNUMBERED, RequestId
from topolog.events.errors import OutcomeUnknown, Refused
from topolog.events.exchange_requests import LossResetRequested
from topolog.events.group_definition import GroupDefinition, validate
from topolog.events.groups import GroupCreationRequested, GroupRow, group_row
from topolog.events.ids import Position
from topolog.events.object_definition import Statement
from topolog.events.object_requests import SchemaChangeRequested
from topolog.events.objects import ChangeStatus, change_row
from topolog.events.repair_definition import SessionDefinition
from topolog.events.repair_requests import SessionRequested
from topolog.events.sessions import SessionRow, session
from topolog.streams.node.session import Session
from topolog.streams.node.waits import Pending, Waits


class Declaring:
    """`may_rely` says whether what this node has applied is recent enough to go without asking."""

    def __init__(self, session: Session, waits: Waits, may_rely: Callable[[], bool]) -> None:
        self._session = session
        self._waits = waits
        self._may_rely = may_rely

    def group(self, wanted: GroupDefinition, reason: str) -> Pending[GroupRow]:
        """The group as it stands, once it is there; raises BadInput or Refused for what can never be."""
        if self._session.failure:
            raise self._session.failure
        validate(wanted)
        core = self._session.core
        known = group_row(core.state, wanted.name)
        if known is not None and known.definition == wanted and self._may_rely():
            found: Future[GroupRow] = Future()
            found.set_result(known)
            return _pending(found, None)
        assert core.log_id is not None, "a member has read the log"
        asked = GroupCreationRequested(UNNUMBERED, core.log_id, core.node, reason, wanted)
        request = self._session.requests.ask(asked)
        created = self._waits.when(lambda: self._created(request, wanted.name))
        return _pending(created, request)

    def reset(self, group: str, reason: str) -> Pending[None]:
        """Done once it is decided to give up what is lost of the group (EX19); the exchange that does it follows."""
        if self._session.failure:
            raise self._session.failure
        core = self._session.core
        assert core.log_id is not None, "a member has read the log"
        asked = LossResetRequested(UNNUMBERED, core.log_id, core.node, reason, group)
        request = self._session.requests.ask(asked)

        def late(timeout_s: float) -> OutcomeUnknown:
            return OutcomeUnknown(
                f"Request {request} is not decided after {timeout_s:g} s: nobody knows if the loss is given up.",
                request_id=str(request),
                hint="The same call again does no harm.",
            )

        return Pending(self._waits.when(lambda: self._session.requests.decided(request)), lambda _: None, late)

    def change(
        self, statements: tuple[Statement, ...], deadline_ms: int | None, reason: str
    ) -> Pending[Position | None]:
        """The number of the change once it is committed, None if all is so already; raises Refused, also with what has
        rolled it back."""
        if self._session.failure:
            raise self._session.failure
        core = self._session.core
        assert core.log_id is not None, "a member has read the log"
        asked = SchemaChangeRequested(UNNUMBERED, core.log_id, core.node, reason, statements, deadline_ms)
        request = self._session.requests.ask(asked)

        def late(timeout_s: float) -> OutcomeUnknown:
            return OutcomeUnknown(
                f"Request {request} is not decided, or its change not over, after {timeout_s:g} s.",
                request_id=str(request),
                hint="`topolog explain change` says whom it waits for. IF NOT EXISTS can be asked for again.",
            )

        return Pending(self._waits.when(lambda: self._changed(request)), lambda found: found[0], late)

    def compare(self, definition: SessionDefinition, reason: str) -> Pending[SessionRow]:
        """The session as it has ended, however that is; raises Refused if none was opened."""
        if self._session.failure:
            raise self._session.failure
        core = self._session.core
        assert core.log_id is not None, "a member has read the log"
        asked = SessionRequested(UNNUMBERED, core.log_id, core.node, reason, definition)
        request = self._session.requests.ask(asked)

        def late(timeout_s: float) -> OutcomeUnknown:
            return OutcomeUnknown(
                f"Request {request} is not decided, or its session has not ended, after {timeout_s:g} s.",
                request_id=str(request),
                hint="It goes on: `topolog get sessions` shows it, `topolog repair abort` ends it.",
            )

        return Pending(self._waits.when(lambda: self._compared(request)), lambda row: row, late)

    def _compared(self, request: RequestId) -> SessionRow | None:
        decided = self._session.requests.decided(request)
        if decided is None:
            return None
        number = int(decided.subject.partition(" ")[2])
        row = session(self._session.core.state, number)
        if row is None:
            raise OutcomeUnknown(
                f"Session {number} is long over: so many others have ended since that this node has forgotten how.",
                request_id=str(request),
                hint=f"`topolog describe session {number}` knows.",
            )
        return row if row.status.is_end else None

    def _changed(self, request: RequestId) -> tuple[Position | None] | None:
        row = self._session.requests.decided(request)
        if row is None:
            return None
        kind, _, number = row.subject.partition(" ")
        if kind != "change":
            return (None,)
        change = change_row(self._session.core.state, int(number))
        if change is None:
            raise OutcomeUnknown(
                f"Change {number} is long over: so many others have ended since that this node has forgotten how.",
                request_id=str(request),
                hint=f"`topolog explain change {number}` knows.",
            )
        if change.is_open:
            return None
        if change.status is ChangeStatus.ROLLED_BACK:
            raise Refused(change.code, change.rule, change.message, change.facts)
        return (Position(int(number)),)

    def _created(self, request: RequestId, name: str) -> GroupRow | None:
        if self._session.requests.decided(request) is None:
            return None
        row = group_row(self._session.core.state, name)
        if row is None:
            raise Refused("GROUP_UNKNOWN", "EX1", f"Group {name!r} was dropped as soon as it was there.")
        return row


def _pending(group: Future[GroupRow], request: RequestId | None) -> Pending[GroupRow]:
    def late(timeout_s: float) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"Request {request} is not decided after {timeout_s:g} s: nobody knows if the group is there.",
            request_id=str(request),
            hint="Declare it again: it is created once or not at all.",
        )

    return Pending(group, lambda row: row, late)
