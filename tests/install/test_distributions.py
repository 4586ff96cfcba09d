"""A wheel holds the package: each file that git has, once, at its place, and nothing else."""

import email
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.install.conftest import Distributions
from tests.install.environments import ROOT, build

SOURCES = ("events", "projections", "schemas", "streams", "src/topolog")


def packaged(source: Path, tracked: Iterable[str]) -> list[str]:
    """Where the files that git tracks stand in a wheel; the links to the top-level folders are none."""
    files = (path for path in tracked if not (source / path).is_symlink())
    return [path.removeprefix("src/") if path.startswith("src/") else f"topolog/{path}" for path in files]


def contents(wheel: Path) -> list[tuple[str, int]]:
    """Each file of a wheel with its check sum, but for what describes the distribution."""
    with zipfile.ZipFile(wheel) as archive:
        return [(each.filename, each.CRC) for each in archive.infolist() if ".dist-info/" not in each.filename]


def differences(expected: Iterable[str], found: Iterable[str]) -> list[str]:
    """What a wheel lacks, has twice, or has and should not have."""
    wanted, counted = set(expected), Counter(found)
    lacking = [f"lacks {name}" for name in sorted(wanted - set(counted))]
    beyond = [f"has {name}, which git does not" for name in sorted(set(counted) - wanted)]
    return lacking + beyond + [f"has {name} {count} times" for name, count in counted.items() if count > 1]


def names(wheel: Path) -> list[str]:
    return [name for name, _ in contents(wheel)]


@pytest.fixture(scope="module")
def expected() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *SOURCES]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return packaged(ROOT, (path for path in tracked if (ROOT / path).exists()))


@pytest.fixture
def unpacked(built: Distributions, tmp_path: Path) -> Path:
    """The sdist's tree."""
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    return tree


def test_the_wheel_has_each_file_once(built: Distributions, expected: list[str]) -> None:
    """A file that is not packed is missed by whoever installs, and by nobody who works in a clone."""
    assert differences(expected, names(built.wheel)) == []


def test_the_wheel_of_the_sdist_is_the_same(built: Distributions, unpacked: Path, tmp_path: Path) -> None:
    """Distributors build from the sdist, in which the four folders stand where the links are here."""
    (wheel,) = build(unpacked, tmp_path / "dist", "wheel")
    assert sorted(contents(wheel)) == sorted(contents(built.wheel))


def test_the_image_installs_the_same_package(built: Distributions, tmp_path: Path) -> None:
    """docker/Dockerfile installs from what .dockerignore lets through, in which the links are links as well."""
    context = tmp_path / "context"
    for path in re.findall(r"^!(\w[\w.]*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE):
        source = ROOT / path
        if source.is_dir():
            shutil.copytree(source, context / path, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, context)
    (wheel,) = build(context, tmp_path / "dist", "wheel")
    assert sorted(contents(wheel)) == sorted(contents(built.wheel))


def test_a_wheel_that_lacks_a_file_is_noticed_by_its_name(unpacked: Path, expected: list[str], tmp_path: Path) -> None:
    (unpacked / "src/topolog/errors.py").unlink()
    (unpacked / "src/topolog/left_behind.py").touch()
    (wheel,) = build(unpacked, tmp_path / "dist", "wheel")
    assert differences(expected, names(wheel)) == [
        "lacks topolog/errors.py",
        "has topolog/left_behind.py, which git does not",
    ]


def test_the_wheel_describes_itself(built: Distributions) -> None:
    """What a package index shows: the README."""
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        described = email.message_from_bytes(archive.read(name))
    assert described["Description-Content-Type"] == "text/markdown"
    assert described.get_payload(decode=True).decode().strip() == (ROOT / "README.md").read_text().strip()  # type: ignore[union-attr]  # bytes with decode=True
