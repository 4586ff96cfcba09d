"""Which rows differ, and which way each of them may go: the plan of a repair, made of digests (RE2).

Threats. A row that one replica has deleted comes back from another that never heard; a row that only one replica has is
taken for surplus, or one that most have for the truth; a replica that was not asked is taken for one that lacks all; a
key that is there twice is written over with one of both.

Invariant. A row goes only from a replica that has it, or that is the declared source of truth, to replicas that were
compared and differ from it. Nothing is deleted but what the declared source lacks, and only if the session says so.

Argument. The plan of a row is a function of its digests on all replicas and of what the session says (`Direction`):
whoever plans it, the rendezvous for people, the sender and the reader of a plan, comes to the same. Votes are told and
never decide. With UNION the newest version wins, and a deletion is a version if the table has tombstones: they are
carried like any row. If a row is missing somewhere, and is as old as tombstones are kept, nobody can tell a row that
never came from one whose deletion is forgotten: it is left to people (RE23).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from itertools import groupby
from operator import itemgetter

import msgspec

from topolog.events.repair_definition import Policy, SessionDefinition
from topolog.events.repair_tasks import RANGES_MAX, Copy, Findings
from topolog.events.replica import RowDigest
from topolog.events.replicas import replica
from topolog.events.sessions import SegmentRow, SessionRow
from topolog.events.state import State
from topolog.events.token_range import FULL, RING_BITS, Ranges, coarsened, of_buckets
from topolog.events.tree_spec import TreeSpec


class Version(msgspec.Struct, frozen=True, array_like=True):
    """One content of a row, and who has it so many times; the replicas are a vote for it."""

    replicas: tuple[str, ...]
    h1: int
    h2: int
    version: str | None
    is_tombstone: bool
    rows: int = 1

    @property
    def content(self) -> tuple[int, int]:
        return self.h1, self.h2


class Difference(msgspec.Struct, frozen=True, array_like=True):
    """A key on which replicas differ: its contents, the one that most have first, and the replicas that lack it.

    In a table without key each distinct row has a key of its own, and a version for each count of it.
    """

    key: str
    token: int
    versions: tuple[Version, ...]
    missing: tuple[str, ...]

    @property
    def has_duplicates(self) -> bool:
        """Whether a replica has the key more than once."""
        holders = [name for each in self.versions for name in each.replicas]
        return len(set(holders)) < len(holders) or any(each.rows > 1 for each in self.versions)

    def version_of(self, name: str) -> Version | None:
        """What a replica has, None if it lacks the row; for a row without duplicates."""
        return next((each for each in self.versions if name in each.replicas), None)

    def content_of(self, name: str) -> tuple[int, int] | None:
        """The content that a replica had when it was compared, as `SentRow.targets` names it."""
        version = self.version_of(name)
        return version.content if version else None


class Kind(Enum):
    """What is wrong with a row. EXTRA: the source of truth lacks it; without one, most replicas do, or half of them
    and the initiator."""

    CHANGED = "CHANGED"
    MISSING = "MISSING"
    EXTRA = "EXTRA"
    DUPLICATE_KEY = "DUPLICATE_KEY"


class Reason(Enum):
    """Why a row, or a replica of it, is left alone.

    NO_SOURCE: the source of truth was not compared. NO_VERSION: contents differ and nothing says which is newer.
    CONFLICT: two contents of one version. PURGED: nothing is wrong, see `is_purged`.
    """

    REPORT = "REPORT"
    NO_KEY = "NO_KEY"
    DUPLICATE_KEY = "DUPLICATE_KEY"
    NO_SOURCE = "NO_SOURCE"
    EXTRA = "EXTRA"
    NO_VERSION = "NO_VERSION"
    CONFLICT = "CONFLICT"
    RESURRECTION_RISK = "RESURRECTION_RISK"
    NOT_WRITABLE = "NOT_WRITABLE"
    PURGED = "PURGED"


class Direction(msgspec.Struct, frozen=True):
    """Which way rows may go in one segment. `read_only`: replicas that nobody can write to."""

    definition: SessionDefinition
    spec: TreeSpec
    initiator: str
    read_only: frozenset[str] = frozenset()

    @property
    def version_type(self) -> str:
        """The canonical type of the version column, empty for none."""
        wanted = self.definition.version_column
        return next((each.type for each in self.spec.columns if wanted and each.name == wanted), "")


class Planned(msgspec.Struct, frozen=True):
    """`source` sends the row to `targets`; with `deletes` it lacks it, and they are to delete theirs.

    `reason` is empty, or why the row is left alone; with targets, why only those get it (NOT_WRITABLE).
    """

    source: str = ""
    targets: tuple[str, ...] = ()
    deletes: bool = False
    reason: str = ""


def direction(state: State, session: SessionRow, segment: SegmentRow) -> Direction:
    """That of a session that has been opened."""
    assert session.spec is not None, "a session that is not open has no spec"
    rows = {name: replica(state, session.definition.table, name) for name in segment.replicas}
    read_only = frozenset(name for name, row in rows.items() if row is not None and not row.definition.is_writable)
    return Direction(session.definition, session.spec, segment.replicas[0], read_only)


def differences(digests: Mapping[str, Sequence[RowDigest]]) -> list[Difference]:
    """The rows that are not the same on all of these replicas, by token and key.

    All of a key has to be here: a replica that is not in `digests` was not compared, one with no row there lacks it.
    """
    names = sorted(digests)
    keys = _suspicious(digests)
    tagged = [(row.key, name, row) for name in names for row in digests[name] if row.key in keys]
    tagged.sort(key=itemgetter(0))
    found = []
    for key, group in groupby(tagged, key=itemgetter(0)):
        holders: dict[str, list[RowDigest]] = {}
        for _, name, row in group:
            holders.setdefault(name, []).append(row)
        if not _agree(holders, len(names)):
            found.append(_difference(key, holders, names))
    return sorted(found, key=lambda each: (each.token, each.key))


def _suspicious(digests: Mapping[str, Sequence[RowDigest]]) -> set[str]:
    """The keys of which not each replica has just one row, and the same."""
    contents = [{(row.key, row.h1, row.h2) for row in rows} for rows in digests.values()]
    common = set.intersection(*contents) if contents else set()
    keys = {each[0] for rows in contents for each in rows - common}
    for rows, distinct in zip(digests.values(), contents, strict=True):
        if len(distinct) < len(rows):
            keys |= {key for key, count in Counter(row.key for row in rows).items() if count > 1}
    return keys


def _agree(holders: Mapping[str, list[RowDigest]], replicas: int) -> bool:
    if len(holders) < replicas:
        return False
    first, *others = (sorted(row.content for row in rows) for rows in holders.values())
    return all(each == first for each in others)


def _difference(key: str, holders: Mapping[str, list[RowDigest]], names: Sequence[str]) -> Difference:
    votes: dict[tuple[int, int, str | None, bool, int], list[str]] = defaultdict(list)
    for name, rows in holders.items():
        counts: dict[tuple[int, int, str | None, bool], int] = {}
        for row in rows:
            content = (row.h1, row.h2, row.version, row.is_tombstone)
            counts[content] = counts.get(content, 0) + 1
        for content, count in counts.items():
            votes[*content, count].append(name)
    versions = (Version(tuple(voters), *content) for content, voters in votes.items())
    ordered = sorted(versions, key=lambda each: (-len(each.replicas), each.replicas, each.content, each.version or ""))
    missing = tuple(name for name in names if name not in holders)
    return Difference(key, min(row.token for rows in holders.values() for row in rows), tuple(ordered), missing)


def kind(difference: Difference, way: Direction) -> Kind:
    if way.spec.key and difference.has_duplicates:
        return Kind.DUPLICATE_KEY
    if way.definition.policy is Policy.PULL and way.definition.source in difference.missing:
        return Kind.EXTRA
    if way.spec.key and len({each.content for each in difference.versions}) > 1:
        return Kind.CHANGED
    held = {name for each in difference.versions for name in each.replicas}
    surplus = len(difference.missing) - len(held)
    is_extra = surplus > 0 or (surplus == 0 and way.initiator in difference.missing)
    return Kind.EXTRA if is_extra else Kind.MISSING


def planned(difference: Difference, way: Direction) -> Planned:
    """What the session's policy does about a row."""
    policy = way.definition.policy
    if policy not in (Policy.PULL, Policy.UNION):
        return _left(Reason.REPORT)
    if not way.spec.key:
        return _left(Reason.NO_KEY)
    if difference.has_duplicates:
        return _left(Reason.DUPLICATE_KEY)
    return _pull(difference, way) if policy is Policy.PULL else _union(difference, way)


def _left(reason: Reason) -> Planned:
    return Planned(reason=reason.value)


def _pull(difference: Difference, way: Direction) -> Planned:
    source = way.definition.source
    if source in difference.missing:
        held = [name for each in difference.versions for name in each.replicas]
        return _to(held, source, way, deletes=True) if way.definition.deletes_extra else _left(Reason.EXTRA)
    truth = difference.version_of(source)
    if truth is None:
        return _left(Reason.NO_SOURCE)
    return _to(_others(difference, truth), source, way)


def _union(difference: Difference, way: Direction) -> Planned:
    newest = _newest(difference, way)
    if isinstance(newest, Reason):
        return _left(newest)
    if difference.missing and not newest.is_tombstone and _may_be_forgotten(newest, way):
        return _left(Reason.RESURRECTION_RISK)
    holders = newest.replicas
    source = way.initiator if way.initiator in holders else holders[0]
    if len(difference.versions) == 1 and _is_expired(newest, way):
        return _left(Reason.PURGED)
    return _to(_others(difference, newest), source, way)


def is_purged(difference: Difference, way: Direction) -> bool:
    """Whether all that differs is that some replicas have removed a tombstone which is older than tombstones are kept,
    and others have not yet: no difference, or it would be brought back as often as it is removed (RE23).

    While a replica has the row alive, the tombstone goes to all, so that they are equal behind it.
    """
    return planned(difference, way).reason == Reason.PURGED.value


def _others(difference: Difference, right: Version) -> list[str]:
    return [name for each in difference.versions if each != right for name in each.replicas] + [*difference.missing]


def _to(targets: Iterable[str], source: str, way: Direction, *, deletes: bool = False) -> Planned:
    wanted = sorted(targets)
    writable = tuple(name for name in wanted if name not in way.read_only)
    reason = "" if len(writable) == len(wanted) else Reason.NOT_WRITABLE.value
    return Planned(source, writable, deletes, reason) if writable else Planned(reason=reason)


def _newest(difference: Difference, way: Direction) -> Version | Reason:
    versions = difference.versions
    if len(versions) == 1:
        return versions[0]
    orders = [version_order(way.version_type, each.version) for each in versions]
    known = [each for each in orders if each is not None]
    if len(known) < len(orders):
        return Reason.NO_VERSION
    newest = max(known)
    winners = [each for each, order in zip(versions, known, strict=True) if order == newest]
    return winners[0] if len(winners) == 1 else Reason.CONFLICT


_NUMBERS = ("long", "double", "decimal")
_TIMES = ("timestamp", "timestamp_ntz", "date")
_UNIT_MS = {"timestamp": Decimal("0.001"), "timestamp_ntz": Decimal("0.001"), "date": Decimal(86_400_000)}
_EXPONENT_MAX = 400
"""More than any double has; arithmetic with what a hostile text can say would fail."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def version_order(type_: str, version: str | None) -> Decimal | str | None:
    """What versions of one column are compared by: a number, for times milliseconds since 1970, or the text of a
    string. None for what has no order: NULL, NaN, other types, and a text that is not of the type.

    Canonical texts of times are numbers (microseconds, days of a date), or as ISO 8601 has them (UTC).
    """
    if version is None:
        return None
    if type_ == "string":
        return version
    if type_.partition("(")[0] in _NUMBERS:
        return _number(version)
    if type_ not in _TIMES:
        return None
    number = _number(version)
    return number * _UNIT_MS[type_] if number is not None else _iso_ms(version)


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    is_sane = number.is_infinite() or (number.is_finite() and abs(number.adjusted()) <= _EXPONENT_MAX)
    return number if is_sane else None


def _iso_ms(text: str) -> Decimal | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH
    return Decimal(since.days) * 86_400_000 + since.seconds * 1000 + Decimal(since.microseconds) / 1000


def _may_be_forgotten(version: Version, way: Direction) -> bool:
    """Whether a tombstone that is newer than this row can have been removed everywhere by now: if tombstones are kept,
    and the row is as old as that, or nobody knows how old it is."""
    definition = way.definition
    if not definition.tombstone_column:
        return False
    written_ms = version_order(way.version_type, version.version) if way.version_type in _TIMES else None
    return not isinstance(written_ms, Decimal) or written_ms <= definition.reviewed_at_ms - definition.grace_ms


def _is_expired(version: Version, way: Direction) -> bool:
    """Whether it is a tombstone that may be removed by now; one whose age nobody knows is kept, and carried."""
    is_dated = way.version_type in _TIMES and version_order(way.version_type, version.version) is not None
    return version.is_tombstone and is_dated and _may_be_forgotten(version, way)


def findings(
    found: Iterable[Difference],
    way: Direction,
    *,
    pages: int = 0,
    digest: bytes = b"",
    gone: int = 0,
    within: Ranges = (FULL,),
) -> Findings:
    """The summary of these differences, read once. `pages` and `digest` are of the pages that hold them; `within`: the
    tokens that were compared, which its ranges do not leave (13052)."""
    kinds: Counter[str] = Counter()
    unresolved: Counter[str] = Counter()
    sent: Counter[tuple[str, str]] = Counter()
    deleted: Counter[tuple[str, str]] = Counter()
    tokens: set[int] = set()
    for each in found:
        plan = planned(each, way)
        kinds[kind(each, way).value] += 1
        tokens.add(each.token)
        if plan.reason:
            unresolved[plan.reason] += 1
        for target in plan.targets:
            sent[plan.source, target] += 1
            deleted[plan.source, target] += plan.deletes
    return Findings(
        rows=kinds.total(),
        ranges=coarsened(of_buckets(sorted(tokens), RING_BITS), RANGES_MAX, within),
        kinds=_sorted(kinds),
        copies=tuple(Copy(*ends, rows, deleted[ends]) for ends, rows in sorted(sent.items())),
        unresolved=_sorted(unresolved),
        pages=pages,
        digest=digest,
        gone=gone,
    )


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}
