"""How a set of decisions may change partitions while some have not answered (DS10-DS15, DS18, DS19), judged from
outside: by the rows before and behind it, and by who can have been heard."""

from collections.abc import Collection, Iterator, Sequence

from topolog.events import awaited as w
from topolog.events import exchange as x
from topolog.events import leases
from topolog.events import membership as m
from topolog.events import ownership as o
from topolog.events.groups import GroupRow, LossPolicy, group_row
from topolog.events.ids import NodeId, Position
from topolog.events.leases import NodeRow
from topolog.events.ownership import Copy, NodeNumber, Ownership
from topolog.events.ownership_columns import NOBODY, OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.events.state import State
from topolog.streams.rules.affinity import Candidate, Indexes, Placement, ideal
from topolog.streams.rules.outcome import Ask
from topolog.streams.rules.placement import Roster
from topolog.streams.simulation.answers import Answers
from topolog.streams.simulation.ledger import Ledger, Life, Standing
from topolog.streams.simulation.rules import Broken, Rule

_OWNING = PartitionState.OWNING
_EXCHANGED = (x.FullPartitionMap, x.ExchangeCompleted)


class OutcomeChecks:
    """Raises Broken. `answers`: who can have been heard."""

    def __init__(self, ledger: Ledger, answers: Answers) -> None:
        self._ledger = ledger
        self._answers = answers
        self._rows: dict[str, OwnershipRow] = {}
        self._numbers: dict[str, int] = {}
        self._resets: set[str] = set()
        self._since: Position | None = None

    def note_completed(self) -> None:
        """An exchange ends in this set: answers count as they do now, or as for another one that has ended in it."""
        at = self._answers.begun_at
        self._since = at if self._since is None else min(self._since, at)

    def judge_set(self, whole: Sequence[Standing], unheard: Collection[Life]) -> None:
        """A whole set; `unheard` are those that the last exchange was completed without."""
        state, before, numbers = self._ledger.state, self._rows, self._numbers
        self._rows = dict(state.rows(OwnershipRow))
        self._numbers = {name: row.number for name, row in state.rows(GroupRow)}
        left = {each.event.node for each in whole if isinstance(each.event, m.NodeLeft)}
        is_exchange = any(isinstance(each.event, _EXCHANGED) for each in whole)
        self._resets |= _resets(state)
        for key, row in self._rows.items():
            if key in before and numbers.get(row.group) == self._numbers[row.group]:
                self._check_row(before[key], row, left, is_exchange=is_exchange)
        if unheard and any(isinstance(each.event, x.PartitionStatesChanged) for each in whole):
            self._check_rented(before, unheard)
        if unheard:
            for standing in whole:
                if isinstance(standing.event, x.HandOverPrepared):
                    self._check_prepared(standing.event, unheard)
        self._since, self._resets = None, _resets(state)

    def check_rest(self) -> None:
        """Whoever the affinity wants owns, also whom an exchange has left out (DS15, DS19). While somebody is being
        stopped it wants others already."""
        state = self._ledger.state
        if any(row.standing is not leases.Standing.MEMBER for row in leases.members(state)):
            return
        for group, each in _all(self._rows.values()):
            row = group_row(state, group)
            assert row is not None, "a row belongs to a group"
            missing = set(self._wanted(row, each.partition)) - set(each.owners)
            if each.acting is not None and missing:
                names = [_name(state, number) for number in sorted(missing)]
                raise Broken(Rule.ALL_WANTED, f"{group}/{each.partition} is wanted on {names} too: {each}")

    def _check_row(self, before: OwnershipRow, row: OwnershipRow, left: set[NodeId], *, is_exchange: bool) -> None:
        changed = o.differing(before, row)
        for was, now in zip(o.ownerships(before, changed), o.ownerships(row, changed), strict=True):
            where = f"{row.group}/{now.partition}: {was} became {now}"
            names = o.names(self._ledger.state)
            if was.acting is not None and now.acting is None and names[was.acting] not in left:
                raise Broken(Rule.NOBODY_ACTS, where)
            if is_exchange:
                self._check_outcome(row.group, was, now, where)

    def _check_outcome(self, group: str, was: Ownership, now: Ownership, where: str) -> None:
        if now.is_lost and not was.is_lost:
            self._check_lost(was, where)
        if now.acting is None:
            if not now.is_lost and was.acting is None and (was.owners != now.owners or was.token != now.token):
                raise Broken(Rule.PAUSED, where)
            return
        is_begun = self._is_begun(group, was, now, where)
        for copy in now.copies:
            if copy.state is _OWNING and not is_begun:
                self._check_owner(group, was, now, copy, where)
            if copy.state.is_written:
                self._check_listed(group, was, copy, where)
        for copy in was.copies:
            after = now.copy_of(copy.node)
            if self._is_present(copy) and copy.state is _OWNING and (after is None or after.state is not _OWNING):
                raise Broken(Rule.LIVE_PRIMARY, where)

    def _check_lost(self, was: Ownership, where: str) -> None:
        for copy in was.copies:
            life = self._life(copy.node)
            if copy.state is _OWNING and life and (self._is_present(copy) or not self._has_told(life)):
                raise Broken(Rule.LOST, f"{life[0]} may have it. {where}")

    def _is_begun(self, group: str, was: Ownership, now: Ownership, where: str) -> bool:
        """Whether it begins anew: it never had an owner, or an operator or the policy gives up those that it had."""
        if was.acting is not None or any(self._is_present_owner(group, was, copy) for copy in was.copies):
            return False
        row = group_row(self._ledger.state, group)
        assert row is not None, "a row belongs to a group"
        if was.owners and group not in self._resets and row.loss_policy is not LossPolicy.IGNORE:
            return False
        for copy in was.copies:
            life = self._life(copy.node)
            if life and not self._is_present(copy) and copy.state is _OWNING and not self._has_told(life):
                raise Broken(Rule.LOST, f"{life[0]} may have it. {where}")
        return True

    def _is_present_owner(self, group: str, was: Ownership, copy: Copy) -> bool:
        return copy.state is _OWNING and (self._is_present(copy) or self._says_whole(group, was.partition, copy.node))

    def _check_owner(self, group: str, was: Ownership, now: Ownership, copy: Copy, where: str) -> None:
        """Whoever owns where somebody acts owned before, and its copy is there."""
        former = was.copy_of(copy.node)
        if former is None or not self._is_present_owner(group, was, former):
            name = _name(self._ledger.state, copy.node)
            raise Broken(Rule.PRESENT if copy.node == now.acting else Rule.CONFIRMED, f"{name} in {where}")

    def _check_listed(self, group: str, was: Ownership, copy: Copy, where: str) -> None:
        former, life = was.copy_of(copy.node), self._life(copy.node)
        is_old = former is not None and former.state.is_written and self._is_present(former)
        if not is_old and (life is None or not self._answers.is_there(life, self._answered_from)):
            raise Broken(Rule.LISTED, f"{_name(self._ledger.state, copy.node)} in {where}")

    def _check_rented(self, before: dict[str, OwnershipRow], unheard: Collection[Life]) -> None:
        for key, row in self._rows.items():
            changed = o.differing(before[key], row) if key in before else []
            for was, now in zip(o.ownerships(before.get(key, row), changed), o.ownerships(row, changed), strict=True):
                if any(
                    copy.state is PartitionState.RENTING and _state(was, copy.node) is not copy.state
                    for copy in now.copies
                ):
                    self._check_complete(row.group, now, unheard)

    def _check_prepared(self, prepared: x.HandOverPrepared, unheard: Collection[Life]) -> None:
        for move in prepared.moves:
            for partition in move.partitions if group_row(self._ledger.state, move.group) else ():
                row = o.row_of(self._ledger.state, move.group, partition)
                self._check_complete(move.group, o.ownership(row, partition), unheard)

    def _check_complete(self, group: str, now: Ownership, unheard: Collection[Life]) -> None:
        row = group_row(self._ledger.state, group)
        assert row is not None, "a row belongs to a group"
        silent = {node for node, _ in unheard}
        names = o.names(self._ledger.state)
        missing = {number for number in self._wanted(row, now.partition) if number not in now.owners}
        if late := sorted(silent & {names[number] for number in missing if number < len(names)}):
            raise Broken(Rule.ALL_WANTED, f"{group}/{now.partition} is wanted on {late} too: {now}")

    def _wanted(self, group: GroupRow, partition: int) -> list[NodeNumber]:
        """Those of the affinity's choice that are members, computed anew."""
        state = self._ledger.state
        rows = list(o.rows_of(state, group.name, group.partitions))
        ask = Ask(begins_empty=group.loss_policy is LossPolicy.IGNORE)
        wanted = Roster.of(state).wanted(state, group, rows, ask, _choose)[partition]
        return [int(number) for number in wanted[wanted != NOBODY]]

    def _is_present(self, copy: Copy) -> bool:
        """Whether the log lists it of the present life of a member."""
        row = self._ledger.state.get(NodeRow, _name(self._ledger.state, copy.node))
        return row is not None and row.is_member and copy.since > row.joined_at

    def _says_whole(self, group: str, partition: int, number: NodeNumber) -> bool:
        """Whether it may be believed, for its disk is that of its last life, and says so."""
        node = self._ledger.state.get(NodeRow, _name(self._ledger.state, number))
        if node is None or not node.folder or (node.kinship is not None and node.kinship.has_lost_it):
            return False
        row, life = group_row(self._ledger.state, group), self._life(number)
        assert row is not None, "a row belongs to a group"
        return (
            life is not None
            and self._has_told(life)
            and self._answers.says_whole(life, group, row.partitions, partition)
        )

    @property
    def _answered_from(self) -> Position:
        return self._answers.begun_at if self._since is None else self._since

    def _has_told(self, life: Life) -> bool:
        return self._answers.has_told(life, self._answered_from)

    def _life(self, number: NodeNumber) -> Life | None:
        """The life of a node that is a member."""
        row = self._ledger.state.get(NodeRow, _name(self._ledger.state, number))
        return (row.node, row.incarnation) if row is not None and row.is_member else None


def _resets(state: State) -> set[str]:
    """The groups whose losses the newest exchange gives up, or one before it that has missed somebody."""
    newest, missed = x.newest_exchange(state), w.unheard(state)
    found = newest.triggers if newest else ()
    carried_on = {group for group, _ in missed.resets} if missed else set[str]()
    return carried_on | {each.subject for each in found if each.type is x.TriggerType.LOSS_RESET}


def _choose(group: GroupRow, candidates: Sequence[Candidate]) -> Indexes:
    return ideal(candidates, Placement.of(group.definition))


def _name(state: State, number: NodeNumber) -> str:
    return o.names(state)[number]


def _state(each: Ownership, number: NodeNumber) -> PartitionState | None:
    copy = each.copy_of(number)
    return copy.state if copy else None


def _all(rows: Collection[OwnershipRow]) -> Iterator[tuple[str, Ownership]]:
    for row in rows:
        for each in o.ownerships(row, range(row.first, row.first + row.count)):
            yield row.group, each
