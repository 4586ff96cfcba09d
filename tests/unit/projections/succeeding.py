"""A projector for a test to kill while it takes over a rebuilt store: reads what it was given, and goes on."""

import os
import sys
from pathlib import Path

from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_projector import eventful

from topolog.events.failpoints import arm
from topolog.projections.projector import Projector


def history() -> Chronicle:
    """The same log in every process."""
    chronicle = eventful(Chronicle().start())
    for number in range(40):
        chronicle.propose(f"T{number}", {"id": "long"})
    return chronicle


def main(folder: Path) -> None:
    arm(os.environ)
    reader = history().log.reader()
    reader.batch_max = 3
    projector = Projector(reader, folder, "main")
    while projector.step():
        sys.stdout.write(f"{projector.meta.position}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
