"""What differs is mended from the log, never from another store, alone, and even if the mending is killed."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.conftest import MakeProjector
from tests.unit.projections.self_check.conftest import (
    Checker,
    MakeChecker,
    contents,
    damage_tables,
    flipped,
    project,
    write,
)
from tests.unit.projections.self_check.mending import damaged, history

from topolog.events.errors import BadInput
from topolog.events.ids import Position
from topolog.events.topics import Topic
from topolog.projections import layout
from topolog.projections.generations import move_aside
from topolog.projections.projector import Projector
from topolog.projections.self_check import checking
from topolog.projections.self_check.findings import Family, What
from topolog.projections.self_check.opened import Holding, store_path
from topolog.projections.self_check.verdict import State
from topolog.projections.sides import FindingsBodyRow, FindingsRow, HealthRow, LetterRow

ROOT = Path(__file__).parents[4]
NODE = layout.row_key(("node", "n1"))


def test_what_was_found_is_mended_and_compared_again(checker: Checker, folder: Path) -> None:
    """A changed, a lost, an extra and an undecodable row, in rows and in the past."""
    whole = contents(folder)
    history_key = next(key for key in sorted(whole) if key.startswith(b"hnode"))
    write(
        folder,
        {
            NODE: flipped(whole[NODE], 77),
            layout.row_key(("node", "n3")): None,
            history_key: b"\xc1",
            layout.decision_key(Position(3)): None,
            b"zz": b"extra",
        },
    )
    found = checker.check(folder)
    mended = checker.mend(folder)
    assert (found.state, mended.state) == (State.DIFFERENT, State.MENDED)
    assert mended.findings == found.findings
    assert (mended.differences, mended.digest) == (5, checker.check(folder).digest)
    assert contents(folder) == whole


def test_an_equal_store_is_left_as_it_is(checker: Checker, folder: Path) -> None:
    assert checker.mend(folder).state is State.EQUAL


def test_the_projector_goes_on_from_a_mended_store(
    chronicle: Chronicle, checker: Checker, folder: Path, tmp_path: Path
) -> None:
    """It does not build it anew, and ends where one ends that was never damaged."""
    write(folder, {NODE: None, layout.META_KEY: b"\xc1"})
    assert checker.mend(folder).state is State.MENDED
    chronicle.join("m1")
    project(chronicle, folder)
    assert not list(folder.glob("*.damaged"))
    assert contents(folder) == contents(project(chronicle, tmp_path / "fresh"))


def test_a_store_whose_projector_runs_is_refused(
    checker: Checker, make_projector: MakeProjector, tmp_path: Path
) -> None:
    """One writer per folder; a check is welcome meanwhile."""
    projector = make_projector()
    projector.step()
    with pytest.raises(BadInput, match="Another process uses the store"):
        checker.mend(tmp_path / "store")
    assert checker.check(tmp_path / "store").state is State.EQUAL
    assert projector.stopped is None


def test_it_is_the_log_that_is_right_and_not_the_majority(
    chronicle: Chronicle, checker: Checker, folder: Path, tmp_path: Path
) -> None:
    """Two stores with the same fault are both mended, the third one stays."""
    wrong = flipped(contents(folder)[NODE], 77)
    others = [project(chronicle, tmp_path / name) for name in ("two", "three")]
    for each in others:
        write(each, {NODE: wrong})
    assert [checker.mend(each).state for each in (folder, *others)] == [State.EQUAL, State.MENDED, State.MENDED]
    assert contents(others[0]) == contents(others[1]) == contents(folder)


@pytest.mark.parametrize("lost", [None, "CURRENT", "*.sst", "MANIFEST-*"])
def test_a_store_that_cannot_be_read_is_replaced_by_a_rebuild(
    chronicle: Chronicle, checker: Checker, folder: Path, lost: str | None
) -> None:
    """It is kept for who looks into it; the projector goes on from the rebuild."""
    before = store_path(folder)
    if lost is None:
        damage_tables(folder)
    else:
        next(before.glob(lost)).unlink()
    assert checker.check(folder).state is State.UNREADABLE
    verdict = checker.mend(folder)
    assert (verdict.state, verdict.position) == (State.REBUILT, chronicle.position)
    assert before.with_name(f"{before.name}.damaged").is_dir()
    assert checker.check(folder).state is State.EQUAL
    projector = Projector(chronicle.log.reader(), folder, "main")
    assert projector.meta.position == chronicle.position
    projector.close()


def test_one_that_was_set_aside_and_not_replaced_is_replaced(
    chronicle: Chronicle, checker: Checker, folder: Path
) -> None:
    """Killed between the two; there is nothing to check then, and something to mend."""
    move_aside(store_path(folder))
    with pytest.raises(BadInput, match="holds no store"):
        checker.check(folder)
    assert checker.mend(folder).state is State.REBUILT
    verdict = checker.check(folder)
    assert (verdict.state, verdict.position) == (State.EQUAL, chronicle.position)


def test_of_a_copy_the_header_comes_last(checker: Checker, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before that, it says nowhere that it is whole."""
    written: list[set[bytes]] = []

    class Recorded(Holding):
        def write(self, values: Mapping[bytes, bytes | None]) -> None:
            written.append(set(values))
            super().write(values)

    monkeypatch.setattr(checking, "Holding", Recorded)
    monkeypatch.setattr(checking, "BATCH_ROWS", 50)
    move_aside(store_path(folder))
    assert checker.mend(folder).state is State.REBUILT
    assert len(written) > 3
    assert [layout.META_KEY in each for each in written] == [*[False] * (len(written) - 1), True]


def test_a_copy_that_was_not_finished_is_mended(checker: Checker, folder: Path) -> None:
    """What a kill leaves of a rebuild that was put in place: some rows, and no header."""
    whole = contents(folder)
    write(folder, {**dict.fromkeys(sorted(whole)[200:]), layout.META_KEY: None})
    mended = checker.mend(folder)
    assert mended.state is State.MENDED
    assert checker.check(folder).state is State.EQUAL


@pytest.mark.parametrize("writes", [1, 2, 9, 60])
def test_killed_while_it_mends_it_goes_on(writes: int, tmp_path: Path, make_checker: MakeChecker) -> None:
    """kill -9 between two writes: the next run finds less, at the same position, and mends it."""
    chronicle = history()
    folder = project(chronicle, tmp_path / "store")
    whole = contents(folder)
    wrong = damaged(whole)
    write(folder, wrong)
    mending = "tests.unit.projections.self_check.mending"
    command = [sys.executable, "-m", mending, str(folder), str(tmp_path / "scratch"), str(writes)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    verdict = make_checker(chronicle).mend(folder)
    assert verdict.position == chronicle.position
    assert verdict.differences == len(wrong) - writes
    assert (verdict.state, contents(folder)) == (State.MENDED, whole)


def test_a_side_row_that_does_not_decode_goes_and_its_topic_is_read_anew(
    chronicle: Chronicle, checker: Checker, tmp_path: Path
) -> None:
    """Lease health and dead letters are not in the log of decisions: what the topic still has comes back."""
    chronicle.log.put(Topic.DEAD, "k", b"a letter")
    chronicle.log.put(Topic.DEAD, "k", b"another")
    folder = project(chronicle, tmp_path / "store")
    whole = contents(folder)
    letter = next(key for key in sorted(whole) if key.startswith(b"xletter\0"))
    write(folder, {letter: b"\xc1", b"xno-such-kind\0a": b"\x90"})
    found = checker.check(folder)
    assert [(each.what, each.place.family, each.place.kind) for each in found.findings] == [
        (What.UNDECODABLE, Family.SIDE, LetterRow.KIND),
        (What.EXTRA, Family.SIDE, "no-such-kind"),
    ]
    assert checker.mend(folder).state is State.MENDED
    assert letter not in contents(folder)
    project(chronicle, folder)
    assert contents(folder) == whole


def test_findings_that_decode_are_left_alone(chronicle: Chronicle, checker: Checker, tmp_path: Path) -> None:
    """What a session of anti-entropy has found differs from nothing that a rebuild would have."""
    folder = project(chronicle, tmp_path / "store")
    rows = (FindingsRow(1, 0, 3, 0, is_last=True, digest=bytes(32), rows=0, kept=0, appended_ms=5), FindingsBodyRow(()))
    write(folder, {layout.side_key((row.KIND, "1")): layout.encode(row) for row in rows})
    assert checker.check(folder).state is State.EQUAL


def test_an_offset_that_is_no_number_goes(chronicle: Chronicle, checker: Checker, tmp_path: Path) -> None:
    """Then its partition is read from the oldest record kept. Health that decodes is not touched."""
    chronicle.log.put(Topic.DEAD, "k", b"a letter")
    folder = project(chronicle, tmp_path / "store")
    whole = contents(folder)
    (offset,) = (key for key in whole if key[:1] == b"y")
    write(folder, {offset: b"\xb2", layout.side_key((HealthRow.KIND, "n1")): b"\xc1"})
    assert [each.place.family for each in checker.mend(folder).findings] == [Family.SIDE, Family.SIDE_OFFSET]
    project(chronicle, folder)
    assert contents(folder) == whole
