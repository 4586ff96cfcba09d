"""Files that are whole, and on the disk when a call returns: whoever dies, a name stands for all of its content or for
none of it."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Gives the path to write to; at the end what is there takes its name."""
    new = unfinished(path)
    yield new
    sync([new])
    new.replace(path)
    sync_folder(path.parent)


def write(path: Path, content: bytes) -> None:
    with written(path) as new:
        new.write_bytes(content)


def unfinished(path: Path) -> Path:
    """Where it is written; what a crash leaves there is written over."""
    return path.with_name(f".{path.name}.new")


def sync(paths: Iterable[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_names(paths: Iterable[Path], top: Path) -> None:
    """The names of these files, and of all folders between them and `top`, which may be new."""
    for folder in {each for path in paths for each in path.parents if each.is_relative_to(top)}:
        sync_folder(folder)


def make_folder(folder: Path) -> None:
    """Make it with those above it that are missing; their names are on the disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)
