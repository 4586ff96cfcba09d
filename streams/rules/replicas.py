"""Rules of replicas: what a validator may declare (RE9, RE28)."""

from topolog.events.asked import RequestRef
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.names import is_name, is_printable
from topolog.events.repair_requests import ReplicaDeclarationRequested, ReplicaWithdrawalRequested
from topolog.events.repair_tasks import RANGES_MAX
from topolog.events.replica import REPLICAS_MAX, ReplicaDefinition
from topolog.events.replicas import ReplicaDeclared, ReplicaWithdrawn, replica, replicas_of
from topolog.events.requests import RequestUnchanged
from topolog.events.state import State
from topolog.events.token_range import union
from topolog.events.tree_spec import BOUNDARIES_MAX

NAME_BYTES_MAX = 40
"""A session names its replicas in each segment, and must fit a record."""

TABLE_CHARS_MAX = 200
CHARS_MAX = 100_000
"""Of all columns and boundaries."""


def decide(
    state: State, request: ReplicaDeclarationRequested | ReplicaWithdrawalRequested, ref: RequestRef
) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing."""
    if isinstance(request, ReplicaDeclarationRequested):
        return _declared(state, request, ref)
    return _withdrawn(state, request, ref)


def _declared(state: State, request: ReplicaDeclarationRequested, ref: RequestRef) -> list[Decision]:
    definition = request.replica
    _check(definition)
    row = replica(state, definition.table, definition.name)
    if row is not None and (row.definition, row.life) == (definition, request.life):
        return [RequestUnchanged(ref, request.subject, None)]
    if row is None and len(replicas_of(state, definition.table)) >= REPLICAS_MAX:
        message = f"Table {definition.table!r} has {REPLICAS_MAX} replicas, and more are not compared."
        raise Refused("TOO_MANY_REPLICAS", "RE28", message)
    return [ReplicaDeclared(ref, definition, request.life)]


def _check(definition: ReplicaDefinition) -> None:
    names = [column.name for column in definition.columns]
    texts = [*names, *(column.type for column in definition.columns), *definition.boundaries]
    wrong = {
        "its name or its table's": len(definition.name.encode()) > NAME_BYTES_MAX
        or not is_name(definition.name, NAME_BYTES_MAX)
        or not is_name(definition.table, TABLE_CHARS_MAX)
        or "@" in definition.name + definition.table,
        "its datacenter": len(definition.datacenter) > TABLE_CHARS_MAX or not is_printable(definition.datacenter),
        "its columns": not names or len(set(names)) < len(names) or sum(map(len, texts)) > CHARS_MAX,
        "its key": not set(definition.key) <= set(names) or len(set(definition.key)) < len(definition.key),
        "its ranges": not definition.ranges
        or len(definition.ranges) > RANGES_MAX
        or union(definition.ranges) != definition.ranges,
        "its boundaries": len(definition.boundaries) > BOUNDARIES_MAX,
        "its estimates": definition.rows < 0 or definition.row_bytes < 0,
    }
    for what, holds in wrong.items():
        if holds:
            message = f"Replica {definition.id[:TABLE_CHARS_MAX]} cannot be declared: {what} cannot be right."
            raise Refused("BAD_REPLICA", "RE28", message)


def _withdrawn(state: State, request: ReplicaWithdrawalRequested, ref: RequestRef) -> list[Decision]:
    """Nobody serves it any more; another life's word is no longer about it."""
    row = replica(state, request.table, request.name)
    if row is None or (request.life is not None and row.life != request.life):
        return [RequestUnchanged(ref, request.subject, None)]
    return [ReplicaWithdrawn(ref, request.table, request.name)]
