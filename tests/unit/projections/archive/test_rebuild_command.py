"""`topolog spark rebuild` without a broker and without Spark: what it says, where it puts it, how it ends."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.projections.archive.landed import in_landings
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import contents, project, write
from tests.unit.projections.test_projector import eventful

from topolog.commands.tree import root
from topolog.projections import layout
from topolog.projections.cli import app as cli
from topolog.projections.cli.options import Format
from topolog.projections.generations import generation_path

NODE = layout.row_key(("node", "n1"))
UNREACHABLE = "kafka.bootstrap.servers=127.0.0.1:1"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command; its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> tuple[int, str, str]:
        code = cli.run(root, ["spark", "rebuild", *args])
        written = capsys.readouterr()
        return code, written.out, written.err

    return run


@pytest.fixture
def chronicle() -> Chronicle:
    return eventful(Chronicle("shop").start())


@pytest.fixture
def archive(chronicle: Chronicle, tmp_path: Path) -> str:
    return str(in_landings(tmp_path / "archive", "shop", chronicle.entries, (5,)))


def test_the_schema_of_what_is_told_is_told_without_a_rebuild(run: Run, archive: str, tmp_path: Path) -> None:
    code, out, err = run("--from", archive, "--archive-only", "--to", str(tmp_path / "to"), "-o", "schema")
    assert (code, err) == (0, "")
    assert json.loads(out)["title"] == "Outcome"
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("output", [each for each in Format if not each.is_for_people and each is not Format.SCHEMA])
def test_what_was_rebuilt_is_told_to_programs(
    run: Run, chronicle: Chronicle, archive: str, tmp_path: Path, output: Format
) -> None:
    """The cluster is the archive's, if none is named; every format is whole and alone on stdout."""
    code, out, err = run("--from", archive, "--archive-only", "--to", str(tmp_path / "to"), "-o", output.value)
    assert (code, err) == (0, "")
    assert "shop" in out
    if output is Format.JSON:
        (item,) = json.loads(out)["items"]
        assert (item["standing"], item["position"]) == ("PUT", chronicle.position)
        assert item["state_hash"] == chronicle.fold.state.hash().hex()
    assert generation_path(tmp_path / "to").is_dir()


def test_a_store_that_differs_is_shown_and_ends_with_8(
    run: Run, chronicle: Chronicle, archive: str, tmp_path: Path
) -> None:
    """Row by row, as `verify projections` does; nothing is put with --only-check."""
    live = project(chronicle, tmp_path / "live")
    write(live, {NODE: contents(live)[NODE].replace(b"n1:7000", b"n1:7002")})
    code, out, _ = run("--from", archive, "--archive-only", "--to", str(live), "--only-check")
    assert code == 8
    lines = [line.split() for line in out.splitlines()]
    assert lines[1][:3] == ["shop", "COMPARED", str(chronicle.position)]
    assert lines[1][-1] == "DIFFERENT"
    assert ["CHANGED", "row", "node/n1", "endpoint", "n1:7000", "n1:7002"] in lines
    code, out, _ = run("--from", archive, "--archive-only", "--to", str(live), "--check", "--wait", "10ms")
    assert (code, "OFFERED" in out) == (8, True)


def test_an_offer_that_nobody_takes_in_time_ends_with_7(
    run: Run, chronicle: Chronicle, archive: str, tmp_path: Path
) -> None:
    live = project(chronicle, tmp_path / "live")
    assert run("--from", archive, "--archive-only", "--to", str(live))[0] == 0
    assert run("--from", archive, "--archive-only", "--to", str(live), "--wait", "10ms")[0] == 7


def test_without_a_broker_it_ends_where_the_archive_does(
    run: Run, chronicle: Chronicle, archive: str, tmp_path: Path
) -> None:
    code, out, err = run("--from", archive, "--to", str(tmp_path / "to"), "--set", UNREACHABLE, "-o", "json")
    assert code == 0
    assert json.loads(out)["items"][0]["position"] == chronicle.position
    assert "The rebuild ends where the archive does." in err


def test_an_archive_that_is_not_whole_ends_with_1(run: Run, archive: str, tmp_path: Path) -> None:
    for path in Path(archive).glob("records/*/*/*.parquet"):
        path.unlink()
    code, out, err = run("--from", archive, "--archive-only", "--to", str(tmp_path / "to"))
    assert (code, out) == (1, "")
    assert "lacks 2 files of decisions, of 2027-01-15" in err
    assert not list((tmp_path / "to").glob("rows-*"))


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ([], "Name an archive, or the topic"),
        (["--from", "a", "--from-topic"], "Name an archive, or the topic"),
        (["--from-topic", "--all"], "reads no archive"),
        (["--from", "a", "--archive-only"], "is no archive"),
        (["--from", "a", "--archive-only", "--all"], "There is no archive in"),
        (["--from", "archive", "--archive-only", "--set", "cluster.name=other"], "of cluster 'shop', not of 'other'"),
        (["--from", "archive", "--archive-only", "--check", "--to", "none"], "holds no store"),
        (["--from", "archive", "--wait", "soon"], "--wait"),
    ],
)
@pytest.mark.usefixtures("archive")
def test_what_cannot_be_done_ends_with_2(run: Run, args: list[str], complaint: str, tmp_path: Path) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert complaint in err
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


def test_one_cluster_needs_no_spark(run: Run, archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold of one log gains nothing from it, and a JVM takes seconds to start."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert run("--from", archive, "--archive-only", "--to", str(tmp_path / "to"))[0] == 0
