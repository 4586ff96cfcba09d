"""The table of seeded defects cannot rot: what it changes is there, and so is what it runs.

`python -m tests.defects` makes each of them and runs its test.
"""

from pathlib import Path

import pytest
from tests.defects import DEFECTS, ROOT, Defect, Unfit, row, seed

BY_NAME = pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)


@BY_NAME
def test_what_a_defect_changes_stands_once_in_its_file(defect: Defect, tmp_path: Path) -> None:
    """Who changes that line changes the table with it; the defective file is still Python."""
    copy = tmp_path / defect.file
    copy.parent.mkdir(parents=True)
    copy.write_bytes((ROOT / defect.file).read_bytes())
    seed(defect, tmp_path)
    text = copy.read_text(encoding="utf-8")
    assert defect.wrong in text
    compile(text, defect.file, "exec")


@BY_NAME
def test_the_test_that_catches_a_defect_is_there(defect: Defect) -> None:
    file, _, test = defect.caught_by.partition("::")
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")
    assert (ROOT / "tests" / defect.tier).is_dir()


def test_the_page_shows_each_defect_with_its_tier_and_the_test_that_catches_it() -> None:
    """docs/testing.md has the table as it is printed; a defect that is added or moved is shown."""
    _, _, section = (ROOT / "docs/testing.md").read_text(encoding="utf-8").partition("\n## In which tier")
    assert [line for line in section.splitlines() if line.startswith("| ")][1:] == [row(defect) for defect in DEFECTS]


def test_each_defect_has_a_name_of_its_own() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS)


@pytest.mark.parametrize("text", ["", "right, and right again"])
def test_what_does_not_stand_once_cannot_be_seeded(text: str, tmp_path: Path) -> None:
    """Else a table that fits no more would tell of defects that nobody has made."""
    (tmp_path / "code.py").write_text(text)
    with pytest.raises(Unfit, match=r"code\.py"):
        seed(Defect("A defect", "code.py", "right", "wrong", "tests/unit/test_defects.py::test"), tmp_path)
    assert (tmp_path / "code.py").read_text() == text
