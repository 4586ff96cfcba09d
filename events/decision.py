"""What every decision is: an event that may stand in the log, whichever protocol it belongs to.

Each protocol has its decisions in a closed union besides, over which it matches; this is for who takes any of them.
"""

import msgspec


class Decision(msgspec.Struct, frozen=True):
    """Parent of every decision; it has no fields of its own."""
