"""What is seen of anti-entropy: sessions, trees, differences, repairs, replicas, schedules: items as in `resources.py`.

Tokens are written as `00000000..40000000`, the end not included; FULL is all of them.
"""

from collections.abc import Mapping
from typing import Any

import msgspec


class SessionTask(msgspec.Struct, frozen=True):
    """What one replica is asked now. `percent` and `eta_ms` go by an estimate of its rows and are None without one.

    `silent_ms`: since it came further; after `at_most_ms` more of that it is given up.
    """

    segment: int
    step: int
    kind: str
    purpose: str
    replica: str
    attempt: int
    state: str
    rows: int
    bytes: int
    rows_expected: int
    percent: int | None
    eta_ms: int | None
    silent_ms: int | None
    at_most_ms: int | None
    code: str
    message: str


class SessionSegment(msgspec.Struct, frozen=True):
    """A part of a session. `absent`: replicas it goes on without; `left`: tokens of which its end is not true."""

    index: int
    state: str
    ranges: tuple[str, ...]
    replicas: tuple[str, ...]
    absent: tuple[str, ...]
    step: int
    kind: str
    purpose: str
    rows_read: int
    rows_found: int
    rows_written: int
    skipped: int
    left: tuple[str, ...]
    code: str
    message: str


class RepairCopy(msgspec.Struct, frozen=True):
    """Rows that go from one replica to another; `deletes` of them are to be deleted there."""

    source: str
    target: str
    rows: int
    deletes: int


class Session(msgspec.Struct, frozen=True):
    """One comparison of the replicas of a table, or a repair of them, by its number.

    `state`: QUEUED, RUNNING, or its one end: SUCCEEDED, PARTIAL, FAILED, ABORTED, EXPIRED, SKIPPED. `verdict` says what
    is known of the replicas: AGREE, DIFFER, REPAIRED (they agree now), INCONCLUSIVE (they differ, but somebody had no
    read point), None. `segments_done` of `segments` have ended, halved ones not counted. `rows_differ`: rows that
    differ on some replica, by `kinds` of difference; `to_copy` is what its policy sends of them, `unresolved` what it
    leaves alone, by reason; `gone` no longer differed when they were looked at again. `skipped`: rows that were not
    written, for they were no longer what had been compared. `covered`: the tokens of which the end is true, in percent
    of what was asked `covered_percent`; `left`: the others. `age_ms`: since it was asked for, of one that is over how
    long it took. `copies` are what its policy sends, from whom to whom; `parts` its segments, `tasks` what
    is asked now: lists leave these out.
    """

    number: int
    table: str
    kind: str
    state: str
    verdict: str | None
    paused: bool
    policy: str
    source: str
    replicas: tuple[str, ...]
    node: str
    ranges: tuple[str, ...]
    strength: str
    bits: int | None
    segments: int
    segments_done: int
    segments_by_state: Mapping[str, int]
    rows_read: int
    bytes_read: int
    rows_differ: int
    kinds: Mapping[str, int]
    to_copy: int
    to_delete: int
    unresolved: Mapping[str, int]
    gone: int
    rows_written: int
    skipped: int
    percent: int | None
    eta_ms: int | None
    covered: tuple[str, ...]
    covered_percent: int
    left: tuple[str, ...]
    differing: tuple[str, ...]
    code: str
    message: str
    actor: str
    reason: str
    schedule: str
    preview: int | None
    intensity: int
    parallel: int
    time: str
    age_ms: int
    opened_at: int | None
    ended_at: int | None
    ended_time: str | None
    spec_id: str | None = None
    columns: tuple[str, ...] = ()
    copies: tuple[RepairCopy, ...] = ()
    parts: tuple[SessionSegment, ...] = ()
    tasks: tuple[SessionTask, ...] = ()
    definition: Mapping[str, Any] = {}


class TreeTask(msgspec.Struct, frozen=True):
    """One attempt of a replica at a step. `root` names a tree, or the pages that were sent, in hexadecimal."""

    replica: str
    attempt: int
    state: str
    root: str
    cut: str
    pages: int
    rows: int
    bytes: int
    skipped: int
    worked_ms: int
    code: str
    message: str


class TreePair(msgspec.Struct, frozen=True):
    """Two trees, compared: `leaves` of `leaves_compared` differ. `rows`: in these, the larger of both counts."""

    left: str
    right: str
    leaves: int
    leaves_compared: int
    rows: int
    leaf_rows_max: int
    ranges: tuple[str, ...]


class Tree(msgspec.Struct, frozen=True):
    """One step of a segment: who was asked what, and what was compared. `name` is `session/segment/step`.

    `tasks` are all attempts in their order; `leaves` are those that differ between some two replicas, counted once for
    each two; `rows_differ` is what a comparison of rows has found, None where there was none.
    """

    name: str
    session: int
    table: str
    segment: int
    step: int
    kind: str
    purpose: str
    bits: int | None
    ranges: tuple[str, ...]
    asked: tuple[str, ...]
    awaited: tuple[str, ...]
    absent: tuple[str, ...]
    roots: int | None
    pairs_compared: int
    leaves: int
    rows_differ: int | None
    is_over: bool
    started_at: int
    started_time: str
    tasks: tuple[TreeTask, ...]
    pairs: tuple[TreePair, ...]


class RowVersion(msgspec.Struct, frozen=True):
    """One content of a row, and who has it; `version` is that of the version column."""

    replicas: tuple[str, ...]
    version: str | None
    is_tombstone: bool
    rows: int
    content: str


class RowDifference(msgspec.Struct, frozen=True):
    """A key on which replicas differ. `kind`: CHANGED, MISSING, EXTRA, DUPLICATE_KEY; `missing`: who lacks it.

    `source` would send it to `targets`, or, with `deletes`, has it deleted there; `left_alone` says why not.
    """

    name: str
    session: int
    segment: int
    key: str
    token: str
    kind: str
    versions: tuple[RowVersion, ...]
    missing: tuple[str, ...]
    source: str
    targets: tuple[str, ...]
    deletes: bool
    left_alone: str


class RepairTarget(msgspec.Struct, frozen=True):
    """What one replica was given to write, and what of it is done. `skipped` had changed since it was compared."""

    replica: str
    rows: int
    written: int
    skipped: int


class Repair(msgspec.Struct, frozen=True):
    """What a session of kind REPAIR moves, by the session's number. `verified`: its segments that are equal now."""

    number: int
    table: str
    state: str
    verdict: str | None
    policy: str
    source: str
    preview: int | None
    copies: tuple[RepairCopy, ...]
    targets: tuple[RepairTarget, ...]
    rows: int
    deletes: int
    written: int
    skipped: int
    unresolved: Mapping[str, int]
    segments: int
    verified: int
    code: str
    message: str


class Replica(msgspec.Struct, frozen=True):
    """One replica of one table, as its validator has declared it at `declared_at`.

    `rows` and `row_bytes` are estimates; `percent` of the tokens are its own. `gives_cuts`: it can
    fix a read point. `open_sessions` ask it something.
    """

    name: str
    table: str
    replica: str
    datacenter: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    ranges: tuple[str, ...]
    percent: int
    rows: int
    row_bytes: int
    gives_cuts: bool
    is_writable: bool
    is_ordered: bool
    schema: str
    life: str
    declared_at: int
    declared_time: str
    open_sessions: tuple[int, ...]


class Schedule(msgspec.Struct, frozen=True):
    """A session that is opened each `every_ms`. `session`: the last one; `code` and `message` say why the next one was
    put off, and are empty if it was not. `due_in_ms`: None while it is paused."""

    name: str
    table: str
    kind: str
    policy: str
    every_ms: int
    paused: bool
    due_in_ms: int | None
    session: int | None
    code: str
    message: str
    since: int
    definition: Mapping[str, Any]
