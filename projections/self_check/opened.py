"""A store as keys and values: read beside its projector, or held alone to be mended (an owner of rocksdict)."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from rocksdict import AccessType, Options, Rdict, WriteBatch

from topolog.events.errors import BadInput, DamagedStore
from topolog.projections.store import View, generation_path, translated

_TRIES = 5
"""A projector that moves files while they are opened here looks like damage; it does not five times in a row."""

SIDES = (b"x", b"y")
_BEHIND_SIDES = b"z"


class Holding:
    """The store at this path, which no projector can open meanwhile."""

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        """Raises BadInput if another process writes it, DamagedStore if RocksDB cannot open it.

        Only one that `is_new` is made: RocksDB would make an empty store of one that has lost a file.
        """
        options = _options()
        options.create_if_missing(is_new)
        with translated():
            self._db = Rdict(str(path), options=options)

    def view(self) -> View:
        """The store as it is at this moment; it has to be closed before the store is."""
        return View(self._db)

    def write(self, values: Mapping[bytes, bytes | None]) -> None:
        """All of it in one atomic write; None removes a key."""
        batch = WriteBatch(raw_mode=True)
        for key, value in values.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        with translated():
            self._db.write(batch)

    def close(self) -> None:
        self._db.close()


@contextmanager
def beside(path: Path) -> Iterator[View]:
    """The store as it is at this moment, whether or not a projector goes on writing it; nothing is written there.

    Raises DamagedStore for what RocksDB cannot open.
    """
    with tempfile.TemporaryDirectory(prefix="topolog-beside-") as own_log:
        db = _secondary(path, own_log)
        try:
            with closing(View(db)) as view:
                yield view
        finally:
            db.close()


def store_path(folder: Path) -> Path:
    """The store of this version in a projector's folder; raises BadInput if there is none."""
    path = generation_path(folder)
    if not path.is_dir():
        raise BadInput(
            f"{folder} holds no store of this version.",
            hint="Name the folder that the projector has as projector.data; another version checks its own store.",
        )
    return path


def rows_of_log(view: View, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of all that follows from `decisions`, from `start` to before `end`, in the order of keys."""
    for key, value in view.scan(start, b""):
        if key[:1] in SIDES or (end is not None and key >= end):
            break
        yield key, value
    for key, value in view.scan(max(start, _BEHIND_SIDES), b""):
        if end is not None and key >= end:
            break
        yield key, value


def rows_of_sides(view: View) -> Iterator[tuple[bytes, bytes]]:
    for prefix in SIDES:
        yield from view.scan(prefix, prefix)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.set_paranoid_checks(True)
    options.set_keep_log_file_num(2)
    return options


def _secondary(path: Path, own_log: str) -> Rdict:
    options = _options()
    for left in reversed(range(_TRIES)):
        try:
            with translated():
                return Rdict(str(path), options=options, access_type=AccessType.secondary(own_log))
        except DamagedStore:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")
