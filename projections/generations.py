"""Which store of a projector's folder counts, and how another one comes to take its place.

Threats. A rebuild is killed half-way; a projector dies while it takes one over; two rebuilds are made at once; what is
offered was made by another version, of another cluster or log.

Invariant. At every moment the folder has one store that counts, and it is whole: the one with the highest number, of
those with this version's shape of rows. What counts never stands behind what has been read from the one before.

Argument. Every step is one rename, or the removal of a file. A rebuild is made in `rebuilding/` or `building/`, where
nobody looks, and moved to `offered/` when it is whole. The projector moves it to `taken/`, gives it a number that is
marked as not counting, reads it on from the log to where its own store stands, and only then removes the mark: whoever
starts behind a crash finds either the store of before and what is to be taken over, or the new store with all that has
been shown. The former is removed, or kept for a way back, which is the same way: it is moved to `building/`, read on to
the end of the log, offered, and gets the next number.

    rows-<shape>-<n>            a store; a changed shape of rows is built beside the store of before
    rows-<shape>-<n>.damaged    set aside, for who looks into it
    rebuilding/                 a rebuild is made here by a command of its own, under `rebuilding.lock`
    building/                   one that the projector was asked for is made here, and gone on with after a kill
    building/recalled           what is here is the former store, read on to take its place again
    offered/                    it is whole; a projector that looks here takes it over
    taken/                      the projector has it; its store is there, or
    rows-<shape>-<n>.taken      has this number and does not count yet: the projector reads it on
    refused.txt                 why the projector did not take what was offered last, which is gone
"""

import fcntl
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from topolog.events.errors import BadInput
from topolog.projections import layout

_LOGGER = logging.getLogger(__name__)
DAMAGED = ".damaged"
REBUILDING, BUILDING = "rebuilding", "building"
_OFFERED, _TAKEN, _RECALLED = "offered", "taken", "recalled"
_MARK = ".taken"
_REFUSED, _LOCK = "refused.txt", "rebuilding.lock"


def generation_path(folder: Path) -> Path:
    """Where the store with this version's shape of rows lies in the folder, or is to be made.

    A store that takes the place of another gets a number of its own, for RocksDB gives up a path only when the last
    iterator of it is gone, and that may hang in some error's traceback.
    """
    live = _live(folder)
    return live[-1] if live else _next_path(folder)


def former_path(folder: Path) -> Path | None:
    """The store that was shown before the one that counts, if it is kept."""
    return next(iter(_live(folder)[-2:-1]), None)


def damaged_paths(folder: Path) -> list[Path]:
    """The stores of this shape that were set aside, the oldest first."""
    return sorted((path for path in folder.glob(f"{_prefix()}*{DAMAGED}")), key=number_of)


def drop_all_but_former(folder: Path) -> None:
    """Remove the stores of this shape that are neither what counts nor the one before; nobody may have them open."""
    for path in _live(folder)[:-2]:
        shutil.rmtree(path, ignore_errors=True)


def drop_older_generations(folder: Path, *, keep: Path | None = None) -> None:
    """Remove the stores that count no longer, but for the one to keep; damaged ones stay for who looks into it."""
    current = generation_path(folder)
    for path in folder.glob("rows-*"):
        if path.is_dir() and path not in (current, keep) and path.suffix != DAMAGED and not _mark_of(path).exists():
            _LOGGER.info("Removing %s, which %s has replaced.", path, current.name)
            shutil.rmtree(path, ignore_errors=True)


def move_aside(path: Path) -> Path:
    """Mark a store as damaged, out of the way of the next; returns where it is now."""
    return path.rename(path.with_name(f"{path.name}{DAMAGED}"))


@contextmanager
def rebuilding(folder: Path) -> Iterator[Path]:
    """A folder for a rebuild that is to take the place of the store in `folder`; what is left there at the end goes.

    Raises BadInput if another process makes one, or the folder cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("w")
    except OSError as error:
        raise BadInput(f"The folder {folder} cannot hold a store: {error.strerror}.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"Another process makes a rebuild for {folder}.", hint="Wait for it, or stop it.") from None
        scratch = folder / REBUILDING
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def recall(folder: Path) -> bool:
    """Move the former store to where it is read on; nobody may have it open. Returns whether there is one."""
    former = former_path(folder)
    if former is None:
        return False
    building = folder / BUILDING
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    (building / _RECALLED).touch()
    former.rename(building / former.name)
    return True


def is_recalled(folder: Path) -> bool:
    """Whether what is built is the former store once more."""
    return (folder / BUILDING / _RECALLED).exists()


def dismiss(folder: Path) -> None:
    """Remove what is built, or put the former store back where it was; nobody may have it open."""
    building = folder / BUILDING
    if is_recalled(folder):
        for path in _live(building):
            path.rename(folder / path.name)
    shutil.rmtree(building, ignore_errors=True)


def withdraw(folder: Path) -> None:
    """Take back what is offered, if no projector has taken it up; a former store goes back to where it was."""
    shutil.rmtree(folder / BUILDING, ignore_errors=True)
    with suppress(FileNotFoundError):
        (folder / _OFFERED).rename(folder / BUILDING)
    dismiss(folder)


def put(folder: Path, made_in: str = REBUILDING) -> bool:
    """Put the rebuild where a projector finds it; returns whether it is the folder's store already, for there was none.

    Else it is offered, in place of one that was offered before and that nobody has taken up.
    """
    scratch = folder / made_in
    if not generation_path(folder).exists():
        try:
            generation_path(scratch).rename(generation_path(folder))
        except OSError:  # a projector has begun with an empty one this very moment
            pass
        else:
            return True
    (folder / _REFUSED).unlink(missing_ok=True)
    with suppress(FileNotFoundError):  # there is none, or a projector has taken it up this very moment
        shutil.rmtree((folder / _OFFERED).rename(scratch / "former"))
    scratch.rename(folder / _OFFERED)
    return False


def claim(folder: Path) -> Path | None:
    """The folder of what is to be taken over; the same one again after a crash. None if nothing is offered."""
    taken, offered = folder / _TAKEN, folder / _OFFERED
    if taken.exists():
        if any(taken.glob("rows-*")) or _marked(folder) is not None:
            return taken
        shutil.rmtree(taken)  # it has become the store: what made it so was killed before it had cleared up
    try:
        return offered.rename(taken)
    except FileNotFoundError:
        return None


def taken_path(folder: Path) -> Path:
    return folder / _TAKEN


def admit(folder: Path) -> Path | None:
    """Give what was taken its number, which does not count yet; returns where it is, and stays when it counts.

    None if it holds no store of this shape.
    """
    marked = _marked(folder)
    held = marked if marked and marked.exists() else next(iter(_live(folder / _TAKEN)), None)
    if held is None:
        return None
    newest = max(map(number_of, _live(folder)), default=0)  # what was made for a damaged store has a higher number
    path = marked if marked and number_of(marked) > newest else _next_path(folder)
    if path != held:
        _mark_of(path).touch()
        held.rename(path)
    for mark in _marks(folder):
        if mark != _mark_of(path):
            mark.unlink()
    return path


def promote(folder: Path) -> None:
    """From here on what was taken is the store that counts."""
    marked = _marked(folder)
    assert marked is not None, "it was admitted"
    _mark_of(marked).unlink()
    shutil.rmtree(folder / _TAKEN, ignore_errors=True)


def refuse(folder: Path, path: Path, why: str) -> None:
    """Remove what lies at `path`, which was taken, and leave the reason for who has offered it, who waits until nothing
    is taken any more. It is removed under another name: half of it is not to pass for a store."""
    with suppress(OSError):  # a full disk: it was logged
        (folder / _REFUSED).write_text(why)
    if path.exists():
        shutil.rmtree(path.with_name(f"{path.name}{DAMAGED}"), ignore_errors=True)  # of a refusal that was cut short
        with suppress(OSError):  # not even that can be removed
            shutil.rmtree(move_aside(path), ignore_errors=True)
    shutil.rmtree(folder / _TAKEN, ignore_errors=True)
    _mark_of(path).unlink(missing_ok=True)


def offered_path(folder: Path) -> Path | None:
    """The store that is offered and not yet taken, None if there is none."""
    return next(iter(_live(folder / _OFFERED)), None)


def building_path(folder: Path) -> Path | None:
    """The store that is built, offered or taken, None if there is none."""
    places = (folder / name for name in (BUILDING, _OFFERED, _TAKEN))
    return next((path for place in places for path in _live(place)), _marked(folder))


def is_taken(folder: Path) -> bool:
    """Whether something is being taken over."""
    return taken_path(folder).exists()


def is_pending(folder: Path) -> bool:
    """Whether something is offered, or taken and not yet the store."""
    return (folder / _OFFERED).exists() or (folder / _TAKEN).exists()


def why_refused(folder: Path) -> str | None:
    """Why the last offer was refused, None if it was not."""
    refused = folder / _REFUSED
    return refused.read_text() if refused.exists() else None


def _next_path(folder: Path) -> Path:
    """Behind every number that was ever given."""
    given = [number_of(path) for path in folder.glob(f"{_prefix()}*")]
    return folder / f"{_prefix()}{max(given, default=0) + 1}"


def _live(folder: Path) -> list[Path]:
    """The stores of this shape that are not set aside, the one that counts last."""
    found = [path for path in folder.glob(f"{_prefix()}*") if path.name.removeprefix(_prefix()).isdecimal()]
    return sorted((path for path in found if not _mark_of(path).exists()), key=number_of)


def _marked(folder: Path) -> Path | None:
    """The store that has a number and does not count yet, or is to have it."""
    paths = [mark.with_name(mark.name.removesuffix(_MARK)) for mark in _marks(folder)]
    return next((path for path in paths if path.exists()), next(iter(paths), None))


def _marks(folder: Path) -> list[Path]:
    return list(folder.glob(f"{_prefix()}*{_MARK}"))


def _mark_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{_MARK}")


def number_of(path: Path) -> int:
    """Which of its folder's stores it is; 0 for none that this version could have made."""
    number = path.name.removeprefix(_prefix()).removesuffix(DAMAGED).removesuffix(_MARK)
    return int(number) if number.isdecimal() else 0


def _prefix() -> str:
    return f"rows-{layout.shape()}-"
