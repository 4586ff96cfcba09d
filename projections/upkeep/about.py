"""What is known of a store beside its rows: why it was made, what it was compared with, since when it is the former.

It lies in the store's own folder, where RocksDB leaves alone what it does not know, so every rename takes it along. A
store without it is one that a projector has made by reading.
"""

from pathlib import Path

import msgspec

from topolog.projections.upkeep.compared import Compared
from topolog.projections.upkeep.writing import write

_NAME = "about.json"


class About(msgspec.Struct, frozen=True):
    """`order` is what it was made for (`orders.py`), `doubt` why it must not be shown unless somebody asks for it.

    Times are UTC; 0 is never. `position` and `state_hash` (hex) are those it had when another one took its place.
    """

    order: str = ""
    began_ms: int = 0
    made_ms: int = 0
    why: str = ""
    compared: Compared | None = None
    replaced_ms: int = 0
    doubt: str = ""
    position: int | None = None
    state_hash: str = ""


def about(store: Path) -> About:
    """What is known of the store; nothing, if that cannot be read."""
    try:
        return msgspec.json.decode((store / _NAME).read_bytes(), type=About)
    except (OSError, msgspec.DecodeError):
        return About()


def note(store: Path, known: About) -> None:
    """Raises DiskFull and DiskFailed."""
    write(store / _NAME, msgspec.json.encode(known))
