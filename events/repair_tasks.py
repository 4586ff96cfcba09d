"""What replicas are asked to do in a session, one after the other, and what comes back (docs/design/repair.md).

A session works on segments, a segment goes through steps, a step asks some replicas for one task each. All that is ever
asked of a validator is one of five kinds of task: fix a read point, send the leaves of a tree, send the digests of
rows, send rows, write rows. So the request of a tree, of its refinement and of the check behind a repair are one thing
with other bits and ranges, and are answered, repeated, refused and given up by the same rules.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

from topolog.events.ids import Position
from topolog.events.replica import Cut
from topolog.events.token_range import Ranges

RANGES_MAX = 4096
"""Ranges in one record; what is more is told as fewer, larger ones."""

COPIES_MAX = 16 * 15
PAGES_DAMAGED = "PAGES_DAMAGED"
"""The code of an answer whose pages are not what the log says of them, as the rendezvous reports it."""

ROW_TOO_LARGE = "ROW_TOO_LARGE"
"""The code of what no page has room for, and the reason why a row that is one is left as it is."""


class TaskKind(Enum):
    """PREPARE: check schema and ranges, and fix a read point. LEAVES: a tree of 2^bits leaves. DIGESTS: one digest per
    row. SEND: the rows that others lack. WRITE: the rows that others have sent."""

    UNKNOWN = "UNKNOWN"
    PREPARE = "PREPARE"
    LEAVES = "LEAVES"
    DIGESTS = "DIGESTS"
    SEND = "SEND"
    WRITE = "WRITE"


class Purpose(Enum):
    """What a step is for. RECHECK: whether a difference lasts (RE20). VERIFY: whether what was repaired is equal."""

    UNKNOWN = "UNKNOWN"
    COMPARE = "COMPARE"
    RECHECK = "RECHECK"
    REPAIR = "REPAIR"
    VERIFY = "VERIFY"


class Step(msgspec.Struct, frozen=True):
    """What is asked now. `number` counts a segment's steps from 1; `bits` belongs to LEAVES.

    `of`: the step on whose outcome this one builds: RECHECK on the digests that are looked at again, SEND on the
    findings, WRITE on the rows that were sent; 0 for none.
    """

    number: int
    kind: TaskKind
    purpose: Purpose
    ranges: Ranges
    bits: int = 0
    of: int = 0


class TaskId(msgspec.Struct, frozen=True, order=True):
    """One attempt of one replica at one step of one segment of a session: never asked for twice."""

    session: Position
    segment: int
    step: int
    replica: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.session}/{self.segment}/{self.step}/{self.replica}/{self.attempt}"


class TaskStatus(Enum):
    ASSIGNED = "ASSIGNED"
    DONE = "DONE"
    FAILED = "FAILED"


class Result(msgspec.Struct, frozen=True):
    """What a task has come to. `digest`: the root of a tree, else a digest over the pages that were sent (32 bytes).

    `pages` were sent; `rows` and `bytes` were read or written; `skipped` rows were not written, for they were no longer
    what had been compared, or not sent, for no page has room for one. `worked_ms` is how long it took, by the
    validator's own monotonic clock.
    """

    cut: Cut | None = None
    digest: bytes = b""
    pages: int = 0
    rows: int = 0
    bytes: int = 0
    skipped: int = 0
    worked_ms: int = 0


class Task(msgspec.Struct, frozen=True):
    """One replica's part of the present step. `assigned_at`: where it was asked for; `grown_at`: where its progress
    last grew, or where it failed. `rows_before`: the most that an attempt before it has told of."""

    replica: str
    attempt: int
    status: TaskStatus
    assigned_at: Position
    grown_at: Position
    rows: int = 0
    bytes: int = 0
    rows_expected: int = 0
    rows_before: int = 0
    result: Result | None = None
    code: str = ""
    message: str = ""


def assigned(task: TaskId, at: Position, rows_expected: int, before: Task | None) -> Task:
    """The task as it is asked for, behind the attempt before it."""
    rows_before = max(before.rows, before.rows_before) if before else 0
    return Task(task.replica, task.attempt, TaskStatus.ASSIGNED, at, at, 0, 0, rows_expected, rows_before)


class Pair(msgspec.Struct, frozen=True):
    """Two replicas' leaves, compared. `ranges` differ, `leaves` of the `leaves_compared` that have rows at either side.

    `rows` are those in `ranges`, of each leaf the larger of both sides' counts; `leaf_rows_max` in one that differs.
    """

    left: str
    right: str
    ranges: Ranges
    leaves: int
    leaves_compared: int
    rows: int
    leaf_rows_max: int


class Copy(msgspec.Struct, frozen=True):
    """So many rows are to be sent from one replica to another; those of them that `deletes` are to be deleted there."""

    source: str
    target: str
    rows: int
    deletes: int = 0


class Findings(msgspec.Struct, frozen=True):
    """Which rows differ, over all replicas of a segment: the keys stand on `pages` of the topic `trees`, with `digest`.

    `ranges`: the tokens of these rows. `kinds`: rows by what is wrong with them (`repair_plan.Kind`).
    `copies`: what the session's policy would send. `unresolved`: rows that it leaves alone, by reason. `gone`: rows
    that differed before and no longer do (RECHECK). `purged`: tombstones that only some replicas still have, which is
    no difference (`repair_plan.is_purged`); they are on no page.
    """

    rows: int
    ranges: Ranges
    kinds: Mapping[str, int]
    copies: tuple[Copy, ...]
    unresolved: Mapping[str, int]
    pages: int
    digest: bytes
    gone: int = 0
    purged: int = 0

    def left_alone(self, reason: str, rows: int) -> "Findings":
        """With so many more rows that are left alone."""
        counts = {**self.unresolved, reason: self.unresolved.get(reason, 0) + rows}
        return msgspec.structs.replace(self, unresolved=counts)
