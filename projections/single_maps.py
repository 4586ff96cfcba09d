"""Single maps as people see them: what each server says that it holds, held against what the log says.

A map is judged when it is asked about, by the very rule that a coordinator keeps maps by (`streams/rules/
single_maps.py`), for it may have come before the decisions that it knows. A server sends one when an exchange needs it,
or when it has loaded or cleared something, so in a cluster at rest the newest may be old, or gone with its topic. Where
the log has changed a copy behind what the map had applied, the two may differ and nothing is wrong.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from topolog.events.exchange import ExchangeStarted
from topolog.events.groups import GroupRow
from topolog.events.ids import NOWHERE, Position
from topolog.events.leases import NodeRow
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState, decode_codes
from topolog.events.single_maps import NodeMap, SinglePartitionMap
from topolog.projections import packed, queries
from topolog.projections.moments import iso
from topolog.projections.partition_resources import SingleMap, SingleMapDetail, SingleMapOfGroup
from topolog.projections.partitions import Names, ranges, rows_of
from topolog.projections.queries import not_found
from topolog.projections.sentences import counted
from topolog.projections.sides import MapBodyRow, MapRow
from topolog.projections.store import Reading
from topolog.streams.rules import placement
from topolog.streams.rules.single_maps import (
    Known,
    KnownGroup,
    MapVerdict,
    finished_in,
    judge_groups,
    judge_map,
)

AGREE, DIFFER, NONE, AHEAD, REFUSED = "AGREE", "DIFFER", "NONE", "AHEAD", "REFUSED"

NO_PAST = "Single maps have no past: the newest of each server is kept, as long as its topic has it."

_UNFINISHED = (PartitionState.MOVING.code, PartitionState.RENTING.code)
_EVICTED = PartitionState.EVICTED.code


def single_maps(reading: Reading, age_ms: int, after: str | None = None) -> Iterator[SingleMap]:
    """Of every server, in the order in which they joined, behind the one named `after`."""
    beside = _Beside(reading, age_ms)
    last = None if after is None else reading.row(NodeRow, after)
    for row in beside.servers:
        if last is None or row.joined_at > last.joined_at:
            yield _head_of(beside.shown(row))


def single_map(reading: Reading, age_ms: int, name: str) -> SingleMapDetail:
    """That of one server, with its groups; raises NotFound for what is none."""
    beside = _Beside(reading, age_ms)
    row = next((row for row in beside.servers if row.node == name), None)
    if row is None:
        raise not_found(name, (row.node for row in beside.servers), "server")
    return beside.shown(row)


def answered(reading: Reading, counts_from: Position) -> dict[str, int]:
    """The servers whose newest map counts as an answer from this position on (DS13, DS17), with the time at which it
    came; nobody as of the past."""
    if not reading.is_current:
        return {}
    log_id = queries.cluster_row(reading).log_id
    lives = {row.node: row.incarnation for row in placement.servers(reading.state(NodeRow))}
    return {
        row.node: row.appended_ms
        for _, row in reading.sides(MapRow)
        if row.applied.log_id.hex() == log_id
        and lives.get(row.node) == row.incarnation
        and row.applied.position >= counts_from
    }


class _Said(msgspec.Struct, frozen=True):
    """What both say of one group: by partition the code of the copy; where the log has changed it since; what is
    finished and the log does not show."""

    told: bytes
    logged: bytes
    later: bytes
    finished: frozenset[int]

    def differing(self) -> tuple[list[int], int, int]:
        """The partitions that differ for no reason, and how many do because the log lags, or the map does."""
        found, finished, outdated = list[int](), 0, 0
        if self.told == self.logged:
            return found, 0, 0
        for number, (told, logged) in enumerate(zip(self.told, self.logged, strict=True)):
            if told == logged or (told == _EVICTED and not logged):
                continue
            if self.later[number]:
                outdated += 1
            elif number in self.finished and logged in _UNFINISHED:
                finished += 1
            else:
                found.append(number)
        return found, finished, outdated


class _Beside:
    """What maps are judged by and held against, read once."""

    def __init__(self, reading: Reading, age_ms: int) -> None:
        self._reading = reading
        self._who = Names(reading)
        self._now_ms = reading.meta.logged_at_ms + age_ms
        self._rows: dict[str, Sequence[OwnershipRow]] = {}
        self._groups = sorted((row for _, row in reading.rows(GroupRow)), key=lambda row: row.name)
        self.servers = placement.servers(reading.state(NodeRow))

    def shown(self, row: NodeRow) -> SingleMapDetail:
        head, body = self._reading.side(MapRow, row.node), self._reading.side(MapBodyRow, row.node)
        if head is None or body is None or not self._is_of(row, head):
            nothing = f"No map of this life of {row.node} is kept: it was asked for none lately, or has sent none."
            groups = self._held(row, None)
            return _detail(SingleMap(row.node, NONE, nothing, row.incarnation), groups)
        whole = NodeMap(
            head.node, head.incarnation, head.exchange, head.update_sequence, head.applied, dict(body.groups)
        )
        verdict, whole, detail = self._judged(whole)
        groups = self._held(row, whole if verdict is MapVerdict.KEPT else None)
        state, sentence = _state_of(verdict, detail, groups)
        found = SingleMap(
            node=row.node,
            state=state,
            sentence=sentence,
            incarnation=row.incarnation,
            sequence=head.update_sequence,
            exchange=self._version(head.exchange),
            applied=head.applied.position,
            time=iso(head.appended_ms),
            age_ms=max(0, self._now_ms - head.appended_ms),
        )
        return _detail(found, groups)

    def _is_of(self, row: NodeRow, head: MapRow) -> bool:
        return head.incarnation == row.incarnation and head.applied.log_id == self._reading.meta.header.log_id

    def _judged(self, whole: NodeMap) -> tuple[MapVerdict, NodeMap, str]:
        """What a coordinator makes of it, whichever exchange it was sent for."""
        known = self._known(whole.applied.position)
        head = SinglePartitionMap(whole.node, whole.incarnation, None, whole.update_sequence, whole.applied, 0, 1, ())
        verdict = judge_map(known, None, head)
        if verdict is not MapVerdict.KEPT:
            return verdict, whole, ""
        receipt = judge_groups(known, whole)
        return receipt.verdict, receipt.map or whole, receipt.detail

    def _known(self, applied: Position) -> Known:
        decided = self._reading.decision(applied)
        return Known(
            log_id=self._reading.meta.header.log_id or b"",
            position=self._reading.position,
            members={row.node: row.incarnation for row in self.servers},
            groups={row.name: KnownGroup(row.partitions, row.created_at) for row in self._groups},
            exchange=NOWHERE,
            counts_from=NOWHERE,
            chains={applied: decided.chain} if decided else {},
        )

    def _held(self, row: NodeRow, whole: NodeMap | None) -> list[SingleMapOfGroup]:
        """By group, as far as anybody has something to say; without a map all that the log has, and no differences."""
        number = self._who.number_of(row.node)
        found = []
        for group in self._groups:
            copies = whole.groups.get(group.name) if whole else None
            told = decode_codes(copies.states, group.partitions) if copies else bytes(group.partitions)
            if number is None and not any(told):
                continue
            if group.name not in self._rows:
                self._rows[group.name] = list(rows_of(self._reading, group))
            rows, after = self._rows[group.name], whole.applied.position if whole else NOWHERE
            logged, later = packed.copies_on(rows, number, after) if number is not None else (bytes(len(told)),) * 2
            if not any(told) and not any(logged):
                continue
            said = _Said(told, logged, later, _finished(whole, group) if copies else frozenset())
            found.append(_of_group(group.name, said, is_told=bool(copies)))
        return found

    def _version(self, exchange: Position | None) -> str | None:
        decided = None if exchange is None else self._reading.decision(exchange)
        event = decided.event if decided else None
        return str(event.triggers[0].version) if isinstance(event, ExchangeStarted) else None


def _finished(whole: NodeMap | None, group: GroupRow) -> frozenset[int]:
    """Partitions whose copies the node has loaded or cleared."""
    return frozenset(each for each, _, _ in finished_in(whole, group.name, group.partitions)) if whole else frozenset()


def _of_group(name: str, said: _Said, *, is_told: bool) -> SingleMapOfGroup:
    differing, finished, outdated = said.differing() if is_told else ([], 0, 0)
    return SingleMapOfGroup(
        group=name,
        copies=_counts(said.told),
        in_log=_counts(said.logged),
        differences=len(differing),
        finished=finished,
        outdated=outdated,
        differing=ranges(differing),
    )


def _counts(codes: bytes) -> dict[str, int]:
    return {state.name: count for state in PartitionState if (count := codes.count(state.code))}


def _state_of(verdict: MapVerdict, detail: str, groups: Iterable[SingleMapOfGroup]) -> tuple[str, str]:
    if verdict is MapVerdict.AHEAD:
        return AHEAD, verdict.sentence
    if verdict is not MapVerdict.KEPT:
        return REFUSED, f"{verdict.name}: {detail or verdict.sentence}"
    differences, finished, outdated = (
        sum(getattr(each, field) for each in groups) for field in ("differences", "finished", "outdated")
    )
    beside = [f"{counted(finished, 'copy')} finished that the log does not show yet"] if finished else []
    beside += [f"{outdated} that the log has changed since"] if outdated else []
    rest = f" Beside that: {', '.join(beside)}." if beside else ""
    if differences:
        are = "is not as the log has it" if differences == 1 else "are not as the log has them"
        return DIFFER, f"{counted(differences, 'partition')} {are}.{rest}"
    return AGREE, f"It says what the log says.{rest}"


def _detail(found: SingleMap, groups: Sequence[SingleMapOfGroup]) -> SingleMapDetail:
    values = {field: getattr(found, field) for field in SingleMap.__struct_fields__} | {
        "copies": _sums(each.copies for each in groups),
        "in_log": _sums(each.in_log for each in groups),
        "differences": sum(each.differences for each in groups),
        "finished": sum(each.finished for each in groups),
        "outdated": sum(each.outdated for each in groups),
    }
    return SingleMapDetail(**values, groups=tuple(groups))


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in counts:
        for state, count in each.items():
            found[state] = found.get(state, 0) + count
    return found


def _head_of(found: SingleMapDetail) -> SingleMap:
    return SingleMap(**{field: getattr(found, field) for field in SingleMap.__struct_fields__})
