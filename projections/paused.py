"""Whom partitions wait for that nobody acts for and that are not lost: since when, what ends it (DS10-DS17).

Whom one waits for, the very rule says that decides it (`streams/rules/outcome.py`). It is asked with what is known
here: who is a member, and who has not been heard, those that the last exchange has done without or an open one asks,
but for those whose map has come since. Who has said in a heartbeat that it is there, nobody here knows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

import msgspec

from topolog.events.awaited import Asked, UnheardRow
from topolog.events.baseline import BaselineRow
from topolog.events.cluster_state import ClusterState
from topolog.events.drains import DrainRow
from topolog.events.groups import GroupRow, LossPolicy
from topolog.events.ids import NodeId, Position
from topolog.events.last_owners import count_owned_only_by
from topolog.events.leases import NodeRow, Standing
from topolog.events.ownership import Copy, NodeNumber, Ownership
from topolog.events.partitions import PartitionState
from topolog.projections import baselines, exchanges, partitions, patience, queries, silence, single_maps
from topolog.projections.durations import ago
from topolog.projections.moments import iso
from topolog.projections.packed import Condition
from topolog.projections.partition_resources import Partition
from topolog.projections.partitions import Names, rows_of
from topolog.projections.resources import Awaited, Lease
from topolog.projections.sentences import counted
from topolog.projections.store import Reading
from topolog.streams.rules import outcome, placement
from topolog.streams.rules.affinity import NOBODY, Candidate, Placement, ideal
from topolog.streams.rules.exchange import Patience

PATIENCE = Patience()
"""How long a coordinator waits, unless its settings say something else, which no reader knows."""

SAMPLE = 100
"""Partitions of a group that are looked at one by one, of those that are paused."""


class Wait(msgspec.Struct, frozen=True):
    """The servers that a partition waits for; of `owners`, who may be back with a copy, for what their maps say."""

    servers: tuple[Asked, ...] = ()
    owners: frozenset[str] = frozenset()

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(each.node for each in self.servers)

    def what(self, asked: Asked) -> str:
        """What of this server it waits for."""
        if asked.node in self.owners:
            return "its map, which alone says whether its copy is still there"
        return "its map" if asked.needs_map else "a sign of life"


class Missed:
    """Who is needed and not heard, in one reading. `answered`: whose map has come since it was asked, and when."""

    def __init__(self, reading: Reading, age_ms: int) -> None:
        self._reading, self._age_ms = reading, age_ms
        self._last_copies: dict[str, bool] = {}
        self.row = reading.row(UnheardRow, "")
        self.exchange = exchanges.open_row(reading)
        asking = self.exchange or self.row
        self.asked = self.exchange.awaited if self.exchange else self.row.servers if self.row else ()
        self.answered = single_maps.answered(reading, asking.counts_from) if asking else {}
        self.silent = {each.node: each for each in self.asked if not self._has_answered(each)}

    def _has_answered(self, asked: Asked) -> bool:
        row = self._reading.row(NodeRow, asked.node)
        return row is not None and row.incarnation == asked.incarnation and asked.node in self.answered

    @cached_property
    def _servers(self) -> dict[str, NodeRow]:
        return {row.node: row for row in placement.servers(self._reading.state(NodeRow))}

    def wait_of(self, here: Partition) -> Wait:
        """Whom a partition that is PAUSED waits for; nobody where the next exchange decides it by what is known."""
        group = self._reading.row(GroupRow, here.group)
        assert group is not None, "a partition has a group"
        is_owned = any(copy.state == PartitionState.OWNING.value for copy in here.copies)
        listed = [node for node in here.wanted if node in self._servers]  # whoever has left is listed until it changes
        wanted = listed if is_owned else self._wanted(group, here.partition)
        names = tuple(dict.fromkeys((*(copy.node for copy in here.copies), *wanted)))
        numbers = {node: number for number, node in enumerate(names)}
        asked = (
            _as_held(here, numbers),
            [numbers[node] for node in wanted],
            self._present(numbers),
            outcome.Ask(begins_empty=group.loss_policy is LossPolicy.IGNORE),
        )
        if outcome.outcome(*asked).acting is not None:
            return Wait()
        found = outcome.waits(*asked)
        nodes = [NodeId(names[number]) for number in found.servers]
        owners = frozenset(names[number] for number in found.maps)
        return Wait(tuple(self.silent[node] for node in nodes if node in self.silent), owners)

    def _present(self, numbers: Mapping[str, NodeNumber]) -> dict[NodeNumber, outcome.Present]:
        """Only members that are asked may be silent; who has answered and acts for nothing has not what was asked."""
        found: dict[NodeNumber, outcome.Present] = {}
        for node, number in numbers.items():
            if (row := self._servers.get(node)) is not None:
                is_heard = node not in self.silent
                found[number] = outcome.Present(row.joined_at, has_answered=is_heard, is_heard=is_heard)
        return found

    def _wanted(self, group: GroupRow, number: int) -> list[str]:
        """Whom the affinity wants for a partition that begins: members of the baseline that are away do not count."""
        candidates, present = candidates_of(self._reading, group)
        asked = Placement.of(group.definition)
        chosen = [node for node in choice(candidates, asked, number) if node in present]
        return chosen or choice([each for each in candidates if each.node in present], asked, number)

    def at_most_ms(self, asked: Asked) -> int | None:
        """Until a server that does not answer is out at the latest, were it not heard again; None if no time ends
        that."""
        times = [] if (out_in_ms := self._out_in_ms(asked.node)) is None else [out_in_ms]
        if not self.holds_last_copies(asked.node):
            evict = patience.span_since(self._reading, asked.at, PATIENCE.evict_ms)
            times.append(evict.left_ms + queries.cluster_row(self._reading).proceed_ms)
        return min(times, default=None)

    def _out_in_ms(self, node: str) -> int | None:
        """Until the lease of a server that is silent is over for all; None while it is renewed, or nobody counts."""
        lease = self._leases.get(node)
        return lease.out_in_ms if lease is not None and lease.state in silence.NOT_RENEWED else None

    @cached_property
    def _leases(self) -> dict[str, Lease]:
        return {each.node: each for each in queries.leases(self._reading, self._age_ms)}

    def holds_last_copies(self, node: str) -> bool:
        """Whether no deadline stops the server, for it owns what no server owns that is here and heard."""
        if node not in self._last_copies:
            self._last_copies[node] = self._owns_alone(node)
        return self._last_copies[node]

    def _owns_alone(self, node: str) -> bool:
        row, who = self._servers.get(node), Names(self._reading)
        if row is None or row.standing is not Standing.MEMBER or (number := who.number_of(node)) is None:
            return False
        known = {who.number_of(name): each for name, each in self._servers.items() if name not in self.silent}
        joined_at = {each: row.joined_at for each, row in known.items() if each is not None}
        groups = (list(rows_of(self._reading, group)) for _, group in self._reading.rows(GroupRow))
        return any(count_owned_only_by(rows, [number], list(joined_at), joined_at) for rows in groups)

    def awaited(self, servers: Iterable[Asked]) -> tuple[Awaited, ...]:
        return tuple(Awaited(each.node, each.at, self.at_most_ms(each)) for each in servers)

    def since(self, asked: Asked) -> str:
        """`asked at position 7 (2026-11-21T02:00:00.000Z), 3 s ago`."""
        logged_ms = self._reading.surely_decision(asked.at).logged_at_ms
        return f"asked at position {asked.at} ({iso(logged_ms)}), {ago(self._now_ms - logged_ms)} ago"

    def ends(self, asked: Asked) -> str:
        """What ends the wait for a server, and when at the latest."""
        proceed_ms = queries.cluster_row(self._reading).proceed_ms
        lease = f"it answers; if it applies nothing it is out {proceed_ms} ms after its last renewal"
        if (out_in_ms := self._out_in_ms(asked.node)) is not None:
            return f"it answers; its lease is not renewed, and unless it is heard it is out in {ago(out_in_ms)}"
        if self.holds_last_copies(asked.node):
            last = "if it does, nothing stops it, for it may have the last copy of partitions"
            return f"{lease}; {last}: `topolog remove node {asked.node}` takes it out"
        evict = patience.span_since(self._reading, asked.at, PATIENCE.evict_ms)
        return f"{lease}; if it does, it is stopped {evict}, and is out when its lease is over"

    @cached_property
    def _now_ms(self) -> int:
        newest_ms = self._reading.surely_decision(self._reading.position).logged_at_ms
        return max(newest_ms, patience.wall_ms()) if self._reading.is_current else newest_ms

    def by_wait(self, group: str) -> Iterator[tuple[tuple[str, ...], list[int]]]:
        """(whom they wait for, partitions) of the first ones of a group that are paused."""
        found: dict[tuple[str, ...], list[int]] = {}
        sought = {"group": group, "state": Condition.PAUSED.name}
        for each in islice(partitions.partitions(self._reading, sought), SAMPLE):
            found.setdefault(self.wait_of(each).nodes, []).append(each.partition)
        yield from found.items()


def silent_ms(reading: Reading) -> int:
    """For how long the first of those has been asked whom the last exchange was completed without."""
    row = reading.row(UnheardRow, "")
    asked = [each.at for each in row.servers] if row else []
    if not asked:
        return 0
    newest_ms, asked_ms = (reading.surely_decision(each).logged_at_ms for each in (reading.position, min(asked)))
    return max(0, max(newest_ms, patience.wall_ms()) - asked_ms)


def goes_on(reading: Reading, group: str) -> str:
    """What of a group is served while some of its partitions are not."""
    counts, row = partitions.condition_totals(reading, group), reading.row(GroupRow, group)
    stopped = sum(counts.get(each, 0) for each in (Condition.PAUSED, Condition.LOST))
    served = sum(counts.values()) - stopped
    match baselines.state_row(reading).allowed:
        case ClusterState.INACTIVE:
            return "nothing: the cluster is INACTIVE"
        case ClusterState.ACTIVE_READ_ONLY:
            how = "read; nothing is written while the cluster is ACTIVE_READ_ONLY"
        case _ if counts.get(Condition.LOST) and row is not None and row.loss_policy is LossPolicy.READ_ONLY_SAFE:
            how = "read; nothing is written while partitions of the group are lost"
        case _:
            how = "read and written"
    are = "is" if served == 1 else "are"
    return f"{counted(served, 'partition')} of group {group} {are} {how}; other groups do not wait for this"


def candidates_of(reading: Reading, group: GroupRow) -> tuple[list[Candidate], frozenset[str]]:
    """Whom the affinity chooses from, and which of them are here and may get copies."""
    state = reading.state(NodeRow, BaselineRow, DrainRow)
    ready = placement.may_hold(state)
    return placement.candidates(state, group, ready), frozenset(row.node for row in ready)


def choice(candidates: Sequence[Candidate], asked: Placement, number: int) -> list[str]:
    """Whom the affinity wants of these for one partition: with fewer partitions it is the beginning of the whole."""
    if not candidates:
        return []
    upto = msgspec.structs.replace(asked, partitions=number + 1)
    indexes = ideal(candidates, upto)[number].tolist()
    return [candidates[index].node for index in indexes if index != NOBODY]


def _as_held(here: Partition, numbers: Mapping[str, NodeNumber]) -> Ownership:
    copies = tuple(
        Copy(numbers[copy.node], PartitionState[copy.state], copy.wanted, Position(copy.since)) for copy in here.copies
    )
    acting = None if here.primary is None else numbers[here.primary]
    return Ownership(here.partition, copies, acting, Position(here.token), here.lost)
