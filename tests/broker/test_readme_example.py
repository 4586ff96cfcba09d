"""The README's Python example, run as it stands against a real broker."""

import re
from pathlib import Path

import pytest
from tests.broker.conftest import Site

README = Path(__file__).parents[2] / "README.md"


def test_the_example_of_the_readme_runs(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """It agrees on a type, meets a conflict with both sides, and reads under its lease."""
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    site.coordinator("c1")
    code = example.replace("127.0.0.1:19092", site.bootstrap).replace('"demo"', repr(site.cluster))
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "'current': 'decimal'" in printed
    assert "'proposed': 'String'" in printed
    assert "version=1" in printed
    assert "retry" not in printed
