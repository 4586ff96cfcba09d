"""How many files this process may have open: connections, tables of a store and a broker's clients share the number.

Systems give a process few to begin with, 1,024 as a rule, and let it take more; whoever runs a role takes them at its
start, and the processes that it starts have as many.
"""

import resource
from contextlib import suppress
from typing import Final

_ENOUGH: Final = 1 << 20
"""More than any role needs; some programs set up a table for as many as they may open."""


def open_files_max() -> int:
    """How many it may have open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


def raise_open_files_max() -> None:
    """Take as many as the system gives to whoever asks. What it does not give is left as it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS has another bound behind this one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
