"""Voiding: how a cluster goes on behind an accepted record that no reader can decode or fold (K8, K27).

Threat. One poisoned record stops every reader for good, and the only cure, an operator's word that it is void, can only
be appended behind it. A reader that skipped the record by itself, or one that never heard of the voiding, would part
from all others, at once or years later when it starts from the beginning.

Invariant. Every reader makes the same rows of the log, wherever it starts and whenever it reads.

Argument. A record is poisoned or it is not, the same for every version that knows the feature level in force there:
damaged bytes stay damaged, a schema above that level is never read, and `evolve` is kept for ever. A version that does
not know the level cannot tell poison from news: it stops and may not void (`OLDER_BUILD`). A reader that meets a
poisoned record looks ahead, by stamps and by `ends_term` alone (`lookahead.py`, `fold.py`), and neither asks whether
the record is folded or left out. So all readers find the same `RecordVoided`, or none and stop. What they leave out is
marked at the record's own position in the same way by all of them, and the voiding must find that mark: a reader that
has folded what was voided stops too. Such a voiding is itself poisoned, for all, and is voided like any other record.
"""

from typing import ClassVar

import msgspec

from topolog.events.decision import Decision
from topolog.events.ids import Place, Position
from topolog.events.state import Row, State

Voiding = tuple[Position, bytes]
"""Which record is meant: its position and the chain hash after it."""


class VoidedRow(Row, frozen=True):
    """A record that was left out, by its position. `voided_at` is the position of the voiding, None until it is read.

    `schema` is the fingerprint its first bytes state (hexadecimal), empty for bytes that state none; `size` counts its
    bytes.
    """

    KIND: ClassVar[str] = "voided"

    position: Position
    chain: str
    schema: str
    size: int
    voided_at: Position | None = None


class RecordVoided(Decision, frozen=True):
    position: int
    chain: bytes


class LeftOut(msgspec.Struct, frozen=True):
    """What is folded in place of a voided record; it is never written to the log."""

    position: Position
    schema: str
    size: int


VoidingEvent = RecordVoided | LeftOut


def voided_key(position: int) -> str:
    return f"{position:019d}"


def voided_row(state: State, position: int) -> VoidedRow | None:
    return state.get(VoidedRow, voided_key(position))


def evolve(state: State, event: VoidingEvent, place: Place) -> None:
    match event:
        case LeftOut():
            row = VoidedRow(place.position, place.chain.hex(), event.schema, event.size)
            state.put(voided_key(place.position), row)
        case RecordVoided():
            named = voided_row(state, event.position)
            assert named is not None, f"it voids position {event.position}, which this reader has folded"
            assert named.chain == event.chain.hex(), f"it voids another record than that at position {event.position}"
            if named.voided_at is None:
                state.put(voided_key(event.position), msgspec.structs.replace(named, voided_at=place.position))
