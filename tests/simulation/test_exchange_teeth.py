"""The rules of the exchange, each broken on purpose, are caught by some seed (DESIGN §7); how, `test_teeth.py` says.

Not in the table, because no history of this simulation can show it, but proved elsewhere:

- Maps read from behind an exchange's start, or not sent again in a new term: each makes up for the other
  (`node/test_copies.py`, and coordinators killed in an exchange in `integration/test_exchange_failpoints.py`).
- A drain that is said while operations run, and a supplier that has not applied the map which lists the demander: since
  operations also read and stop for the cluster's state, a hundred seeds and more go by without either
  (`node/test_drains.py`, `node/test_sharing.py`; the model of the example store's replication).
- A silent server that is never stopped: it is silent for a while only, for the cluster must come to rest
  (`rules/test_exchange_patience.py`, `scenarios/exchange/a_silent_server.txt`).
- What stores do with tokens, loads and reconciliation (DS3-DS5, DS7, DS9): copies here are nothing but names
  (`local/demo`, the model of the example store).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from tests.simulation.test_teeth import Defect, only, run_row

from topolog.events import ownership
from topolog.events.ids import NodeId, Place, Position
from topolog.events.metadata import Evidence
from topolog.events.ownership import Change, Copy, NodeNumber, Ownership, OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.events.single_maps import NodeMap, SinglePartitionMap
from topolog.events.state import State
from topolog.streams.coordinator import exchanges
from topolog.streams.coordinator.exchanges import Exchanges
from topolog.streams.node.acting import Acting
from topolog.streams.node.copies import PartitionId
from topolog.streams.rules import copies, exchange, hand_over, single_maps
from topolog.streams.rules.outcome import Ask, Present, outcome
from topolog.streams.rules.outcomes import _Situations
from topolog.streams.rules.single_maps import Inbox, Known
from topolog.streams.simulation import Faults, Rule


def a_live_primary_is_moved_by_an_exchange(patch: pytest.MonkeyPatch) -> None:
    """The wanted primary acts from the outcome on, whoever acts until then (L1, L2)."""

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
    """The next primary acts as soon as the hand-over is decided (4.3.5)."""
    patch.setattr(hand_over, "_is_over", lambda _state, row, *_: Evidence((row.node,), (), ()))


def who_leaves_stays_in_the_owner_row(patch: pytest.MonkeyPatch) -> None:
    """A copy that leaves while another acts is still an owner (DS1): it stores nothing, so nothing is acknowledged."""

    def kept(row: OwnershipRow, node: NodeNumber, place: Place) -> OwnershipRow:
        columns = ownership.Columns(row, writable=True)
        acted = columns.acting == node
        columns.acting[acted], columns.tokens[acted] = ownership.NOBODY, place.position
        return columns.row(row)

    patch.setattr(ownership, "without", kept)


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
    """The map of another incarnation counts as the answer of the one that is asked (T2)."""
    receive, maps = single_maps.receive, exchanges.MapAnswer

    def deaf(inbox: Inbox, known: Known, record: SinglePartitionMap) -> Any:
        return receive(inbox, _with_life(known, record), record)

    def answers(inbox: Inbox, known: Known) -> dict[NodeId, NodeMap]:
        return {node: told for node, told in inbox.kept.items() if told.exchange == known.exchange}

    patch.setattr(exchanges, "receive", deaf)
    patch.setattr(exchanges, "answers", answers)
    patch.setattr(single_maps, "_of_members", lambda by_node, _: dict(by_node))
    patch.setattr(exchange, "_has_answered", lambda asked, found: asked.node in found)
    patch.setattr(maps, "incarnation", property(lambda _: AnyLife()))


class AnyLife:
    """Equal to every incarnation."""

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def _with_life(known: Known, record: SinglePartitionMap) -> Known:
    return msgspec.structs.replace(known, members={**known.members, record.node: record.incarnation})


def an_exchange_waits_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """It completes before those that it asked have answered (PI5)."""
    patch.setattr(exchange, "_is_here", lambda *_: False)


def copies_change_while_an_exchange_is_open(patch: pytest.MonkeyPatch) -> None:
    """A load that ends meanwhile makes an owner at once (PI8, DS6)."""
    patch.setattr(copies, "open_exchange", lambda _: None)
    patch.setattr(copies, "queued", lambda _: ())
    settle = Exchanges.settle

    def eager(own: Exchanges, state: State, known: Known, *rest: Any) -> Any:
        return copies.settle(state, own._take_reports(known)) or settle(own, state, known, *rest)

    patch.setattr(Exchanges, "settle", eager)


ANY = Faults()
SHARING = only(crashes=20, cuts=6, pauses=6, groups=20, leaves=4)
MOVING = only(crashes=20, slow_reads=40, leaves=10, groups=30)

DEFECTS: Sequence[tuple[Defect, Faults, int, Rule]] = (
    (a_live_primary_is_moved_by_an_exchange, ANY, 59, Rule.LIVE_PRIMARY),
    (the_former_primary_does_not_stop, MOVING, 1, Rule.ONE_PRIMARY),
    (a_guard_does_not_look_again, MOVING, 1, Rule.ONE_PRIMARY),
    (a_switch_waits_for_nobody, MOVING, 1, Rule.ONE_PRIMARY),
    (who_leaves_stays_in_the_owner_row, SHARING, 6, Rule.CONVERGES),
    (what_is_lost_begins_empty, SHARING, 3, Rule.NO_WRITE_LOST),
    (a_returning_copy_owns_by_its_own_word, SHARING, 16, Rule.NO_WRITE_LOST),
    (a_former_life_answers, SHARING, 179, Rule.EXCHANGES),
    (an_exchange_waits_for_nobody, ANY, 0, Rule.EXCHANGES),
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
