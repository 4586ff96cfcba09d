"""Who may ask for what, by the topic in which it stands (`events/operations.py`, `events/requesters.py`).

Pure: the broker has judged who may write the topic, the record says the rest.
"""

from topolog.events import repair_requests as r
from topolog.events import requests as q
from topolog.events.asked import Request
from topolog.events.codec import Record
from topolog.events.errors import Refused
from topolog.events.ids import NodeId
from topolog.events.membership import NodeRow
from topolog.events.operations import CODE, HINT, is_operation
from topolog.events.requesters import AHEAD_MAX, highest_of, is_of
from topolog.events.state import State
from topolog.events.topics import Topic

NODE_PREFIX = "node:"
"""What the name begins with of whoever asks in `requests`."""

_NO_NODES = (
    q.JoinRequested,  # not yet
    r.ReplicaDeclarationRequested,
    r.ReplicaWithdrawalRequested,
    r.TaskReported,
    r.ComparisonReported,
    r.FindingsReported,
)
"""What is asked by who need not be known as a node: validators and the rendezvous never are."""


def fault(state: State, record: Record, topic: Topic) -> str:
    """Why this record of the topic is a dead letter, empty if it is a request that gets its outcome."""
    if not isinstance(record, Request) or not q.is_valid(record.id):
        return f"a {type(record).__name__} with this id is no request"
    return "" if topic is Topic.OPERATIONS else _fault(state, record)


def require_allowed(state: State, request: q.AnyRequest, topic: Topic) -> None:
    """Raise Refused for what is taken from `operations` alone, or from nodes alone."""
    if topic is Topic.OPERATIONS:
        return
    if is_operation(request):
        message = f"What {type(request).__name__} asks for is for operators, and is not taken from {topic.short_name}."
        raise Refused(CODE, "K7", message, {"topic": Topic.OPERATIONS.short_name}, hint=HINT)
    if not isinstance(request, _NO_NODES) and state.get(NodeRow, NodeId(request.actor)) is None:
        message = f"{q.shortened(request.actor)!r} asks as a node, and is none that this cluster has known."
        raise Refused("NODE_UNKNOWN", "K7", message, hint="It joins first.")


def actor(request: Request, topic: Topic) -> str:
    """Who asks, as the log shows it: a node may have the name of an operator, and is not to be taken for it."""
    name = request.actor or request.id.requester
    return name if topic is Topic.OPERATIONS else f"{NODE_PREFIX}{name}"


def _fault(state: State, request: Request) -> str:
    requester, sequence = request.id.requester, request.id.sequence
    for name in _signed(request):
        if not is_of(requester, name):
            return f"{requester!r} is no requester of {q.shortened(name)!r}, in whose name it asks"
    if (ahead := sequence - highest_of(state, requester)) > AHEAD_MAX:
        return f"request {request.id} is {ahead} above the last of its requester, and at most {AHEAD_MAX} are open"
    return ""


def _signed(request: Request) -> tuple[str, ...]:
    """In whose name the request is made: each of these is to be the same."""
    match request:
        case q.JoinRequested():
            return (request.actor, request.joiner.node)
        case q.UpdateRequested() if request.node is not None:
            return (request.actor, request.node)
        case q.DeletionsConfirmed():
            return (request.actor, request.node)
    return (request.actor,)
