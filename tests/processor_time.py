"""Tests of the first tier are quick, each of them: one that takes more processor than `processor_limit_s` fails.

Counted is what the test's process and the children that it has waited for used in its own set-up, call and teardown.
What a shared fixture costs, made or closed, is not the test's that happens to come first or last. A child is counted
where it is waited for: the system does not say whose it was, so a test that leaves one behind is charged to whoever
reaps it. Wall time would fail tests on a busy machine; processor time grows there too, as threads share a core and its
caches, so whoever is above the limit is measured against what a fixed piece of work takes in the same moment.
"""

import gc
import json
import resource
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

LIMIT = "processor_limit_s"
FIRST_TIER = ("unit", "smoke")
YARDSTICK_S = 0.06
"""What `yardstick_s` is on the machine of docs/testing.md at rest; for that one the limit is meant."""

_USED_S = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(LIMIT, "seconds of processor that a test of the first tier may use", default="2")


def processor_s() -> float:
    """Seconds of processor that this process and its ended children have used."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def yardstick_s() -> float:
    """Seconds of processor that a fixed piece of work takes just now, whatever the tests before have left in memory."""
    gc.disable()
    began_s = time.process_time()
    json.loads(json.dumps([{f"key {number}": [number, str(number)]} for number in range(30_000)]))
    used_s = time.process_time() - began_s
    gc.enable()
    return used_s


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
        result = yield
    used_s, limit_s = item.stash[_USED_S], float(item.config.getini(LIMIT))
    if is_limited(item) and used_s > limit_s and used_s > limit_s * yardstick_s() / YARDSTICK_S:
        pytest.fail(
            f"{used_s:.1f} s of processor, and a test of the first tier has {limit_s:g}: make it cheaper, or move it "
            "to the tier of what it needs (docs/testing.md)",
            pytrace=False,
        )
    return result
