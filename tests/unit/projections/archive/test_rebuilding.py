"""A store rebuilt from an archive is the projector's own, byte for byte, and put where one looks for it (RD31)."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.projections.archive.landed import in_landings, land
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import contents, project, write
from tests.unit.projections.sharing import shared_out
from tests.unit.projections.test_projector import eventful

from topolog.events.errors import BadInput, LogDiverged, Poisoned, TopologError
from topolog.events.log import LogReader
from topolog.events.topics import Topic
from topolog.projections import layout
from topolog.projections.archive.holes import ArchiveIncomplete
from topolog.projections.archive.landings import DamagedArchive
from topolog.projections.archive.rebuilding import Outcome, Standing, Task, archives, rebuild_store
from topolog.projections.generations import generation_path, is_pending, rebuilding
from topolog.projections.projector import Projector
from topolog.projections.self_check.verdict import State
from topolog.streams.simulation import Faults
from topolog.streams.simulation.run import _Run, drawn

ROOT = Path(__file__).parents[4]
NODE = layout.row_key(("node", "n1"))


def rebuild(task: Task) -> Outcome:
    return rebuild_store(task, time.monotonic, lambda _: None)


def of_log(folder: Path) -> dict[bytes, bytes]:
    """Every key and value that follows from decisions."""
    return {key: value for key, value in contents(folder).items() if key[:1] not in (b"x", b"y")}


@pytest.fixture
def chronicle() -> Chronicle:
    """A log in which a bit of everything has happened."""
    chronicle = Chronicle().start()
    shared_out(chronicle, "s1", "s2", "s3")
    return eventful(chronicle)


@pytest.fixture
def archive(chronicle: Chronicle, tmp_path: Path) -> Path:
    return in_landings(tmp_path / "archive", "main", chronicle.entries, (7, 11))


def topic_of(chronicle: Chronicle) -> Callable[[str], LogReader]:
    return lambda _: chronicle.log.reader()


def test_a_rebuild_is_the_projectors_own_store(chronicle: Chronicle, archive: Path, tmp_path: Path) -> None:
    """Byte for byte, history and indexes; and the projector that is started on it goes on from there."""
    project(chronicle, tmp_path / "live")
    told = rebuild(Task("main", tmp_path / "made", archive))
    assert (told.standing, told.position) == (Standing.PUT, chronicle.position)
    assert told.state_hash == chronicle.fold.state.hash().hex()
    assert told.chain == chronicle.fold.header.chain.hex()
    assert of_log(tmp_path / "made") == of_log(tmp_path / "live")
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == [
        "rebuilding.lock",
        generation_path(tmp_path / "made").name,
    ]
    with closing(Projector(chronicle.log.reader(), tmp_path / "made", "main")) as projector:
        assert projector.step() == 1, "the record that proves where it stands"
        chronicle.join("n8")
        projector.step()
        assert (projector.stopped, projector.meta.position) == (None, chronicle.position)


@pytest.mark.parametrize("seed", range(3))
def test_any_history_of_a_cluster_is_rebuilt_to_the_same_state(seed: int, tmp_path: Path) -> None:
    """Crashes, take-overs and zombies of the simulation: what counts in the log counts in the archive."""
    run = _Run(drawn(seed, 5_000, Faults()))
    run.through()
    log = run._histories.worlds[0].broker.log
    entries = log.entries(Topic.DECISIONS)
    archive = in_landings(tmp_path / "archive", "main", entries, (len(entries) // 3,))
    with closing(Projector(log.reader(), tmp_path / "live", "main")) as projector:
        while projector.step():
            pass
        live = projector.meta
    told = rebuild(Task("main", tmp_path / "made", archive))
    assert (told.position, told.state_hash) == (live.position, live.state_hash.hex())
    assert of_log(tmp_path / "made") == of_log(tmp_path / "live")


def test_behind_its_end_the_topic_is_read(chronicle: Chronicle, tmp_path: Path) -> None:
    """What is taken over is not old."""
    archive = in_landings(tmp_path / "archive", "main", chronicle.entries[:12], ())
    told = rebuild(Task("main", tmp_path / "made", archive, topic_of(chronicle)))
    assert told.position == chronicle.position
    alone = rebuild(Task("main", tmp_path / "alone", archive))
    assert alone.position < chronicle.position
    topic = rebuild(Task("main", tmp_path / "topic", None, topic_of(chronicle)))
    assert of_log(tmp_path / "topic") == of_log(tmp_path / "made")
    assert topic.state_hash == told.state_hash


def test_where_a_store_is_the_rebuild_is_offered_beside_it(chronicle: Chronicle, archive: Path, tmp_path: Path) -> None:
    """Nothing of the projector's own is touched; the newest offer counts."""
    live = project(chronicle, tmp_path / "live")
    before = contents(live)
    for _ in range(2):
        assert rebuild(Task("main", live, archive)).standing is Standing.OFFERED
        assert is_pending(live)
    assert contents(live) == before
    assert of_log(live / "offered") == of_log(live)


def test_a_store_that_differs_is_told_row_by_row(chronicle: Chronicle, archive: Path, tmp_path: Path) -> None:
    """As `topolog verify projections` does, and without a broker."""
    live = project(chronicle, tmp_path / "live")
    write(live, {NODE: contents(live)[NODE].replace(b"n1:7000", b"n1:7002")})
    told = rebuild(Task("main", live, archive, check=True, puts=False))
    assert told.standing is Standing.COMPARED
    assert not is_pending(live)
    assert told.verdict is not None
    (finding,) = told.verdict.findings
    assert (told.verdict.state, str(finding.place)) == (State.DIFFERENT, "row node/n1")
    assert [(each.field, each.expected, each.found) for each in finding.differences] == [
        ("endpoint", "n1:7000", "n1:7002")
    ]


def test_a_store_that_is_ahead_of_the_archive_is_compared_in_its_past(
    chronicle: Chronicle, archive: Path, tmp_path: Path
) -> None:
    """The archive ends where it ends; what the store kept of the past up to there must be the same."""
    chronicle.join("n8")
    live = project(chronicle, tmp_path / "live")
    task = Task("main", live, archive, check=True, puts=False)
    verdict = rebuild(task).verdict
    assert verdict is not None
    assert (verdict.state, verdict.position) == (State.EQUAL, chronicle.position - 2)
    assert f"it stands at {chronicle.position}" in verdict.why
    key = next(each for each in sorted(contents(live)) if each.startswith(b"hnode\0n1"))
    write(live, {key: None})
    verdict = rebuild(task).verdict
    assert verdict is not None
    assert [str(each.place).partition("@")[0] for each in verdict.findings] == ["history node/n1"]


def test_a_store_of_another_log_beside_it_is_said(archive: Path, tmp_path: Path) -> None:
    live = project(eventful(Chronicle(log_id=bytes(16)).start()), tmp_path / "live")
    verdict = rebuild(Task("main", live, archive, check=True, puts=False)).verdict
    assert verdict is not None
    assert verdict.state is State.OTHER_LOG


def day_lost(chronicle: Chronicle, archive: Path) -> type[TopologError]:
    max(archive.glob("records/*/*/*.parquet")).unlink()
    return DamagedArchive


def hole(chronicle: Chronicle, archive: Path) -> type[TopologError]:
    land(archive, "main", chronicle.entries[-1:])
    return ArchiveIncomplete


def other_bytes(chronicle: Chronicle, archive: Path) -> type[TopologError]:
    """A record that was changed where it lies: the chain of the next one does not fit."""
    entries = chronicle.entries
    chronicle.log.truncate(Topic.DECISIONS, len(entries) - 2)
    chronicle.append_raw(entries[-2].stamp, entries[-3].value)
    chronicle.append_raw(entries[-1].stamp, entries[-1].value)
    land(archive, "main", chronicle.entries[-3:])
    return LogDiverged


def poison(chronicle: Chronicle, archive: Path) -> type[TopologError]:
    length = len(chronicle.entries)
    chronicle.append_accepted(b"\xc3\x01 not one of ours")
    land(archive, "main", chronicle.entries[length:])
    return Poisoned


@pytest.mark.parametrize("harm", [day_lost, hole, poison, other_bytes])
def test_what_cannot_be_rebuilt_leaves_what_is_there(
    chronicle: Chronicle, tmp_path: Path, harm: Callable[[Chronicle, Path], type[TopologError]]
) -> None:
    """A clear end with what to do; nothing is put, nothing left."""
    live = project(chronicle, tmp_path / "live")
    landed = chronicle.entries[:-3] if harm in (hole, other_bytes) else chronicle.entries
    archive = in_landings(tmp_path / "archive", "main", landed, ())
    with pytest.raises(harm(chronicle, archive)) as raised:
        rebuild(Task("main", live, archive))
    assert raised.value.hint
    assert not is_pending(live)
    assert not (live / "rebuilding").exists()


def test_the_archive_of_another_cluster_is_refused(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cluster 'main', not of 'other'"):
        rebuild(Task("other", tmp_path / "made", archive))
    assert not (tmp_path / "made").exists()


def test_two_rebuilds_for_one_folder_are_not_made_at_once(archive: Path, tmp_path: Path) -> None:
    with rebuilding(tmp_path / "made"), pytest.raises(BadInput, match="Another process makes a rebuild"):
        rebuild(Task("main", tmp_path / "made", archive))


def test_archives_are_found_below_a_folder_one_per_cluster(chronicle: Chronicle, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("a", "b/c"):
        land(root / name, name, chronicle.entries)
    assert archives(root) == ({"a": root / "a", "b/c": root / "b/c"}, [])
    assert archives(root / "a") == ({"a": root / "a"}, [])
    (root / "b/c/archive.json").write_text("{")
    found, (failed,) = archives(root)
    assert found == {"a": root / "a"}
    assert (failed.cluster, failed.standing) == ("c", Standing.FAILED)
    assert "archive.json cannot be read" in failed.error
    land(root / "d", "a", chronicle.entries)
    with pytest.raises(BadInput, match="both archives of cluster 'a'"):
        archives(root)
    with pytest.raises(BadInput, match="no archive"):
        archives(tmp_path / "none")


KILLED = """
import os, signal, sys, time
from pathlib import Path
from topolog.projections.archive import rebuilding
from topolog.projections.self_check import rebuild
rebuild._WRITE_SETS = 1
def told(text):
    if text.endswith(f" {sys.argv[3]}"):
        os.kill(os.getpid(), signal.SIGKILL)
rebuilding.rebuild_store(rebuilding.Task("main", Path(sys.argv[2]), Path(sys.argv[1])), time.monotonic, told)
"""


@pytest.mark.parametrize("reached", [0, 9, None])
def test_killed_half_way_it_leaves_the_store_and_the_next_one_begins_anew(
    chronicle: Chronicle, archive: Path, tmp_path: Path, reached: int | None
) -> None:
    """`kill -9` with a part of the rebuild written, or all of it."""
    live = project(chronicle, tmp_path / "live")
    before = contents(live)
    position = chronicle.position if reached is None else reached
    command = [sys.executable, "-c", KILLED, str(archive), str(live), str(position)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    assert (live / "rebuilding").exists()
    assert not is_pending(live)
    assert contents(live) == before
    assert rebuild(Task("main", live, archive)).standing is Standing.OFFERED
    assert not (live / "rebuilding").exists()
    assert of_log(live / "offered") == of_log(live)
