"""Tests of the first tier are quick, each of them: one that takes more processor than `processor_limit_s` fails.

Counted is what the test's process and the children that it has waited for used in its own set-up, call and teardown.
What a shared fixture costs, made or closed, is not the test's that happens to come first or last. A child is counted
where it is waited for: the system does not say whose it was, so a test that leaves one behind is charged to whoever
reaps it. Wall time would fail tests on a busy machine. Processor time grows there too, as threads share a core and its
caches, and threads of tests before may still run; all of that only adds. So a test above the limit runs again, up to
`RUNS` times, until one run stays below.
"""

import gc
import resource
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
from _pytest.runner import runtestprotocol

LIMIT = "processor_limit_s"
FIRST_TIER = ("unit", "smoke")
RUNS = 3

_USED_S = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(LIMIT, "seconds of processor that a test of the first tier may use", default="2")


def processor_s() -> float:
    """Seconds of processor that this process and its ended children have used."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def is_limited(item: pytest.Item) -> bool:
    """Whether the test belongs to the first tier: its folder says so."""
    return any(item.path.is_relative_to(item.config.rootpath / "tests" / folder) for folder in FIRST_TIER)


class Shared:
    """What shared fixtures have cost so far, in `used_s`; one that makes another costs what both do, once."""

    def __init__(self) -> None:
        self.used_s = 0.0
        self._depth = 0
        self._began_s = 0.0

    def begin(self) -> None:
        if self._depth == 0:
            self._began_s = processor_s()
        self._depth += 1

    def end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.used_s += processor_s() - self._began_s


_SHARED = pytest.StashKey[Shared]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SHARED] = Shared()


def pytest_collection_finish() -> None:
    """What was collected stays to the end; without this, each full collection of garbage walks ten thousand tests."""
    gc.collect()
    gc.freeze()


@contextmanager
def charged(item: pytest.Item) -> Iterator[None]:
    """The test pays for what is done here, but for shared fixtures."""
    shared = item.config.stash[_SHARED]
    began_s = processor_s() - shared.used_s
    try:
        yield
    finally:
        item.stash[_USED_S] = item.stash.get(_USED_S, 0.0) + processor_s() - shared.used_s - began_s


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Measure what a shared fixture costs. Finalizers run last in, first out: its own stand between these two."""
    if request.scope == "function":
        return (yield)
    shared = request.config.stash[_SHARED]
    fixturedef.addfinalizer(shared.end)
    shared.begin()
    try:
        return (yield)
    finally:
        shared.end()
        fixturedef.addfinalizer(shared.begin)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with charged(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with charged(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with charged(item):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test of the first tier; again while it passes above the limit. What is reported is its last run."""
    if not isinstance(item, pytest.Function) or not is_limited(item):
        return None
    limit_s = float(item.config.getini(LIMIT))
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for run in range(1, RUNS + 1):
        item.stash[_USED_S] = 0.0
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if item.stash[_USED_S] <= limit_s or not all(report.passed for report in reports):
            break
        if run < RUNS:
            item._initrequest()  # Else its fixtures are those of the run before, closed.
        else:
            too_much(reports[-1], item.stash[_USED_S], limit_s)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def too_much(report: pytest.TestReport, used_s: float, limit_s: float) -> None:
    """Make the report of a teardown say that the test takes too long."""
    report.outcome = "failed"
    report.longrepr = (
        f"{used_s:.1f} s of processor, in the best of {RUNS} runs, and a test of the first tier has "
        f"{limit_s:g}: make it cheaper, or move it to the tier of what it needs (docs/testing.md)"
    )
