"""Whatever stands still for a while removes nobody who could beat (LE27); the full figure is 20,000 stalls."""

import pytest

from topolog.streams.coordinator.agenda import Agenda
from topolog.streams.coordinator.hearing import Hearing
from topolog.streams.simulation.stalls import Stalled, Tally, stall

WORLDS = 3


@pytest.fixture(scope="module")
def tallies() -> list[Tally]:
    return [stall(world) for world in range(WORLDS)]


def test_stalls_remove_nobody_who_could_beat(tallies: list[Tally]) -> None:
    """LE27: stalls of 1 to 60 s at every phase of the leader's beat, 64 nodes, a stand-by: no false removal."""
    assert sum(tally.stalls.total() for tally in tallies) >= 300
    assert [story for tally in tallies for story in tally.false] == []


def test_everything_that_can_stall_does(tallies: list[Tally]) -> None:
    """And it is felt: leaders change, and nodes that stood still for a fence themselves are removed."""
    assert {name for tally in tallies for name in tally.stalls} == {each.value for each in Stalled}
    assert sum(tally.terms for tally in tallies) > 3 * WORLDS
    assert sum(tally.removals for tally in tallies) > 3 * WORLDS


def test_a_world_repeats_its_stalls() -> None:
    assert stall(7, 20) == stall(7, 20) != stall(8, 20)


def test_a_leader_that_counts_silence_it_could_not_hear_removes_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count can be other than 0."""
    monkeypatch.setattr(Hearing, "listen", lambda *_: True)
    assert "leads in term" in stall(1, 60).false[0]


def test_a_new_leader_that_goes_on_with_the_waits_of_the_last_removes_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take-overs fall into the stalls."""
    begin = Agenda.begin

    def begun(agenda: Agenda, state: object) -> None:
        begin(agenda, state)  # type: ignore[arg-type]  # passed on as it came
        for key in agenda.drain():
            agenda.pass_deadline(key)

    monkeypatch.setattr(Agenda, "begin", begun)
    assert stall(1, 30).false
