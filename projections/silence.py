"""Who is silent, from the log's own renewals: nobody has to measure heartbeats beside for that.

Threat. A member is blamed for a silence that is not its own: that of a coordinator which renews nobody, that of a
reader which is behind, or that between two echoes of a leader, for a leader renews only now and then.

Invariant. A member is called silent only where the log holds an echo of heartbeats that left it out, more than
`MISSED_MAX` heartbeats after it was renewed last.

Argument. An echo (LeasesRenewed) renews every member of whom the leader has heard since the echo before. So who is left
out has not been heard for as long as lies between its last renewal and that echo, and both times are the log's: neither
how late this reader is nor what its clock says has a part in it. A leader begins with an echo of nobody, for it has
heard nobody yet, and members must have applied the start of its term: so a silence counts from there at the earliest.
Of one that has been heard and not yet applied what it must, the same is said, and is true of its lease.

How long ago the last renewal was is another question. It takes the time now, by the log: the time of the newest
decision, and what has passed since this reader has read it. If that is longer than a leader may be silent, it is the
leader that is silent, and how much is left of a lease says nothing any more: whoever leads next counts anew.
"""

import msgspec

from topolog.events.ids import Position
from topolog.events.leases import LeaseRow
from topolog.events.terms import ClusterRow
from topolog.projections.store import Reading

MISSED_MAX = 2
"""Heartbeats in a row that a member may miss before it is called silent: one is lost now and then."""


class Clock(msgspec.Struct, frozen=True):
    """What silences are measured by, in ms of the log's time.

    `now_ms`: now, as far as this reader knows; `decided_ms`: when the newest decision was logged; `echo_ms`: when
    heartbeats were echoed last, None if they never were; `led_ms`: when the term began.
    """

    cluster: ClusterRow
    now_ms: int
    decided_ms: int
    echo_ms: int | None
    led_ms: int

    @property
    def leader_silent_ms(self) -> int:
        """How long ago anything was decided."""
        return max(0, self.now_ms - self.decided_ms)

    @property
    def is_leader_silent(self) -> bool:
        """Whether nobody leads, or for so long nothing was decided that a stand-by takes over."""
        return not self.cluster.coordinator or self.leader_silent_ms > self.takeover_ms

    @property
    def takeover_ms(self) -> int:
        """After so long a stand-by takes over; a leader writes every quarter of the fence."""
        return self.cluster.fence_min_ms * 2 // 5

    @property
    def silent_after_ms(self) -> int:
        return MISSED_MAX * self.cluster.heartbeat_ms

    def is_left_out(self, renewed_ms: int) -> bool:
        """Whether an echo has left out a member that was renewed then, or joined then."""
        return self.echo_ms is not None and self.echo_ms - max(renewed_ms, self.led_ms) > self.silent_after_ms

    def out_in_ms(self, renewed_ms: int) -> int | None:
        """How long until others go on without it; None while nobody leads who could count that."""
        if self.is_leader_silent:
            return None
        return max(0, self.cluster.proceed_ms - (self.now_ms - max(renewed_ms, self.led_ms)))

    def is_passed_over(self, renewed_ms: int) -> bool:
        """Whether a member should have been out for so long that whoever leads must be unable to hear silence.

        After an outage it counts anew; so it is said after twice the time, and a quarter of a fence for its beat.
        """
        late_ms = self.now_ms - max(renewed_ms, self.led_ms) - 2 * self.cluster.proceed_ms
        return not self.is_leader_silent and late_ms > self.cluster.fence_ms // 4


def clock(reading: Reading, cluster: ClusterRow, age_ms: int) -> Clock | None:
    """`age_ms` is that of the answer. None where nothing is known of now: as of the past, for renewals have no history,
    and where this reader has stopped, for what it does not read is nobody's silence."""
    if not reading.is_current or reading.present.stopped:
        return None
    decided_ms = reading.meta.logged_at_ms
    echo = _newest_echo(reading)
    return Clock(
        cluster,
        decided_ms + max(age_ms, reading.present.quiet_ms),
        decided_ms,
        None if echo is None else reading.surely_decision(echo).logged_at_ms,
        reading.surely_decision(cluster.led_since).logged_at_ms,
    )


def _newest_echo(reading: Reading) -> Position | None:
    """The newest position that the index of all other decisions lacks; none of them is read for it."""
    expected = reading.position
    for position in reading.positions():
        if position != expected:
            break
        expected = Position(position - 1)
    return expected if expected >= 0 else None


NOT_RENEWED = ("NONE", "OVERDUE", "SILENT")
"""Of what `state_of` tells: leases that go on to their end unless their holder is heard."""


def state_of(clock: Clock, row: LeaseRow, renewed_ms: int) -> str:
    """VALID, NONE, SILENT or OVERDUE, as `resources.Lease` explains them."""
    if row.sequence == 0:
        return "NONE"
    if clock.now_ms - renewed_ms >= clock.cluster.fence_ms:
        return "OVERDUE"
    return "SILENT" if clock.is_left_out(renewed_ms) else "VALID"
