"""What a forked child of a service must not keep: its copy of the lease, of the lock, of the line to the sentinel.

Threat: fork copies a node with a valid lease into a process that has none of the threads that keep it, and that lives
on when its parent has died. A child therefore starts fenced. One handler serves all nodes of a process, for Python
keeps such handlers for ever and a node lives shorter.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Somebody who must know that this process is a copy."""

    def fence_copy(self) -> None:
        """Called in the child, where no other thread runs; must neither wait nor say anything to anybody."""


_KNOWN: "WeakSet[Forked]" = WeakSet()


def tell_children(holder: Forked) -> None:
    """From now on a forked child's copy of `holder` is told what it is."""
    _KNOWN.add(holder)


def _fence_all() -> None:
    for holder in list(_KNOWN):
        holder.fence_copy()


os.register_at_fork(after_in_child=_fence_all)
