"""Which requests are operators', and hence in which topic each belongs.

Threat. Whoever may write `requests` can write any request into it, under any name: each service's process, in a company
each team. A removal of somebody else's node, a dropped group, other terms of leases would be carried out, and the log
would say that the operator whose name it bears had asked for it.

How it works. What touches others is taken from the topic `operations` alone, which only the API may write: it knows who
asks, and what they may. From `requests` is taken what a member says of itself, or declares and takes nothing from
anybody by: what `_OF_MEMBERS` names, and nothing that it does not. So a request that nobody has thought of here is an
operator's. Whoever sends asks the same table for the topic, and the broker says whether they may write it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from topolog.events import repair_requests as r
from topolog.events import requests as q
from topolog.events.asked import Request
from topolog.events.object_definition import FOREVER, ColumnVerb, ObjectKind, Statement, Verb
from topolog.events.repair_definition import SessionKind
from topolog.events.topics import Topic

CODE = "OPERATION_ONLY"
HINT = "Ask the API for it, or `topolog`: they write the topic `operations`, from which alone such a request is taken."


def is_operation(request: q.AnyRequest) -> bool:
    """Whether only an operator may ask for this."""
    is_members = _OF_MEMBERS.get(type(request))
    return is_members is None or not is_members(request)


def topic_of(request: q.AnyRequest) -> Topic:
    """Where whoever asks for this writes it."""
    return Topic.OPERATIONS if is_operation(request) else Topic.REQUESTS


def _always(_: Request) -> bool:
    return True


def _loses_nothing(request: q.SchemaChangeRequested) -> bool:
    return not any(_may_lose(each) for each in request.statements)


def _may_lose(statement: Statement) -> bool:
    """Whether rows, values or rights could go. What stands is not asked: a time to live may be shorter than before."""
    if statement.kind in (ObjectKind.GRANT, ObjectKind.UNKNOWN) or statement.verb is Verb.UNKNOWN:
        return True
    if statement.verb is Verb.DROP:
        return statement.kind is not ObjectKind.VIEW  # it holds no rows
    if any(each.verb not in (ColumnVerb.ADD, ColumnVerb.RENAME) for each in statement.columns):
        return True
    return statement.ttl_ms not in (None, FOREVER)


_OF_MEMBERS: Mapping[type[Request], Callable[[Any], bool]] = {
    q.JoinRequested: _always,  # of itself
    q.DeletionsConfirmed: _always,  # of itself
    q.UpdateRequested: _always,  # types grow, they take nothing away
    q.GroupCreationRequested: _always,  # one that is there as it is asked for stays, and is refused as any other
    q.SchemaChangeRequested: _loses_nothing,
    r.SessionRequested: lambda asked: asked.definition.kind is SessionKind.PREVIEW,  # a repair writes over rows
    r.ReplicaDeclarationRequested: _always,  # of itself: by the number of its life
    r.ReplicaWithdrawalRequested: lambda asked: asked.life is not None,  # of itself, or whosever it is
    r.TaskReported: _always,  # of itself
    r.ComparisonReported: _always,  # the rendezvous
    r.FindingsReported: _always,  # the rendezvous
}
"""What is taken from `requests`, and why it may be."""
