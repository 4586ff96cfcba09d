"""`topolog verify projections`: what it prints in each format, and how it ends. With a broker: tests/broker."""

import csv
import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
import yaml
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import contents, project, write

from topolog.commands.tree import root
from topolog.projections import layout
from topolog.projections.cli import app as cli
from topolog.projections.cli.options import Format

NODE = layout.row_key(("node", "n1"))

Verify = Callable[..., tuple[int, str, str]]


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    """Runs the command; its exit code, stdout and stderr."""

    def run(*args: str) -> tuple[int, str, str]:
        code = cli.run(root, ["verify", "projections", *args])
        written = capsys.readouterr()
        return code, written.out, written.err

    return run


@pytest.fixture
def other(chronicle: Chronicle, folder: Path, tmp_path: Path) -> Path:
    """A second store, which differs in one field of one row."""
    other = project(chronicle, tmp_path / "other")
    write(other, {NODE: contents(other)[NODE].replace(b"n1:7000", b"n1:7002")})
    return other


def test_what_differs_is_shown_to_people(verify: Verify, folder: Path, other: Path) -> None:
    """Which store, which row, which field; exit code 8."""
    code, out, _ = verify("--no-log", "--data", str(folder), "--data", str(other))
    assert code == 8
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["STATE", "FOLDER", "POSITION", "BEHIND", "ROWS", "DIFFERENCES"]
    assert [line[:2] for line in lines[1:3]] == [["DIFFERENT", str(folder)], ["DIFFERENT", str(other)]]
    assert ["CHANGED", "row", "node/n1", "endpoint", "n1:7000", "n1:7002"] in lines


@pytest.mark.parametrize("output", [each for each in Format if not each.is_for_people and each is not Format.SCHEMA])
def test_what_differs_is_told_to_programs(verify: Verify, folder: Path, other: Path, output: Format) -> None:
    """Every format is whole and nothing else is on stdout."""
    code, out, _ = verify("--no-log", "--data", str(folder), "--data", str(other), "-o", output.value)
    assert code == 8
    match output:
        case Format.NAME:
            assert out.splitlines() == [str(folder), str(other)]
        case Format.CSV:
            rows = list(csv.DictReader(StringIO(out)))
            assert [(each["state"], each["folder"], each["differences"]) for each in rows] == [
                ("DIFFERENT", str(folder), "0"),
                ("DIFFERENT", str(other), "1"),
            ]
        case _:
            items = [json.loads(line) for line in out.splitlines()] if output is Format.JSONL else yaml.safe_load(out)
            found = (items if isinstance(items, list) else items["items"])[1]["findings"]
            assert [(each["name"], each["what"]) for each in found] == [("row node/n1", "CHANGED")]
            assert found[0]["differences"] == [{"field": "endpoint", "expected": "n1:7000", "found": "n1:7002"}]


def test_many_differences_do_not_flood_the_terminal(verify: Verify, folder: Path, other: Path) -> None:
    """The table shows the first of them and says that there are more."""
    rows = sorted(contents(other))
    write(other, dict.fromkeys(rows[:60]))
    code, out, _ = verify("--no-log", "--data", str(folder), "--data", str(other))
    assert (code, len([line for line in out.splitlines() if line.startswith("LOST")])) == (8, 20)
    assert "61 rows that differ; -o json tells more" in out


def test_equal_stores_end_with_0(verify: Verify, chronicle: Chronicle, folder: Path, tmp_path: Path) -> None:
    """One that is named twice is one."""
    same = project(chronicle, tmp_path / "same")
    code, out, err = verify("--no-log", *(f"--data={each}" for each in (folder, same, folder)))
    assert (code, err) == (0, "")
    assert out.count("EQUAL") == 2


def test_a_store_of_another_log_ends_with_1(verify: Verify, folder: Path, tmp_path: Path) -> None:
    strange = project(Chronicle(log_id=bytes(16)).start(), tmp_path / "strange")
    code, out, _ = verify("--no-log", "--data", str(folder), "--data", str(strange))
    assert (code, "another log" in out) == (1, True)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--no-log"], "Name two or more"),
        (["--no-log", "--data", "a", "--data", "b", "--mend"], "nobody knows which store is right"),
        (["--no-log", "--data", "a", "--data", "b"], "holds no store"),
        (["--data", "a"], "holds no store"),
        (["-o", "xml"], "xml"),
    ],
)
def test_what_cannot_be_done_ends_with_2(
    verify: Verify, args: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is asked of a broker."""
    monkeypatch.chdir(tmp_path)
    code, out, err = verify(*args)
    assert (code, out) == (2, "")
    assert complaint in err
    assert list(tmp_path.iterdir()) == []
