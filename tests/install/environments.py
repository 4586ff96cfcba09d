"""What is installed, as a user does it: distributions built from the tree, and environments outside of it.

With uv where it is on the PATH, else with what every Python brings: venv and pip. Packages come from the index that
this machine's pip asks.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
LIMIT_S = 600


class Failed(RuntimeError):
    """A command ended with another code than 0; the text is what it said."""


class Environment(msgspec.Struct, frozen=True):
    """A virtual environment in a folder of its own."""

    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def run(self, *command: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
        """What a command of this environment prints and ends with, in an empty home and outside of the repository."""
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=cwd or self.folder,
            env=self._environ(cwd, environ),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def start(self, *command: str, cwd: Path | None = None, **environ: str) -> "subprocess.Popen[str]":
        """The same, left running in a process group of its own; its output is there to be read."""
        return subprocess.Popen(
            [str(self.bin / command[0]), *command[1:]],
            cwd=cwd or self.folder,
            env=self._environ(cwd, environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def _environ(self, cwd: Path | None, more: Mapping[str, str]) -> dict[str, str]:
        own = {"HOME": str(cwd or self.folder), "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}
        return clean_environ() | own | dict(more)

    def resolve(self, *requirements: str) -> None:
        """Raise Failed unless there are versions of all that is needed that go together; nothing is installed."""
        if uv := shutil.which("uv"):
            run([uv, "pip", "install", "--quiet", "--dry-run", "--python", str(self.bin / "python"), *requirements])
        else:
            command = [str(self.bin / "python"), "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
            run([*command, *requirements])

    def versions(self, names: Iterable[str]) -> list[str]:
        """The version of each distribution, as «name version»."""
        code = "import sys, importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep='\\n')"
        return self.run("python", "-c", code, *names).stdout.splitlines()


def clean_environ(**more: str) -> dict[str, str]:
    """The environment without what belongs to the process that runs the tests."""
    ours = ("TOPOLOG_", "PYTHON", "VIRTUAL_ENV", "COVERAGE")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | more


def build(source: Path, folder: Path, *targets: str) -> list[Path]:
    """Build wheel and sdist of a source tree, or those that `targets` name, with the backend that is installed here."""
    asked = [word for target in targets for word in ("-t", target)]
    before = set(folder.glob("*"))
    run([sys.executable, "-m", "hatchling", "build", "-d", str(folder), *asked], cwd=source)
    return sorted(set(folder.glob("*")) - before)


def environment(folder: Path, *requirements: str, constraints: Path | None = None) -> Environment:
    """A new environment with these installed, as with `pip install`."""
    narrowed = [] if constraints is None else ["--constraint", str(constraints)]
    if uv := shutil.which("uv"):
        run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)])
        run([uv, "pip", "install", "--quiet", "--python", str(folder / "bin/python"), *requirements, *narrowed])
    else:
        run([sys.executable, "-m", "venv", str(folder)])
        run([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", *requirements, *narrowed])
    return Environment(folder)


def run(command: Sequence[str], *, cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> str:
    """What the command prints; raises Failed."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=clean_environ() | dict(environ or {}),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
