"""What people and programs see of a cluster: the items of the query API, the same in JSON, on the page, in the CLI.

Fields are only ever added. Positions say where in the log something happened; times are ISO 8601 in UTC and those of
the log, never of a node. None is «not (yet)», or, as of the past, «not kept».
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from topolog.projections.baseline_resources import AutoAdjust, BaselineNow, Cold


class AsOf(msgspec.Struct, frozen=True):
    """Which position an answer reflects. `age_ms`: how long ago the reader last knew that this was the newest;
    `stopped`: why it reads no further, if it does not; `token`: give it back as `at_least`."""

    position: int
    time: str
    token: str
    age_ms: int
    stopped: str | None = None


class ClusterRef(msgspec.Struct, frozen=True):
    """A cluster this API serves; `log_id` is None while nothing has been decided."""

    name: str
    log_id: str | None


class Snapshot(msgspec.Struct, frozen=True):
    """The newest snapshot of the state (`docs/snapshots.md`): it is of `position`, and the log said so at `said_at`.

    `age_ms`: since it was said. `content_bytes` is its size in the topic."""

    position: int
    said_at: int
    time: str
    age_ms: int
    rows: int
    content_bytes: int


class FormerTerms(msgspec.Struct, frozen=True):
    """What leases may still rest on since their terms were changed at position `changed_at`: the shortest `fence_ms`
    and the longest `proceed_ms` of the terms before, for `left_ms` more unless a new coordinator begins to wait."""

    changed_at: int
    time: str
    fence_ms: int
    proceed_ms: int
    left_ms: int


class Cluster(msgspec.Struct, frozen=True):
    """The cluster as a whole. `state_hash` is equal wherever this position has been folded; `ignored_records` counts,
    by reason, the records of the log up to the newest position that do not count; `sentence` says it in plain words.
    `feature_level_possible`: the highest that every member announces; above `feature_level` it may be raised.
    `open_exchange`: its version, None while no exchange is open. `state`: INACTIVE, ACTIVE_READ_ONLY or ACTIVE;
    `target` while it is on its way there, which waits for `awaited`; `held`: an operator holds it, so that nothing
    activates or adjusts by itself. `draining`: servers that hand over all they hold. `proceed_ms`: how long others wait
    for a silent node, the longest in force; `former_terms` while a change of terms is not confirmed. `open_changes`: of
    databases, tables, views and grants; `undeleted`: changes whose data somebody still deletes;
    `open_sessions`: of comparing and repairing replicas. `news`: what is wrong, a sentence each, the worst first, with
    which `sentence` begins; `silent`: members whose lease is not renewed any more; `least_heard`: the lease that was
    renewed the longest ago; none of both as of the past."""

    name: str
    log_id: str
    sentence: str
    term: int
    coordinator: str
    led_since: int
    topology_version: str
    fence_ms: int
    margin_ms: int
    heartbeat_ms: int
    proceed_ms: int
    members: int
    servers: int
    nodes: int
    types: int
    pending_types: int
    pending_proposals: int
    groups: int
    waiting_joins: int
    state_hash: str
    chain: str
    ignored_records: Mapping[str, int]
    feature_level: int
    feature_level_possible: int
    snapshot: Snapshot | None
    open_exchange: str | None
    state: str
    state_since: int
    target: str | None
    changing_since: int | None
    awaited: "tuple[Awaited, ...]"
    held: bool
    cold: Cold | None
    baseline: BaselineNow | None
    auto_adjust: AutoAdjust
    draining: tuple[str, ...]
    former_terms: FormerTerms | None
    tables: int = 0
    open_changes: int = 0
    undeleted: int = 0
    open_sessions: int = 0
    news: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    least_heard: "Lease | None" = None


class Lease(msgspec.Struct, frozen=True):
    """The lease of one member, as its renewals in the log show it. The node itself may have given it up earlier.

    `state`: VALID, SILENT (valid, and an echo has left it out for more than two heartbeats), NONE (no echo of a
    heartbeat since it joined), OVERDUE (none for fence_ms). As of the past the renewals are not kept, and everything
    from `sequence` on is None. `age_ms`: since the renewal, when it was heard last as the log shows it. Unless it is
    renewed, it has stopped serving within `fenced_in_ms`, and others go on without it within `out_in_ms` (None while
    the coordinator is silent: whoever leads next counts anew).
    """

    node: str
    incarnation: int
    slot: int
    sequence: int | None
    renewed_at: int | None
    renewed_time: str | None
    age_ms: int | None
    state: str | None
    fenced_in_ms: int | None = None
    out_in_ms: int | None = None


class DeadLetter(msgspec.Struct, frozen=True):
    """Input that nobody could read. `id` is its offset in the topic `dead`; `topic`, `partition` and `offset` say where
    it stood before, None or empty if it does not say. `truncated_from`: its size, if only the beginning is kept;
    `replays`: the letter it is a replay of. It is kept as long as the topic keeps it, and has no past.
    """

    id: str
    time: str
    topic: str
    partition: int | None
    offset: int | None
    reason: str
    size: int
    truncated_from: int | None
    replays: str | None


class DeadLetterDetail(DeadLetter, frozen=True):
    """A letter in full. `readable`: what this version reads in it, None if nothing; if that is a request, its id and
    the status of its outcome. `replayed_as`: replays of it that have died again. `dump`: its first 512 bytes."""

    headers: Mapping[str, str]
    key: str
    key_hex: str
    schema: str
    readable: str | None
    request: str | None
    request_status: str | None
    replayed_as: tuple[str, ...]
    dump: str


class Replay(msgspec.Struct, frozen=True):
    """A dead letter that was appended to its topic again, where it stands at `offset` now. `request`: the id of the
    request this version reads in it, whose outcome is what became of it; else it dies again, as a letter of its own."""

    id: str
    topic: str
    offset: int
    request: str | None


class HealthFigures(msgspec.Struct, frozen=True):
    """What some heartbeats were like; docs/lease-health.md has the meaning of each figure. None: too few to say."""

    beats: int
    margin_ms: int | None
    lateness_mean_ms: int | None
    lateness_max_ms: int | None
    jitter_ms: int | None
    missed: int
    lost: int
    fencings: int
    returns: int
    starts: int
    strays: int


class HealthMinute(msgspec.Struct, frozen=True):
    start: str
    figures: HealthFigures


class LeaseHealth(msgspec.Struct, frozen=True):
    """How punctual a member's heartbeats are: for people and alarms, no decision rests on it.

    `state`: OK, WARNING (half of the fence's margin eaten, or of what others wait beyond the fence; or flapping),
    FENCED, SILENT (for longer than the fence), RELEASED, UNKNOWN (nothing heard that is new enough to say); `sentence`
    says why. `window` is the last ten minutes, `whole` this incarnation. `heard_time` and `heard_age_ms`: when whoever
    measures said a word last. It has no past.
    """

    node: str
    state: str
    sentence: str
    incarnation: int
    sequence: int | None
    beat_time: str | None
    silent_ms: int | None
    lateness_ms: int | None
    warning_below_ms: int
    late_above_ms: int
    fence_ms: int
    heartbeat_ms: int
    window: HealthFigures | None
    whole: HealthFigures | None
    minutes: tuple[HealthMinute, ...]
    worker: str | None
    heard_time: str | None
    heard_age_ms: int | None
    passed_over: int | None


class Node(msgspec.Struct, frozen=True):
    """A node the cluster has known, in its last incarnation. `order` counts from 1 by the position it joined at.

    `health` is the state of its LeaseHealth, None for one that is out and as of the past. `role`: how a server stands
    to the baseline: MEMBER, AWAY (a member that is not online), OUTSIDER (online and no member), DRAINING, DRAINED;
    None of any other. `kinship`: how its disk agreed with the log when it joined last, as EQUAL.
    """

    node: str
    order: int
    kind: str
    standing: str
    incarnation: int
    slot: int
    endpoint: str
    attributes: Mapping[str, str]
    capabilities: tuple[str, ...]
    joined_at: int
    stopped_at: int | None
    left_at: int | None
    left_reason: str | None
    lease: Lease | None
    health: str | None = None
    role: str | None = None
    kinship: str | None = None


class Waiting(msgspec.Struct, frozen=True):
    """A version that is proposed and not yet accepted."""

    version: int
    position: int
    time: str
    request: str


class Type(msgspec.Struct, frozen=True):
    """A type: what is accepted in `fields` to `schemas`, what is pending in `pending` if it differs.

    `evidence`: why the accepted version could be accepted. `accepted_version` is 0 until the first one is.
    """

    name: str
    type_id: int
    accepted_version: int
    pending_version: int
    removing: bool
    fields: Mapping[str, str]
    affinity_key: str | None
    is_enum: bool
    enum: Mapping[str, int]
    schemas: Mapping[str, tuple[str, ...]]
    pending: Mapping[str, Any] | None
    waiting: tuple[Waiting, ...]
    proposed_at: int
    accepted_at: int | None
    evidence: Mapping[str, tuple[str, ...]] | None


class Group(msgspec.Struct, frozen=True):
    """A group: what is shared out over the members. `number` is its own for ever, also after it was dropped.

    `exclude_neighbours_by` and `backup_filter` are attributes of nodes, `node_filter` their values; empty: no such
    rule. `altered_at` is None until it is altered.
    """

    name: str
    number: int
    partitions: int
    backups: int
    exclude_neighbours_by: str
    node_filter: Mapping[str, str]
    backup_filter: str
    loss_policy: str
    persistent: bool
    created_at: int
    altered_at: int | None


class Decision(msgspec.Struct, frozen=True):
    """One record of the log. `actor` and `reason`: who asked and what for, empty if nobody did; `decided_by`: who made
    it; `cause` says what it answers. `set_end` is the position of the last decision that happened at once with it;
    `content` is the event as it was logged."""

    position: int
    time: str
    event: str
    subject: str
    term: int
    sequence: int
    set_end: int
    cause: str
    actor: str
    decided_by: str
    reason: str
    recorded_at: str
    content: Mapping[str, Any]


class Request(msgspec.Struct, frozen=True):
    """One request and its outcome, which stands for ever: GRANTED, UNCHANGED, or REFUSED with code, rule and facts."""

    id: str
    requester: str
    sequence: int
    subject: str
    status: str
    position: int
    time: str
    version: int | None
    code: str
    rule: str
    message: str
    facts: Mapping[str, str]
    actor: str
    reason: str


class Outcome(msgspec.Struct, frozen=True):
    """What is known of a request that was just sent. `status`: as a Request's, or UNKNOWN while it is not decided.

    `accepted`: what was granted holds everywhere. `token`: a read with it as `at_least` sees the outcome.
    """

    id: str
    subject: str
    status: str
    accepted: bool = False
    version: int | None = None
    position: int | None = None
    token: str | None = None


class Change(msgspec.Struct, frozen=True):
    """What one set of decisions changed of one thing: field -> (before, after), fields of fields as `a.b`.

    `actor` and `reason`: who asked and what for, empty if nobody did. Several events about it in one set happened at
    once and are joined by ` + `.
    """

    position: int
    time: str
    event: str
    actor: str
    reason: str
    cause: str
    changes: Mapping[str, tuple[Any, Any]]


class Diff(msgspec.Struct, frozen=True):
    """One item of a list that differs between two moments. `change`: ADDED, REMOVED or CHANGED; `before` and `after` as
    the list had it then; `changes` field by field in words, fields of fields as `a.b`."""

    name: str
    change: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    changes: tuple[str, ...] = ()


class Cause(msgspec.Struct, frozen=True):
    """One link of a chain of causes: the decision, who asked for it (`actor`), and what it answered.

    `kind`: what that was, REQUEST, HEARTBEAT, MAP, DEADLINE, COORDINATOR, OPERATOR, DECISION (another decision), or
    UNKNOWN. `follows`: the position of the decision that it follows from, None where it is the first of its chain, or
    where it was not looked for.
    """

    position: int
    event: str
    cause: str
    actor: str
    reason: str
    time: str
    kind: str = ""
    follows: int | None = None


class Awaited(msgspec.Struct, frozen=True):
    """A node that is asked since position `since`, and for how many ms at most from now (None: until it acts or is
    removed). It may have answered already: the log shows the verdict, not the answers it rests on."""

    node: str
    since: int
    at_most_ms: int | None


class Explanation(msgspec.Struct, frozen=True):
    """Why something is as it is: a sentence, facts, the decisions that made it so (oldest first), who is awaited.

    `followed`: of a decision, those that follow from it, oldest first. `next`: commands that show more or help, at
    most three, the best first; they can be run as they stand.
    """

    sentence: str
    facts: Mapping[str, str]
    causes: tuple[Cause, ...] = ()
    waiting_for: tuple[Awaited, ...] = ()
    followed: tuple[Cause, ...] = ()
    next: tuple[str, ...] = ()
