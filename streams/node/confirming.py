"""How a node comes to owe a deletion, and says that it is done (`deletions.py`)."""

from collections.abc import Iterator, Sequence

from topolog.events.asked import RequestId
from topolog.events.errors import Overloaded
from topolog.events.ids import Position
from topolog.events.object_requests import DeletionsConfirmed
from topolog.events.objects import ChangeRow
from topolog.events.requests import Status
from topolog.events.state import Key
from topolog.streams.node.core import NodeCore
from topolog.streams.node.requesting import OwnRequests


def newly_owed(core: NodeCore, keys: Sequence[Key]) -> Iterator[ChangeRow]:
    """The changes among these rows of which this life owes a deletion from now on; forgets those it owes no longer."""
    for number in (Position(int(key)) for kind, key in keys if kind == ChangeRow.KIND):
        change = core.state.get(ChangeRow, str(number))
        if change is None or change.closed_at is None or core.node not in change.undeleted:
            core.deletions.forget(number)
        elif core.is_of_this_life(change.closed_at) and core.deletions.owe(number):
            yield change


class Confirming:
    """Says what is done: all of it at once, one request after the other, each again until the log has it."""

    def __init__(self, core: NodeCore, requests: OwnRequests) -> None:
        self._core = core
        self._requests = requests
        self._asked: tuple[RequestId, tuple[Position, ...]] | None = None
        self._is_sent = False

    def speak(self) -> None:
        """On the thread that applies the log. Raises Unreachable if the producer takes nothing now."""
        if self._asked is not None and not self._is_answered(*self._asked):
            return
        core = self._core
        numbers = core.deletions.due()
        if not numbers or core.log_id is None:
            return
        try:
            request = self._requests.next_id()
        except Overloaded:
            return  # the service's own requests come first; this is looked at again
        self._asked, self._is_sent = (request, numbers), False
        node = core.node
        self._requests.send(DeletionsConfirmed(request, core.log_id, node, "", node, core.incarnation, numbers))
        self._is_sent = True

    def _is_answered(self, request: RequestId, numbers: tuple[Position, ...]) -> bool:
        row = self._requests.outcome(request)
        if row is None:
            if not self._is_sent:
                self._requests.send_again(request)
                self._is_sent = True
            return False
        self._asked = None
        if row.status is not Status.GRANTED:  # another life's, or nobody waits for it
            for number in numbers:
                self._core.deletions.forget(number)
        return True
