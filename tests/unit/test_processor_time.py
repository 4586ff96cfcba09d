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
    burn(0.2)


def test_dear(dear):
    pass


def test_quick():
    pass


def test_slow():
    burn(0.2)


def test_child():
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.2: pass"], check=True)
"""


@pytest.mark.parametrize(("folder", "failing"), [("unit", 2), ("smoke", 2), ("broker", 0)])
def test_a_test_of_the_first_tier_that_takes_long_fails(pytester: pytest.Pytester, folder: str, failing: int) -> None:
    """Its own processor time and that of its children counts, a shared fixture's does not; other tiers are free."""
    pytester.makepyfile(**{f"tests/{folder}/test_times": SLOW})
    pytester.makeini("[pytest]\nprocessor_limit_s = 0.1")
    result = pytester.runpytest_inprocess("-p", "tests.processor_time", "--import-mode=importlib")
    result.assert_outcomes(passed=4, errors=failing)
    if failing:
        result.stdout.fnmatch_lines(["*ERROR at teardown of test_slow*", "*ERROR at teardown of test_child*"])
