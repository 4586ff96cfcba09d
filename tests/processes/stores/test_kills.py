"""`kill -9` at every named place of a rebuild, a switch and the way back; and readers who ask all the time."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_projector import hash_of
from tests.unit.projections.test_taking_over import Readers
from tests.unit.projections.upkeep.conftest import Kept
from tests.unit.projections.upkeep.keeping import (
    KEPT,
    history,
    long_history,
    read_history,
    read_long_history,
    settled,
)
from tests.unit.projections.upkeep.workshops import Inline

from topolog.events.failpoints import VARIABLE
from topolog.events.topics import Topic
from topolog.projections.generations import former_path
from topolog.projections.projector import Projector
from topolog.projections.upkeep.building import _alone
from topolog.projections.upkeep.orders import Action, UpkeepOrder
from topolog.projections.upkeep.workshop import Processes

ROOT = Path(__file__).parents[3]
PLACES = (
    "projector.ordered",
    "build.begun",
    "build.written",
    "build.at-end",
    "build.compared",
    "build.noted",
    "build.offered",
    "projector.taken",
    "projector.succeeding",
    "projector.succeeded",
    "projector.former-noted",
)
RECALLED = "projector.recalled"
PATIENCE_S = 90.0
SWITCHES = 6
"""Fifty were run once; each takes some seconds of many readers."""


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is begun has the path of this one."""
    monkeypatch.syspath_prepend(str(ROOT))


def run(folder: Path, action: str, where: str = "inline", failpoint: str = "") -> int:
    command = [sys.executable, "-m", "tests.unit.projections.upkeep.keeping", str(folder), action, where]
    environment = {**os.environ, VARIABLE: failpoint}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=subprocess.DEVNULL)
    return done.returncode


def stores(folder: Path) -> list[str]:
    return sorted(path.name.rpartition("-")[2] for path in folder.glob("rows-*"))


@pytest.mark.parametrize("place", PLACES)
def test_killed_at_any_step_of_a_rebuild_it_is_carried_out_once(tmp_path: Path, place: str) -> None:
    """ES3: whoever starts next shows at least what was shown, and ends what was wanted."""
    assert run(tmp_path, "rebuild", failpoint=f"{place}=crash") == -9
    chronicle = history()
    with closing(Projector(chronicle.log.reader(), tmp_path, "main", workshop=Inline(read_history), terms=KEPT)) as it:
        assert it.meta.position == chronicle.position, "before anything is read"
        assert settled(it, time.monotonic() + PATIENCE_S)
        assert hash_of(it) == chronicle.fold.state.hash()
        assert it.keeper.status.refused is None
    assert stores(tmp_path) == ["1", "2"]
    assert not any((tmp_path / name).exists() for name in ("building", "offered", "taken"))


@pytest.mark.parametrize("place", [RECALLED, *PLACES])
def test_killed_at_any_step_of_the_way_back_it_is_gone_once(tmp_path: Path, place: str) -> None:
    if place == "build.written":
        pytest.skip("the former has nothing to read: no set is written")
    assert run(tmp_path, "rebuild") == 0
    assert run(tmp_path, "back", failpoint=f"{place}=crash") == -9
    chronicle = history()
    with closing(Projector(chronicle.log.reader(), tmp_path, "main", workshop=Inline(read_history), terms=KEPT)) as it:
        assert it.meta.position == chronicle.position
        assert settled(it, time.monotonic() + PATIENCE_S)
        assert hash_of(it) == chronicle.fold.state.hash()
        assert it.keeper.status.refused is None
    assert stores(tmp_path) == ["2", "3"]
    assert former_path(tmp_path) is not None


def test_no_read_fails_and_no_position_goes_back_over_many_switches(chronicle: Chronicle, kept: Kept) -> None:
    """ES4, ES14: three readers ask all the time, the log grows, and stores take each other's place, there and back."""
    chronicle.log.put(Topic.DEAD, "k", b"a letter")
    kept.settle()
    projector, readers, stop = kept.projector, Readers(kept.projector), threading.Event()
    running = threading.Thread(target=projector.run, args=(stop,))
    with readers.reading():
        running.start()
        for number in range(SWITCHES):
            chronicle.join(f"m{number}", renewed=False)
            action = Action.REBUILD if number % 2 == 0 else Action.BACK
            projector.act(UpkeepOrder(f"o{number}", action, "ann", "", 1))
            until_s, before = time.monotonic() + PATIENCE_S, readers.count
            while projector.keeper.status.wanted is not None or readers.count < before + 3:
                assert not readers.failed
                assert time.monotonic() < until_s
                assert projector.keeper.status.refused is None
                time.sleep(0.001)
    stop.set()
    running.join()
    assert not readers.failed
    kept.settle()
    assert projector.meta.position == chronicle.position
    assert hash_of(projector) == chronicle.fold.state.hash()
    assert kept.stores == [str(SWITCHES), str(SWITCHES + 1)]


@contextmanager
def kept_by_processes(folder: Path, chronicle: Chronicle) -> Iterator[Projector]:
    projector = Projector(chronicle.log.reader(), folder, "main", workshop=Processes(read_long_history), terms=KEPT)
    with closing(projector):
        while projector.step():
            pass
        yield projector


def build_slowly(projector: Projector, to: int) -> int:
    """Have a rebuild go slowly, until it stands behind this position; the process that makes it."""
    projector.act(UpkeepOrder("o1", Action.REBUILD, "ann", "", 1, 400.0))
    until_s = time.monotonic() + PATIENCE_S
    while (progress := projector.keeper.progress) is None or progress.done <= to:
        projector.step(0.01)
        assert time.monotonic() < until_s
    pid: int = projector.keeper._build._process.pid  # type: ignore[union-attr]
    return pid


def test_what_builds_is_killed_and_goes_on_where_it_was(tmp_path: Path) -> None:
    """ES3: resumable; its progress is in its own store."""
    chronicle = long_history()
    with kept_by_processes(tmp_path, chronicle) as projector:
        pid = build_slowly(projector, 300)
        os.kill(pid, signal.SIGKILL)
        begun = projector.keeper.progress
        positions = []
        while projector.keeper.status.wanted is not None:
            projector.step(0.01)
            progress = projector.keeper.progress
            if progress is not None and progress is not begun:
                positions.append(progress.done)
        assert min(positions) >= 300
        assert projector.keeper.status.refused is None
        assert settled(projector, time.monotonic() + PATIENCE_S)
        assert hash_of(projector) == chronicle.fold.state.hash()
    assert stores(tmp_path) == ["1", "2"]


def test_a_projector_that_ends_takes_what_builds_along(tmp_path: Path) -> None:
    """Nothing goes on beside; whoever starts next goes on with it."""
    chronicle = long_history()
    with kept_by_processes(tmp_path, chronicle) as projector:
        build_slowly(projector, 200)
    with _alone(tmp_path):
        pass
    with kept_by_processes(tmp_path, chronicle) as projector:
        until_s = time.monotonic() + PATIENCE_S
        while projector.keeper.progress is None:
            projector.step(0.01)
            assert time.monotonic() < until_s
        assert projector.keeper.progress.done >= 200


def test_a_projector_that_is_killed_takes_what_builds_along(tmp_path: Path) -> None:
    """The pipe's other end is gone."""
    command = [sys.executable, "-m", "tests.unit.projections.upkeep.keeping", str(tmp_path), "rebuild", "processes"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) > 200:
                break
        child.kill()
    until_s = time.monotonic() + 20
    while True:
        assert time.monotonic() < until_s, "it builds on"
        try:
            with _alone(tmp_path):
                break
        except Exception:  # noqa: BLE001 (NotCaughtUp: it has not noticed yet)
            time.sleep(0.01)
    assert run(tmp_path, "none", "processes") == 0
    assert stores(tmp_path) == ["1", "2"]


def test_what_dies_again_and_again_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason; what is shown goes on."""
    monkeypatch.setenv(VARIABLE, "build.begun=crash")
    monkeypatch.setattr("topolog.projections.upkeep.keeper._PAUSE_MIN_S", 0.01)
    chronicle = history()
    with kept_by_processes(tmp_path, chronicle) as projector:
        projector.act(UpkeepOrder("o1", Action.REBUILD, "ann", "", 1))
        until_s = time.monotonic() + PATIENCE_S
        while projector.keeper.status.wanted is not None:
            projector.step(0.01)
            assert time.monotonic() < until_s
        assert projector.keeper.status.refused is not None
        assert "ended by itself" in projector.keeper.status.refused.why
        assert projector.stopped is None
    assert stores(tmp_path) == ["1"]
