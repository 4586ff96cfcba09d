"""What members report of themselves: the newest heartbeat of each, and how far it has provably applied the log (K9)."""

from collections.abc import Mapping

from topolog.events.fold import Header
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Place, Position
from topolog.events.leases import NodeRow
from topolog.events.log import Entry
from topolog.events.membership import Applied, Blocked, Heartbeat, NodeDied
from topolog.events.state import State
from topolog.streams.coordinator.obituary import Obituary, is_known_life
from topolog.streams.rules.membership import Heard

CHAINS_KEPT = 100_000
"""Positions whose chain hash is remembered: half a minute of the highest rate of decisions, 10 MB."""


class Reports:
    """Heartbeats of present members, checked against the log's chain, and certificates of those that died.

    A report counts only once the position it names has been read back here too and its hash is the log's; until then
    the last checked one stands. `diverged` counts reports whose hash was another. `newest` names the record that was
    heard last.
    """

    def __init__(self) -> None:
        self.hearing: dict[NodeId, Heard] = {}
        self.diverged = 0
        self.newest = ""
        self.obituary = Obituary()
        self._applied: dict[NodeId, tuple[Incarnation, Position]] = {}
        self._news: set[NodeId] = set()
        self._sources: dict[NodeId, str] = {}
        self._unchecked: dict[NodeId, Applied] = {}
        self._chains: dict[Position, bytes] = {}

    def extend(self, place: Place) -> None:
        """One more decision of the log, or one decided ahead of it."""
        self._chains[place.position] = place.chain
        self._chains.pop(Position(place.position - CHAINS_KEPT), None)

    def source(self, node: NodeId) -> str:
        """The record of the node's newest heartbeat, as stamps name it: `heartbeats/2@88 n3`."""
        return self._sources.get(node, "")

    def take(self, state: State, sign: Heartbeat | NodeDied, entry: Entry) -> None:
        """Note what a node, or its sentinel, has said."""
        if isinstance(sign, NodeDied):
            self.bury(state, sign, entry)
        else:
            self.hear(state, sign, entry)

    def bury(self, state: State, died: NodeDied, entry: Entry) -> None:
        """Note a death: what this incarnation has said counts no more, and what it may still say is not heard."""
        if not self.obituary.hear(state, died, entry):
            return
        heard = self.hearing.get(died.node)
        if heard and heard.incarnation == died.incarnation:
            del self.hearing[died.node], self._applied[died.node]
            self._unchecked.pop(died.node, None)
        if is_known_life(state, died):  # of others anybody may say anything
            self.newest = self._sources[died.node] = f"heartbeats/{entry.partition}@{entry.offset} {died.node}"

    def hear(self, state: State, heartbeat: Heartbeat, entry: Entry) -> None:
        """The newest heartbeat of a member's present incarnation; any other says nothing."""
        row, before = state.get(NodeRow, heartbeat.node), self.hearing.get(heartbeat.node)
        if row is None or not row.is_member or row.incarnation != heartbeat.incarnation:
            return
        if self.obituary.is_dead(state, row.node, row.incarnation):
            return
        same = before if before and before.incarnation == heartbeat.incarnation else None
        if same and heartbeat.sequence <= same.sequence:
            return
        heard = Heard(
            heartbeat.incarnation,
            heartbeat.sequence,
            same.applied if same else NOWHERE,
            heartbeat.fenced,
            heartbeat.is_release,
            entry.appended_at_ms,
            heartbeat.drained,
            heartbeat.blocked,
        )
        self._note(heartbeat.node, heard)
        self.newest = self._sources[heartbeat.node] = f"heartbeats/{entry.partition}@{entry.offset} {heartbeat.node}"
        self._unchecked[heartbeat.node] = heartbeat.applied

    def check(self, confirmed: Header) -> None:
        """Check the reports about positions that have been read back by now."""
        for node, applied in list(self._unchecked.items()):
            if applied.position > confirmed.position:
                continue
            del self._unchecked[node]
            if applied.log_id == confirmed.log_id and self._chains.get(applied.position) == applied.chain:
                self._note(node, _with_applied(self.hearing[node], applied.position))
            elif applied.position in self._chains:
                self.diverged += 1

    def take_news(self) -> set[NodeId]:
        """Of whom something was heard, or checked, since this was last asked."""
        found, self._news = self._news, set()
        return found

    def applied(self) -> Mapping[NodeId, tuple[Incarnation, Position]]:
        """What the verdict needs: checked positions by node."""
        return self._applied

    def blocks(self) -> dict[NodeId, tuple[Incarnation, Blocked]]:
        """What each node cannot apply."""
        return {node: (heard.incarnation, heard.blocked) for node, heard in self.hearing.items() if heard.blocked}

    def drained(self) -> dict[NodeId, tuple[Incarnation, Position]]:
        """Up to where each node has drained its hand-overs: never behind what it has provably applied."""
        return {node: (heard.incarnation, min(heard.drained, heard.applied)) for node, heard in self.hearing.items()}

    def known_chains(self) -> Mapping[Position, bytes]:
        """The chain hash at each position that is remembered."""
        return self._chains

    def _note(self, node: NodeId, heard: Heard) -> None:
        self.hearing[node] = heard
        self._applied[node] = (heard.incarnation, heard.applied)
        self._news.add(node)


def _with_applied(heard: Heard, position: Position) -> Heard:
    return Heard(
        heard.incarnation,
        heard.sequence,
        Position(max(heard.applied, position)),
        heard.fenced,
        heard.release,
        heard.appended_at_ms,
        heard.drained,
        heard.blocked,
    )
