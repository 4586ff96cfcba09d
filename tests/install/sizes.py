"""What each way to install takes: writes the table of docs/install.md anew.

    python -m tests.install.sizes

Packages are counted without topolog itself; MB are those of the installed files, without bytecode.
"""

import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.install.environments import ROOT, Environment, build, environment

PAGE = ROOT / "docs" / "install.md"
TABLE = re.compile(r"(?<=<!-- sizes -->\n).*?(?=<!-- end of sizes -->)", re.DOTALL)
MB = 1_000_000


class Size(msgspec.Struct, frozen=True):
    """What an installation takes; `names`: its distributions but for topolog."""

    names: frozenset[str]
    megabytes: float


def size(made: Environment) -> Size:
    (folder,) = made.folder.glob("lib/python*/site-packages")
    names = {path.name.split("-")[0] for path in folder.glob("*.dist-info")}
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return Size(frozenset(names - {"pip", "setuptools", "topolog"}), sum(path.stat().st_size for path in files) / MB)


def extras() -> list[str]:
    """The extras that somebody installs who does not work on topolog, in the order of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [extra for extra in project["optional-dependencies"] if extra != "dev"]


def lines() -> Iterator[str]:
    yield "| `pip install` | packages | MB |"
    yield "|---|---|---|"
    for wanted in ["topolog", *(f"topolog[{extra}]" for extra in extras())]:
        with tempfile.TemporaryDirectory() as folder:
            (wheel,) = build(ROOT, Path(folder), "wheel")
            found = size(environment(Path(folder) / "venv", wanted.replace("topolog", str(wheel), 1)))
        yield f"| `{wanted}` | {len(found.names)} | {found.megabytes:.0f} |"


def main() -> None:
    table = "".join(f"{line}\n" for line in lines())
    PAGE.write_text(TABLE.sub(lambda _: table, PAGE.read_text()))
    sys.stdout.write(table)


if __name__ == "__main__":
    main()
