"""What the cluster's state allows to be decided: the one guard of all protocols (BA1).

Threat. An operator stops the cluster to look at it, or because somebody is dropping the wrong table; and the drop is
committed all the same, and servers delete the rows.

Invariant. From the start of a change of the state on, nothing is decided that the lesser of both states forbids
(`events/cluster_state.py` has the table).

How it works. What a request leads to is judged when the rules have decided it and nothing is logged yet: so what holds
already stays UNCHANGED, and every other refusal says what is wrong first. An open change of definitions is rolled back:
until its commit nothing is closed, so this is the last moment at which nothing is lost; everybody is in a state that
suits a rollback (`events/objects.py`), and a revocation never waits in line behind a change that must not be committed.
A type that is proposed is still accepted: that was decided, it only says that everybody knows of it, and until it is
said readers of the type wait.
"""

from collections.abc import Iterable, Sequence

from topolog.events import baseline as b
from topolog.events import groups as g
from topolog.events import metadata as md
from topolog.events import objects as o
from topolog.events.cluster_state import ENDED_BY, Operation, allows
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.exchange import ExchangeQueued, TriggerType
from topolog.events.object_definition import ObjectKind, Statement, Step, Verb
from topolog.events.repair import SessionOpened, SessionQueued
from topolog.events.repair_definition import SessionKind
from topolog.events.sessions import SessionRow
from topolog.events.state import State

CODE, RULE = "NOT_ACTIVE", "BA1"


def check(state: State, decided: Iterable[Decision]) -> None:
    """Raise Refused if the state of the cluster forbids one of these, which are not folded yet."""
    for decision in decided:
        require(state, operation_of(state, decision))


def require(state: State, operation: Operation) -> None:
    """Raise Refused if the state of the cluster forbids it."""
    if not is_allowed(state, operation):
        facts = {"state": b.cluster_state(state).allowed.value, "operation": operation.name}
        raise Refused(CODE, RULE, sentence(state), facts, hint=f"`{ENDED_BY}` ends that.")


def is_allowed(state: State, operation: Operation) -> bool:
    return allows(b.cluster_state(state).allowed, operation)


def stands_still(state: State, session: SessionRow) -> bool:
    """Whether a session begins nothing more: it is paused, or must wait for the state of the cluster."""
    return session.paused or not is_allowed(state, _session(session.definition.kind))


def sentence(state: State) -> str:
    """What the state is that forbids something."""
    row = b.cluster_state(state)
    target = f", on its way to {row.target.value}" if row.target is not None else ""
    return f"The cluster is {row.state.value}{target}."


def operation_of(state: State, decision: Decision) -> Operation:
    """What a decision does, by the table of states; `state` is that before it."""
    match decision:
        case o.SchemaChangePrepared(steps=actions) | o.SchemaChangeQueued(statements=actions):
            return Operation.REVOKE if only_revokes(state, actions) else Operation.DEFINE
        case g.GroupCreated() | g.GroupAltered() | g.GroupDropped():
            return Operation.GROUP
        case ExchangeQueued(type=TriggerType.LOSS_RESET):
            return Operation.GROUP
        case md.MetadataUpdateProposed() | md.MetadataRemoveProposed():
            return Operation.TYPE
        case SessionOpened(definition=definition) | SessionQueued(definition=definition):
            return _session(definition.kind)
    return Operation.RUN


def only_revokes(state: State, actions: Sequence[Step] | Sequence[Statement]) -> bool:
    """Whether these take rights away, and do nothing else."""
    return all(_revokes(state, action) for action in actions)


def _revokes(state: State, action: Step | Statement) -> bool:
    if action.kind is not ObjectKind.GRANT:
        return False
    row = o.object_row(state, action.name)
    if action.verb is not Verb.ALTER or row is None or row.definition is None:
        return action.verb is Verb.DROP
    if isinstance(action, Statement):
        privileges = action.privileges
    else:
        privileges = action.definition.privileges if action.definition else ()
    return bool(privileges) and set(privileges) < set(row.definition.privileges)


def _session(kind: SessionKind) -> Operation:
    return Operation.COMPARE if kind is SessionKind.PREVIEW else Operation.REPAIR
