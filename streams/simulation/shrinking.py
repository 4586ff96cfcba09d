"""A failing case made short: fewer acts, shorter ones, less time, as long as the same rule breaks in the same way.

A seed that breaks a rule has some forty acts, of which three matter. Which three is found by leaving acts out and
running the rest again (delta debugging): large pieces first, then single acts, until no act can be left out; then each
act is made as short as it can be. Each process life draws from a source of its own, so what is left mostly meets the
world as it was. Nothing is assumed of the cluster: a shorter case counts because it has been run and has failed.
"""

from collections.abc import Iterator, Sequence

import msgspec

from topolog.streams.simulation.faults import Act
from topolog.streams.simulation.rules import Rule
from topolog.streams.simulation.run import Case, Violation, replay

_DURATIONS_MS = (20.0, 100.0, 500.0, 1_000.0)


class Progress(msgspec.Struct, frozen=True):
    """The shortest failure known after so many runs."""

    best: Violation
    runs: int


def shrink(violation: Violation) -> Iterator[Progress]:
    """Each run's outcome, until nothing can be left out any more. Stop asking whenever there is no more time."""
    return _Shrinking(violation).steps()


class _Shrinking:
    def __init__(self, violation: Violation) -> None:
        self._best = violation
        self._runs = 0

    @property
    def _case(self) -> Case:
        return self._best.case

    def steps(self) -> Iterator[Progress]:
        yield from self._cut_span()
        before = None
        while before != self._case:
            before = self._case
            yield from self._drop_acts()
            yield from self._shorten_acts()
            yield from self._cut_span()

    def _cut_span(self) -> Iterator[Progress]:
        """No act behind the failure has happened; and the faults may be over sooner."""
        for span_ms in (self._best.at_ms + 1, *(self._case.span_ms * part // 8 for part in (2, 4, 6, 7))):
            acts = tuple(act for act in self._case.acts if act.at_ms < span_ms)
            if span_ms < self._case.span_ms:
                yield from self._try(Case(self._case.seed, span_ms, acts))

    def _drop_acts(self) -> Iterator[Progress]:
        """Leave out pieces of the plan, from its end on: what has happened early is most often needed."""
        size = len(self._case.acts)
        while size:
            start = len(self._case.acts) - size
            while start > -size:
                acts = self._case.acts
                yield from self._try_acts((*acts[: max(0, start)], *acts[start + size :]))
                start -= size
            size //= 2

    def _shorten_acts(self) -> Iterator[Progress]:
        for index in range(len(self._case.acts)):
            for duration_ms in _DURATIONS_MS:
                acts = self._case.acts
                if duration_ms < acts[index].duration_ms:
                    shorter = msgspec.structs.replace(acts[index], duration_ms=duration_ms)
                    yield from self._try_acts((*acts[:index], shorter, *acts[index + 1 :]))

    def _try_acts(self, acts: Sequence[Act]) -> Iterator[Progress]:
        return self._try(Case(self._case.seed, self._case.span_ms, tuple(acts)))

    def _try(self, case: Case) -> Iterator[Progress]:
        self._runs += 1
        found = violation_of(case)
        if found is not None and _kind(found) == _kind(self._best):
            self._best = found
        yield Progress(self._best, self._runs)


def violation_of(case: Case) -> Violation | None:
    """How this case breaks a rule, if it does."""
    try:
        replay(case)
    except Violation as violation:
        return violation
    return None


def _kind(violation: Violation) -> tuple[Rule, str]:
    """Which failure it is: of those that end a process, the type of the error too."""
    return violation.rule, violation.detail.partition("(")[0] if violation.rule is Rule.RUNS_ON else ""
