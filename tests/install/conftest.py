"""Distributions that are built once for these tests, and environments that they are installed into."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.install.environments import ROOT, Environment, build, environment

Installed = Callable[..., Environment]


class Distributions(msgspec.Struct, frozen=True):
    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Wheel and sdist of this tree."""
    sdist, wheel = sorted(build(ROOT, tmp_path_factory.mktemp("dist")), key=lambda path: path.suffix)
    return Distributions(sdist, wheel)


@pytest.fixture(scope="session")
def installed(built: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel with these extras in an environment of its own, which is made once."""
    made: dict[tuple[str, ...], Environment] = {}

    def install(*extras: str) -> Environment:
        if extras not in made:
            wanted = f"{built.wheel}[{','.join(extras)}]" if extras else str(built.wheel)
            made[extras] = environment(tmp_path_factory.mktemp("environment") / "venv", wanted)
        return made[extras]

    return install
