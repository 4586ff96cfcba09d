"""`kill -9` of the projector at any byte loses nothing and doubles nothing."""

import random
import subprocess
import sys
from pathlib import Path

from tests.unit.projections.crashing import history

from topolog.projections.projector import Projector

ROOT = Path(__file__).parents[3]
KILLS = 6


def killed_after(lines: int, folder: Path) -> list[int]:
    """Start the projector, kill it as soon as it has reported this often; the positions it reported."""
    command = [sys.executable, "-m", "tests.unit.projections.crashing", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        reported = [int(line) for line, _ in zip(child.stdout, range(lines), strict=False)]
        child.kill()
    return reported


def test_killed_again_and_again_it_ends_where_a_fold_ends(tmp_path: Path) -> None:
    """RD1: the store moves from the border of one set to the border of another, never between."""
    dice = random.Random(18)
    chronicle = history()
    folder = tmp_path / "store"
    reached = -1
    for _ in range(KILLS):
        reported = killed_after(dice.randrange(2, 150), folder)
        assert reported[0] >= reached, "what was reported as stored is stored"
        reached = reported[-1]
    projector = Projector(chronicle.log.reader(), folder, "main")
    assert projector.meta.position >= reached
    assert not list(folder.glob("*.damaged"))
    projector.step()
    assert (projector.stopped, projector.meta.position) == (None, chronicle.position)
    with projector.reading() as reading:
        assert reading.state().hash() == chronicle.fold.state.hash()
        assert [each.position for each in reading.all_decisions()] == list(range(chronicle.position, -1, -1))
        for position in range(0, chronicle.position, 401):
            state_hash = reading.surely_decision(position).state_hash
            assert reading.as_of(position).state().hash() == state_hash
    projector.close()
