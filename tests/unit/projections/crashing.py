"""A projector for a test to kill: builds a known log and projects it in tiny batches, over and over from the start."""

import sys
from pathlib import Path

from tests.unit.projections.chronicle import Chronicle

from topolog.projections.projector import Projector

DECISIONS = 4_000
BATCH = 3


def history() -> Chronicle:
    """The same log in every process."""
    chronicle = Chronicle(pace_ms=1).start()
    for name in ("n1", "n2", "n3"):
        chronicle.join(name)
    while chronicle.position < DECISIONS:
        name = f"T{chronicle.position % 7}"
        chronicle.propose(name, {f"f{chronicle.position % 50}": "int"})
        chronicle.accept(name, "n1", "n2", "n3")
        chronicle.renew("n1", "n2")
    return chronicle


def main(folder: Path) -> None:
    reader = history().log.reader()
    projector = Projector(reader, folder, "main")
    reader.batch_max = BATCH
    sys.stdout.write(f"{projector.meta.position}\n")
    while projector.step():
        sys.stdout.write(f"{projector.meta.position}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
