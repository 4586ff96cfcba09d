"""The rules of the baseline and of pasts, each broken on purpose, are caught by some seed; how, `test_teeth.py` says.

Not in the table, because no history of this simulation can show it, but proved elsewhere:

- A heartbeat that was copied with the log and is renewed in both histories: one seed in some hundreds
  (`test_found.py`, which has the schedule).
- A life that comes back behind one that was RESTORED, before an exchange has heard that: likewise
  (`rules/test_cluster_state.py`).
- What a replica stores, or a copy loads, while its node holds no lease: its past does not say so. The services here
  do neither; no seed has been found that needs it.
- A disk put back that is older by less than a reservation of heartbeats: nobody can tell (`events/views.py`).
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.simulation.test_teeth import Defect, run_row

from topolog.events import views
from topolog.events.asked import RequestRef
from topolog.events.baseline import Cause
from topolog.events.cluster_state import ClusterState
from topolog.events.decision import Decision
from topolog.events.drains import DrainRow
from topolog.events.ids import NodeId, Place, Position, TopologyVersion
from topolog.events.leases import LeaseRow
from topolog.events.state import State
from topolog.events.terms import cluster
from topolog.events.views import DiskRow, Kinship, Past, Point, ViewRow
from topolog.streams.coordinator import exchanges
from topolog.streams.node.past_disk import MemoryDisk
from topolog.streams.node.serving import Serving
from topolog.streams.rules import baseline, cluster_state, drains, membership, past, placement
from topolog.streams.rules.affinity import Candidate
from topolog.streams.rules.past import Judged, judge
from topolog.streams.rules.verdict import Verdict, verdict
from topolog.streams.simulation import Faults, Rule

# Pasts.


def histories_are_compared_by_their_members(patch: pytest.MonkeyPatch) -> None:
    """A branching point is a hash of who was online, as Apache Ignite's is (BA23): who has met the same is the same."""
    note, members_at = views.note_view, dict[bytes, tuple[NodeId, ...]]()

    def noted(state: State, version: TopologyVersion, members: tuple[NodeId, ...], place: Place) -> None:
        members_at[place.chain] = members
        note(state, version, members, place)

    def is_known(state: State, point: Point) -> bool:
        return members_at[point.chain] in {row.members for _, row in state.rows(ViewRow)}

    patch.setattr(views, "note_view", noted)
    patch.setattr(past, "is_point", is_known)
    patch.setattr(past, "_was_renewed_elsewhere", lambda *_: False)


def views_alone_are_compared(patch: pytest.MonkeyPatch) -> None:
    """What a node has written under is a view: the renewal that it relied on is not looked at."""
    patch.setattr(past, "_was_renewed_elsewhere", lambda *_: False)


def renewals_alone_are_compared(patch: pytest.MonkeyPatch) -> None:
    """The views that a node has written under are not looked at."""
    patch.setattr(past, "is_point", lambda *_: True)


def a_past_is_synced_too_late(patch: pytest.MonkeyPatch) -> None:
    """What a node notes is on its disk when it notes the next thing: it has written meanwhile."""
    waiting = dict[MemoryDisk, Past]()

    def stored(disk: MemoryDisk, past: Past) -> None:
        disk.past, waiting[disk] = waiting.get(disk, disk.past), past

    def loaded(disk: MemoryDisk) -> Past | None:
        waiting.pop(disk, None)
        return disk.past

    patch.setattr(MemoryDisk, "store", stored)
    patch.setattr(MemoryDisk, "load", loaded)


def who_is_ahead_is_welcome(patch: pytest.MonkeyPatch) -> None:
    """Who has seen more than the log joins, as the first that starts does in Apache Ignite (BA25)."""
    _told_as(patch, Kinship.AHEAD, Kinship.EQUAL)


def an_older_log_is_told_by_its_length(patch: pytest.MonkeyPatch) -> None:
    """A log that was put back is an older one until it has come as far as the node had in the other."""

    def has_grown(state: State, since: Position, theirs: Position) -> bool:
        renewed = [lease.renewed_at for _, lease in state.rows(LeaseRow)]
        return theirs <= max(cluster(state).led_since, *renewed, since)

    patch.setattr(past, "_has_gone_on", has_grown)


def what_was_granted_is_no_going_on(patch: pytest.MonkeyPatch) -> None:
    """Only who serves now has gone on with a log."""
    patch.setattr(past, "LastGrantedRow", DrainRow)


def an_older_disk_is_believed(patch: pytest.MonkeyPatch) -> None:
    """A node with a backup of its disk owns what the log lists of it."""
    patch.setattr(exchanges, "_has_lost_all", lambda *_: False)


def who_is_behind_is_refused(patch: pytest.MonkeyPatch) -> None:
    """A node that was away while the view changed is taken for one of another history."""
    _told_as(patch, Kinship.BEHIND, Kinship.FORKED)


def _told_as(patch: pytest.MonkeyPatch, kinship: Kinship, other: Kinship) -> None:
    def told(state: State, log_id: bytes, node: NodeId, past: Past | None, ended: DiskRow | None = None) -> Judged:
        found = judge(state, log_id, node, past, ended)
        if found.kinship is not kinship:
            return found
        theirs = Point(Position(0), bytes(16)) if other is Kinship.FORKED else None
        return Judged(other, found.common, theirs)

    patch.setattr(membership, "judge", told)


# The state of the cluster.


def a_change_of_the_state_waits_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """It is done as soon as it is decided, whoever has applied it."""

    def hasty(state: State, position: Position, reports: Any, *, waited: bool) -> Verdict:
        return Verdict(verdict(state, position, reports, waited=waited).evidence)

    patch.setattr(cluster_state, "verdict", hasty)


def an_operation_outlives_the_state_that_allowed_it(patch: pytest.MonkeyPatch) -> None:
    """Who has begun to write while that was allowed ends in peace."""
    patch.setattr(Serving, "end", lambda *_, **__: None)


def a_node_serves_what_it_likes(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks the cluster's state before an operation, nor behind it."""
    patch.setattr(Serving, "begin", lambda *_, **__: 0)
    an_operation_outlives_the_state_that_allowed_it(patch)


def what_was_read_only_activates_itself(patch: pytest.MonkeyPatch) -> None:
    """An INACTIVE cluster becomes ACTIVE by itself, whatever it was when it was deactivated."""
    start = cluster_state._started

    def started(state: State, target: ClusterState, cause: Cause, ref: RequestRef | None) -> list[Decision]:
        return start(state, ClusterState.ACTIVE if cause is Cause.COMPLETE else target, cause, ref)

    patch.setattr(cluster_state, "_started", started)


def the_cold_is_not_waited_out(patch: pytest.MonkeyPatch) -> None:
    """Behind a power cut exchanges end with whoever is back."""
    patch.setattr(cluster_state, "_cooled", lambda *_: [])
    patch.setattr(cluster_state, "cooled_by", lambda *_: [])


# The baseline.


def outsiders_are_given_copies(patch: pytest.MonkeyPatch) -> None:
    """The affinity of a persistent group chooses from all servers."""

    def everybody(_: State, __: Any, ready: Sequence[Any]) -> list[Candidate]:
        return [Candidate(row.node, row.attributes) for row in ready]

    patch.setattr(placement, "candidates", everybody)


def a_drained_server_is_dropped_with_its_copies(patch: pytest.MonkeyPatch) -> None:
    """A drain is finished when it has begun."""
    patch.setattr(drains, "_holds", lambda *_: False)


def a_baseline_follows_whatever_is_held(patch: pytest.MonkeyPatch) -> None:
    """Neither a hold nor the cluster's state keeps an adjustment from being made."""
    patch.setattr(baseline, "why_not_adjusted", lambda *_: "")


DISKS = Faults.of_disks()
MOVING = msgspec.structs.replace(
    Faults(**dict.fromkeys(Faults.__struct_fields__, 0)), groups=10, copies=3, moves=16, operations=2, crashes=4
)
RESTORING = msgspec.structs.replace(MOVING, copies=0, moves=0, backups=4, restores=8, crashes=6, power_cuts=2)
STATES = msgspec.structs.replace(MOVING, copies=0, moves=0, operations=40, cuts=6, slow_reads=6)

DEFECTS: Sequence[tuple[Defect, Faults, int, Rule]] = (
    (histories_are_compared_by_their_members, MOVING, 1, Rule.NO_MIXING),
    (views_alone_are_compared, MOVING, 1, Rule.NO_MIXING),
    (renewals_alone_are_compared, MOVING, 5, Rule.NO_MIXING),
    (a_past_is_synced_too_late, MOVING, 113, Rule.NO_MIXING),
    (who_is_ahead_is_welcome, MOVING, 5, Rule.NO_MIXING),
    (an_older_log_is_told_by_its_length, MOVING, 1, Rule.OLDER_LOG),
    (what_was_granted_is_no_going_on, MOVING, 1, Rule.OLDER_LOG),
    (an_older_disk_is_believed, RESTORING, 17, Rule.NO_WRITE_LOST),
    (who_is_behind_is_refused, MOVING, 1, Rule.NO_FALSE_REFUSAL),
    (a_change_of_the_state_waits_for_nobody, STATES, 15, Rule.SERVES),
    (an_operation_outlives_the_state_that_allowed_it, STATES, 1, Rule.SERVES),
    (a_node_serves_what_it_likes, STATES, 1, Rule.SERVES),
    (what_was_read_only_activates_itself, STATES, 31, Rule.STATE_BINDS),
    (the_cold_is_not_waited_out, DISKS, 13, Rule.COLD),
    (outsiders_are_given_copies, DISKS, 11, Rule.PLACED),
    (a_drained_server_is_dropped_with_its_copies, STATES, 1, Rule.BASELINE),
    (a_baseline_follows_whatever_is_held, STATES, 18, Rule.BASELINE),
)


@pytest.mark.parametrize(
    ("defect", "budget", "seed", "rule"), DEFECTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_broken_rule_of_the_baseline_is_caught(
    defect: Defect, budget: Faults, seed: int, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `test_teeth.py`: by the seed of the table, or by another one within bounds."""
    run_row(defect, budget, seed, rule, monkeypatch)
