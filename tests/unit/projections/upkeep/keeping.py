"""A projector for a test to kill while something is done about its store: reads to the end and carries out an order."""

import os
import sys
import time
from pathlib import Path

from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_projector import eventful
from tests.unit.projections.upkeep.workshops import Inline

from topolog.events.failpoints import arm
from topolog.events.log import LogReader
from topolog.projections.projector import Projector
from topolog.projections.upkeep.keeper import Terms
from topolog.projections.upkeep.orders import Action, UpkeepOrder
from topolog.projections.upkeep.workshop import Processes, Workshop

KEPT = Terms(former_kept_ms=86_400_000)
SLOW = 400.0
"""Records per second: slow enough to be killed on the way."""


def history(decisions: int = 40) -> Chronicle:
    """The same log in every process."""
    chronicle = eventful(Chronicle(pace_ms=1).start())
    for number in range(decisions):
        chronicle.propose(f"T{number}", {"id": "long"})
    return chronicle


def long_history() -> Chronicle:
    return history(1_500)


def read_history() -> LogReader:
    return history().log.reader()


def read_long_history() -> LogReader:
    """In small pieces, so that a rate can be kept."""
    reader = long_history().log.reader()
    reader.batch_max = 20
    return reader


def settled(projector: Projector, until_s: float) -> bool:
    """Step until nothing is wanted and all is read; whether that came in time."""
    while time.monotonic() < until_s:
        found = projector.step(0.01)
        if not found and projector.keeper.status.wanted is None and not projector._succession.former:
            return True
    return False


def main(folder: Path, action: str, where: str) -> None:
    """Carry out the action, unless an order is left; "none" carries out what is left. Tells positions of a build."""
    arm(os.environ)
    workshop: Workshop = Processes(read_long_history) if where == "processes" else Inline(read_history)
    reader = read_long_history() if where == "processes" else read_history()
    projector = Projector(reader, folder, "main", workshop=workshop, terms=KEPT)
    while projector.step():
        pass
    if action != "none" and projector.keeper.status.wanted is None:
        rate = SLOW if where == "processes" else None
        projector.act(UpkeepOrder(f"{action}-{time.time_ns()}", Action(action), "ann", f"to {action}", 1, rate))
    while projector.keeper.status.wanted is not None:
        projector.step(0.01)
        if projector.keeper.progress is not None:
            sys.stdout.write(f"{projector.keeper.progress.done}\n")
            sys.stdout.flush()
    assert settled(projector, time.monotonic() + 60)
    projector.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
