"""The simulation has teeth: each rule of the design, broken on purpose, is caught by some seed.

`DEFECTS` is the table: what is broken, the seed that caught it when it was last looked for, and by which rule. A change
of the cores moves the seeds; the test then looks a bounded number of seeds further.

Not in the table, because no history of this simulation can show it, but proved elsewhere:

- A verdict that ignores the incarnation of a report: reports of former incarnations are dropped when they are heard,
  and a former incarnation never reports a position behind its own NodeLeft, hence none behind the joining of the
  present one. What is in the table is that the hearing does not look.
- A node that takes an echo by its own name, whatever the incarnation: slots are never given twice, and an incarnation
  is told of its slot by its own NodeJoined (`node/test_lease.py`).
- The chain compared only at the beginning of a set: nothing here swaps a log under its readers
  (`events/test_fold.py`, `test_k3_the_chain_is_compared_inside_a_set_too`).
- A leader that begins with no inputs of its own instead of those of the log, or that counts a heartbeat as read before
  what follows from it is logged: the next leader reads again what it need not, or waits for a lease that it need not;
  slow, never wrong (`coordinator/test_claims_inputs_causes.py`, and `coordinator/test_core.py`,
  `test_k4_a_claim_says_how_far_the_inputs_have_been_read`).
- A release that counts although a later heartbeat was renewed: a node says nothing after its release, which the table
  breaks (`release_before_the_end`).
- A certificate that is kept in memory only: it takes a take-over between a death and a join of the dead that lands
  late, which no seed in a thousand has (`coordinator/test_deaths.py`).
- What projections do with time and with their own position: the projector here is a plain fold
  (`projections/test_store.py`, `test_crash.py`).

The rules of the exchange have a table of their own (`test_exchange_teeth.py`).
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from topolog.events import fold, forgotten, groups
from topolog.events.fold import Accepted, Fold, Header, Ignored, Judge
from topolog.events.ids import Offset, Place, Position
from topolog.events.lease_terms import LeaseTermsChanged
from topolog.events.leases import LeaseRow, LeaveReason, NodeRow, Standing, lease_of, members
from topolog.events.log import Entry, Partition
from topolog.events.membership import Heartbeat, Joiner, JoinRequested, NodeDied
from topolog.events.proof import Life
from topolog.events.snapshot_content import Cut, Loader
from topolog.events.stamp import Stamp, decode_stamp
from topolog.events.state import Row, State
from topolog.events.terms import ClusterRow, cluster
from topolog.streams.coordinator.agenda import Agenda
from topolog.streams.coordinator.core import Core
from topolog.streams.coordinator.driver import Driver
from topolog.streams.coordinator.hearing import Hearing
from topolog.streams.coordinator.obituary import Obituary, is_known_life
from topolog.streams.coordinator.read_backs import ReadBacks
from topolog.streams.coordinator.reports import Reports
from topolog.streams.coordinator.resuming import Resumption
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.coordinator.timers import Timers
from topolog.streams.node.core import NodeCore
from topolog.streams.node.lease import Lease
from topolog.streams.node.session import Session
from topolog.streams.restoring import Restored, Restorer
from topolog.streams.rules import lease_terms, membership, metadata, senders
from topolog.streams.rules.verdict import Verdict, verdict
from topolog.streams.simulation import Faults, Rule, Violation, simulate, world
from topolog.streams.simulation.processes import TERMS, Process
from topolog.streams.simulation.timeline import DriftingClock
from topolog.streams.simulation.world import World

SPAN_MS = 10_000
SEEDS_MORE = 150

Defect = Callable[[pytest.MonkeyPatch], None]
_NS_PER_MS = 1_000_000


# The lease, on its holder's side.


def lease_from_receive_time(patch: pytest.MonkeyPatch) -> None:
    """The lease runs from the reading of the echo instead of from the sending of the heartbeat."""

    def echoed(lease: Lease, sequence: int, fence_ms: int, now_ns: int) -> None:
        if lease._sent.pop(sequence, None) is not None:
            lease.deadline_ns = now_ns + fence_ms * _NS_PER_MS

    patch.setattr(Lease, "echoed", echoed)


def lease_before_read_back(patch: pytest.MonkeyPatch) -> None:
    """The lease is prolonged when the heartbeat is sent, whether the log ever echoes it or not."""
    sent = Lease.sent

    def lengthened(lease: Lease, sequence: int, at_ns: int) -> None:
        sent(lease, sequence, at_ns)
        if lease.deadline_ns >= 0:
            lease.deadline_ns = at_ns + 1_000 * _NS_PER_MS

    patch.setattr(Lease, "sent", lengthened)


def any_echo_counts(patch: pytest.MonkeyPatch) -> None:
    """An echo counts for the newest heartbeat sent, not for exactly the one that it names."""
    echoed = Lease.echoed

    def newest(lease: Lease, sequence: int, fence_ms: int, now_ns: int) -> None:
        echoed(lease, max(lease._sent, default=sequence), fence_ms, now_ns)

    patch.setattr(Lease, "echoed", newest)


def holder_uses_the_stopping_clock(patch: pytest.MonkeyPatch) -> None:
    """A lease is measured by the clock that stands still while the machine is suspended."""
    patch.setattr(DriftingClock, "boottime_ns", DriftingClock.monotonic_ns)


def generation_ignores_a_lapse(patch: pytest.MonkeyPatch) -> None:
    """A lease that was over and runs again has the generation that it had."""
    echoed = Lease.echoed

    def same(lease: Lease, sequence: int, fence_ms: int, now_ns: int) -> None:
        generation = lease.generation
        echoed(lease, sequence, fence_ms, now_ns)
        lease.generation = max(generation, 1)

    patch.setattr(Lease, "echoed", same)


def generations_start_anew_with_an_incarnation(patch: pytest.MonkeyPatch) -> None:
    """A new incarnation counts its generations from the beginning."""
    patch.setattr(
        "topolog.streams.node.core.Lease", lambda incarnation, _=0, anchor_ns=None: Lease(incarnation, 0, anchor_ns)
    )


def stopping_node_keeps_its_lease(patch: pytest.MonkeyPatch) -> None:
    """A node that reads its own removal goes on serving to the end of its lease, but says that it has stopped."""
    patch.setattr(Lease, "void", lambda _: None)


# Leases and leaving, on the coordinator's side.


def left_before_the_lease_is_over(patch: pytest.MonkeyPatch) -> None:
    """NodeLeft after half of the wait."""
    deadlines = membership.deadlines

    def halved(*args: Any) -> Any:
        return [msgspec.structs.replace(each, after_ms=each.after_ms // 2) for each in deadlines(*args)]

    patch.setattr(membership, "deadlines", halved)


def no_restart_of_waits_after_takeover(patch: pytest.MonkeyPatch) -> None:
    """A new leader takes every wait it finds for one that is over."""
    begin = Agenda.begin

    def begun(agenda: Agenda, state: State) -> None:
        begin(agenda, state)
        for key in agenda.drain():
            agenda.pass_deadline(key)

    patch.setattr(Agenda, "begin", begun)


def renewals_in_flight_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """A wait starts when a renewal is decided, not when it is read back."""
    pass_time = Timers.pass_time
    patch.setattr(Timers, "pass_time", lambda timers, now_ns, _: pass_time(timers, now_ns, Position(1 << 60)))


def removed_member_counts_as_released(patch: pytest.MonkeyPatch) -> None:
    """A member that was stopped leaves at once."""
    settle = membership.settle

    def settled(
        state: State,
        hearing: membership.Hearing,
        lapsed: Iterable[str],
        dead: Collection[Life],
        **said: Any,
    ) -> list[Any]:
        for node in members(state):
            if node.standing is Standing.STOPPING:
                return [membership._left(state, node, lease_of(state, node), LeaveReason.REMOVED)]
        return settle(state, hearing, lapsed, dead, **said)

    patch.setattr(membership, "settle", settled)


def unheard_silence_counts(patch: pytest.MonkeyPatch) -> None:
    """Waits pass although the coordinator was not reading heartbeats."""
    patch.setattr(Hearing, "listen", lambda *_: True)


def heartbeats_of_any_incarnation_count(patch: pytest.MonkeyPatch) -> None:
    """The coordinator takes a heartbeat, and a release, of a node's former process for one of its present one."""
    hear = Reports.hear

    def heard(reports: Reports, state: State, heartbeat: Heartbeat, entry: Entry) -> None:
        row = state.get(NodeRow, heartbeat.node)
        if row is not None:
            heartbeat = msgspec.structs.replace(heartbeat, incarnation=row.incarnation)
        hear(reports, state, heartbeat, entry)

    patch.setattr(Reports, "hear", heard)
    nodes_own_their_folders(patch)


def release_before_the_end(patch: pytest.MonkeyPatch) -> None:
    """A node that leaves releases its lease, and goes on serving and beating until it reads that it has left."""

    def released(session: Session) -> None:
        session._released = True
        session.beat(release=True)

    patch.setattr(Session, "_release", released)


def waits_without_margin(patch: pytest.MonkeyPatch) -> None:
    """A lease counts as over after fence_ms on the coordinator's clock."""
    patch.setattr(ClusterRow, "proceed_ms", property(lambda row: row.fence_ms))


def a_lock_proves_too_much(patch: pytest.MonkeyPatch) -> None:
    """A process that joins takes the place of its node's former one, lock or no lock."""
    patch.setattr(membership, "_proves_it_gone", lambda *_: True)


# Terms that change.


def a_shorter_wait_counts_at_once(patch: pytest.MonkeyPatch) -> None:
    """Whoever waits goes by the new terms before the change is confirmed."""
    patch.setattr(ClusterRow, "proceed_ms", property(lambda row: row.fence_ms + row.margin_ms))


def former_terms_are_forgotten_in_a_take_over(patch: pytest.MonkeyPatch) -> None:
    """A new leader waits by the newest terms, whatever was in force when it began to lead."""

    def shorter(row: ClusterRow) -> int:
        own_ms = row.fence_ms + row.margin_ms
        is_its_own = row.former is not None and row.former.changed_at > row.led_since
        return max(own_ms, row.former.proceed_ms) if row.former and is_its_own else own_ms

    patch.setattr(ClusterRow, "proceed_ms", property(shorter))


def a_change_is_confirmed_at_once(patch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the last lease by the former terms."""
    settle = lease_terms.settle
    patch.setattr(lease_terms, "settle", lambda state, _: settle(state, Position(1 << 60)))


def the_last_change_hides_the_one_before(patch: pytest.MonkeyPatch) -> None:
    """A second change keeps what the first one had brought, and forgets what was before that."""

    def hidden(state: State, event: Any, place: Place) -> None:
        row = cluster(state)
        if isinstance(event, LeaseTermsChanged):
            state.put("", msgspec.structs.replace(row, former=None))
        evolved(state, event, place)

    evolved = fold._EVOLVE[LeaseTermsChanged]
    patch.setitem(fold._EVOLVE, LeaseTermsChanged, hidden)


def a_raised_fence_is_waited_for_once_it_is_confirmed(patch: pytest.MonkeyPatch) -> None:
    """Until then whoever waits goes by the former, shorter one."""
    proceed_ms = lambda row: row.former.proceed_ms if row.former else row.fence_ms + row.margin_ms  # noqa: E731
    patch.setattr(ClusterRow, "proceed_ms", property(proceed_ms))


def a_changed_fence_runs_too_long(patch: pytest.MonkeyPatch) -> None:
    """A node takes half as much again as the log says at the echo, once the fence has been changed."""
    echoed = Lease.echoed

    def prolonged(lease: Lease, sequence: int, fence_ms: int, now_ns: int) -> None:
        echoed(lease, sequence, fence_ms * 3 // 2 if fence_ms != TERMS.fence_ms else fence_ms, now_ns)

    patch.setattr(Lease, "echoed", prolonged)


# Deaths.


def the_dead_come_back(patch: pytest.MonkeyPatch) -> None:
    """A heartbeat that lands behind the certificate of its incarnation takes it back."""
    hear = Reports.hear

    def heard(reports: Reports, state: State, heartbeat: Heartbeat, entry: Entry) -> None:
        if row := state.get(NodeRow, heartbeat.node):
            reports.obituary.dead.pop(Life(row.node, row.incarnation, row.seal), None)
        hear(reports, state, heartbeat, entry)

    patch.setattr(Reports, "hear", heard)


def an_unproved_certificate_is_believed(patch: pytest.MonkeyPatch) -> None:
    """Whoever writes that a member is dead is believed, whatever secret it shows."""
    hear = Obituary.hear

    def heard(obituary: Obituary, state: State, died: NodeDied, entry: Entry) -> bool:
        found, row = hear(obituary, state, died, entry), state.get(NodeRow, died.node)
        if row is not None and row.incarnation == died.incarnation:
            obituary.dead[Life(row.node, row.incarnation, row.seal)] = None
        return found

    patch.setattr(senders, "require_sign", lambda _, record: record)
    patch.setattr(Obituary, "hear", heard)


def an_unproved_release_is_believed(patch: pytest.MonkeyPatch) -> None:
    """Whoever writes that a member has stopped serving is believed, whatever secret it shows."""
    patch.setattr(senders, "require_sign", lambda _, record: record)


def operations_are_taken_from_requests(patch: pytest.MonkeyPatch) -> None:
    """Whoever may write requests asks for what is an operator's."""
    patch.setattr(senders, "require_allowed", lambda *_: None)


def who_asks_in_the_name_of_others_is_answered(patch: pytest.MonkeyPatch) -> None:
    """By any requester: what is honest then finds its number used."""
    patch.setattr(senders, "is_of", lambda *_: True)


def a_number_of_any_size_is_believed(patch: pytest.MonkeyPatch) -> None:
    """What is honest then is older than what is kept."""
    patch.setattr(senders, "AHEAD_MAX", 1 << 63)


def a_former_life_speaks_for_the_present_one(patch: pytest.MonkeyPatch) -> None:
    """A certificate counts for the node, whichever of its incarnations it names."""
    hear = Obituary.hear

    def heard(obituary: Obituary, state: State, died: NodeDied, entry: Entry) -> bool:
        row = state.get(NodeRow, died.node)
        found = hear(obituary, state, died, entry)
        if row is not None:
            obituary.dead[Life(row.node, row.incarnation, row.seal)] = None
        return found

    patch.setattr(Obituary, "hear", heard)


def early_certificates_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A certificate of an incarnation that the log does not know yet is dropped."""
    hear = Obituary.hear

    def heard(obituary: Obituary, state: State, died: NodeDied, entry: Entry) -> bool:
        return is_known_life(state, died) and hear(obituary, state, died, entry)

    patch.setattr(Obituary, "hear", heard)


def a_paused_process_is_certified(patch: pytest.MonkeyPatch) -> None:
    """The sentinel takes a process that is stopped for one that is dead."""
    pause = World.pause

    def paused(world: World, process: Process, ms: float) -> None:
        pause(world, process, ms)
        world.certify(process)

    patch.setattr(World, "pause", paused)


# The verdict.


def margin_below_the_drift(patch: pytest.MonkeyPatch) -> None:
    """A silent holder is presumed fenced after fence_ms and a tenth of what two clocks may drift apart."""
    note = ReadBacks.note

    def sooner(read_backs: ReadBacks, now_ns: int, position: Position, proceed_ms: int) -> None:
        note(read_backs, now_ns, position, proceed_ms - TERMS.margin_ms * 9 // 10)

    patch.setattr(ReadBacks, "note", sooner)


def proposals_in_flight_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """The wait for a silent holder starts when a proposal is decided, not when it is read back."""
    note = Driver._note_read_back

    def decided(driver: Driver, now_ns: int) -> None:
        with pytest.MonkeyPatch.context() as briefly:
            briefly.setattr(Core, "confirmed", property(lambda core: core._ahead))
            note(driver, now_ns)

    patch.setattr(Driver, "_note_read_back", decided)


def accepted_without_waiting(patch: pytest.MonkeyPatch) -> None:
    """A silent holder is presumed fenced at once."""

    def hasty(state: State, position: Position, reports: Any, *, waited: bool) -> Verdict:
        return verdict(state, position, reports, waited=True)

    _judge_by(patch, hasty)


def silent_holders_are_left_out(patch: pytest.MonkeyPatch) -> None:
    """Only those who have reported are asked."""

    def lenient(state: State, position: Position, reports: Any, *, waited: bool) -> Verdict:
        found = verdict(state, position, reports, waited=waited)
        return Verdict(found.evidence, tuple(node for node in found.open if node in reports))

    _judge_by(patch, lenient)


def _judge_by(patch: pytest.MonkeyPatch, found: Callable[..., Verdict]) -> None:
    patch.setattr(metadata, "verdict", found)
    patch.setattr(metadata, "proceeds", lambda *given, **waited: found(*given, **waited).proceed)


# The fold.


def no_term_refusal(patch: pytest.MonkeyPatch) -> None:
    """Records of a term that is over are folded."""
    _accept_in_spite_of(patch, Ignored.OLD_TERM)


def repeats_are_applied(patch: pytest.MonkeyPatch) -> None:
    """A record that stands in the log already is folded again."""
    _accept_in_spite_of(patch, Ignored.REPEAT)


def a_gap_is_accepted(patch: pytest.MonkeyPatch) -> None:
    """What follows a lost record counts."""
    _accept_in_spite_of(patch, Ignored.GAP)


def half_a_set_is_applied(patch: pytest.MonkeyPatch) -> None:
    """Each record is folded when it is read, before its set is whole."""
    extend, close_set = Judge._extend, Judge._close_set

    def judged(judge: Judge, stamp_bytes: bytes | None, value: bytes) -> list[Accepted] | Ignored:
        stamp = decode_stamp(stamp_bytes or b"")
        refusal = judge._refusal(stamp)
        if refusal is not None:
            return refusal
        alone = msgspec.structs.replace(stamp, index=0, size=1)
        judge._open.append(extend(judge, alone, stamp_bytes or b"", value))
        judge.header = msgspec.structs.replace(judge.header, next_sequence=stamp.sequence + 1)
        return close_set(judge, alone)

    patch.setattr(Judge, "judge", judged)


def inputs_of_a_cut_set_count(patch: pytest.MonkeyPatch) -> None:
    """What a set has read counts as read from its first record on, though the set may never be whole."""
    extend = Judge._extend

    def extended(judge: Judge, stamp: Stamp, stamp_bytes: bytes, value: bytes) -> Accepted:
        accepted = extend(judge, stamp, stamp_bytes, value)
        judge.header = msgspec.structs.replace(judge.header, inputs=stamp.inputs or judge.header.inputs)
        return accepted

    patch.setattr(Judge, "_extend", extended)
    nodes_own_their_folders(patch)


# The service of a node.


def hooks_after_the_fact(patch: pytest.MonkeyPatch) -> None:
    """A decision counts as applied before the service is told."""
    run_hook, apply = Session._run_hook, NodeCore.apply

    def run_late(session: Session, hook: Any, where: str) -> Any:
        if isinstance(hook, partial) and hook.func.__name__ == "hook":
            apply(session.core, hook.args[1], session._clock.boottime_ns())
        return run_hook(session, hook, where)

    patch.setattr(Session, "_run_hook", run_late)
    patch.setattr(NodeCore, "apply", lambda *_: None)


def half_told_sets_are_reported(patch: pytest.MonkeyPatch) -> None:
    """What a node reports as applied is what it has folded, whether its service was told or not."""
    run_hook = Session._run_hook

    def run_late(session: Session, hook: Any, where: str) -> Any:
        session.core.finish()
        return run_hook(session, hook, where)

    patch.setattr(Session, "_run_hook", run_late)


# The coordinator and its term.


def second_term_started_leads(patch: pytest.MonkeyPatch) -> None:
    """A coordinator leads once the term it claimed has begun, whoever began it."""
    answer = Core._answer_claim

    def led(core: Core, entry: Entry) -> None:
        claim = core._unread[0]
        answer(core, msgspec.structs.replace(entry, value=claim.value, headers=(("topolog-stamp", claim.stamp),)))

    patch.setattr(Core, "_answer_claim", led)


def failed_delivery_unnoticed(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks at what the broker answers."""
    patch.setattr(Driver, "_on_delivery", lambda *_: None)


def read_back_unchecked(patch: pytest.MonkeyPatch) -> None:
    """A leader believes that what it reads is what it wrote."""

    def trusting(core: Core, whole: list[Accepted]) -> None:
        for _ in whole[: core.unread]:
            core._unread.popleft()

    patch.setattr(Core, "_read_back", trusting)


def repeated_requests_are_decided_again(patch: pytest.MonkeyPatch) -> None:
    """A request that comes twice is decided twice."""
    patch.setattr(Core, "_is_known", lambda *_: False)


def a_forgotten_requester_is_new(patch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered of a requester that is forgotten."""
    patch.setattr(forgotten, "remember", lambda *_: None)


def inputs_are_skipped_after_takeover(patch: pytest.MonkeyPatch) -> None:
    """A new leader starts its inputs a record behind what the accepted sets have read through."""

    def skipping(resumption: Resumption, partition: Partition) -> Offset | None:
        at = resumption._places[partition]
        return None if at is None else Offset(at + 1)

    patch.setattr(Resumption, "_start", skipping)


def offsets_are_believed_in_any_topic(patch: pytest.MonkeyPatch) -> None:
    """A new leader goes on at the offset of the stamps, whatever topic has it."""
    patch.setattr(Resumption, "_start", lambda resumption, partition: resumption._places[partition])
    patch.setattr(Resumption, "take", lambda _, entries: entries)
    patch.setattr(Resumption, "misses", lambda _, __: False)


def waiting_requests_are_kept_in_memory(patch: pytest.MonkeyPatch) -> None:
    """A join that must wait is remembered by the coordinator that read it, not by the log."""
    ask, settle = Core.ask, Core.settle
    waiting: dict[Core, list[Entry]] = {}

    def asked(core: Core, entry: Entry) -> None:
        request = core.codec.decode(entry.value)
        if isinstance(request, JoinRequested) and _must_wait(core.state, request):
            core._inputs.count(entry)
            waiting.setdefault(core, []).append(entry)
        else:
            ask(core, entry)

    def settled(core: Core) -> None:
        settle(core)
        for entry in waiting.pop(core, []):
            asked(core, entry)

    patch.setattr(Core, "ask", asked)
    patch.setattr(Core, "settle", settled)


def _must_wait(state: State, request: JoinRequested) -> bool:
    row = state.get(NodeRow, request.joiner.node)
    return row is not None and row.is_member and not membership._proves_it_gone(request.joiner, row)


def versions_restart_after_removal(patch: pytest.MonkeyPatch) -> None:
    """A removed type leaves no floor."""
    patch.setattr(metadata, "floor_of", lambda *_: 0)


# Snapshots.


def snapshots_without_the_folds_header(patch: pytest.MonkeyPatch) -> None:
    """What starts from a snapshot knows its position and chain, but not the next sequence nor the inputs."""
    finish = Loader.finish

    def finished(loader: Loader, digest: bytes, state_hash: bytes) -> tuple[Header, State]:
        header, state = finish(loader, digest, state_hash)
        return Header(header.log_id, header.term, position=header.position, chain=header.chain), state

    patch.setattr(Loader, "finish", finished)


def snapshots_are_believed_unproven(patch: pytest.MonkeyPatch) -> None:
    """A whole snapshot is used, whether the log names it or not."""

    def believed(restorer: Restorer, fold: Fold) -> Restored:
        taken = restorer._announced.taken
        return restorer._start(Restored(fold, taken.anchor.offset, taken.position))

    patch.setattr(Restorer, "_begin_to_prove", believed)
    patch.setattr(world, "_draw_cadence", lambda _: Cadence(3))  # no defect: more snapshots, hence more unproven ones


def snapshots_without_the_volatile_rows(patch: pytest.MonkeyPatch) -> None:
    """Lease rows are left out, for they have no part in the state hash."""
    copies = State.copies

    def lasting(state: State) -> dict[str, dict[str, Row]]:
        return {kind: rows for kind, rows in copies(state).items() if kind != LeaseRow.KIND}

    patch.setattr(State, "copies", lasting)


def snapshots_of_what_was_read_back(patch: pytest.MonkeyPatch) -> None:
    """The rows that were decided ahead, under the header of what was read back."""
    patch.setattr(Core, "cut", lambda core: Cut(core.confirmed, core.state.copies()))


# Groups.


def a_dropped_groups_number_is_given_again(patch: pytest.MonkeyPatch) -> None:
    """The group that is created next gets the number of the one that was dropped last."""
    drop = groups._drop

    def returned(state: State, event: groups.GroupDropped, place: Place) -> None:
        drop(state, event, place)
        state.put("", msgspec.structs.replace(cluster(state), next_group=event.number))

    patch.setattr(groups, "_drop", returned)


def groups_change_in_the_old_view(patch: pytest.MonkeyPatch) -> None:
    """The decision names the next view, and nobody enters it."""
    patch.setattr(groups, "enter_view", lambda *_: None)


def _accept_in_spite_of(patch: pytest.MonkeyPatch, ignored: Ignored) -> None:
    refusal = Judge._refusal

    def lenient(judge: Judge, stamp: Stamp) -> Ignored | None:
        found = refusal(judge, stamp)
        return None if found is ignored else found

    patch.setattr(Judge, "_refusal", lenient)


def nodes_own_their_folders(patch: pytest.MonkeyPatch) -> None:
    """No defect: each restart is decided in one set, NodeLeft and NodeJoined, so that sets are cut more often."""
    draw_joiner = world._draw_joiner

    def drawn(chance: random.Random, number: int) -> Joiner:
        return msgspec.structs.replace(draw_joiner(chance, number), folder=f"disk of n{number}")

    patch.setattr(world, "_draw_joiner", drawn)


def only(**budget: int) -> Faults:
    """Nothing goes wrong but this: the rarer a defect shows, the narrower its budget."""
    return Faults(**{**dict.fromkeys(Faults.__struct_fields__, 0), "proposals": 25, **budget})


ANY = Faults()
CUTS = only(cuts=12)
SUSPENDS = only(suspends=12)
OUTAGES = only(crashes=6, cuts=14, pauses=14)
STOPS = only(crashes=4, cuts=20, pauses=40, proposals=3)
LOSSES = only(losses=20, usurpers=20)
HANDOVERS = only(cuts=10, retirements=8)
USURPATIONS = only(cuts=20, usurpers=25, crashes=20)
DEATHS = only(crashes=60)
CUT_SETS = only(crashes=60, losses=100, proposals=0)
CHANGES = only(terms=12, cuts=16, crashes=4)
CHANGES_OF_LEADERS = only(terms=20, cuts=16, suspends=20, retirements=16, proposals=60)
DAYS = only(days=8, type_removals=20)
RESTARTS = only(crashes=40, twins=4)
LIES = only(forgeries=12)
COPIES = only(groups=60, operations=40, copies=8, crashes=2, proposals=0)

DEFECTS: Sequence[tuple[Defect, Faults, int, Rule]] = (
    (lease_from_receive_time, ANY, 0, Rule.ANCHORED_LEASE),
    (lease_before_read_back, ANY, 0, Rule.ANCHORED_LEASE),
    (any_echo_counts, ANY, 0, Rule.ANCHORED_LEASE),
    (holder_uses_the_stopping_clock, SUSPENDS, 1, Rule.FRESH_LEASE),
    (generation_ignores_a_lapse, ANY, 3, Rule.READS),
    (generations_start_anew_with_an_incarnation, ANY, 14, Rule.READS),
    (stopping_node_keeps_its_lease, ANY, 0, Rule.MEMBER_LEASE),
    (left_before_the_lease_is_over, ANY, 0, Rule.LEFT_IN_TIME),
    (no_restart_of_waits_after_takeover, ANY, 0, Rule.NO_FALSE_REMOVAL),
    (renewals_in_flight_are_ignored, STOPS, 271, Rule.LEFT_IN_TIME),
    (removed_member_counts_as_released, ANY, 0, Rule.LEFT_IN_TIME),
    (unheard_silence_counts, CUTS, 16, Rule.NO_FALSE_REMOVAL),
    (heartbeats_of_any_incarnation_count, RESTARTS, 81, Rule.ECHOES),
    (the_dead_come_back, DEATHS, 32, Rule.DEAD_STAY_OUT),
    (an_unproved_certificate_is_believed, LIES, 0, Rule.LEFT_IN_TIME),
    (an_unproved_release_is_believed, LIES, 0, Rule.LEFT_IN_TIME),
    (operations_are_taken_from_requests, LIES, 0, Rule.OPERATIONS),
    (who_asks_in_the_name_of_others_is_answered, LIES, 0, Rule.CONVERGES),
    (a_number_of_any_size_is_believed, LIES, 0, Rule.RUNS_ON),
    (a_former_life_speaks_for_the_present_one, DEATHS, 0, Rule.LEFT_IN_TIME),
    (early_certificates_are_forgotten, DEATHS, 13, Rule.DEAD_STAY_OUT),
    (a_paused_process_is_certified, ANY, 0, Rule.LEFT_IN_TIME),
    (release_before_the_end, ANY, 0, Rule.MEMBER_LEASE),
    (waits_without_margin, ANY, 1, Rule.LEFT_IN_TIME),
    (a_lock_proves_too_much, ANY, 9, Rule.LEFT_IN_TIME),
    (a_shorter_wait_counts_at_once, CHANGES, 20, Rule.LEFT_IN_TIME),
    (a_shorter_wait_counts_at_once, CHANGES, 4, Rule.PRESUMED_IN_TIME),
    (former_terms_are_forgotten_in_a_take_over, CHANGES_OF_LEADERS, 7, Rule.LEFT_IN_TIME),
    (former_terms_are_forgotten_in_a_take_over, CHANGES_OF_LEADERS, 365, Rule.PRESUMED_IN_TIME),
    (a_change_is_confirmed_at_once, CHANGES, 12, Rule.LEFT_IN_TIME),
    (the_last_change_hides_the_one_before, CHANGES, 4, Rule.PRESUMED_IN_TIME),
    (a_raised_fence_is_waited_for_once_it_is_confirmed, CHANGES, 4, Rule.PRESUMED_IN_TIME),
    (a_changed_fence_runs_too_long, CHANGES, 1, Rule.ANCHORED_LEASE),
    (accepted_without_waiting, ANY, 0, Rule.PRESUMED_IN_TIME),
    (silent_holders_are_left_out, HANDOVERS, 18, Rule.ACCEPTED),
    (margin_below_the_drift, CUTS, 27, Rule.PRESUMED_IN_TIME),
    (proposals_in_flight_are_ignored, OUTAGES, 404, Rule.PRESUMED_IN_TIME),
    (no_term_refusal, ANY, 5, Rule.ONE_FOLD),
    (repeats_are_applied, ANY, 0, Rule.ONE_FOLD),
    (a_gap_is_accepted, LOSSES, 30, Rule.RUNS_ON),
    (half_a_set_is_applied, ANY, 0, Rule.ONE_FOLD),
    (inputs_of_a_cut_set_count, CUT_SETS, 20, Rule.CONVERGES),
    (hooks_after_the_fact, ANY, 0, Rule.HOOKS),
    (half_told_sets_are_reported, ANY, 0, Rule.HOOKS),
    (second_term_started_leads, ANY, 5, Rule.ONE_AUTHOR),
    (failed_delivery_unnoticed, LOSSES, 42, Rule.CONVERGES),
    (read_back_unchecked, ANY, 93, Rule.RUNS_ON),
    (repeated_requests_are_decided_again, ANY, 0, Rule.RUNS_ON),
    (a_forgotten_requester_is_new, DAYS, 0, Rule.ONE_OUTCOME),
    (inputs_are_skipped_after_takeover, ANY, 5, Rule.CONVERGES),
    (offsets_are_believed_in_any_topic, COPIES, 50, Rule.CONVERGES),
    (waiting_requests_are_kept_in_memory, ANY, 5, Rule.CONVERGES),
    (versions_restart_after_removal, ANY, 6, Rule.VERSIONS),
    (snapshots_without_the_folds_header, ANY, 0, Rule.RUNS_ON),
    (snapshots_are_believed_unproven, USURPATIONS, 67, Rule.ONE_FOLD),
    (snapshots_without_the_volatile_rows, ANY, 0, Rule.RUNS_ON),
    (snapshots_of_what_was_read_back, ANY, 0, Rule.ONE_FOLD),
    (a_dropped_groups_number_is_given_again, ANY, 4, Rule.GROUPS),
    (groups_change_in_the_old_view, ANY, 0, Rule.VIEWS),
)


def caught(seeds: Iterable[int], budget: Faults) -> Iterator[Violation]:
    """What those of these seeds report that notice anything."""
    for seed in seeds:
        try:
            simulate(seed, SPAN_MS, budget)
        except Violation as violation:
            yield violation


@pytest.mark.parametrize(
    ("defect", "budget", "seed", "rule"), DEFECTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_broken_rule_is_caught(
    defect: Defect, budget: Faults, seed: int, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed of the table catches the defect by the rule of the table, or another one within bounds does.

    What other rules notice on the way does not count: a row would pass by any of them once its seed has moved.
    """
    run_row(defect, budget, seed, rule, monkeypatch)


def run_row(defect: Defect, budget: Faults, seed: int, rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail unless the defect is caught as a row of a table says."""
    defect(monkeypatch)
    passed_over: Counter[Rule] = Counter()
    for violation in caught(itertools.chain([seed], range(SEEDS_MORE)), budget):
        if violation.rule is rule:
            return
        passed_over[violation.rule] += 1
    pytest.fail(f"no seed below {SEEDS_MORE} catches by {rule} that {defect.__doc__} Others: {dict(passed_over)}")
