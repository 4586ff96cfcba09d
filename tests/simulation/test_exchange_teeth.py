"""The rules of the exchange, each broken on purpose, are caught by some seed; how, `test_teeth.py` says.

Not in the table, because no history of this simulation can show it, but proved elsewhere:

- Maps read from behind an exchange's start, or not sent again in a new term: each makes up for the other
  (`node/test_copies.py`, and coordinators killed in an exchange in `tests/broker/test_exchange_failpoints.py`).
- A drain that is said while operations run, and a supplier that has not applied the map which lists the demander: since
  operations also read and stop for the cluster's state, a hundred seeds and more go by without either
  (`node/test_drains.py`, `node/test_sharing.py`; the model of the example store's replication).
- A silent server that is never stopped: it is silent for a while only, for the cluster must come to rest
  (`rules/test_exchange_waiting.py`, `scenarios/exchange/a_silent_server.txt`).
- Maps read from the newest question on, where answers count from an earlier one (DS17, K4): whom the next leader has
  not heard it misses, and asks again; a hundred seeds and more go by (`rules/test_exchange_waiting.py`,
  `test_the_next_exchange_reads_maps_from_where_the_first_one_has`).
- A merge that keeps what was decided before it (DS16): nothing is decided before an exchange ends. What the table
  breaks instead is that it ends, whoever is silent.
- What stores do with tokens, loads and reconciliation (DS3-DS5, DS7, DS9): copies here are nothing but names
  (`local/demo`, the model of the example store).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from tests.simulation.test_teeth import Defect, only, run_row

from topolog.events import changes, ownership
from topolog.events import exchange as x
from topolog.events.evidence import Evidence
from topolog.events.ids import NodeId, Place, Position
from topolog.events.ownership import (
    Change,
    Copy,
    NodeNumber,
    Ownership,
)
from topolog.events.ownership_columns import NOBODY, Columns, OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.events.single_maps import NodeMap, SinglePartitionMap
from topolog.events.state import State
from topolog.streams.coordinator import exchanges
from topolog.streams.coordinator.exchanges import Exchanges
from topolog.streams.node.acting import Acting
from topolog.streams.node.copies import PartitionId
from topolog.streams.rules import copies, exchange, hand_over, placement, single_maps
from topolog.streams.rules import outcome as rules_of_outcome
from topolog.streams.rules.outcome import Ask, Present, outcome
from topolog.streams.rules.outcomes import Servers, _Situations
from topolog.streams.rules.responses import Responses, Told
from topolog.streams.rules.single_maps import Inbox, Known
from topolog.streams.simulation import Faults, Rule


def a_live_primary_is_moved_by_an_exchange(patch: pytest.MonkeyPatch) -> None:
    """The wanted primary acts from the outcome on, whoever acts until then (EX13)."""

    def moved(before: Ownership, wanted: Sequence[NodeNumber], present: Mapping[int, Present], ask: Ask) -> Change:
        after = outcome(before, wanted, present, ask)
        owners = [copy.node for copy in after.copies if copy.state is PartitionState.OWNING]
        return msgspec.structs.replace(after, acting=wanted[0]) if wanted and wanted[0] in owners else after

    patch.setattr(exchange, "outcome", moved)


def the_former_primary_does_not_stop(patch: pytest.MonkeyPatch) -> None:
    """It begins operations behind the decision that hands its partitions over (DS8)."""
    begin = Acting.begin

    def deaf(acting: Acting, place: PartitionId) -> Position | None:
        closing, acting._closing = acting._closing, {}
        token = begin(acting, place)
        acting._closing = closing
        return token

    patch.setattr(Acting, "begin", deaf)


def a_guard_does_not_look_again(patch: pytest.MonkeyPatch) -> None:
    """An operation counts whatever has become of its token meanwhile (DS8)."""
    end = Acting.end

    def lenient(acting: Acting, place: PartitionId, token: Position, now_ns: int) -> bool:
        end(acting, place, token, now_ns)
        return True

    patch.setattr(Acting, "end", lenient)


def a_switch_waits_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """The next primary acts as soon as the hand-over is decided (EX14)."""
    patch.setattr(hand_over, "_is_over", lambda _state, row, *_: Evidence((row.node,), (), ()))


def who_leaves_stays_in_the_owner_row(patch: pytest.MonkeyPatch) -> None:
    """A copy that leaves while another acts is still an owner (DS1): it stores nothing, so nothing is acknowledged."""

    def kept(row: OwnershipRow, node: NodeNumber, place: Place) -> OwnershipRow:
        columns = Columns(row, writable=True)
        acted = columns.acting == node
        columns.acting[acted], columns.tokens[acted] = NOBODY, place.position
        return columns.row(row)

    patch.setattr(ownership, "without", lambda rows, node, place: [kept(row, node, place) for row in rows])


def what_is_lost_begins_empty(patch: pytest.MonkeyPatch) -> None:
    """A partition whose owners are away is given to whoever is there, though nobody has given it up (DS2)."""

    def begun(before: Ownership, wanted: Sequence[NodeNumber], present: Mapping[int, Present], _: Ask) -> Change:
        return outcome(before, wanted, present, Ask(begins_empty=True))

    patch.setattr(exchange, "outcome", begun)


def a_returning_copy_owns_by_its_own_word(patch: pytest.MonkeyPatch) -> None:
    """A node that says it has a whole copy owns one, though another wrote while it was away (DS1)."""

    def believed(before: Ownership, wanted: Sequence[NodeNumber], present: Mapping[int, Present], ask: Ask) -> Change:
        after = outcome(before, wanted, present, ask)

        def state(copy: Copy) -> PartitionState:
            told = present.get(copy.node)
            return PartitionState.OWNING if told and told.has_whole_copy else copy.state

        return msgspec.structs.replace(
            after, copies=tuple(Copy(each.node, state(each), each.wanted) for each in after.copies)
        )

    patch.setattr(exchange, "outcome", believed)
    patch.setattr(_Situations, "_may_matter", lambda each: each._is_member)


def a_former_life_answers(patch: pytest.MonkeyPatch) -> None:
    """The map of another incarnation counts as the answer of the one that is asked (EX28)."""
    receive, maps = single_maps.receive, exchanges.MapAnswer

    def deaf(inbox: Inbox, known: Known, record: SinglePartitionMap) -> Any:
        return receive(inbox, _with_life(known, record), record)

    def answers(inbox: Inbox, known: Known) -> dict[NodeId, NodeMap]:
        return {node: told for node, told in inbox.kept.items() if told.applied.position >= known.counts_from}

    patch.setattr(exchanges, "receive", deaf)
    patch.setattr(exchanges, "answers", answers)
    patch.setattr(single_maps, "_of_members", lambda by_node, _: dict(by_node))
    patch.setattr(Responses, "map_of", lambda own, server: own.told.answers.get(server.node))
    patch.setattr(maps, "incarnation", property(lambda _: AnyLife()))


class AnyLife:
    """Equal to every incarnation."""

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def _with_life(known: Known, record: SinglePartitionMap) -> Known:
    return msgspec.structs.replace(known, members={**known.members, record.node: record.incarnation})


def a_listing_of_a_former_life_counts(patch: pytest.MonkeyPatch) -> None:
    """A copy that the log lists is there, whatever has become of its node since (DS10)."""
    patch.setattr(Present, "has", lambda *_: True)


def who_is_silent_owns_still(patch: pytest.MonkeyPatch) -> None:
    """Where somebody acts, a copy of a former life whose node has not answered goes on owning (DS11)."""

    def kept(before: Ownership, wanted: Sequence[NodeNumber], present: Mapping[int, Present], ask: Ask) -> Change:
        after = outcome(before, wanted, present, ask)
        held = {copy.node for copy in after.copies if copy.state is PartitionState.OWNING}
        silent = [
            Copy(copy.node, copy.state, copy.wanted)
            for copy in before.copies
            if copy.state is PartitionState.OWNING
            and copy.node in present
            and copy.node not in held
            and not present[copy.node].has_answered
        ]
        if after.acting is None or not silent:
            return after
        nodes = {copy.node for copy in silent}
        rest = [copy for copy in after.copies if copy.node not in nodes]
        return msgspec.structs.replace(after, copies=(*rest, *silent))

    patch.setattr(exchange, "outcome", kept)


def what_a_silent_server_may_have_is_lost(patch: pytest.MonkeyPatch) -> None:
    """A partition is lost, or begins empty, though an owner of it is a member and has not answered (DS12)."""
    patch.setattr(rules_of_outcome, "_silent", lambda *_: [])


def silence_is_absence(patch: pytest.MonkeyPatch) -> None:
    """Who acts and has not answered loses what it acts for to whoever has (DS14)."""

    def gone(before: Ownership, wanted: Sequence[NodeNumber], present: Mapping[int, Present], ask: Ask) -> Change:
        acting = before.acting
        if acting is not None and acting in present and not present[acting].is_heard:
            before = msgspec.structs.replace(before, acting=None)
        return outcome(before, wanted, present, ask)

    patch.setattr(exchange, "outcome", gone)


def who_is_silent_is_listed_anew(patch: pytest.MonkeyPatch) -> None:
    """Whoever is wanted loads, heard or not (DS15)."""
    served = rules_of_outcome._served

    def listed(held: Sequence[Copy], wanted: Sequence[NodeNumber], present: Mapping[int, Present]) -> Any:
        there = {node: msgspec.structs.replace(each, is_heard=True) for node, each in present.items()}
        return served(held, wanted, there)

    patch.setattr(rules_of_outcome, "_served", listed)


def an_exchange_waits_for_all_that_it_needs(patch: pytest.MonkeyPatch) -> None:
    """It does not end before each of them has answered: one that hangs holds up all others (DS16)."""
    end = exchange._end

    def patient(state: State, row: x.ExchangeRow, told: Told, *rest: Any) -> Any:
        passed = [key for key in told.passed if "/gather" not in key]
        return end(state, row, msgspec.structs.replace(told, passed=passed), *rest)

    patch.setattr(exchange, "_end", patient)


def a_late_answer_starts_nothing(patch: pytest.MonkeyPatch) -> None:
    """What the last exchange was completed without stays as it is, whoever has answered since (DS17)."""
    patch.setattr(exchange, "_hear_late", lambda *_: [])


def a_late_answer_does_not_count_in_the_next(patch: pytest.MonkeyPatch) -> None:
    """Each exchange counts only what was sent since it began (DS17)."""
    row = x._row

    def anew(state: State, event: x.ExchangeStarted, place: Place) -> x.ExchangeRow:
        return msgspec.structs.replace(row(state, event, place), counts_from=place.position)

    known_of = exchanges.known_of

    def known(state: State, *rest: Any) -> Known:
        newest = x.newest_exchange(state)
        found = known_of(state, *rest)
        return msgspec.structs.replace(found, counts_from=newest.started_at) if newest else found

    patch.setattr(x, "_row", anew)
    patch.setattr("topolog.streams.coordinator.core.known_of", known)


def a_cancelled_hand_over_leaves_nobody_acting(patch: pytest.MonkeyPatch) -> None:
    """Where the receiver leaves, the former primary does not act again (DS18)."""

    def leave(state: State, node: NodeId, place: Place) -> None:
        for key, row in list(state.rows(x.HandOverRow)):
            kept = tuple(move for move in row.moves if node not in (row.node, move.to))
            for move in row.moves if kept != row.moves else ():
                if move not in kept and node != row.node:
                    changes.set_acting(state, move.group, move.partitions, None, place)
            x._keep_moves(state, key, row, kept)
        ownership.leave(state, node, place)

    patch.setattr(x, "_leave", leave)


def the_wanted_but_unlisted_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """All that are wanted own, as soon as all own that are listed (DS19)."""
    patch.setattr(placement, "left_out", lambda *_: {})


def a_heartbeat_is_as_good_as_a_map(patch: pytest.MonkeyPatch) -> None:
    """Whoever has applied the question has told that it has nothing (DS10, DS12)."""
    here = exchange._here

    def believed(*args: Any) -> Servers:
        servers = here(*args)._servers
        return Servers(
            {
                number: msgspec.structs.replace(each, told=each.told or (_Nothing() if each.is_heard else None))
                for number, each in servers.items()
            }
        )

    patch.setattr(exchange, "_here", believed)


class _Nothing:
    """The map of a server that has no copies."""

    def whole(self, _: str) -> Collection[int]:
        return ()

    def counters(self, _: str) -> Mapping[int, int]:
        return {}


def copies_change_while_an_exchange_is_open(patch: pytest.MonkeyPatch) -> None:
    """A load that ends meanwhile makes an owner at once (EX10, DS6)."""
    patch.setattr(copies, "open_exchange", lambda _: None)
    patch.setattr(copies, "queued", lambda _: ())
    settle = Exchanges.settle

    def eager(own: Exchanges, state: State, known: Known, *rest: Any) -> Any:
        return copies.settle(state, own._take_reports(known)) or settle(own, state, known, *rest)

    patch.setattr(Exchanges, "settle", eager)


ANY = Faults()
SHARING = only(crashes=20, cuts=6, pauses=6, groups=20, leaves=4)
HANGING = only(crashes=10, hangs=12, mutes=4, groups=20, leaves=4, services=6, proposals=2)
MUTED = only(crashes=20, mutes=30, garbles=10, groups=20, services=6, proposals=2)
MOVING = only(crashes=20, slow_reads=40, leaves=10, groups=30)

DEFECTS: Sequence[tuple[Defect, Faults, int, Rule]] = (
    (a_live_primary_is_moved_by_an_exchange, ANY, 59, Rule.LIVE_PRIMARY),
    (the_former_primary_does_not_stop, MOVING, 41, Rule.ONE_PRIMARY),
    (a_guard_does_not_look_again, MOVING, 1, Rule.ONE_PRIMARY),
    (a_switch_waits_for_nobody, MOVING, 1, Rule.ONE_PRIMARY),
    (who_leaves_stays_in_the_owner_row, SHARING, 6, Rule.CONVERGES),
    (what_is_lost_begins_empty, SHARING, 3, Rule.NO_WRITE_LOST),
    (a_returning_copy_owns_by_its_own_word, SHARING, 16, Rule.CONFIRMED),
    (a_former_life_answers, SHARING, 24, Rule.LOST),
    (a_listing_of_a_former_life_counts, HANGING, 27, Rule.PRESENT),
    (who_is_silent_owns_still, HANGING, 8, Rule.CONFIRMED),
    (what_a_silent_server_may_have_is_lost, HANGING, 8, Rule.LOST),
    (silence_is_absence, HANGING, 0, Rule.LIVE_PRIMARY),
    (who_is_silent_is_listed_anew, HANGING, 0, Rule.LISTED),
    (an_exchange_waits_for_all_that_it_needs, MUTED, 13, Rule.SERVED),
    (a_late_answer_starts_nothing, MUTED, 17, Rule.LATE),
    (a_late_answer_does_not_count_in_the_next, HANGING, 16, Rule.ENDS),
    (a_cancelled_hand_over_leaves_nobody_acting, MOVING, 5, Rule.NOBODY_ACTS),
    (the_wanted_but_unlisted_are_forgotten, HANGING, 6, Rule.ALL_WANTED),
    (a_heartbeat_is_as_good_as_a_map, MUTED, 72, Rule.LOST),
    (copies_change_while_an_exchange_is_open, ANY, 0, Rule.EXCHANGES),
)


@pytest.mark.parametrize(
    ("defect", "budget", "seed", "rule"), DEFECTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_broken_rule_of_the_exchange_is_caught(
    defect: Defect, budget: Faults, seed: int, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `test_teeth.py`: by the seed of the table, or by another one within bounds."""
    run_row(defect, budget, seed, rule, monkeypatch)
