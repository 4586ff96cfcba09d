"""Which replicas there are of which tables: what their validators have declared (RE9).

Threat. A session is opened by what a replica was: it has other columns, or another process serves it by now.

Invariant. A session asks the replicas that are declared when it opens, and each of them checks what it was told.

Argument. The log has for each replica the newest declaration, with the life of the validator that made it. A validator
that starts declares its replicas anew; one that has stopped without a word is found out by the first task that it does
not answer. Whether what is declared still holds is asked with each session's first task, PREPARE.
"""

from typing import ClassVar

from topolog.events.asked import RequestRef
from topolog.events.decision import Decision
from topolog.events.ids import Place, Position
from topolog.events.replica import ReplicaDefinition
from topolog.events.requests import grant
from topolog.events.state import Row, State


class ReplicaDeclared(Decision, frozen=True):
    """`life` is a random number of the validator's process."""

    request: RequestRef
    replica: ReplicaDefinition
    life: int


class ReplicaWithdrawn(Decision, frozen=True):
    request: RequestRef
    table: str
    name: str


ReplicaEvent = ReplicaDeclared | ReplicaWithdrawn


class ReplicaRow(Row, frozen=True):
    """A replica, under `<table>@<name>`."""

    KIND: ClassVar[str] = "replica"

    definition: ReplicaDefinition
    life: int
    declared_at: Position


def replica_key(table: str, name: str) -> str:
    return f"{table}@{name}"


def replica(state: State, table: str, name: str) -> ReplicaRow | None:
    return state.get(ReplicaRow, replica_key(table, name))


def replicas_of(state: State, table: str) -> list[ReplicaRow]:
    """Those of one table, by name."""
    rows = (row for _, row in state.rows(ReplicaRow) if row.definition.table == table)
    return sorted(rows, key=lambda row: row.definition.name)


def evolve(state: State, event: ReplicaEvent, place: Place) -> None:
    match event:
        case ReplicaDeclared():
            key = replica_key(event.replica.table, event.replica.name)
            state.put(key, ReplicaRow(event.replica, event.life, place.position))
        case ReplicaWithdrawn():
            key = replica_key(event.table, event.name)
            state.drop(ReplicaRow, key)
    grant(state, event.request, place, f"replica {key}")
