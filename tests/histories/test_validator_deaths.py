"""Validators die at any deed, again and again: a small world with real sessions from their request to their end."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.streams.validator.observed import are_equal, completed, differing_site, failed
from tests.unit.streams.validator.site import Mortality

from topolog.events.sessions import SessionStatus

deaths = st.lists(st.tuples(st.integers(0, 24), st.booleans()), min_size=1, max_size=4)


@settings(deadline=None, max_examples=150)
@given(deaths)
def test_a_death_at_any_deed_costs_nothing_but_time(lives: list[tuple[int, bool]]) -> None:
    """RE7, RE4: a new life goes on with what the log asks for, under the same attempt. Each task is answered
    once, its pages are whole and of one life (the rendezvous says so), and no row is written twice or skipped."""
    site = differing_site()
    site.serve("v1", "r1")
    site.serve("v2", "r2", mortality=Mortality(1_000))
    site.settle()
    request = site.repair()
    for deeds, behind in lives:
        site.serve("v2", "r2", mortality=Mortality(deeds, behind=behind))
        site.settle()
    site.serve("v2", "r2")
    site.settle()
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert are_equal(site)
    answers = Counter((each.task.step, each.task.replica) for each in completed(site))
    assert set(answers.values()) == {1}
    assert {each.task.attempt for each in completed(site)} == {1}
    assert all(each.result.skipped == 0 for each in completed(site))
    assert failed(site) == []
    assert [each.cuts_held for each in site.replicas.values()] == [frozenset(), frozenset()]
