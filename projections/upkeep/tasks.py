"""What is done beside projecting, in a process of its own: the tasks, and what is told of them.

Everything here goes through a pipe.
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from topolog.events.ids import Offset
from topolog.projections.upkeep.compared import Compared


class Build(msgspec.Struct, frozen=True):
    """Bring the store in the building folder below `folder` to the end of the log, compare it, offer it.

    `rate` is the most records per second, None for as many as there is time for.
    """

    folder: Path
    cluster: str
    order: str
    why: str
    rate: float | None = None


class Scrub(msgspec.Struct, frozen=True):
    """Read every block of the store at `path` from the disk, at most so many bytes per second."""

    path: Path
    bytes_per_s: float


Task = Build | Scrub


class Phase(StrEnum):
    """FOLDING: it reads the log. COMPARING: it stands at the end, and is compared with what is shown. OFFERED: the
    projector is to take it over. WAITING: the log or the disk is away, it is tried again."""

    FOLDING = "FOLDING"
    COMPARING = "COMPARING"
    OFFERED = "OFFERED"
    WAITING = "WAITING"


class Progress(msgspec.Struct, frozen=True):
    """How far a task has come: the position of a build, the bytes of a scrub; `rate` is its own per second."""

    phase: Phase
    done: int
    rate: float
    last_offset: Offset | None = None
    state_hash: str = ""
    began_ms: int = 0


class Finding(msgspec.Struct, frozen=True):
    """Something of a store that cannot be read; `place` is its file, or its key."""

    place: str
    what: str


class Offered(msgspec.Struct, frozen=True):
    """A build is whole and offered."""

    position: int
    compared: Compared | None


class Scrubbed(msgspec.Struct, frozen=True):
    """A scrub has ended. Times are UTC."""

    store: str
    began_ms: int
    ended_ms: int
    rows: int
    bytes: int
    findings: Sequence[Finding] = ()


class Failed(msgspec.Struct, frozen=True):
    """A task has ended without what it was for. `is_passing`: to try again may help."""

    code: str
    message: str
    is_passing: bool


Report = Progress | Offered | Scrubbed | Failed
