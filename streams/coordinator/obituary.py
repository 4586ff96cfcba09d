"""Death certificates that a coordinator has heard: whom nobody needs to wait for, and what must be read again for it.

Threats. A certificate may be a lie of somebody who may write `heartbeats`. It may be heard before the join of its
incarnation is decided, for the two stand on topics of their own; then it must not be forgotten, or a process that is
gone becomes a member that every decision waits for until its lease has run out. What is only remembered is lost with
the process that remembers it. And heartbeats of the dead, late sends, may follow their certificate.

How it works. A certificate shows the secret of the life that it ends (`events/proof.py`), and is remembered with the
seal of what it shows, up to CERTIFICATES_KEPT. A join that comes later is refused if that is its seal; it does not mind
what others have said of it. Of a life that the log knows a false one is not remembered at all (`rules/senders.py`).
While its incarnation is unknown to the log, what the accepted sets say to have read of its partition stops short of it
(`read_through`), so that the next leader hears it again (K4); to hear heartbeats twice does no harm, their sequences do
not grow. That ends HELD_MS later by the time of its own partition, or one certificate of a process that never joined
would be read for ever; other partitions may have brokers with other clocks. While nothing follows in its partition
nothing is read twice but itself. If a join is decided even later, and a take-over lay in between, that incarnation
costs its lease: slow, never wrong.
"""

from collections.abc import Iterator

import msgspec

from topolog.events.ids import Incarnation, NodeId
from topolog.events.leases import NodeRow
from topolog.events.log import Entry
from topolog.events.membership import NodeDied, known_seal
from topolog.events.proof import Life, seal_of
from topolog.events.state import State

CERTIFICATES_KEPT = 4096
HELD_MS = 10_000


class _Held(msgspec.Struct, frozen=True):
    """`before`: the record in front of the certificate, None if this coordinator has not read it."""

    before: Entry | None
    appended_at_ms: int


class Obituary:
    """`dead` holds the certified lives, oldest first, each with the seal of the secret that was shown."""

    def __init__(self) -> None:
        self.dead: dict[Life, None] = {}
        self._held: dict[tuple[int, int], dict[Life, _Held]] = {}
        self._newest: dict[tuple[int, int], Entry] = {}
        self._before: Entry | None = None

    def pass_over(self, entry: Entry) -> None:
        """One more record of heartbeats is read; what it says is heard next. Its partition's time is its own, and those
        that were held first end first there."""
        place = entry.topic.code, entry.partition
        self._before, self._newest[place] = self._newest.get(place), entry
        held = self._held.get(place, {})
        while held:
            life, oldest = next(iter(held.items()))
            if entry.appended_at_ms - oldest.appended_at_ms <= HELD_MS:
                return
            del held[life]

    def hear(self, state: State, died: NodeDied, entry: Entry) -> bool:
        """Note a certificate; False if the log knows already that this incarnation has left."""
        row = state.get(NodeRow, died.node)
        if row and row.incarnation == died.incarnation and not row.is_member:
            return False
        life = Life(died.node, died.incarnation, seal_of(died.secret))
        self.dead[life] = None
        if not is_known_life(state, died):
            held = self._held.setdefault((entry.topic.code, entry.partition), {})
            held.setdefault(life, _Held(self._before, entry.appended_at_ms))
        if len(self.dead) > CERTIFICATES_KEPT:
            oldest = next(iter(self.dead))
            del self.dead[oldest]
            for held in self._held.values():
                held.pop(oldest, None)
        return True

    def is_dead(self, state: State, node: NodeId, incarnation: Incarnation) -> bool:
        """Whether a proof was heard that this life, which the log knows, is over."""
        seal = known_seal(state, node, incarnation)
        return seal is not None and Life(node, incarnation, seal) in self.dead

    def read_through(self) -> Iterator[Entry]:
        """The last record that counts as read of each partition, once all that was heard is decided."""
        for place, newest in self._newest.items():
            held = self._held.get(place)
            last = next(iter(held.values())).before if held else newest
            if last is not None:
                yield last


def is_known_life(state: State, died: NodeDied) -> bool:
    """Whether the log knows this incarnation already, so that the decision which follows is certain."""
    return known_seal(state, died.node, died.incarnation) is not None
