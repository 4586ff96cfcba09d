"""Setting the wall clock of one process, and of no other: a preloaded library, compiled on the spot.

Who sets a machine's clock needs root and moves it for everybody. `wall_clock.c` adds a number to what one process
reads, and the number may change while the process runs. It needs a C compiler; without one `library` says so.
"""

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("wall_clock.c")
NO_COMPILER = "stepping a process's wall clock needs a C compiler (cc), and there is none"


def library(folder: Path) -> Path | None:
    """The library, compiled into `folder`; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    made = folder / "wall_clock.so"
    if not made.exists():
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
    return made


class WallClock:
    """The clock of the processes that are started with `environment`."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self.environment = {"LD_PRELOAD": str(library), "WALL_CLOCK_FILE": str(file)}
        self._write(0)

    def step(self, seconds: float) -> None:
        """Let the wall clock differ from the true time by this much from now on."""
        self._write(int(seconds * 1_000_000_000))

    def _write(self, ns: int) -> None:
        with self._file.open("r+b" if self._file.exists() else "w+b") as file:  # mapped: its bytes change in place
            file.write(struct.pack("q", ns))
