"""Rules of feature levels: when newer schemas may be written (K28; the argument stands in `events/levels.py`)."""

from collections.abc import Iterable, Mapping

from topolog.events.asked import RequestRef
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.leases import members
from topolog.events.levels import FeatureLevelRaised, LevelRaiseRequested, level_of
from topolog.events.membership import Joiner, WaitingJoinRow
from topolog.events.requests import RequestUnchanged
from topolog.events.state import State
from topolog.events.terms import cluster


def decide(state: State, request: LevelRaiseRequested, ref: RequestRef, newest: int) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing. `newest`: what the leader knows."""
    in_force = cluster(state).feature_level
    if request.level == in_force:
        return [RequestUnchanged(ref, request.subject, None)]
    if request.level < in_force:
        message = (
            f"Feature level {in_force} is in force, and what is written at it stays in the log: levels never fall."
        )
        raise Refused("LEVEL_IN_FORCE", "K28", message, {"in_force": str(in_force)})
    if request.level > newest:
        message = f"The coordinator that leads knows feature levels up to {newest}."
        raise Refused("LEVEL_UNKNOWN", "K28", message, {"newest": str(newest)})
    behind = {name: level for name, level in _announced(state).items() if level < request.level}
    if behind:
        message = f"These members cannot read feature level {request.level}, upgrade or remove them: {_listed(behind)}."
        facts = {name: str(level) for name, level in behind.items()}
        raise Refused("LEVEL_UNSUPPORTED", "K28", message, facts)
    return [FeatureLevelRaised(ref, request.level, tuple(sorted(node.node for node in members(state))))]


def check_joiner(state: State, joiner: Joiner) -> None:
    """Raise Refused for a process that could not read what is written at the level in force."""
    in_force, announced = cluster(state).feature_level, level_of(joiner.capabilities)
    if announced < in_force:
        message = (
            f"Node {joiner.node!r} reads feature levels up to {announced}, and {in_force} is in force. Upgrade it."
        )
        facts = {"announced": str(announced), "in_force": str(in_force)}
        raise Refused("LEVEL_UNSUPPORTED", "K28", message, facts)


def _announced(state: State) -> Mapping[str, int]:
    """What each member, and each process that waits to be one, has announced."""
    levels = {str(node.node): level_of(node.capabilities) for node in members(state)}
    for name, waiting in state.rows(WaitingJoinRow):
        level = level_of(waiting.joiner.capabilities)
        levels[name] = min(levels.get(name, level), level)
    return levels


def _listed(names: Iterable[str], at_most: int = 5) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - at_most} more" if len(ordered) > at_most else ""
    return ", ".join(ordered[:at_most]) + more
