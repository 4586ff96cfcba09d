"""Rules of what a session compares: which replicas, which tokens of each, which columns (RE10, RE14, RE13).

Threats. A token range that half of the replicas hold (imprecise in 1.2), a replica that is asked for what it does not
hold, columns that only one side has or that two sides store in other types.

Invariant. All replicas of one segment hold all of its tokens, and have all columns of the spec in types that become one
canonical type without loss.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from topolog.events.errors import Refused
from topolog.events.repair import SegmentPlan
from topolog.events.repair_definition import SEGMENTS_MAX, SessionDefinition
from topolog.events.replica import ReplicaDefinition
from topolog.events.token_range import FULL, Ranges, TokenRange, overlap, split, union
from topolog.events.tree_spec import Column, Strength, TokenMode, TreeSpec, bits_for

DECIMAL_DIGITS_MAX = 38
SCHEMAS_CHARS = 1_600
"""Of all schemas in one message, names apart."""

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_LONG_DIGITS = 19


def segments(
    definition: SessionDefinition, replicas: Sequence[ReplicaDefinition], bits: int
) -> tuple[SegmentPlan, ...]:
    """The tokens of the session cut into segments, each with the replicas that hold all of it (RE10).

    Asked by ranges, all must be held by the same replicas, or Refused STRADDLES is raised. Asked by node, the tokens
    are cut where who holds them changes. What only one replica holds is in no segment.
    """
    placed = _placed(definition, replicas)
    holders = {each.name for each in replicas if overlap(each.ranges, definition.ranges)}
    if not definition.node and (len(placed) > 1 or any(set(names) != holders for names in placed)):
        message = "These tokens are not all held by the same replicas."
        facts = {" ".join(names): " ".join(map(str, ranges)) for names, ranges in placed.items()}
        raise Refused("STRADDLES", "RE10", message, facts, hint="Ask for one part, or with --node.")
    shared = {names: ranges for names, ranges in placed.items() if len(names) >= 2}
    if definition.segments * len(shared) > SEGMENTS_MAX:
        message = f"{len(shared)} sets of replicas hold these tokens, and each part would be cut {definition.segments}"
        raise Refused("TOO_MANY_SEGMENTS", "RE28", f"{message} times: more than {SEGMENTS_MAX} segments.")
    return tuple(
        SegmentPlan(part, names)
        for names, ranges in shared.items()
        for part in split(ranges, definition.segments, bits)
    )


def _placed(definition: SessionDefinition, replicas: Sequence[ReplicaDefinition]) -> Mapping[tuple[str, ...], Ranges]:
    """The tokens by who holds them, the initiator first: in one pass along the ring, for there may be many edges."""
    sets = (*(each.ranges for each in replicas), definition.ranges)
    turns: dict[int, int] = defaultdict(int)
    for number, ranges in enumerate(sets):
        for edge in (edge for each in ranges for edge in (each.start, each.end)):
            turns[edge] ^= 1 << number
    is_asked, inside = 1 << len(replicas), 0
    placed: dict[int, list[TokenRange]] = {}
    for start, end in pairwise(sorted(turns)):
        inside ^= turns[start]
        if inside & is_asked:
            placed.setdefault(inside, []).append(TokenRange(start, end))
    return {
        tuple(each.name for number, each in enumerate(replicas) if holders >> number & 1): union(pieces)
        for holders, pieces in placed.items()
    }


def tree_spec(definition: SessionDefinition, replicas: Sequence[ReplicaDefinition]) -> TreeSpec:
    """What exactly is hashed; raises Refused SCHEMA_MISMATCH with the schemas if the replicas do not go together."""
    first = replicas[0]
    key = first.key
    others = [each.name for each in replicas if each.key != key]
    columns = _columns(definition, replicas)
    known = {column.name for each in replicas for column in each.columns}
    if unknown := [name for name in definition.columns if name not in known]:
        raise Refused("NO_SUCH_COLUMN", "RE14", f"The replicas have no column {', '.join(unknown)} to compare.")
    if others or columns is None:
        message = "The replicas do not have the same columns and key."
        facts = _schemas(replicas)
        raise Refused("SCHEMA_MISMATCH", "RE14", message, facts, hint="--columns compares those that all have.")
    names = {column.name for column in columns}
    for name in filter(None, (definition.version_column, definition.tombstone_column)):
        if name not in names:
            raise Refused("NO_SUCH_COLUMN", "RE2", f"The replicas have no column {name!r} to go by.")
    is_ordered = definition.mode is TokenMode.ORDERED
    if is_ordered and not (key and first.boundaries):
        message = f"Replica {first.name!r} has declared no sample of its keys, so there is no order of tokens."
        raise Refused("NO_BOUNDARIES", "RE15", message)
    spec = TreeSpec(
        definition.table,
        columns,
        key,
        definition.bits or bits_for(max(each.rows for each in replicas)),
        Strength.FAST if definition.strength is Strength.UNKNOWN else definition.strength,
        TokenMode.ORDERED if is_ordered else TokenMode.HASHED,
        first.boundaries if is_ordered else (),
        version_column=definition.version_column,
        tombstone_column=definition.tombstone_column,
    )
    _check_tokens(spec, replicas)
    return spec


def _check_tokens(spec: TreeSpec, replicas: Sequence[ReplicaDefinition]) -> None:
    """A part of a table is declared in the tokens that its own key has by hash: others would be of other rows."""
    hashed = _placing(spec.columns, spec.key)
    for each in replicas:
        is_same = spec.mode is TokenMode.HASHED and _placing(each.columns, each.key) == hashed
        if each.ranges != (FULL,) and not is_same:
            message = f"Replica {each.name!r} holds a part of the table, in tokens that its rows do not have here."
            hint = "Ask without --ordered and with the types that it has, or of replicas that hold all."
            raise Refused("OTHER_TOKENS", "RE15", message, hint=hint)


def _placing(columns: Iterable[Column], key: Sequence[str]) -> frozenset[Column]:
    """The columns by which rows get their tokens: the key, or all of a table without one."""
    return frozenset(each for each in columns if each.name in key or not key)


def _columns(definition: SessionDefinition, replicas: Sequence[ReplicaDefinition]) -> tuple[Column, ...] | None:
    """The columns to hash in the types that suit all, None if there are no such."""
    typed = [{column.name: column.type for column in each.columns} for each in replicas]
    if definition.columns:
        names = [*replicas[0].key, *(name for name in definition.columns if name not in replicas[0].key)]
    else:
        names = list(typed[0])
        if any(set(each) - set(definition.ignored) != set(names) - set(definition.ignored) for each in typed):
            return None
    found = []
    for name in names:
        if name in definition.ignored and name not in replicas[0].key:
            continue
        type_ = reconciled(each.get(name, "") for each in typed)
        if type_ is None:
            return None
        found.append(Column(name, type_))
    return tuple(found)


def reconciled(types: Iterable[str]) -> str | None:
    """The canonical type that holds every value of all of these; None if there is none (RE16)."""
    distinct = sorted(set(types))
    if len(distinct) == 1:
        return distinct[0] or None
    sizes = [_digits(each) for each in distinct]
    known = [each for each in sizes if each is not None]
    if len(known) < len(sizes):
        return None
    scale = max(scale for _, scale in known)
    whole = max(whole for whole, _ in known)
    return f"decimal({whole + scale},{scale})" if whole + scale <= DECIMAL_DIGITS_MAX else None


def _digits(type_: str) -> tuple[int, int] | None:
    """Digits before and behind the point; None if it is no exact number."""
    if type_ == "long":
        return _LONG_DIGITS, 0
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]) - int(match[2]), int(match[2])) if match else None


def _schemas(replicas: Sequence[ReplicaDefinition]) -> dict[str, str]:
    """The schema of each, cut so that all have room in one message; what not all have comes first."""
    common = set.intersection(*({*each.columns} for each in replicas))
    facts = {}
    for each in replicas:
        columns = sorted(each.columns, key=lambda column: column in common)
        text = f"key {', '.join(each.key) or 'none'}; {', '.join(f'{one.name} {one.type}' for one in columns)}"
        facts[each.name] = (
            text if len(text) <= SCHEMAS_CHARS // len(replicas) else (f"{text[: SCHEMAS_CHARS // len(replicas)]}...")
        )
    return facts
