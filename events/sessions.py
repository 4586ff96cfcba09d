"""Sessions of anti-entropy as they stand: their rows, and how to find them (see `repair.py`)."""

from collections.abc import Mapping
from enum import Enum
from typing import ClassVar

from topolog.events.ids import Position
from topolog.events.repair_definition import SessionDefinition
from topolog.events.repair_tasks import Findings, Pair, Step, Task, TaskId, TaskKind, TaskStatus
from topolog.events.replica import Cut
from topolog.events.state import Row, State
from topolog.events.token_range import Ranges
from topolog.events.tree_spec import TreeSpec


class SessionStatus(Enum):
    """A session has one of the last six at its end, and keeps it (RE1)."""

    UNKNOWN = "UNKNOWN"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"
    ABORTED = "ABORTED"
    EXPIRED = "EXPIRED"
    SKIPPED = "SKIPPED"

    @property
    def is_end(self) -> bool:
        return self not in (SessionStatus.UNKNOWN, SessionStatus.QUEUED, SessionStatus.RUNNING)


class SegmentStatus(Enum):
    """EQUAL, DIFFERENT, REPAIRED: compared, and what came of it. INCONCLUSIVE: it differs, but a replica had no read
    point. HALVED: two others stand in its place."""

    UNKNOWN = "UNKNOWN"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    EQUAL = "EQUAL"
    DIFFERENT = "DIFFERENT"
    REPAIRED = "REPAIRED"
    INCONCLUSIVE = "INCONCLUSIVE"
    FAILED = "FAILED"
    HALVED = "HALVED"

    @property
    def is_end(self) -> bool:
        return self not in (SegmentStatus.UNKNOWN, SegmentStatus.PENDING, SegmentStatus.RUNNING)


class SessionRow(Row, frozen=True):
    """A session, under its number: the position of the decision that granted it.

    `worked_ms`, `rested_at`: how long the segments took that have ended since the last began, and where the pause for
    it began (intensity); None if there is none. `segments`: how many there are, halved ones too; the first `begun` of
    them have begun, and those that are `running` have not ended. Counts of rows are of its end; at least `rows_written`
    were written, see the function of this name.
    """

    KIND: ClassVar[str] = "session"

    number: Position
    definition: SessionDefinition
    status: SessionStatus
    spec: TreeSpec | None = None
    segments: int = 0
    begun: int = 0
    running: tuple[int, ...] = ()
    paused: bool = False
    opened_at: Position | None = None
    ended_at: Position | None = None
    schedule: str = ""
    worked_ms: int = 0
    rested_at: Position | None = None
    code: str = ""
    message: str = ""
    covered: Ranges = ()
    left: Ranges = ()
    differing: Ranges = ()
    rows_read: int = 0
    bytes_read: int = 0
    rows_found: int = 0
    rows_written: int = 0


class SegmentRow(Row, frozen=True):
    """One segment of a session, under `<session>/<index>`.

    `found`: what the newest comparison of rows has told, that of step `found_in`. `absent`: replicas that it goes on
    without. `cuts`: the read points that are fixed now, `former_cuts` those before. `sent`: the tasks of SEND, while
    what they have sent is written. `uncopied`: tasks of SEND and WRITE that failed for good, while others went on.
    `restarts`: how often it began anew, because a read point was lost. `rows_written`: without the present step's.
    """

    KIND: ClassVar[str] = "segment"

    session: Position
    index: int
    ranges: Ranges
    replicas: tuple[str, ...]
    status: SegmentStatus
    step: Step | None = None
    tasks: tuple[Task, ...] = ()
    pairs: tuple[Pair, ...] = ()
    cuts: Mapping[str, Cut] = {}
    former_cuts: Mapping[str, Cut] = {}
    absent: tuple[str, ...] = ()
    restarts: int = 0
    found: Findings | None = None
    found_in: int = 0
    sent: tuple[Task, ...] = ()
    uncopied: tuple[Task, ...] = ()
    rows_read: int = 0
    bytes_read: int = 0
    rows_written: int = 0
    skipped: int = 0
    worked_ms: int = 0
    code: str = ""
    message: str = ""
    left: Ranges = ()


def session_key(number: int) -> str:
    return f"{number:019d}"


def segment_key(session: int, index: int) -> str:
    return f"{session:019d}/{index:04d}"


def session(state: State, number: int) -> SessionRow | None:
    return state.get(SessionRow, session_key(number))


def segment(state: State, number: int, index: int) -> SegmentRow | None:
    return state.get(SegmentRow, segment_key(number, index))


def segments(state: State, row: SessionRow) -> list[SegmentRow]:
    """Those of one session, by index; none once it has ended."""
    found = (segment(state, row.number, index) for index in range(row.segments))
    return [each for each in found if each is not None]


def running(state: State, row: SessionRow) -> list[SegmentRow]:
    """Its segments that are under way: few of many."""
    found = (segment(state, row.number, index) for index in row.running)
    return [each for each in found if each is not None]


def open_sessions(state: State) -> list[SessionRow]:
    """Queued and running ones, the oldest first."""
    return sorted((row for _, row in state.rows(SessionRow) if not row.status.is_end), key=lambda row: row.number)


def rows_written(row: SegmentRow) -> int:
    """How many rows have been written for a segment. At least so many, if a task of WRITE has not come to its end or
    never will: then what it told on its way counts, and what it wrote behind that nobody knows.

    An attempt begins at the first row again, and those that are there already count as written: so the most that any
    attempt has told of counts, once.
    """
    if row.step is None or row.step.kind is not TaskKind.WRITE:
        return row.rows_written
    undone = (task for task in row.tasks if task.status is not TaskStatus.DONE)
    return row.rows_written + sum(max(task.rows, task.rows_before) for task in undone)


def task_of(row: SegmentRow, task: TaskId) -> Task | None:
    """The task as it stands, if it belongs to the present step in its newest attempt."""
    if row.step is None or row.step.number != task.step:
        return None
    return next((each for each in row.tasks if (each.replica, each.attempt) == (task.replica, task.attempt)), None)
