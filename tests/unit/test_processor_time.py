"""The first tier stays quick because a slow test in it fails."""

import pytest

SLOW = """
import subprocess, sys, time

import pytest


def burn(seconds):
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


@pytest.fixture(scope="module")
def dear():
    burn(0.06)


def test_dear(dear):
    pass


def test_quick():
    pass


def test_slow():
    burn(0.12)


def test_child():
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.12: pass"], check=True)
"""

SHARED = """
import time

import pytest


def burn(seconds):
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


@pytest.fixture(scope="module")
def inner():
    burn(0.06)


@pytest.fixture(scope="module")
def outer(request):
    request.getfixturevalue("inner")


@pytest.fixture(scope="module")
def late():
    burn(0.06)
    yield
    burn(0.06)


@pytest.fixture
def untidy():
    yield
    burn(0.12)


def test_hides_behind_what_it_shares(outer):
    burn(0.12)


def test_asks_late(request):
    request.getfixturevalue("late")


def test_last(untidy):
    pass
"""

CLOSING = """
import time

import pytest


@pytest.fixture(scope="module", params=[1, 2])
def closing(request):
    yield
    began = time.process_time()
    while time.process_time() - began < 0.06:
        pass


def test_closing(closing):
    pass
"""


@pytest.mark.parametrize(("folder", "failing"), [("unit", 2), ("smoke", 2), ("broker", 0)])
def test_a_test_of_the_first_tier_that_takes_long_fails(pytester: pytest.Pytester, folder: str, failing: int) -> None:
    """Its own processor time and that of its children counts, a shared fixture's does not; other tiers are free."""
    pytester.makepyfile(**{f"tests/{folder}/test_times": SLOW})
    pytester.makeini("[pytest]\nprocessor_limit_s = 0.05")
    result = pytester.runpytest_inprocess("-p", "tests.processor_time", "--import-mode=importlib")
    result.assert_outcomes(passed=4, errors=failing)
    if failing:
        result.stdout.fnmatch_lines(["*ERROR at teardown of test_slow*", "*ERROR at teardown of test_child*"])


def test_a_shared_fixture_costs_no_test_anything_and_hides_nothing(pytester: pytest.Pytester) -> None:
    """Made by another one, asked for in the call, closed with the last test: it is subtracted, and once."""
    pytester.makepyfile(**{"tests/unit/test_shared": SHARED, "tests/unit/test_closing": CLOSING})
    pytester.makeini("[pytest]\nprocessor_limit_s = 0.05")
    result = pytester.runpytest_inprocess("-p", "tests.processor_time", "--import-mode=importlib")
    result.assert_outcomes(passed=5, errors=2)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_hides*", "*ERROR at teardown of test_last*"])


ONCE = """
import time

runs = []


def test_slow_once():
    runs.append(1)
    began = time.process_time()
    while len(runs) == 1 and time.process_time() - began < 0.12:
        pass


def test_fails_and_is_slow():
    began = time.process_time()
    while time.process_time() - began < 0.12:
        pass
    runs.append(1)
    assert len(runs) > 3
"""


def test_the_least_of_three_runs_counts(pytester: pytest.Pytester) -> None:
    """A machine's noise only adds. A test that fails does not run again: it would hide that it fails now and then."""
    pytester.makepyfile(**{"tests/unit/test_once": ONCE})
    pytester.makeini("[pytest]\nprocessor_limit_s = 0.05")
    result = pytester.runpytest_inprocess("-p", "tests.processor_time", "--import-mode=importlib")
    result.assert_outcomes(passed=1, failed=1)
