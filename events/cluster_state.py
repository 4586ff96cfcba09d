"""What a cluster serves (BA1), and the one table of what each of its states allows.

Rules ask it before they decide (`streams/rules/allowed.py`), nodes before they act (`streams/node/serving.py`), and
docs/baseline.md shows it.
"""

from collections.abc import Mapping
from enum import Enum

ENDED_BY = "topolog cluster activate"
"""The command that ends every state but ACTIVE."""


class ClusterState(Enum):
    """What the cluster serves: nothing, reads, or reads and writes."""

    UNKNOWN = "UNKNOWN"
    INACTIVE = "INACTIVE"
    ACTIVE_READ_ONLY = "ACTIVE_READ_ONLY"
    ACTIVE = "ACTIVE"


class Operation(Enum):
    """What a state may forbid, in the words of docs/baseline.md."""

    READ = "read rows: `acting(…, writing=False)`, `using`, `viewing`"
    WRITE = "write rows: `acting`, `writing`"
    EXPIRE = "expire rows: elsewhere `ttl_ms` is `None`"
    DELETE = "delete what a change has closed: `on_deletion`, `deleting`"
    DEFINE = "create, alter, rename or drop a database, table, view or grant"
    GROUP = "create, alter or drop a group; give up what is lost of one"
    TYPE = "propose or remove a type; join with one that the cluster has not"
    REPAIR = "begin or go on with a session that repairs"
    COMPARE = "begin or go on with a session that only compares"
    COUNT = "change the baseline, drain a server"
    REVOKE = "revoke a grant, or take a privilege from it; cancel a change"
    LOOK = "ask for definitions, rights, types, groups and owners"
    RUN = "join, leave, be removed; state, hold, lease terms, feature level, exchanges, replicas, schedules"


_ORDER = (ClusterState.UNKNOWN, ClusterState.INACTIVE, ClusterState.ACTIVE_READ_ONLY, ClusterState.ACTIVE)

LEAST: Mapping[Operation, ClusterState] = {
    Operation.READ: ClusterState.ACTIVE_READ_ONLY,
    Operation.WRITE: ClusterState.ACTIVE,
    Operation.EXPIRE: ClusterState.ACTIVE,
    Operation.DELETE: ClusterState.ACTIVE,
    Operation.DEFINE: ClusterState.ACTIVE,
    Operation.GROUP: ClusterState.ACTIVE,
    Operation.TYPE: ClusterState.ACTIVE,
    Operation.REPAIR: ClusterState.ACTIVE,
    Operation.COMPARE: ClusterState.ACTIVE_READ_ONLY,
    Operation.COUNT: ClusterState.ACTIVE_READ_ONLY,
    Operation.REVOKE: ClusterState.UNKNOWN,
    Operation.LOOK: ClusterState.UNKNOWN,
    Operation.RUN: ClusterState.UNKNOWN,
}
"""The state that an operation needs at least."""


def lesser(one: ClusterState, other: ClusterState) -> ClusterState:
    """What both allow; a state that is not known allows nothing that any state forbids."""
    return min(one, other, key=_ORDER.index)


def allows(state: ClusterState, operation: Operation) -> bool:
    return _ORDER.index(state) >= _ORDER.index(LEAST[operation])
