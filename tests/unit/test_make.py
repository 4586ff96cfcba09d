"""What pages, comments and scripts tell somebody to make can be made: each target that is named has a rule."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`make ([a-z-]+)|^step make ([a-z-]+)|^make ([a-z-]+)(?=  +#| [A-Z]+=|$)", re.MULTILINE)
FOLDERS = ("docs", "docker", "events", "projections", "schemas", "src", "streams", "tests", ".ci")
TIERS = ("test", "test-broker", "test-spark", "test-long")


def targets(makefile: str) -> set[str]:
    """Those that have a rule."""
    return set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.MULTILINE))


def named(text: str) -> set[str]:
    """The targets that a text tells its reader to make."""
    return {name for match in NAMED.findall(text) for name in match if name}


def test_every_target_that_is_named_has_a_rule() -> None:
    """`make` says «Nothing to be done» of one that is phony and has none, and ends with 0."""
    texts = [
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".yaml", "")
    ]
    pages = [ROOT / name for name in ("README.md", "CHANGELOG.md", "pyproject.toml", "Makefile")]
    read = {path: named(path.read_text()) for path in (*texts, *pages) if path.is_file()}
    makefile = (ROOT / "Makefile").read_text()
    phony = re.findall(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)[0].split()
    assert set().union(*read.values()) >= {"up", "test", "test-long", "check-ranges", "openapi"}
    assert {str(path): names - targets(makefile) for path, names in read.items() if names - targets(makefile)} == {}
    assert sorted(phony) == sorted(targets(makefile))


def test_a_target_without_a_rule_would_be_seen() -> None:
    makefile = ".PHONY: up again\nup: ready ## Start\n\t@echo up\nN := 3\nREADY ?= x\n"
    assert targets(makefile) == {"up"}
    assert named("`make again N=3`, or\nmake it run\nmake up ARGS=--demo\nstep make check\n") == {
        "again",
        "up",
        "check",
    }


@pytest.mark.parametrize("tier", TIERS)
def test_each_tier_ends_with_its_twenty_slowest_tests(tier: str) -> None:
    done = subprocess.run(["make", "-n", tier], cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stdout.splitlines() if "bin/pytest " in line]
    assert "--durations=20" in line
