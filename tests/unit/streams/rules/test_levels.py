"""Rules of feature levels: they rise when every member can follow, and never fall (K28)."""

import pytest
from tests.unit.streams.rules.cluster import LOG_ID, Cluster, join_request, joiner, new_id

from topolog.events import requests as q
from topolog.events.errors import Refused
from topolog.events.leases import FENCING, members
from topolog.events.levels import FeatureLevelRaised, LevelRaiseRequested, announced, level_of
from topolog.events.terms import cluster

UPGRADED = (FENCING, announced(2))


def to_level(level: int) -> LevelRaiseRequested:
    return LevelRaiseRequested(new_id(), LOG_ID, "ada", "", level)


def of_upgraded(*names: str) -> Cluster:
    """A log that began at level 1, all of whose members are of a build that knows level 2."""
    found = Cluster()
    found.newest_level = 2
    for name in names:
        found.ask(join_request(joiner(name, capabilities=UPGRADED)))
    return found


def test_the_level_rises_when_every_member_announces_it() -> None:
    """K28: the verdict over the members stands in the decision, and the row says what is in force."""
    found = of_upgraded("n1", "n2")
    decided = found.ask(to_level(2))
    assert [(type(event), getattr(event, "members", ())) for event in decided] == [(FeatureLevelRaised, ("n1", "n2"))]
    assert cluster(found.state).feature_level == 2


def test_one_member_of_an_older_build_keeps_the_level_down() -> None:
    """K28: the refusal names who cannot read it; nothing changes."""
    found = of_upgraded("n1")
    found.ask(join_request(joiner("old")))
    with pytest.raises(Refused, match="old") as refusal:
        found.ask(to_level(2))
    assert (refusal.value.code, refusal.value.facts) == ("LEVEL_UNSUPPORTED", {"old": "1"})
    assert cluster(found.state).feature_level == 1


def test_a_process_that_waits_to_join_counts_too() -> None:
    """K28: it will be a member without asking again, so its build must be able to read the level now."""
    found = of_upgraded("n1")
    found.ask(join_request(joiner("n1", incarnation=2, folder="")))
    with pytest.raises(Refused, match="n1"):
        found.ask(to_level(2))


def test_an_older_build_is_refused_once_the_level_has_risen() -> None:
    """K28: it could not read the next decision, so it does not become a member whom all others wait for."""
    found = of_upgraded("n1")
    found.ask(to_level(2))
    with pytest.raises(Refused, match="Upgrade it") as refusal:
        found.ask(join_request(joiner("old")))
    assert refusal.value.code == "LEVEL_UNSUPPORTED"
    assert [node.node for node in members(found.state)] == ["n1"]


@pytest.mark.parametrize(("level", "code"), [(1, "LEVEL_IN_FORCE"), (3, "LEVEL_UNKNOWN")])
def test_a_level_never_falls_and_never_passes_what_the_leader_knows(level: int, code: str) -> None:
    """K28: what was written at a level stays in the log; a leader must know what it writes."""
    found = of_upgraded("n1")
    found.ask(to_level(2))
    with pytest.raises(Refused) as refusal:
        found.ask(to_level(level))
    assert refusal.value.code == code


def test_the_same_request_twice_gives_nothing_the_second_time() -> None:
    """K18."""
    found = of_upgraded("n1")
    found.ask(to_level(2))
    assert [type(event) for event in found.ask(to_level(2))] == [q.RequestUnchanged]


@pytest.mark.parametrize(
    ("capabilities", "level"),
    [((), 1), ((FENCING,), 1), ((announced(2),), 2), ((announced(2), announced(11)), 11), (("level-x", "level-"), 1)],
)
def test_capabilities_announce_a_level(capabilities: tuple[str, ...], level: int) -> None:
    """K28: who announces none knows the first, and what is no number announces nothing."""
    assert level_of(capabilities) == level
