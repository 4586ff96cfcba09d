"""What the comparison of two stores has found; it is shown where no store can be opened, so it needs nothing of one."""

from collections.abc import Sequence

import msgspec


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
