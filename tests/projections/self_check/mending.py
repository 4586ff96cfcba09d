"""A mending for a test to kill: one row per write, and a line for each."""

import sys
from contextlib import closing
from itertools import count
from pathlib import Path

from tests.projections.chronicle import Chronicle

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


def main(folder: Path, scratch: Path) -> None:
    checking.BATCH_ROWS = 1

    def told(text: str) -> None:
        if text.startswith("mending"):
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    with closing(Rebuild(history().log.reader(), "main", scratch, count().__next__, lambda _: None)) as rebuild:
        checking.mend(rebuild, folder, told)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
