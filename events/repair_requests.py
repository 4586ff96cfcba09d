"""What can be asked of sessions of anti-entropy, by operators, by validators and by the rendezvous."""

from typing import ClassVar

from topolog.events.asked import Request
from topolog.events.ids import Position
from topolog.events.repair_definition import SessionDefinition
from topolog.events.repair_tasks import Findings, Pair, Result, TaskId
from topolog.events.replica import ReplicaDefinition


class ReplicaDeclarationRequested(Request, frozen=True):
    """A validator serves this replica from now on; `life` is the random number of its process."""

    SUBJECT: ClassVar[str] = "replica {0.replica.id}"

    replica: ReplicaDefinition
    life: int


class ReplicaWithdrawalRequested(Request, frozen=True):
    """Nobody serves it any more. `life` None: whoever served it (an operator says so)."""

    SUBJECT: ClassVar[str] = "replica {0.table}@{0.name}"

    table: str
    name: str
    life: int | None = None


class SessionRequested(Request, frozen=True):
    SUBJECT: ClassVar[str] = "table {0.definition.table}"

    definition: SessionDefinition


class SessionAlterationRequested(Request, frozen=True):
    """What is None stays as it is; `intensity` in percent."""

    SUBJECT: ClassVar[str] = "session {0.session}"

    session: Position
    paused: bool | None = None
    intensity: int | None = None
    parallel: int | None = None


class SessionAbortRequested(Request, frozen=True):
    """`session` None: all of them."""

    SUBJECT: ClassVar[str] = "sessions"

    session: Position | None = None


class TaskReported(Request, frozen=True):
    """A validator on one of its tasks: its end (`result`, or `code` and `message` if it failed), or how far it is.

    The rendezvous on one that is done, if it cannot compare what was sent for it: code PAGES_DAMAGED, or ROW_TOO_LARGE
    if what is to be said of a row fits no page.
    """

    SUBJECT: ClassVar[str] = "session {0.task.session}"

    task: TaskId
    life: int
    rows: int
    bytes: int
    code: str
    message: str
    result: Result | None = None


class ComparisonReported(Request, frozen=True):
    """The rendezvous on one pair of trees. `attempts` are those of the two whose pages it has compared."""

    SUBJECT: ClassVar[str] = "session {0.session}"

    session: Position
    segment: int
    step: int
    attempts: tuple[TaskId, ...]
    pair: Pair


class FindingsReported(Request, frozen=True):
    """The rendezvous on the rows of all replicas of a segment."""

    SUBJECT: ClassVar[str] = "session {0.session}"

    session: Position
    segment: int
    step: int
    attempts: tuple[TaskId, ...]
    findings: Findings


class ScheduleRequested(Request, frozen=True):
    SUBJECT: ClassVar[str] = "schedule {0.name}"

    name: str
    definition: SessionDefinition
    every_ms: int
    paused: bool


class ScheduleDropRequested(Request, frozen=True):
    SUBJECT: ClassVar[str] = "schedule {0.name}"

    name: str


RepairRequest = (
    ReplicaDeclarationRequested
    | ReplicaWithdrawalRequested
    | SessionRequested
    | SessionAlterationRequested
    | SessionAbortRequested
    | TaskReported
    | ComparisonReported
    | FindingsReported
    | ScheduleRequested
    | ScheduleDropRequested
)
