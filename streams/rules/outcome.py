"""What an exchange makes of one partition: who holds it, who acts, whether it is lost, whom it waits for (DS1-DS15).

Threats. A copy that is listed from a former life of its node was wiped meanwhile, and becomes primary, empty. A
partition is called lost, or begins empty, while its owner is back and has only not answered yet. A server that hangs is
newly listed, and every write waits for it.

The owner row of the log is the measure. Maps that nodes sent say only two things of their own: whether a copy that the
log lists still exists behind a restart, and in what order owners are preferred where nobody acts. A node that says it
owns what the log does not list is believed to hold something stale, never to own it.

A copy is *present* if the log lists it from behind its node's joining, or if the node's answer says that it is whole
(DS10). Who is *heard* has answered this exchange, or has applied its question: it is there.

    somebody acts          goes on acting (EX13, DS14): whoever the affinity wants besides loads from it as MOVING
    a present owner        one that is heard acts, the wanted primary before others, then who counts highest (EX26)
    none that is heard     the partition is paused and waits for the first of them (DS10): row and token stay
    an owner may be back   it is paused and waits for the answers of the owners that are members (DS12)
    no owner is present    it is lost and awaits its absent owners (DS2)
    it is given up         by reset or IGNORE: it begins with the best copy that is left, else empty (EX18, EX19)
    there never was one    all that are wanted and heard own it, empty (EX27); it waits for the first of them

Who is not heard is not newly listed (DS15), for writes would wait for it: the partition waits for it, served by others.

Argument. An outcome that names a primary makes each copy of a former life whose node has not said that it is whole
MOVING, or drops it (DS11). So where somebody acts none stands, and where nobody does a present copy holds every
acknowledged write: it stored them all (DS3, DS6), or held all at its node's leaving, when nobody acted any more (DS1),
and its node says that it still does. Present copies are thus equal in safety, and reconciled by the new token (DS4).
"""

from collections.abc import Mapping, Sequence

import msgspec

from topolog.events.ids import Position
from topolog.events.ownership import (
    Change,
    Copy,
    NodeNumber,
    Ownership,
)
from topolog.events.partitions import PartitionState

_OWNING, _MOVING, _LOST = PartitionState.OWNING, PartitionState.MOVING, PartitionState.LOST
_HEIRS = (_MOVING, _LOST)
"""What an operator's reset may choose when no owner is left: never a copy that is being cleared (DS2)."""
_STORING = (_OWNING, _MOVING)
"""What stores each write before it is acknowledged (DS3)."""


class Present(msgspec.Struct, frozen=True):
    """What a member has of one partition: since when it is there, whether its map lists a whole copy, its counter.

    `joined_at` is the position of its joining: a copy that the log lists from before that has lived through a restart,
    and exists only if the map says so. One that `has_answered` has sent a map that counts; one that is not `is_heard`
    may hang.
    """

    joined_at: int
    has_whole_copy: bool = False
    counter: int = 0
    has_answered: bool = True
    is_heard: bool = True

    def has(self, copy: Copy) -> bool:
        """Whether this copy is known to be here."""
        return copy.since > self.joined_at or self.has_whole_copy


Members = Mapping[NodeNumber, Present]


class Ask(msgspec.Struct, frozen=True):
    """What the outcome is asked for besides: `begins_empty` where the policy gives up what has no owner, `reset_at`
    where an operator has given up what was lost then, not what has lost its last owner since."""

    begins_empty: bool = False
    reset_at: Position | None = None

    def gives_up(self, before: Ownership) -> bool:
        was_lost = before.is_lost and self.reset_at is not None and before.token < self.reset_at
        return self.begins_empty or was_lost


class Waits(msgspec.Struct, frozen=True):
    """The servers that a partition waits for, and of these the ones whose maps it needs: of the others it is enough
    that they are there."""

    servers: tuple[NodeNumber, ...] = ()
    maps: tuple[NodeNumber, ...] = ()


_PLAIN = Ask()
_NOBODY = Waits()


def outcome(before: Ownership, wanted: Sequence[NodeNumber], present: Members, ask: Ask = _PLAIN) -> Change:
    """The partition as the exchange leaves it; equal to what it was if nothing changes (`as_change`).

    `wanted`: the affinity's choice, its primary first, members only. Raises nothing: every state has an outcome.
    """
    owners, acting = _present_owners(before, present), before.acting
    if acting is None and (heard := _heard(owners, present)):
        acting = _preferred(heard, wanted, present)
    if acting is not None:
        return Change(before.partition, _served(_here(before, present), wanted, present), acting)
    if owners or _silent(before, present, ask):
        return as_change(before)
    if (before.owners or before.is_lost) and not ask.gives_up(before):
        held = [copy for copy in before.copies if _exists(copy, present)]
        return Change(before.partition, tuple(_lost(copy) for copy in held), None, is_lost=True)
    return _begun(before, wanted, present)


def waits(before: Ownership, wanted: Sequence[NodeNumber], present: Members, ask: Ask = _PLAIN) -> Waits:
    """Whom the partition still waits for behind `outcome`, with the same arguments: whom it needs to be served, and who
    is wanted and not listed yet."""
    after = outcome(before, wanted, present, ask)
    if after.acting is not None:
        listed = {copy.node for copy in after.copies if copy.wanted}
        return Waits(tuple(node for node in wanted if node not in listed))
    if owners := _present_owners(before, present):
        return _and_wanted(owners, (), wanted, present)
    if silent := _silent(before, present, ask):
        return _and_wanted(silent, silent, wanted, present)
    if (before.owners or before.is_lost) and not ask.gives_up(before):
        return _NOBODY
    beginners = [node for node in _beginners(before, wanted, present) if not present[node].is_heard]
    return _and_wanted(beginners, (), wanted, present) if beginners else _NOBODY


def _and_wanted(
    nodes: Sequence[NodeNumber], maps: Sequence[NodeNumber], wanted: Sequence[NodeNumber], present: Members
) -> Waits:
    silent = (node for node in wanted if not present[node].is_heard)
    return Waits(tuple(dict.fromkeys((*nodes, *silent))), tuple(maps))


def _here(before: Ownership, present: Members) -> list[Copy]:
    """The copies that are known to be with members."""
    return [copy for copy in before.copies if copy.node in present and present[copy.node].has(copy)]


def _present_owners(before: Ownership, present: Members) -> list[NodeNumber]:
    return [copy.node for copy in _here(before, present) if copy.state is _OWNING]


def _heard(nodes: Sequence[NodeNumber], present: Members) -> list[NodeNumber]:
    return [node for node in nodes if present[node].is_heard]


def _silent(before: Ownership, present: Members, ask: Ask) -> list[NodeNumber]:
    """Members that may have come back with an owner of the partition. Where it is given up, with any copy of it, and
    all of several that it may begin with: it begins with the best that there is."""
    gives_up, heirs = ask.gives_up(before), _heirs(before, present)
    contenders = heirs if gives_up and len(heirs) > 1 else []
    return [
        copy.node
        for copy in before.copies
        if copy.node in present
        and not present[copy.node].has_answered
        and (copy.node in contenders or ((gives_up or copy.state is _OWNING) and not present[copy.node].has(copy)))
    ]


def as_change(before: Ownership) -> Change:
    """The partition as it is, to be compared with an outcome."""
    copies = tuple(Copy(copy.node, copy.state, copy.wanted) for copy in before.copies)
    return Change(before.partition, copies, before.acting, before.is_lost)


def _begun(before: Ownership, wanted: Sequence[NodeNumber], present: Members) -> Change:
    """A partition that begins empty, or with what a reset chooses of it: never with a copy that is being cleared."""
    held = [copy for copy in before.copies if _exists(copy, present)]
    beginners, has_heirs = _beginners(before, wanted, present), bool(_heirs(before, present))
    heard = _heard(beginners, present)
    if not heard:
        if beginners:
            return as_change(before)
        is_lost = before.is_lost or bool(before.owners)
        return Change(before.partition, tuple(_lost(copy) for copy in held), None, is_lost=is_lost)
    first = _preferred(heard, wanted, present) if has_heirs else heard[0]
    states = {copy.node: copy.state for copy in held if copy.node in present}
    states |= dict.fromkeys([first] if has_heirs else heard, _OWNING)
    copies = [Copy(node, state, wanted=False) for node, state in states.items()]
    return Change(before.partition, _served(copies, wanted, present), first)


def _beginners(before: Ownership, wanted: Sequence[NodeNumber], present: Members) -> list[NodeNumber]:
    """Whom a partition may begin with: with its best copy, or else empty with those that are wanted, in their order."""
    here = {copy.node for copy in _here(before, present)}
    return _heirs(before, present) or [node for node in wanted if node not in here]


def _heirs(before: Ownership, present: Members) -> list[NodeNumber]:
    return [copy.node for copy in _here(before, present) if copy.state in _HEIRS]


def _exists(copy: Copy, present: Members) -> bool:
    """Whether the copy is still there, as far as anybody knows: of an absent node only what it owned counts."""
    return present[copy.node].has(copy) if copy.node in present else copy.state is _OWNING


def _preferred(nodes: Sequence[NodeNumber], wanted: Sequence[NodeNumber], present: Members) -> NodeNumber:
    """The wanted primary if it is one of them, else the highest counter, else the order of the affinity (EX26)."""
    if wanted and wanted[0] in nodes:
        return wanted[0]
    order = {node: number for number, node in enumerate(wanted)}
    return min(nodes, key=lambda node: (-present[node].counter, order.get(node, len(order)), node))


def _served(held: Sequence[Copy], wanted: Sequence[NodeNumber], present: Members) -> tuple[Copy, ...]:
    """The copies where somebody acts: the wanted ones first and in order, then those that are no longer needed.

    These stay as they are, owners among them serve, until all that are wanted own (DS6). Who is wanted and not heard is
    listed only if writes wait for its copy anyway (DS15).
    """
    states = {copy.node: copy.state for copy in held}
    listed = [node for node in wanted if present[node].is_heard or states.get(node) in _STORING]
    rest = [copy for copy in held if copy.node not in listed]
    return (
        *(Copy(node, _state_of_wanted(states.get(node)), wanted=True) for node in listed),
        *(Copy(copy.node, copy.state, wanted=False) for copy in rest),
    )


def _state_of_wanted(state: PartitionState | None) -> PartitionState:
    """An owner stays one; anything else loads, also what was about to be cleared (EX8)."""
    return _OWNING if state is _OWNING else _MOVING


def _lost(copy: Copy) -> Copy:
    """Absent owners stay in the owner row; what is here has nothing to load from, and may be chosen by a reset."""
    return Copy(copy.node, _LOST if copy.state is _MOVING else copy.state, wanted=False)
