"""Who has been heard, as it came to stand in the log's topics: whoever is counted as heard must be among these."""

from topolog.events.errors import Undecodable
from topolog.events.ids import NOWHERE, Incarnation, Position
from topolog.events.partitions import PartitionState, decode_codes, states_of
from topolog.events.single_maps import NodeMap, SinglePartitionMap, joined
from topolog.streams.simulation.ledger import Life

_Parts = dict[int, SinglePartitionMap]


class Answers:
    """`begun_at`: from which position on answers count, as `applied` by who gives them (DS17).

    A leader may have read less than stands here, never more. `missed_at`: where the last exchange was completed; whom
    it missed is heard by a map that has applied that, and `came_ns` is when the first such map of a life came.
    """

    def __init__(self) -> None:
        self.begun_at = self.missed_at = NOWHERE
        self.came_ns: dict[Life, int] = {}
        self._maps: dict[Life, NodeMap] = {}
        self._applied: dict[Incarnation, Position] = {}
        self._arriving: dict[tuple[Life, int], _Parts] = {}

    def begin(self, at: Position) -> None:
        """From here on answers count anew."""
        self.begun_at = at

    def miss(self, at: Position) -> None:
        """An exchange is completed here; whoever it has missed is to answer anew."""
        self.missed_at = at
        self.came_ns.clear()

    def note_map(self, told: SinglePartitionMap, now_ns: int) -> None:
        """A part of a map that has landed."""
        life = told.node, told.incarnation
        parts = self._arriving.setdefault((life, told.update_sequence), {})
        parts[told.part] = told
        newest = self._maps.get(life)
        if len(parts) == told.parts and (newest is None or newest.update_sequence < told.update_sequence):
            self._maps[life] = joined(tuple(parts[number] for number in sorted(parts)))
            del self._arriving[life, told.update_sequence]
            if told.applied.position >= self.missed_at:
                self.came_ns.setdefault(life, now_ns)

    def note_heartbeat(self, incarnation: Incarnation, applied: Position) -> None:
        self._applied[incarnation] = max(applied, self._applied.get(incarnation, NOWHERE))

    def has_told(self, life: Life, since: Position) -> bool:
        """Whether a map of this very life has landed that has applied so much."""
        told = self._maps.get(life)
        return told is not None and told.applied.position >= since

    def is_there(self, life: Life, since: Position) -> bool:
        """Whether it has sent a map, or has said in a heartbeat that it has applied so much."""
        return self.has_told(life, since) or self._applied.get(life[1], NOWHERE) >= since

    def says_whole(self, life: Life, group: str, partitions: int, partition: int) -> bool:
        """Whether the newest map of this life says that it has a whole copy."""
        told = self._maps[life].groups.get(group) if life in self._maps else None
        if told is None:
            return False
        try:
            found = states_of(decode_codes(told.states, partitions))
        except Undecodable:
            return False
        return found.get(partition) is PartitionState.OWNING
