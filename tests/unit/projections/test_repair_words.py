"""What people are told of codes: each that ends a session has something that helps, in `explain` and in docs."""

import re
from collections.abc import Iterator
from pathlib import Path

from topolog.events.errors import RowTooLarge
from topolog.projections.explain_words import REMEDIES

ROOT = Path(__file__).parents[3]
NEVER_AN_END = {"FENCED", "STALLED", "SCHEMA"}
"""Nobody asks any more; told as TREE_TIMEOUT and its like; told as SCHEMA_MISMATCH."""


def _sources() -> Iterator[str]:
    for folder in ("streams/validator", "streams/rules", "projections/spark"):
        yield from (path.read_text() for path in sorted((ROOT / folder).rglob("*.py")))


def test_every_code_that_a_task_can_fail_with_has_a_remedy() -> None:
    raised = {code for text in _sources() for code in re.findall(r'(?:ReplicaFailed|\.failed)\(\s*"([A-Z_]+)"', text)}
    assert {"PAGES_DAMAGED", "PAGES_MISSING", "FAILED", "CORRUPT"} <= raised
    assert (raised | {RowTooLarge.code.upper()}) - NEVER_AN_END - set(REMEDIES) == set()


def test_what_helps_stands_in_the_docs_too() -> None:
    table = (ROOT / "docs/repair.md").read_text().partition("| CODE | what helps")[2].partition("\n## ")[0]
    told = {
        code
        for line in table.splitlines()
        for code in re.findall(r"[A-Z_]{2,}", line.split("|")[1] if "|" in line[1:] else "")
    }
    assert set(REMEDIES) - told == set()
