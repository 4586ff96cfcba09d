"""What a session is asked to do: its table and tokens, how it is paced, and which way rows may go."""

from enum import Enum

import msgspec

from topolog.events.ids import Position
from topolog.events.token_range import FULL, Ranges
from topolog.events.tree_spec import Strength, TokenMode

SEGMENTS_MAX = 1024
"""Of one session, with those that come from halving."""


class SessionKind(Enum):
    """PREVIEW only tells what differs, and what would be done about it; REPAIR does it (RE29)."""

    UNKNOWN = "UNKNOWN"
    PREVIEW = "PREVIEW"
    REPAIR = "REPAIR"


class Order(Enum):
    """How many replicas scan at a time: all, one, or one in each datacenter (RE25)."""

    UNKNOWN = "UNKNOWN"
    PARALLEL = "PARALLEL"
    SEQUENTIAL = "SEQUENTIAL"
    DATACENTER_PARALLEL = "DATACENTER_PARALLEL"


class Rendezvous(Enum):
    """EARLY compares each with the initiator as soon as both trees are in; ALL each two, once all are (RE22)."""

    UNKNOWN = "UNKNOWN"
    EARLY = "EARLY"
    ALL = "ALL"


class Policy(Enum):
    """Which way rows go (RE2). REPORT: none does. PULL: from a declared source of truth. UNION: of each row the
    newest version, everywhere."""

    UNKNOWN = "UNKNOWN"
    REPORT = "REPORT"
    PULL = "PULL"
    UNION = "UNION"


class SessionDefinition(msgspec.Struct, frozen=True):
    """All that somebody can say of a session; defaults are what is best if nobody does.

    `replicas`: empty for all. `node`: compare what this replica is to hold with whoever holds it, whatever `ranges`
    says. `initiator`: the one that EARLY pairs the others with; empty for the first. `datacenter`: only its replicas.
    `columns`: only these; empty for all. `bits`: 0 takes what suits the number of rows. `intensity` is the share of
    time that is worked, in percent. `retries` of a task; `halves`: a segment that fails for good is halved.
    `recheck`: a difference counts if it is still there at a later cut. `allow_partial`: go on without replicas that are
    not there. `preview`: the session whose differing ranges are to be repaired. `tokens` names how rows get the tokens
    that `ranges` speaks of (`TreeSpec.tokens`); empty for as this session has it. `reviewed_at_ms` is the requester's
    clock, with which `grace_ms` decides if a deletion can have been forgotten (RE23).
    """

    table: str
    kind: SessionKind
    policy: Policy = Policy.REPORT
    source: str = ""
    version_column: str = ""
    tombstone_column: str = ""
    grace_ms: int = 0
    reviewed_at_ms: int = 0
    deletes_extra: bool = False
    replicas: tuple[str, ...] = ()
    node: str = ""
    initiator: str = ""
    datacenter: str = ""
    ranges: Ranges = (FULL,)
    columns: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    strength: Strength = Strength.FAST
    mode: TokenMode = TokenMode.HASHED
    bits: int = 0
    order: Order = Order.PARALLEL
    rendezvous: Rendezvous = Rendezvous.ALL
    segments: int = 1
    parallel: int = 1
    intensity: int = 100
    retries: int = 2
    halves: bool = False
    recheck: bool = True
    allow_partial: bool = False
    queues: bool = False
    preview: Position | None = None
    tokens: str = ""
    prepare_ms: int = 60_000
    stall_ms: int = 120_000
    deadline_ms: int | None = None
