"""Whose records count: who may ask for what, by the topic in which it stands (`events/operations.py`,
`events/requesters.py`), and who may end a life (`events/proof.py`).

K20: what touches others is from `operations` alone. K21: what is a node's to ask is taken from one that has joined.
Both are answered with a refusal. What names or numbers its sender wrongly, or shows no secret, is a dead letter.

Pure: the broker has judged who may write the topic, the record says the rest.
"""

from topolog.events import requests as q
from topolog.events.asked import SUBJECT_CHARS_MAX, Request
from topolog.events.codec import Record
from topolog.events.errors import Refused
from topolog.events.ids import NodeId
from topolog.events.leases import NodeRow
from topolog.events.membership import Heartbeat, JoinRequested, NodeDied, known_seal
from topolog.events.metadata import UpdateRequested
from topolog.events.names import is_name
from topolog.events.object_requests import DeletionsConfirmed
from topolog.events.operations import CODE, HINT, is_a_node_s, is_operation
from topolog.events.proof import SECRET_BYTES, seal_of
from topolog.events.requesters import AHEAD_MAX, highest_of, is_of
from topolog.events.single_maps import SinglePartitionMap
from topolog.events.state import State
from topolog.events.terms import CoordinatorDied
from topolog.events.topics import Topic

NODE_PREFIX = "node:"
"""What the name begins with of whoever asks in `requests`."""


class DeadLetter(Exception):
    """The record counts for nothing, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def require_request(state: State, record: Record, topic: Topic) -> Request:
    """This record of the topic as a request that gets its outcome; raises DeadLetter if it is none."""
    if not isinstance(record, Request) or not q.is_valid(record.id):
        raise DeadLetter(f"a {type(record).__name__} with this id is no request")
    if topic is not Topic.OPERATIONS:
        _require_own_number(state, record)
    return record


def require_sign(state: State, record: Record) -> Heartbeat | NodeDied | CoordinatorDied:
    """This record of `heartbeats` as a sign of what could be a node, or of a coordinator; raises DeadLetter if it is
    none.

    Whoever may write heartbeats could otherwise fill the memory with what it says of nobody.
    """
    if isinstance(record, CoordinatorDied):
        return record
    if not isinstance(record, Heartbeat | NodeDied):
        raise DeadLetter(f"a {type(record).__name__} is no heartbeat")
    if not is_name(record.node, SUBJECT_CHARS_MAX):
        raise DeadLetter(f"a {type(record).__name__} of what cannot be a node's id")
    if isinstance(record, NodeDied) or record.is_release:
        _require_secret(state, record)
    return record


def require_map(record: Record) -> SinglePartitionMap:
    """This record of `maps` as what it should be; raises DeadLetter if it is none."""
    if not isinstance(record, SinglePartitionMap):
        raise DeadLetter(f"a {type(record).__name__} is no single map")
    return record


def require_allowed(state: State, request: Request, topic: Topic) -> None:
    """Raise Refused for what is taken from `operations` alone, or from nodes that have joined."""
    if topic is Topic.OPERATIONS:
        return
    if is_operation(request):
        message = f"What {type(request).__name__} asks for is for operators, and is not taken from {topic.short_name}."
        raise Refused(CODE, "K20", message, {"topic": Topic.OPERATIONS.short_name}, hint=HINT)
    if is_a_node_s(request) and state.get(NodeRow, NodeId(request.actor)) is None:
        message = f"{q.shortened(request.actor)!r} is not a node that has ever joined this cluster."
        raise Refused("NEVER_JOINED", "K21", message, hint="It joins first.")


def actor(request: Request, topic: Topic) -> str:
    """Who asks, as the log shows it: a node may have the name of an operator, and is not to be taken for it."""
    name = request.actor or request.id.requester
    return name if topic is Topic.OPERATIONS else f"{NODE_PREFIX}{name}"


def _require_own_number(state: State, request: Request) -> None:
    requester, sequence = request.id.requester, request.id.sequence
    for name in _signed(request):
        if not is_of(requester, name):
            raise DeadLetter(f"{requester!r} is no requester of {q.shortened(name)!r}, in whose name it asks")
    if (ahead := sequence - highest_of(state, requester)) > AHEAD_MAX:
        last = f"request {request.id} is {ahead} above the last of its requester"
        raise DeadLetter(f"{last}, and at most {AHEAD_MAX} are open")


def _require_secret(state: State, sign: Heartbeat | NodeDied) -> None:
    """Of a life that the log knows its own, of another one anything of that size."""
    seal = known_seal(state, sign.node, sign.incarnation)
    if len(sign.secret) != SECRET_BYTES or (seal is not None and seal != seal_of(sign.secret)):
        raise DeadLetter(f"a {type(sign).__name__} that ends a life and does not show its secret")


def _signed(request: Request) -> tuple[str, ...]:
    """In whose name the request is made: each of these is to be the same."""
    match request:
        case JoinRequested():
            return (request.actor, request.joiner.node)
        case UpdateRequested() if request.node is not None:
            return (request.actor, request.node)
        case DeletionsConfirmed():
            return (request.actor, request.node)
    return (request.actor,)
