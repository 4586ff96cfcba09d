"""What must be looked at if nothing changes: rows name deadlines, the driver measures them (K14).

A deadline's key names the position it counts from. The driver starts a monotonic timer when it has read that position
back, drops it when the key is gone, and feeds the key back when the time has passed; a key that is no longer due is
ignored. A new coordinator starts every wait again, which is the safe side.
"""

import msgspec

from topolog.events.ids import Position


class Deadline(msgspec.Struct, frozen=True):
    """`after_ms` from the read-back of `position`."""

    key: str
    position: Position
    after_ms: int
