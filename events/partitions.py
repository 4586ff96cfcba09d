"""The life of a copy: what state a node's replica of a partition may be in, what may follow, and how maps say it.

Threats. A copy that is half loaded, half cleared or out of date is taken for a whole one, and what was acknowledged is
gone. A report that was true once is believed when it no longer is. Bytes that anybody may have sent make a reader
allocate or loop without end.

Invariant. A copy changes its state only as a line of TRANSITIONS says, and what a copy may do follows from its state
alone: it serves and counts as an owner while it is OWNING, it is written to while it is OWNING or MOVING (DS3). A copy
that is being cleared never owns again unless it was made MOVING first; neither loss nor reset takes it as it is (DS2).

Argument. The table is the only place that knows transitions: the simulation and the tests of the rules judge by it
every change that is decided, and the picture in docs/partitions.md is drawn from it. It is Apache Ignite's
as our log needs it; where the two differ that page says why.

A map is the states of a node's copies of one group. `Codes` is a map at hand: one byte a partition, 0 where there is no
copy, else the state's ordinal + 1. On the wire a map is in one of two forms, told by its first byte: three bits a
partition, as Apache Ignite's bit set has it (EX30), or runs of equal codes, for a node of a big cluster has few copies
of a group. One map has one encoding, so equal bytes are equal maps.
"""

import re
from collections.abc import Mapping
from enum import Enum

import msgspec

from topolog.events.errors import BadInput, OutOfRange, Undecodable
from topolog.events.group_definition import PARTITIONS_MAX
from topolog.events.varints import checked_varints, put_varint


class PartitionState(Enum):
    """State of a copy (EX9): its ordinal, whether it serves reads and writes, whether it counts as an
    owner, whether writes go to it.

    A LOST copy serves nothing whatever the loss policy: that is for the group's other partitions (EX18), and under
    IGNORE no copy is LOST.
    """

    MOVING = ("MOVING", 0, False, False, True, "assigned here and loading; it gets every write meanwhile")
    OWNING = ("OWNING", 1, True, True, True, "a complete copy")
    RENTING = ("RENTING", 2, False, False, False, "no longer needed, being cleared")
    EVICTED = ("EVICTED", 3, False, False, False, "cleared; the end of this copy")
    LOST = ("LOST", 4, False, False, False, "no owner is left, so what is here cannot be trusted")

    ordinal: int
    serves: bool
    is_owner: bool
    is_written: bool
    meaning: str
    code: int

    def __new__(
        cls, name: str, ordinal: int, serves: bool, is_owner: bool, is_written: bool, meaning: str
    ) -> "PartitionState":
        state = object.__new__(cls)
        state._value_ = name
        state.ordinal, state.code = ordinal, ordinal + 1
        state.serves, state.is_owner, state.is_written = serves, is_owner, is_written
        state.meaning = meaning
        return state


class Why(Enum):
    """Why a copy changes its state: a sentence each."""

    ASSIGNED = "The node is to hold a copy and has none, or is back after its copy was taken out of the owner row."
    NEVER_OWNED = "No copy has ever owned the partition, so there is nothing to load (EX27)."
    OWNER_BACK = (
        "A node of the owner row is back with its disk: its copy owns, those that were LOST load from it (DS2)."
    )
    LOADED = "The load that belongs to this listing of the copy and to the primary's token is finished (DS5, DS6)."
    GIVEN_UP = "The loss policy is IGNORE: what is lost begins with the best copy that is left, or else empty (EX18)."
    BEHIND = "The node is back without its copy, or with one that has left the owner row or counts less (DS1, DS11)."
    RECALLED = "The copy is wanted again before it was cleared."
    SURPLUS = "The copy is not wanted and every wanted node owns (DS6)."
    CLEARED = "The node has read its RENTING back from the log and has cleared the copy."
    NO_OWNER = "No copy of the owner row is present at the end of the exchange (DS2)."
    RESET = (
        "An operator has reset the lost partition: what was chosen owns, empty if need be, others load from it (EX19)."
    )
    FORGOTTEN = "An evicted copy is over; what comes later is a new one."
    NODE_LEFT = "The node is out of the membership, and its copy with it (DS1)."
    GROUP_DROPPED = "The group is dropped."


class When(Enum):
    """What the decision that changes the state stands in."""

    EXCHANGE = "in the set that ends an exchange"
    BETWEEN = "while no exchange is open"
    ANY_TIME = "at any time"


class Transition(msgspec.Struct, frozen=True):
    """One legal change of a copy's state; None is a partition of which the node has no copy."""

    source: PartitionState | None
    target: PartitionState | None
    why: Why
    when: When


def _transitions() -> tuple[Transition, ...]:
    moving, owning, renting, evicted, lost = PartitionState
    present = tuple(PartitionState)
    return (
        Transition(None, moving, Why.ASSIGNED, When.EXCHANGE),
        Transition(None, owning, Why.NEVER_OWNED, When.EXCHANGE),
        Transition(None, owning, Why.OWNER_BACK, When.EXCHANGE),
        Transition(None, owning, Why.GIVEN_UP, When.EXCHANGE),
        Transition(None, owning, Why.RESET, When.EXCHANGE),
        Transition(None, lost, Why.NO_OWNER, When.EXCHANGE),
        Transition(moving, owning, Why.LOADED, When.BETWEEN),
        Transition(moving, owning, Why.NEVER_OWNED, When.EXCHANGE),
        Transition(moving, owning, Why.GIVEN_UP, When.EXCHANGE),
        Transition(moving, owning, Why.RESET, When.EXCHANGE),
        Transition(moving, renting, Why.SURPLUS, When.BETWEEN),
        Transition(moving, lost, Why.NO_OWNER, When.EXCHANGE),
        Transition(owning, moving, Why.BEHIND, When.EXCHANGE),
        Transition(owning, renting, Why.SURPLUS, When.BETWEEN),
        Transition(owning, lost, Why.NO_OWNER, When.EXCHANGE),
        Transition(renting, moving, Why.RECALLED, When.EXCHANGE),
        Transition(renting, evicted, Why.CLEARED, When.ANY_TIME),
        Transition(renting, None, Why.CLEARED, When.ANY_TIME),
        Transition(lost, owning, Why.RESET, When.EXCHANGE),
        Transition(lost, owning, Why.GIVEN_UP, When.EXCHANGE),
        Transition(lost, moving, Why.RESET, When.EXCHANGE),
        Transition(lost, moving, Why.GIVEN_UP, When.EXCHANGE),
        Transition(lost, moving, Why.OWNER_BACK, When.EXCHANGE),
        Transition(lost, renting, Why.SURPLUS, When.BETWEEN),
        Transition(evicted, None, Why.FORGOTTEN, When.ANY_TIME),
        *(Transition(state, None, Why.NODE_LEFT, When.ANY_TIME) for state in present),
        *(Transition(state, None, Why.GROUP_DROPPED, When.ANY_TIME) for state in present),
    )


TRANSITIONS = _transitions()
"""Every legal change of a copy's state there is."""

_LEGAL = frozenset((each.source, each.target, each.when) for each in TRANSITIONS)


def is_legal(source: PartitionState | None, target: PartitionState | None, when: When) -> bool:
    """Whether a line of the table allows this change then; `when` is EXCHANGE or BETWEEN."""
    return (source, target, when) in _LEGAL or (source, target, When.ANY_TIME) in _LEGAL


def state_name(state: PartitionState | None) -> str:
    return "none" if state is None else state.name


# Maps.

Codes = bytes
"""A map at hand: by partition 0 for no copy, else the ordinal of its state + 1."""

_STATE_OF_CODE = dict(enumerate(PartitionState, start=1))
_NO_COPY = b"\0"
_CODES, _DIGITS = bytes(range(8)), b"01234567"
_TO_DIGITS, _FROM_DIGITS = bytes.maketrans(_CODES, _DIGITS), bytes.maketrans(_DIGITS, _CODES)
_NO_CODE = re.compile(b"[^\0-\5]")
_NO_DIGIT = re.compile(b"[67]")
_RUN = re.compile(b"(.)\\1*", re.DOTALL)
_BITS, _RUNS = b"\0", b"\1"
_BITS_BYTES_MAX = (3 * PARTITIONS_MAX + 7) // 8


def codes_of(states: Mapping[int, PartitionState], partitions: int) -> Codes:
    """The map of a group of so many partitions; raises BadInput for a partition that it has not."""
    codes = bytearray(partitions)
    for partition, state in states.items():
        if not 0 <= partition < partitions:
            raise BadInput(f"There is no partition {partition} in a group of {partitions}.")
        codes[partition] = state.code
    return bytes(codes)


def states_of(codes: Codes) -> dict[int, PartitionState]:
    """The state of each copy, partitions ascending; codes 1 to 5 only."""
    return {partition: _STATE_OF_CODE[code] for partition, code in enumerate(codes) if code}


def pack_states(states: Mapping[int, PartitionState], partitions: int) -> bytes:
    """Apache Ignite's bit set (EX30): ordinal + 1 at bits 3p to 3p+2, low bit first, trailing zero bytes left out.

    Raises BadInput for a partition outside of 0 to `partitions` - 1.
    """
    return _packed(codes_of(states, partitions))


def unpack_states(bits: bytes, partitions: int) -> dict[int, PartitionState]:
    """The states in such a bit set, which may have zero bytes behind its end.

    Raises Undecodable for bits that are no state, OutOfRange for copies of partitions that the group has not.
    """
    return states_of(_within(_unpacked(bits), partitions))


def encode_codes(codes: Codes) -> bytes:
    """A map as it is sent: a byte for the form, then bits (EX30) or runs, where these are less than half as long.

    For bits are read twenty times faster. A run is the number (length - 1) * 8 + code; what follows the last copy is
    left out. Raises BadInput for codes above 5.
    """
    bits = _packed(codes)
    runs = _run_lengths(codes.rstrip(_NO_COPY), len(bits) // 2)
    return _BITS + bits if runs is None else _RUNS + runs


def decode_codes(data: bytes, partitions: int) -> Codes:
    """The map in these bytes; raises Undecodable, OutOfRange for copies of partitions that the group has not.

    However few bytes make a long map, no more than PARTITIONS_MAX partitions come out of them.
    """
    form, body = data[:1], data[1:]
    if len(body) > _BITS_BYTES_MAX:
        raise Undecodable(f"A map of {len(data)} bytes is larger than any group's.")
    if form == _BITS:
        codes = _unpacked(body)
    elif form == _RUNS:
        codes = _unrolled(body)
    else:
        raise Undecodable(f"A map of {len(data)} bytes is in no known form: it begins with {form.hex() or 'nothing'}.")
    return _within(codes, partitions).ljust(partitions, _NO_COPY)


def _within(codes: Codes, partitions: int) -> Codes:
    if len(codes) > partitions:
        raise OutOfRange(f"A map has a copy of partition {len(codes) - 1}, its group has {partitions} partitions.")
    return codes


def _packed(codes: Codes) -> bytes:
    if _NO_CODE.search(codes):
        raise BadInput("A map holds a code that is no state.")
    number = int(codes[::-1].translate(_TO_DIGITS) or b"0", base=8)  # three bits a partition: an octal digit each
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def _unpacked(bits: bytes) -> Codes:
    significant = bits.rstrip(b"\0")
    if len(significant) > _BITS_BYTES_MAX:
        raise Undecodable(f"A map of {len(significant)} bytes is larger than any group's.")
    digits = format(int.from_bytes(significant, "little"), "o").encode()
    if _NO_DIGIT.search(digits):
        raise Undecodable("A map holds bits that are no state.")
    return digits[::-1].translate(_FROM_DIGITS).rstrip(_NO_COPY)


def _run_lengths(codes: Codes, bytes_max: int) -> bytes | None:
    """The runs of these codes if they take less than so many bytes."""
    runs = bytearray()
    for run in _RUN.finditer(codes):
        put_varint(runs, (run.end() - run.start() - 1) << 3 | codes[run.start()])
        if len(runs) >= bytes_max:
            return None
    return bytes(runs) if len(runs) < bytes_max else None


def _unrolled(runs: bytes) -> Codes:
    codes = bytearray()
    for number in checked_varints(runs):
        code, length = number & 7, (number >> 3) + 1
        if code > len(_STATE_OF_CODE):
            raise Undecodable("A map holds a run of a code that is no state.")
        if len(codes) + length > PARTITIONS_MAX:
            raise Undecodable("A map is larger than any group's.")
        codes += bytes((code,)) * length
    return bytes(codes).rstrip(_NO_COPY)
