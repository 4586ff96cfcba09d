"""A store as keys and values: read beside its projector, or held alone to be mended (an owner of rocksdict)."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from rocksdict import AccessType, Options, Rdict, WriteBatch

from topolog.events.errors import BadInput, DamagedStore, NotCaughtUp
from topolog.projections.generations import DAMAGED, generation_path
from topolog.projections.rocks import View, translated

_TRIES = 20
"""A projector moves files every few thousand writes, and to open a store takes a moment."""

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

    Raises DamagedStore for what RocksDB cannot open, NotCaughtUp if the store is never at rest for as long as it takes.
    """
    db = _opened_at_rest(path)
    try:
        with closing(View(db)) as view:
            yield view
    finally:
        db.close()


@contextmanager
def beside_on_disk(path: Path) -> Iterator[tuple[View, list[bytes]]]:
    """As `beside`, past the kernel's cache where the disk allows it; and the first and last keys of all files,
    sorted."""
    try:
        db = _opened_at_rest(path, direct=True)
        View(db).close()
    except DamagedStore:  # a file system without direct reads says it so; what is damaged is so the other way too
        db = _opened_at_rest(path)
    try:
        borders = {key for file in db.live_files() for key in (file["start_key"], file["end_key"]) if key}
        with closing(View(db)) as view:
            yield view, sorted(borders)
    finally:
        db.close()


def store_path(folder: Path) -> Path:
    """The store of this version in a projector's folder; raises BadInput if there is none."""
    path = generation_path(folder)
    if not path.is_dir():
        if not folder.is_dir():
            raise BadInput(
                f"{folder} holds no store: there is no such folder.",
                hint="Name that of a projector, or with --set cluster.name=NAME the cluster, whose own is then taken.",
            )
        raise BadInput(
            f"{folder} holds no store of this version.",
            hint="Name the folder that the projector has as projector.data; another version checks its own store.",
        )
    return path


def was_set_aside(folder: Path) -> bool:
    """Whether the folder has a damaged store and no other: who was to put one in its place was stopped."""
    path = generation_path(folder)
    return not path.is_dir() and any(folder.glob(f"*{DAMAGED}"))


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


def _options(*, direct: bool = False) -> Options:
    options = Options(raw_mode=True)
    options.set_use_direct_reads(direct)
    options.set_paranoid_checks(True)
    options.set_keep_log_file_num(2)
    return options


def _opened_at_rest(path: Path, *, direct: bool = False) -> Rdict:
    """The store read-only, with all of its files open.

    RocksDB reads the list of tables first and the write-ahead log afterwards; a projector that moves rows from the log
    to a table in between would hide them from both. So it counts only if no file has come, gone or been listed
    meanwhile. (A secondary would not do: where a table is lost it shows an older state and says nothing.)
    """
    for _ in range(_TRIES):
        before = _listed(path)
        try:
            with translated():
                db = Rdict(str(path), options=_options(direct=direct), access_type=AccessType.read_only(False))
        except DamagedStore:
            if _listed(path) == before:
                raise
            continue
        if _listed(path) == before:
            return db
        db.close()
    raise NotCaughtUp(f"{path} is changed faster than it can be opened.", hint="Try again in a moment.")


def _listed(path: Path) -> set[tuple[str, int]]:
    """The files that hold rows, and how long the list of them is."""
    tables = {(each.name, 0) for pattern in ("*.log", "*.sst", "CURRENT") for each in path.glob(pattern)}
    return tables | {(each.name, _size(each)) for each in path.glob("MANIFEST-*")}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # another list has just taken its place
        return -1
