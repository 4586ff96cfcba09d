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

import msgspec

from topolog.events import repair_requests as r
from topolog.events import requests as q
from topolog.events.asked import Request
from topolog.events.object_definition import ColumnVerb, ObjectKind, Statement, Verb
from topolog.events.repair_definition import SessionKind
from topolog.events.topics import Topic

CODE = "OPERATION_ONLY"
HINT = "Ask the API for it, or `topolog`, which asks the API: it writes `operations`, from which alone this is taken."


def is_operation(request: q.AnyRequest) -> bool:
    """Whether only an operator may ask for this."""
    is_members = _OF_MEMBERS.get(type(request))
    return is_members is None or not is_members(request)


def topic_of(request: q.AnyRequest) -> Topic:
    """Where whoever asks for this writes it."""
    return Topic.OPERATIONS if is_operation(request) else Topic.REQUESTS


def _always(_: Request) -> bool:
    return True


def _only_adds(request: q.SchemaChangeRequested) -> bool:
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


_OF_MEMBERS: Mapping[type[Request], Callable[[Any], bool]] = {
    q.JoinRequested: _always,  # of itself
    q.DeletionsConfirmed: _always,  # of itself
    q.UpdateRequested: _always,  # types grow, they take nothing away
    q.GroupCreationRequested: _always,  # one that is there as it is asked for stays, and is refused as any other
    q.SchemaChangeRequested: _only_adds,  # as what is there goes on as it is
    r.SessionRequested: lambda asked: asked.definition.kind is SessionKind.PREVIEW,  # a repair writes over rows
    r.ReplicaDeclarationRequested: _always,  # of itself: by the number of its life
    r.ReplicaWithdrawalRequested: lambda asked: asked.life is not None,  # of itself, or whosever it is
    r.TaskReported: _always,  # of itself
    r.ComparisonReported: _always,  # the rendezvous
    r.FindingsReported: _always,  # the rendezvous
}
"""What is taken from `requests`, and why it may be."""
