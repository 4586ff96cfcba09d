"""Which requests are operators', and hence in which topic each belongs.

Threat. Whoever may write `requests` can write any request into it, under any name: each service's process, in a company
each team. A removal of somebody else's node, a dropped group, other terms of leases would be carried out, and the log
would say that the operator whose name it bears had asked for it.

How it works. What touches others is taken from the topic `operations` alone, which only the API may write: it knows who
asks, and what they may. From `requests` is taken what a process says of itself, or declares and takes nothing from
anybody by: what `_FROM_REQUESTS` names, and nothing that it does not. So a request that nobody has thought of here is
an operator's. The same table says of each whether a node asks it, which must have joined the cluster then, or any
process: one that has yet to join, a validator, the rendezvous. Whoever sends asks it for the topic, and the broker says
whether they may write that.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import msgspec

from topolog.events import repair_requests as r
from topolog.events.asked import Request
from topolog.events.groups import GroupCreationRequested
from topolog.events.membership import JoinRequested
from topolog.events.metadata import UpdateRequested
from topolog.events.object_definition import ColumnVerb, ObjectKind, Statement, Verb
from topolog.events.object_requests import DeletionsConfirmed, SchemaChangeRequested
from topolog.events.repair_definition import SessionKind
from topolog.events.topics import Topic

CODE = "OPERATION_ONLY"
HINT = "Ask the API for it, or `topolog`, which asks the API: it writes `operations`, from which alone this is taken."


def is_operation(request: Request) -> bool:
    """Whether only an operator may ask for this."""
    taken = _FROM_REQUESTS.get(type(request))
    return taken is None or not taken.may_ask(request)


def is_a_node_s(request: Request) -> bool:
    """Whether who asks for this on `requests` is a node, and so must have joined."""
    taken = _FROM_REQUESTS.get(type(request))
    return taken is None or taken.sender is _Sender.NODE


def topic_of(request: Request) -> Topic:
    """Where whoever asks for this writes it."""
    return Topic.OPERATIONS if is_operation(request) else Topic.REQUESTS


def _always(_: Request) -> bool:
    return True


def _only_adds(request: SchemaChangeRequested) -> bool:
    return all(_adds(each) for each in request.statements)


def _adds(statement: Statement) -> bool:
    """Whether it makes something that was not there, or a column of a table, and touches nothing that others rely on:
    a name, a view's table, an owner, a time to live. What stands is not asked."""
    if statement.kind not in (ObjectKind.DATABASE, ObjectKind.TABLE, ObjectKind.VIEW):
        return False
    if statement.verb is Verb.CREATE:
        return True
    adding = Statement(statement.verb, statement.kind, statement.name, columns=statement.columns)
    is_bare = statement == msgspec.structs.replace(
        adding, if_needed=statement.if_needed, planned_on=statement.planned_on
    )
    return statement.verb is Verb.ALTER and is_bare and all(each.verb is ColumnVerb.ADD for each in statement.columns)


def _is_its_own(request: r.ReplicaWithdrawalRequested) -> bool:
    """With the number of a life it is the sender's own replica, without one anybody's."""
    return request.life is not None


def _only_compares(request: r.SessionRequested) -> bool:
    """A repair writes over rows."""
    return request.definition.kind is SessionKind.PREVIEW


class _Sender(Enum):
    NODE = "one that has joined"
    PROCESS = "any process, a node or none"


class _Taken(msgspec.Struct, frozen=True):
    """From whom a request is taken that stands in `requests`, and whether this one is."""

    sender: _Sender
    may_ask: Callable[[Any], bool] = _always


_NODE, _PROCESS = _Sender.NODE, _Sender.PROCESS

_FROM_REQUESTS: Mapping[type[Request], _Taken] = {
    JoinRequested: _Taken(_PROCESS),  # of itself, and it is none yet
    DeletionsConfirmed: _Taken(_NODE),  # of itself
    UpdateRequested: _Taken(_NODE),  # types grow, they take nothing away
    GroupCreationRequested: _Taken(_NODE),  # a group that is there is never changed by it
    SchemaChangeRequested: _Taken(_NODE, _only_adds),
    r.SessionRequested: _Taken(_NODE, _only_compares),
    r.ReplicaDeclarationRequested: _Taken(_PROCESS),  # of itself: by the number of its life
    r.ReplicaWithdrawalRequested: _Taken(_PROCESS, _is_its_own),
    r.TaskReported: _Taken(_PROCESS),  # of itself
    r.ComparisonReported: _Taken(_PROCESS),  # by the rendezvous
    r.FindingsReported: _Taken(_PROCESS),  # by the rendezvous
}
"""What is taken from `requests`, from whom, and why it may be."""
