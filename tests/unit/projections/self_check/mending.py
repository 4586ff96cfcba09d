"""A mending that is killed after so many writes, of one row each: `kill -9` at a place of the test's own."""

import os
import signal
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

from tests.unit.projections.chronicle import Chronicle

from topolog.projections import layout
from topolog.projections.self_check import checking
from topolog.projections.self_check.rebuild import Rebuild

TYPES = 40


def history() -> Chronicle:
    """The same log in every process."""
    chronicle = Chronicle().start()
    for number in range(TYPES):
        chronicle.propose(f"T{number}", {"id": "long"})
        chronicle.accept(f"T{number}", "n1")
    return chronicle


def damaged(whole: dict[bytes, bytes]) -> dict[bytes, bytes | None]:
    """What to write to a whole store so that much of it is wrong, its header too."""
    rows = sorted(key for key in whole if key[:1] in b"rhd")
    return {layout.META_KEY: None, **dict.fromkeys(rows[::5], b"\xc1"), **dict.fromkeys(rows[2:-9:7])}


def main(folder: Path, scratch: Path, writes: int) -> None:
    checking.BATCH_ROWS = 1
    left = [writes]

    def told(_: str) -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    with closing(Rebuild(history().log.reader(), "main", scratch, count().__next__, lambda _: None)) as rebuild:
        checking.mend(rebuild, folder, told)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
