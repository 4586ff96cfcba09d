"""Rows of one kind of a projection store as a table: `projection:/folder#node`, or as of a position `#node@412`.

Two projectors of one cluster are to have the same rows at the same position: to compare them name one that both have
reached. The store is opened beside its projector and holds still meanwhile; nothing is ever written there, for what a
store is to hold follows from the log: `topolog verify projections` mends it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import msgspec

from topolog.events.errors import BadInput, DamagedStore, ReplicaFailed, TopologError
from topolog.events.replica_access import Fence
from topolog.events.rows import ROWS
from topolog.events.state import Row
from topolog.events.tree_spec import Column
from topolog.projections.self_check.opened import beside, store_path
from topolog.projections.spark.sources.copied import BATCH_ROWS, Batches, Edit, Shape
from topolog.projections.store import Reading, reading_of

SHAPE = Shape((Column("key", "string"), Column("row", "string")), ("key",))
"""`row`: JSON of all its fields, those of lists and maps in a fixed order."""

_KINDS = {kind.KIND: kind for kind in ROWS}


class ProjectionRows:
    """An Original (copied.py). `position` None: the newest one that the store has. Raises BadInput for no kind."""

    def __init__(self, folder: Path, kind: str, position: int | None = None) -> None:
        if kind not in _KINDS:
            raise BadInput(f"No row of a projection is a {kind!r}.", hint=f"There are {', '.join(sorted(_KINDS))}.")
        self._folder = folder
        self._kind: type[Row] = _KINDS[kind]
        self._position = position

    @property
    def is_writable(self) -> bool:
        return False

    @contextmanager
    def reading(self) -> Iterator[tuple[Shape, Batches]]:
        try:
            with beside(store_path(self._folder)) as view:
                reading = reading_of(view)
                if self._position is not None:
                    reading = reading.as_of(self._position)
                yield SHAPE, self._batches(reading)
        except DamagedStore as error:
            hint = "`topolog verify projections` says what is wrong, and mends it."
            raise ReplicaFailed("CORRUPT", f"{self._folder}: {error.message}", hint=hint) from error
        except ReplicaFailed:
            raise
        except TopologError as error:
            raise ReplicaFailed("IO", f"{self._folder}: {error.message}", hint=error.hint) from error

    def apply(self, shape: Shape, edits: Sequence[Edit], fence: Fence) -> int:
        raise ReplicaFailed("NOT_WRITABLE", "A projection store holds what follows from the log, and nothing else.")

    def _batches(self, reading: Reading) -> Batches:
        rows = reading.rows(self._kind)
        while batch := list(islice(rows, BATCH_ROWS)):
            yield [(key, msgspec.json.encode(row, order="deterministic").decode()) for key, row in batch]
