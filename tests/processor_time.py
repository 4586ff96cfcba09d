"""Tests of the first tier are quick, each of them: one that takes more processor than `processor_limit_s` fails.

Counted is what the test's process and the children that it has waited for used in its own set-up, call and teardown.
What a shared fixture costs is not the test's that happens to come first, and at the end of a run, when shared fixtures
are closed, nothing is counted. Wall time would fail tests on a busy machine.
"""

import resource
from collections.abc import Generator

import pytest

LIMIT = "processor_limit_s"
FIRST_TIER = ("unit", "smoke")
_SHARED_S = pytest.StashKey[float]()
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


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Remember what shared fixtures cost: no test pays for them."""
    began_s = processor_s()
    try:
        return (yield)
    finally:
        if request.scope != "function":
            stash = request.config.stash
            stash[_SHARED_S] = stash.get(_SHARED_S, 0.0) + processor_s() - began_s


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    began_s, shared_s = processor_s(), item.config.stash.get(_SHARED_S, 0.0)
    try:
        return (yield)
    finally:
        item.stash[_USED_S] = processor_s() - began_s - item.config.stash.get(_SHARED_S, 0.0) + shared_s


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    began_s = processor_s()
    try:
        return (yield)
    finally:
        item.stash[_USED_S] += processor_s() - began_s


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    began_s = processor_s()
    result = yield
    used_s = item.stash.get(_USED_S, 0.0)
    if nextitem is not None and nextitem.path == item.path:
        used_s += processor_s() - began_s
    limit_s = float(item.config.getini(LIMIT))
    if is_limited(item) and used_s > limit_s:
        pytest.fail(
            f"{used_s:.1f} s of processor, and a test of the first tier has {limit_s:g}: make it cheaper, or move it "
            "to the tier of what it needs (docs/testing.md)",
            pytrace=False,
        )
    return result
