"""A failing plan is made short: what is left still breaks the rule, and nothing more can be left out."""

import pytest

from topolog.streams.coordinator.agenda import Agenda
from topolog.streams.simulation import Case, Faults, Rule, Violation, replay, shrink, simulate
from topolog.streams.simulation.faults import Kind
from topolog.streams.simulation.seeds import case_from, case_text, shortest

SPAN_MS = 10_000


@pytest.fixture
def violation(monkeypatch: pytest.MonkeyPatch) -> Violation:
    """A new leader takes every wait for one that is over: needs a change of leader, and some of the waits."""
    begin = Agenda.begin

    def begun(agenda: Agenda, state: object) -> None:
        begin(agenda, state)  # type: ignore[arg-type]  # passed on as it came
        for key in agenda.drain():
            agenda.pass_deadline(key)

    monkeypatch.setattr(Agenda, "begin", begun)
    with pytest.raises(Violation) as caught:
        simulate(6, SPAN_MS, Faults())
    return caught.value


def test_a_plan_is_shortened_to_what_breaks_the_rule(violation: Violation) -> None:
    """To the one act that takes the leader away, in few runs; none of the steps gives up the rule that broke."""
    steps = list(shrink(violation))
    assert {step.best.rule for step in steps} == {Rule.NO_FALSE_REMOVAL}
    sizes = [len(step.best.case.acts) for step in steps]
    assert sizes == sorted(sizes, reverse=True)
    best = steps[-1].best
    assert len(best.case.acts) == 1 < len(violation.case.acts)
    assert best.case.acts[0].kind not in (Kind.PROPOSE, Kind.REPEAT)
    assert best.case.span_ms < SPAN_MS
    assert steps[-1].runs < 100
    with pytest.raises(Violation) as again:
        replay(best.case)
    assert str(again.value) == str(best)
    replay(Case(best.case.seed, best.case.span_ms, ()))


def test_the_story_tells_what_befell_whom_however_long_ago(violation: Violation) -> None:
    """All that is left of the plan stands in it, before the last of what followed."""
    *_, last = shrink(violation)
    assert f" s  {last.best.case.acts[0].kind.name} " in str(last.best)


def test_an_end_of_time_or_ctrl_c_leaves_the_best_so_far(violation: Violation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that is over before it began still has the failure itself."""
    least = shortest(6, SPAN_MS, until_s=0.0)
    assert least is not None
    assert len(least.case.acts) <= len(violation.case.acts)
    monkeypatch.setattr("topolog.streams.simulation.shrinking._kind", _interrupted)
    found = shortest(6, SPAN_MS, until_s=float("inf"))
    assert found is not None
    assert found.rule is violation.rule


def _interrupted(_: Violation) -> object:
    raise KeyboardInterrupt


def test_a_case_is_one_line_of_text(violation: Violation) -> None:
    """Which a shell, a report and a test can hold."""
    text = case_text(violation.case)
    assert "\n" not in text
    assert "'" not in text
    assert case_from(text) == violation.case
