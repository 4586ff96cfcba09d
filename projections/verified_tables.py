"""How each table stands after all its sessions, of which each is true of a part: for alarms (RE11).

Threats. A session of one datacenter, of two replicas of five or of a few tokens makes the whole table look well; one
that is aborted, or that looks elsewhere, makes forget what an earlier one has found.

Invariant. A table counts as verified once every token has been found equal, or made so, in all replicas that are
declared. Rows that differ count until their tokens have been looked at again, in all replicas that were compared then.

Argument. Of each end only what it says by ranges is taken: the tokens that are equal, and those that differ. Tokens
that a replica holds which was not compared are not equal. Ranges of two sessions are put together only if a row has the
same token in both. A session of some of the columns says nothing of a table; columns that are ignored on purpose count
as compared.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from topolog.events.repair_definition import SessionKind
from topolog.events.replica import ReplicaDefinition
from topolog.events.replicas import ReplicaRow
from topolog.events.sessions import SessionRow
from topolog.events.token_range import FULL, Ranges, cells, union, without
from topolog.projections import changes
from topolog.projections.session_totals import compared_by, totals
from topolog.projections.store import Reading


class TableVerified(msgspec.Struct, frozen=True):
    """`rows_differ`: found, and not equal since, one at least where only leaves were. `verified_ms`: since all of the
    table was; None if it never was."""

    rows_differ: int
    verified_ms: int | None


class _Said(msgspec.Struct, frozen=True):
    """What the end of one session says. `tokens`: sessions of the same have the same tokens for the same rows."""

    ended_ms: int
    tokens: str
    replicas: frozenset[str]
    equal: Ranges
    differing: Ranges
    rows: int

    @property
    def seen(self) -> Ranges:
        return union((*self.equal, *self.differing))


def tables(reading: Reading) -> Mapping[str, TableVerified]:
    """By table, as far as coordinators keep sessions (`repair.ENDED_KEPT`)."""
    ended: dict[str, list[SessionRow]] = {}
    for _, row in reading.rows(SessionRow):
        if row.ended_at is not None:
            ended.setdefault(row.definition.table, []).append(row)
    if not ended:
        return {}  # nor is there a time of now where nothing was decided
    declared: dict[str, list[ReplicaDefinition]] = {}
    for _, replica in reading.rows(ReplicaRow):
        declared.setdefault(replica.definition.table, []).append(replica.definition)
    now_ms = changes.now_ms(reading)
    return {table: _verified(reading, rows, declared.get(table, []), now_ms) for table, rows in sorted(ended.items())}


def _verified(
    reading: Reading, rows: Sequence[SessionRow], declared: Sequence[ReplicaDefinition], now_ms: int
) -> TableVerified:
    newest_first = sorted(rows, key=lambda row: row.ended_at or 0, reverse=True)
    said = [each for row in newest_first if (each := _said(reading, row)) is not None]
    at_ms = _verified_at_ms(said, declared)
    return TableVerified(_rows_differ(said), None if at_ms is None else max(0, now_ms - at_ms))


def _said(reading: Reading, row: SessionRow) -> _Said | None:
    """None of one that compared nothing, or not whole rows."""
    definition, spec = row.definition, row.spec
    if spec is None or definition.columns or row.ended_at is None:
        return None
    is_repair = definition.kind is SessionKind.REPAIR
    names = frozenset(compared_by(reading, row)) - frozenset(totals(reading, row).absent)
    return _Said(
        reading.surely_decision(row.ended_at).logged_at_ms,
        spec.tokens,
        names,
        row.covered if is_repair else without(row.covered, row.differing),
        row.differing,
        row.rows_found,
    )


def _verified_at_ms(newest_first: Iterable[_Said], declared: Iterable[ReplicaDefinition]) -> int | None:
    """When the oldest of those ended that it takes for all tokens."""
    known = list(declared)
    equal: dict[str, Ranges] = {}
    for each in newest_first:
        elsewhere = [held for one in known if one.name not in each.replicas for held in one.ranges]
        equal[each.tokens] = union((*equal.get(each.tokens, ()), *without(each.equal, elsewhere)))
        if equal[each.tokens] == (FULL,):
            return each.ended_ms
    return None


def _rows_differ(newest_first: Sequence[_Said]) -> int:
    """Of ranges that were looked at again in part, their share of the rows; at least one while anything is left."""
    found = 0
    for number, each in enumerate(newest_first):
        later = [seen for other in newest_first[:number] for seen in _seen_again(each, other)]
        if left := without(each.differing, (*each.equal, *later)):
            found += max(1, -(-each.rows * cells(left) // cells(each.differing)))
    return found


def _seen_again(former: _Said, later: _Said) -> Ranges:
    """The tokens of which the later session knows better. All of them are the same tokens anywhere."""
    if not later.replicas >= former.replicas:
        return ()
    return later.seen if later.tokens == former.tokens or later.seen == (FULL,) else ()
