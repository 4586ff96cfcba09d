"""What an exchange makes of one partition: who holds it, who acts for it, whether it is lost (DESIGN §4.3.4, DS1-DS3).

The owner row of the log is the measure. Maps that nodes sent say only two things of their own: whether a copy that the
log lists still exists behind a restart, and in what order owners are preferred where nobody acts. A node that says it
owns what the log does not list is believed to hold something stale, never to own it.

    a live primary        goes on acting (L1, L2): whoever the affinity wants besides loads from it as MOVING
    nobody acts, owners   one of the present owners acts, the wanted primary before others, then who counts highest (L3)
    no owner is present   the partition is lost and awaits its absent owners (DS2); the policy IGNORE begins it empty
    there never was one   all that are wanted own it at once, empty (L9, K11)
"""

from collections.abc import Mapping, Sequence

import msgspec

from topolog.events.ids import Position
from topolog.events.ownership import Change, Copy, NodeNumber, Ownership
from topolog.events.partitions import PartitionState

_OWNING, _MOVING, _LOST = PartitionState.OWNING, PartitionState.MOVING, PartitionState.LOST
_HEIRS = (_MOVING, _LOST)
"""What an operator's reset may choose when no owner is left: never a copy that is being cleared (DS2)."""


class Present(msgspec.Struct, frozen=True):
    """What a member has of one partition: since when it is there, whether its map lists a whole copy, its counter.

    `joined_at` is the position of its joining: a copy that the log lists from before that has lived through a restart,
    and exists only if the map says so. Of a server that is not `is_heard`, because it was not asked, or has not
    answered, only what the log knows is here; what it owned before its restart is awaited as if it were away. Who has
    joined behind the question is not `is_asked`.
    """

    joined_at: int
    has_whole_copy: bool = False
    counter: int = 0
    is_heard: bool = True
    is_asked: bool = True

    def has(self, copy: Copy) -> bool:
        """Whether this copy is known to be here."""
        return copy.since > self.joined_at or self.has_whole_copy


class Ask(msgspec.Struct, frozen=True):
    """What the outcome is asked for besides: `begins_empty` where the policy gives up what has no owner, `reset_at`
    where an operator has given up what was lost then, not what has lost its last owner since; nor what an owner may
    bring that has joined behind the question: the next exchange asks it."""

    begins_empty: bool = False
    reset_at: Position | None = None

    def gives_up(self, before: Ownership, present: Mapping[NodeNumber, Present]) -> bool:
        is_to_be_asked = any(node in present and not present[node].is_asked for node in before.owners)
        was_lost = before.is_lost and self.reset_at is not None and before.token < self.reset_at
        return self.begins_empty or (was_lost and not is_to_be_asked)


_PLAIN = Ask()


def outcome(
    before: Ownership, wanted: Sequence[NodeNumber], present: Mapping[NodeNumber, Present], ask: Ask = _PLAIN
) -> Change:
    """The partition as the exchange leaves it; equal to what it was if nothing changes (`as_change`).

    `wanted`: the affinity's choice, its primary first, members only. Raises nothing: every state has an outcome.
    """
    held = [copy for copy in before.copies if _exists(copy, present)]
    here = [copy for copy in held if copy.node in present and present[copy.node].has(copy)]
    acting = before.acting
    if acting is None:
        acting = _preferred([copy.node for copy in here if copy.state is _OWNING], wanted, present)
    if acting is not None:
        return Change(before.partition, _served(here, wanted), acting)
    if (before.owners or before.is_lost) and not ask.gives_up(before, present):
        return Change(before.partition, tuple(_lost(copy) for copy in held), None, is_lost=True)
    return _begun(before, held, wanted, present)


def as_change(before: Ownership) -> Change:
    """The partition as it is, to be compared with an outcome."""
    copies = tuple(Copy(copy.node, copy.state, copy.wanted) for copy in before.copies)
    return Change(before.partition, copies, before.acting, before.is_lost)


def _begun(
    before: Ownership, held: Sequence[Copy], wanted: Sequence[NodeNumber], present: Mapping[NodeNumber, Present]
) -> Change:
    """A partition that begins empty, or with what a reset chooses of it: never with a copy that is being cleared."""
    here = {copy.node: copy.state for copy in held if copy.node in present}
    heirs = [node for node, state in here.items() if state in _HEIRS]
    fresh = [node for node in wanted if node not in here]
    first = _preferred(heirs, wanted, present) if heirs else next(iter(fresh), None)
    if first is None:
        return Change(
            before.partition, tuple(_lost(copy) for copy in held), None, is_lost=before.is_lost or bool(before.owners)
        )
    owning = [first] if heirs else fresh
    states = {**here, **dict.fromkeys(owning, _OWNING)}
    return Change(
        before.partition, _served([Copy(node, state, wanted=False) for node, state in states.items()], wanted), first
    )


def _exists(copy: Copy, present: Mapping[NodeNumber, Present]) -> bool:
    """Whether the copy is still there, as far as anybody knows: of an absent node only what it owned counts."""
    member = present.get(copy.node)
    if member is None or not member.is_heard:
        return copy.state is _OWNING or (member is not None and member.has(copy))
    return member.has(copy)


def _preferred(
    nodes: Sequence[NodeNumber], wanted: Sequence[NodeNumber], present: Mapping[NodeNumber, Present]
) -> NodeNumber | None:
    """The wanted primary if it is one of them, else the highest counter, else the order of the affinity (L3, K3)."""
    if not nodes:
        return None
    if wanted and wanted[0] in nodes:
        return wanted[0]
    order = {node: number for number, node in enumerate(wanted)}
    return min(nodes, key=lambda node: (-present[node].counter, order.get(node, len(order)), node))


def _served(held: Sequence[Copy], wanted: Sequence[NodeNumber]) -> tuple[Copy, ...]:
    """The copies where somebody acts: the wanted ones first and in order, then those that are no longer needed.

    These stay as they are, owners among them serve, until all that are wanted own (DS6).
    """
    states = {copy.node: copy.state for copy in held}
    rest = [copy for copy in held if copy.node not in wanted]
    return (
        *(Copy(node, _state_of_wanted(states.get(node)), wanted=True) for node in wanted),
        *(Copy(copy.node, copy.state, wanted=False) for copy in rest),
    )


def _state_of_wanted(state: PartitionState | None) -> PartitionState:
    """An owner stays one; anything else loads, also what was about to be cleared (B12)."""
    return _OWNING if state is _OWNING else _MOVING


def _lost(copy: Copy) -> Copy:
    """Absent owners stay in the owner row; what is here has nothing to load from, and may be chosen by a reset."""
    return Copy(copy.node, _LOST if copy.state is _MOVING else copy.state, wanted=False)
