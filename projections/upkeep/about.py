"""What is known of a store beside its rows: why it was made, what it was compared with, since when it is the former.

It lies in the store's own folder, where RocksDB leaves alone what it does not know, so every rename takes it along. A
store without it is one that a projector has made by reading.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from topolog.projections.upkeep.writing import write

_NAME = "about.json"


class Compared(msgspec.Struct, frozen=True):
    """What a store and the one that was shown when it was made hold of the past up to `position`, which both had.

    `rows` were compared, all of them; `differences` were not the same, of which `examples` names some. The hashes (hex)
    are those of the rows at that position.
    """

    store: str
    position: int
    rows: int
    differences: int
    state_hash: str
    other_hash: str
    examples: Sequence[str] = ()

    @property
    def is_equal(self) -> bool:
        return not self.differences and self.state_hash == self.other_hash


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
