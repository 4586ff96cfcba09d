"""Which single map is kept, and why another is not (EX28, EX29).

Threats. A map is late: its sender has another life by now, a newer one has come, the group was dropped or made anew. A
map is wrong: it speaks of partitions that its group has not, leaves a group out, goes back behind itself. Believed, it
names owners that own nothing; and an exchange that counts it as an answer goes on without asking again. One that comes
when its exchange is over is kept: it starts the next one (`events/awaited.py`).

Invariant. Of each member the newest whole map is kept, of its present incarnation, with every group that it must tell
of. Whatever arrives, in any order, any number of times, is kept or ignored for a reason that has a name, and an ignored
map changes nothing but its count.

Argument. The records of one incarnation are ordered by the update sequence (EX28), all there is to compare: the
log has one order of exchanges and one incarnation for each member, and a map names both. What the sender could not know
(a group that was dropped, or made after what it had applied) is left out of its map, for it is no mistake; whatever is
wrong in a map spoils all of it, for a group that is not there would read as one without copies. A spoilt answer is no
answer: its sender is awaited still, which is bounded and visible (EX29).

Ignite's rules for *full* maps have no counterpart here: a full map is a decision, and the fold orders decisions.
docs/partitions.md has the table of what became of each rule.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TypeVar

import msgspec

from topolog.events.errors import OutOfRange, Undecodable
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.membership import Applied
from topolog.events.partitions import PartitionState, decode_codes, states_of
from topolog.events.single_maps import (
    PARTS_MAX,
    Assembly,
    Copies,
    Finished,
    NodeMap,
    SinglePartitionMap,
    assemble,
    check_numbers,
    joined,
    unpack_finished,
)

_Told = TypeVar("_Told", NodeMap, Assembly)


class MapVerdict(Enum):
    """What became of a record, or of one group of a map: a sentence, and whether somebody has made a mistake.

    What is no fault comes of delays, repeats and changes meanwhile, and mends itself.
    """

    KEPT = ("It is the newest map of its node.", False)
    PARTIAL = ("Other parts of its map are still to come.", False)
    FOREIGN_LOG = ("Its node follows another log.", True)
    DIVERGED = ("What its node has applied is not what stands in the log.", True)
    AHEAD = ("Its node has applied more of the log than its reader knows.", False)
    NOT_A_MEMBER = ("Its node is no server of the cluster, or no longer.", False)
    STALE_INCARNATION = ("Another process life of its node is the member.", False)
    UNKNOWN_EXCHANGE = ("It answers an exchange that has not begun.", True)
    OLD_SEQUENCE = ("A newer map of its node has come before it.", False)
    EQUAL = ("It has come before.", False)
    IMPOSSIBLE_SEQUENCE = ("Its update sequence contradicts what its node has sent before.", True)
    MALFORMED = ("It contradicts itself.", True)
    INCOMPLETE = ("It leaves out a group that its node must know.", True)
    DAMAGED = ("Bytes in it are no states and no numbers.", True)
    OUT_OF_RANGE = ("It names partitions that their group has not.", True)
    UNKNOWN_GROUP = ("There is no such group, or no longer.", False)
    OLD_GROUP = ("The group was made anew, and its node did not know that yet.", False)

    sentence: str
    is_fault: bool

    def __new__(cls, sentence: str, is_fault: bool) -> "MapVerdict":
        verdict = object.__new__(cls)
        verdict._value_ = verdict.sentence = sentence
        verdict.is_fault = is_fault
        return verdict


class KnownGroup(msgspec.Struct, frozen=True):
    """A group as the log has it; `since` is the position that created it."""

    partitions: int
    since: Position


class Known(msgspec.Struct, frozen=True):
    """What the log says up to `position`, and maps are judged by.

    A leader's `position` is that of what it has decided: nodes may read a decision before its leader has read it back.
    `members` are servers; `exchange` is the position of the latest ExchangeStarted, over or not (NOWHERE before the
    first), `counts_from` that of the one from which on maps count as answers (DS17); `chains` has the chain hash at
    positions that are remembered (K9).
    """

    log_id: bytes
    position: Position
    members: Mapping[NodeId, Incarnation]
    groups: Mapping[str, KnownGroup]
    exchange: Position
    counts_from: Position
    chains: Mapping[Position, bytes] = {}


class Receipt(msgspec.Struct, frozen=True):
    """What became of a record: `map` is what is kept if it was the last part of a map that counts.

    `left_out` are the groups that its sender could not know; `detail` says in words what is wrong.
    """

    verdict: MapVerdict
    map: NodeMap | None = None
    left_out: Mapping[str, MapVerdict] = {}
    detail: str = ""


class Inbox(msgspec.Struct, frozen=True):
    """All that has come of single maps: per member one map and the parts of one that is under way, and counts."""

    kept: Mapping[NodeId, NodeMap] = {}
    arriving: Mapping[NodeId, Assembly] = {}
    counts: Mapping[MapVerdict, int] = {}


def receive(inbox: Inbox, known: Known, record: SinglePartitionMap) -> tuple[Inbox, Receipt]:
    """The inbox with one more record of the topic `maps`, and what became of the record."""
    kept, arriving = _of_members(inbox.kept, known), _of_members(inbox.arriving, known)
    verdict = judge_map(known, kept.get(record.node), record)
    receipt = Receipt(verdict)
    if verdict is MapVerdict.KEPT:
        before = arriving.get(record.node)
        arriving[record.node], parts = assemble(before, record)
        if parts is None:
            receipt = Receipt(_judge_part(before, arriving[record.node], record))
        else:
            receipt = _judge_parts(known, parts)
    if receipt.map is not None:
        kept[record.node] = receipt.map
    counts = {**inbox.counts, receipt.verdict: inbox.counts.get(receipt.verdict, 0) + 1}
    for why in receipt.left_out.values():
        counts[why] = counts.get(why, 0) + 1
    return Inbox(kept, arriving, counts), receipt


def answers(inbox: Inbox, known: Known) -> dict[NodeId, NodeMap]:
    """The kept maps that count as answers, of members that are still the same process life (DS13): whoever has applied
    the question tells all that it has, whatever it was that it sent its map for."""
    kept = _of_members(inbox.kept, known)
    return {node: told for node, told in kept.items() if told.applied.position >= known.counts_from}


def judge_map(known: Known, kept: NodeMap | None, arrived: SinglePartitionMap) -> MapVerdict:
    """Whether a record, for all that its head says, belongs to a map that is to be kept.

    `kept` is what is kept of its node so far. AHEAD is for a reader that is behind: it may ask again when it is not.
    """
    if not _is_sound(arrived):
        return MapVerdict.MALFORMED
    if (why := _why_not_of_this_log(known, arrived.applied)) is not None:
        return why
    if arrived.node not in known.members:
        return MapVerdict.NOT_A_MEMBER
    if known.members[arrived.node] != arrived.incarnation:
        return MapVerdict.STALE_INCARNATION
    if arrived.exchange is not None and arrived.exchange > known.exchange:
        return MapVerdict.UNKNOWN_EXCHANGE
    if arrived.update_sequence < 1:
        return MapVerdict.IMPOSSIBLE_SEQUENCE
    if kept is None or kept.incarnation != arrived.incarnation:
        return MapVerdict.KEPT
    return _judge_sequence(kept, arrived)


def judge_groups(known: Known, whole: NodeMap) -> Receipt:
    """Whether a whole map is kept, for all that it says of groups."""
    left_out = {name: why for name in whole.groups if (why := _why_left_out(known, whole, name))}
    must_tell = [name for name, group in known.groups.items() if group.since <= whole.applied.position]
    if missing := sorted(name for name in must_tell if name not in whole.groups):
        return Receipt(MapVerdict.INCOMPLETE, detail=f"It does not tell of {', '.join(missing)}.")
    kept = {name: copies for name, copies in whole.groups.items() if name not in left_out}
    legible: set[tuple[bytes, int]] = set()
    for name, copies in kept.items():
        try:
            _read(copies, known.groups[name].partitions, legible)
        except OutOfRange as error:
            return Receipt(MapVerdict.OUT_OF_RANGE, detail=f"Group {name}: {error}")
        except Undecodable as error:
            return Receipt(MapVerdict.DAMAGED, detail=f"Group {name}: {error}")
    return Receipt(MapVerdict.KEPT, msgspec.structs.replace(whole, groups=kept), left_out)


def finished_in(told: NodeMap, group: str, partitions: int) -> Iterator[tuple[int, PartitionState, Finished]]:
    """(partition, OWNING or EVICTED, what was finished) of a kept map's copies of a group of so many partitions.

    It is for who decides about copies to compare it with the life and the token that the log has now (DS6).
    """
    copies = told.groups[group]
    if not copies.finished:
        return
    states = states_of(decode_codes(copies.states, partitions))
    for partition, finished in unpack_finished(copies.finished, partitions).items():
        state = states.get(partition)
        if state is PartitionState.OWNING or state is PartitionState.EVICTED:
            yield partition, state, finished


def _is_sound(arrived: SinglePartitionMap) -> bool:
    """Whether a record's numbers can all be true."""
    applied = arrived.applied.position
    has_applied = applied >= 0 and (arrived.exchange is None or 0 <= arrived.exchange <= applied)
    return has_applied and 0 <= arrived.part < arrived.parts <= PARTS_MAX


def _why_not_of_this_log(known: Known, applied: Applied) -> MapVerdict | None:
    """K9: a report counts if the log is the one that its sender has applied."""
    if applied.log_id != known.log_id:
        return MapVerdict.FOREIGN_LOG
    if applied.position > known.position:
        return MapVerdict.AHEAD
    is_same = known.chains.get(applied.position, applied.chain) == applied.chain
    return None if is_same else MapVerdict.DIVERGED


def _judge_sequence(kept: NodeMap, arrived: SinglePartitionMap) -> MapVerdict:
    """EX28: by the update sequence of one incarnation, in which what is applied never falls."""
    if arrived.update_sequence == kept.update_sequence:
        return MapVerdict.EQUAL
    if arrived.update_sequence < kept.update_sequence:
        return MapVerdict.OLD_SEQUENCE
    has_gone_back = arrived.applied.position < kept.applied.position
    return MapVerdict.IMPOSSIBLE_SEQUENCE if has_gone_back else MapVerdict.KEPT


def _judge_part(before: Assembly | None, after: Assembly, record: SinglePartitionMap) -> MapVerdict:
    """Of a part with which its map is not whole."""
    if before is not after:
        return MapVerdict.PARTIAL
    if record.update_sequence < after.update_sequence:
        return MapVerdict.OLD_SEQUENCE
    if after.is_done or after.parts.get(record.part) == record:
        return MapVerdict.EQUAL
    return MapVerdict.IMPOSSIBLE_SEQUENCE


def _judge_parts(known: Known, parts: tuple[SinglePartitionMap, ...]) -> Receipt:
    try:
        whole = joined(parts)
    except Undecodable as error:
        return Receipt(MapVerdict.MALFORMED, detail=str(error))
    return judge_groups(known, whole)


def _why_left_out(known: Known, whole: NodeMap, name: str) -> MapVerdict | None:
    """EX29: why a map does not count for one group, though it may for others."""
    group = known.groups.get(name)
    if group is None:
        return MapVerdict.UNKNOWN_GROUP
    return MapVerdict.OLD_GROUP if group.since > whole.applied.position else None


def _read(copies: Copies, partitions: int, legible: set[tuple[bytes, int]]) -> None:
    """Raise Undecodable or OutOfRange if the copies cannot be read; of equal states, `legible` ones, only once."""
    if (copies.states, partitions) not in legible:
        decode_codes(copies.states, partitions)
        legible.add((copies.states, partitions))
    check_numbers(copies, partitions)


def _of_members(by_node: Mapping[NodeId, _Told], known: Known) -> dict[NodeId, _Told]:
    """EX28: what is of nodes, or lives of nodes, that are no longer members goes."""
    return {node: told for node, told in by_node.items() if known.members.get(node) == told.incarnation}
