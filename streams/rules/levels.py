"""Rules of feature levels: when newer schemas may be written (K8; the argument stands in `events/levels.py`)."""

from collections.abc import Iterable, Mapping

from topolog.events.asked import RequestRef
from topolog.events.codec import Decision
from topolog.events.errors import Refused
from topolog.events.levels import NEWEST_LEVEL, FeatureLevelRaised, level_of
from topolog.events.membership import WaitingJoinRow, members
from topolog.events.requests import Joiner, LevelRaiseRequested, RequestUnchanged, subject_of
from topolog.events.state import State
from topolog.events.terms import cluster


def decide(state: State, request: LevelRaiseRequested, ref: RequestRef) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing."""
    in_force = cluster(state).feature_level
    if request.level == in_force:
        return [RequestUnchanged(ref, subject_of(request), None)]
    if request.level < in_force:
        message = (
            f"Feature level {in_force} is in force, and what is written at it stays in the log: levels never fall."
        )
        raise Refused("LEVEL_IN_FORCE", "K8", message, {"in_force": str(in_force)})
    if request.level > NEWEST_LEVEL:
        message = f"The coordinator that leads knows feature levels up to {NEWEST_LEVEL}."
        raise Refused("LEVEL_UNKNOWN", "K8", message, {"newest": str(NEWEST_LEVEL)})
    behind = {name: level for name, level in _announced(state).items() if level < request.level}
    if behind:
        message = f"These members cannot read feature level {request.level}, upgrade or remove them: {_listed(behind)}."
        facts = {name: str(level) for name, level in behind.items()}
        raise Refused("LEVEL_UNSUPPORTED", "K8", message, facts)
    return [FeatureLevelRaised(ref, request.level, tuple(sorted(node.node for node in members(state))))]


def require(state: State, level: int, what: str) -> None:
    """Raise Refused while what is asked for could not be written: some member may not be able to read it."""
    in_force = cluster(state).feature_level
    if in_force < level:
        message = f"{what} need feature level {level}, and {in_force} is in force."
        facts = {"needed": str(level), "in_force": str(in_force)}
        hint = f"`topolog raise-level {level}` raises it when every member is of a version that reads it."
        raise Refused("LEVEL_TOO_LOW", "K8", message, facts, hint=hint)


def check_joiner(state: State, joiner: Joiner) -> None:
    """Raise Refused for a process that could not read what is written at the level in force."""
    in_force, announced = cluster(state).feature_level, level_of(joiner.capabilities)
    if announced < in_force:
        message = (
            f"Node {joiner.node!r} reads feature levels up to {announced}, and {in_force} is in force. Upgrade it."
        )
        facts = {"announced": str(announced), "in_force": str(in_force)}
        raise Refused("LEVEL_UNSUPPORTED", "K8", message, facts)


def _announced(state: State) -> Mapping[str, int]:
    """What each member, and each process that waits to be one, has announced."""
    levels = {str(node.node): level_of(node.capabilities) for node in members(state)}
    for name, waiting in state.rows(WaitingJoinRow):
        levels[name] = min(levels.get(name, NEWEST_LEVEL), level_of(waiting.joiner.capabilities))
    return levels


def _listed(names: Iterable[str], at_most: int = 5) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - at_most} more" if len(ordered) > at_most else ""
    return ", ".join(ordered[:at_most]) + more
