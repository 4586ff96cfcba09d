"""The sending side of requests (K7): their bytes, their digest, their ids, and the error a refusal stands for.

Threat: outcomes are kept for the last 64 sequences of a requester, so a request that is sent again after 64 later ones
were decided could never learn what became of it. Whoever sends therefore never has a sequence open that is 64 or more
behind the next one, and takes several requesters (lanes) where more must be under way at once.
"""

import hashlib
from collections.abc import Callable

from topolog.events.asked import SUBJECT_CHARS_MAX, Request, RequestId
from topolog.events.codec import CODEC, Codec
from topolog.events.errors import BadInput, MergeConflict, Overloaded, Refused
from topolog.events.requesters import AHEAD_MAX
from topolog.events.requests import OUTCOMES_KEPT, REQUEST_BYTES_MAX, OutcomeRow, is_valid

LANES = 8
"""Requesters of one process: up to 8 x 64 requests under way."""

CONFLICT = "METADATA_CONFLICT"


def encode_request(request: Request, level: int | None = None, codec: Codec = CODEC) -> bytes:
    """The request's record, in what a coordinator of that feature level reads, None for the newest; raises BadInput if
    its id or its size cannot be sent."""
    if not is_valid(request.id):
        raise BadInput(
            f"{str(request.id)!r} cannot be a request's id.",
            hint=f"A requester has 1 to {SUBJECT_CHARS_MAX} printable characters, sequences count from 1.",
        )
    value = codec.encode(request, level)
    if len(value) > REQUEST_BYTES_MAX:
        raise BadInput(
            f"The request about {request.subject} takes {len(value)} bytes, the limit is {REQUEST_BYTES_MAX}."
        )
    return value


def digest_of(value: bytes) -> bytes:
    """8 bytes that tell a request's content from any other under the same id."""
    return hashlib.blake2b(value, digest_size=8).digest()


def refusal_of(row: OutcomeRow) -> Refused:
    """The error that a refused outcome stands for: MergeConflict for a contradiction, Refused for any other rule."""
    if row.code == CONFLICT:
        return MergeConflict(row.rule, row.message, row.facts)
    return Refused(row.code, row.rule, row.message, row.facts)


class OpenRequests:
    """Ids of one process: given out in order, closed when their outcome is known. Not safe for several threads.

    `highest`: up to which number the log is known to have outcomes of a requester. A lane that would come too far above
    that is given up for one of another name: numbers are lost where what bears them is never sent, and of a requester
    that is no longer remembered (`forgotten.py`) the highest is 0. None for who may number as it likes.
    """

    def __init__(self, name: str, highest: Callable[[str], int] | None = None) -> None:
        """`name` is unique to this process, and so short that a lane's number fits behind it: `requesters.py`."""
        self._base = name
        self._highest = highest
        self._lanes = [_Lane(self._base if number == 0 else f"{self._base}.{number}") for number in range(LANES)]
        self._named = LANES

    def next_id(self) -> RequestId:
        """A new id, open from now on; raises Overloaded if too many are."""
        for place in range(LANES):
            lane = self._lane_at(place)
            if lane is not None and not lane.is_full:
                return lane.next_id()
        raise Overloaded(
            f"{sum(len(lane.open) for lane in self._lanes)} requests of {self._base} are under way, and no more can be "
            "numbered until some of them are decided.",
            hint="Wait for some of them, then try again.",
        )

    def _lane_at(self, place: int) -> "_Lane | None":
        """The lane in this place, a new one where that would come too far; None while outcomes of such a one are still
        to come."""
        lane = self._lanes[place]
        if self._goes_on(lane):
            return lane
        if lane.open:
            return None
        self._lanes[place] = new = _Lane(f"{self._base}.{self._named}")
        self._named += 1
        self._goes_on(new)  # which passes over the numbers that somebody else has used up
        return new

    def _goes_on(self, lane: "_Lane") -> bool:
        return self._highest is None or lane.goes_on_behind(self._highest(lane.requester))

    def close(self, request: RequestId) -> None:
        """The outcome is known, or the request is never sent; an id of somebody else's is none of ours."""
        for lane in self._lanes:
            if lane.requester == request.requester:
                lane.open.pop(request.sequence, None)


class _Lane:
    def __init__(self, requester: str) -> None:
        self.requester = requester
        self.open: dict[int, None] = {}
        self._next = 1

    @property
    def is_full(self) -> bool:
        return bool(self.open) and self._next - next(iter(self.open)) >= OUTCOMES_KEPT

    def goes_on_behind(self, highest: int) -> bool:
        """Whether a coordinator that knows outcomes up to there takes the next number for this requester's; those that
        somebody else has used up are passed over."""
        self._next = max(self._next, highest + 1)
        return self._next - highest <= AHEAD_MAX

    def next_id(self) -> RequestId:
        sequence, self._next = self._next, self._next + 1
        self.open[sequence] = None
        return RequestId(self.requester, sequence)
