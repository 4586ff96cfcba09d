"""The public names: what `topolog` has, what docs/stability.md says and what the documentation imports agree."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import topolog
from topolog.events import errors as tree

ROOT = Path(__file__).parents[2]
STABILITY = (ROOT / "docs" / "stability.md").read_text()
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
PUBLIC: dict[str, ModuleType] = {module.__name__: module for module in (topolog, topolog.errors, topolog.testing)}
INTERNAL = {"Injected", "RowTooLarge"}
"""Errors that no service and no script meets: of failpoints, and of one record of the read side."""

BASE_INSTALLATION = """
import inspect, sys

sys.modules["prometheus_client"] = None
import topolog
from topolog import *

assert Node is topolog.Node
assert "NodeMetrics" not in dict(inspect.getmembers(topolog))
try:
    topolog.NodeMetrics
except topolog.errors.MissingExtra as error:
    print(error)
try:
    from topolog import NodeMetrics
except topolog.errors.MissingExtra as error:
    print(error)
"""


def public(module: str) -> set[str]:
    """What a module's users may import: what it lists, and of the package also what takes an extra."""
    return {*PUBLIC[module].__all__, *(topolog._EXTRAS if module == "topolog" else ())}


def documented(module: str) -> list[str]:
    """The names in the first column of the table under a module's heading."""
    _, _, section = STABILITY.partition(f"\n### `{module}`\n")
    rows = re.findall(r"^\| (`.*?`) \|", section.partition("\n#")[0], re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def imported(page: Path) -> Iterator[tuple[str, str]]:
    """What the Python of a page imports of ours, as module and name."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "topolog":
                yield from ((node.module or "", alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names if alias.name.startswith("topolog"))


@pytest.mark.parametrize("module", PUBLIC)
def test_the_page_lists_each_public_name_once(module: str) -> None:
    assert sorted(documented(module)) == sorted(public(module))


def test_type_checkers_and_the_interpreter_find_a_name_at_the_same_place() -> None:
    """The imports that type checkers read, the table that `__getattr__` reads and the public names say the same."""
    tree_of_face = ast.parse((ROOT / "src/topolog/__init__.py").read_text())
    (block,) = (
        node
        for node in tree_of_face.body
        if isinstance(node, ast.If) and not node.orelse and node.col_offset == 0 and isinstance(node.test, ast.Name)
    )
    seen = {"__version__": ""}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            link = "." if node.module == "topolog" else ":"
            seen |= {alias.asname or alias.name: f"{node.module}{link}{alias.name}" for alias in node.names}
    assert seen == {**topolog._OBJECTS, "__version__": ""}
    assert sorted(seen) == sorted(public("topolog"))


def test_every_public_name_can_be_had() -> None:
    found = {name: getattr(topolog, name) for name in public("topolog")}
    assert all(value is not None for value in found.values())
    assert set(topolog.__all__) <= set(dir(topolog))
    assert found["__version__"].count(".") == 2


def test_a_base_installation_goes_on_without_the_names_of_an_extra() -> None:
    """A star import and `inspect` do not fail there; whoever asks for the name reads what it takes."""
    done = subprocess.run([sys.executable, "-c", BASE_INSTALLATION], capture_output=True, text=True, check=False)
    needs = r"topolog\.NodeMetrics needs prometheus_client.*, which is not installed\. "
    line = rf"{needs}Install it with: pip install 'topolog\[metrics\]'\n"
    assert re.fullmatch(line * 2, done.stdout), done.stderr


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match="module 'topolog' has no attribute 'Nod'"):
        topolog.Nod  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_of_the_tree_is_public() -> None:
    """Whoever may meet an error must be able to name it."""
    kinds = {name for name, kind in vars(tree).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert kinds - INTERNAL == set(topolog.errors.__all__)


def test_the_documentation_imports_public_names_only() -> None:
    """What a page shows is what services copy."""
    found = {(page.name, module, name) for page in PAGES for module, name in imported(page)}
    assert len(found) > 15
    assert [each for each in found if each[1] not in PUBLIC or each[2] not in public(each[1])] == []
