"""A disk that forgets: when the power goes, it has what was synced and nothing else.

What a process sees of its files is what it did. What a disk has of them is less, until it is told to sync: of a file
the content that it had when it was synced last, of a folder the names that it had then. A name that stands in a folder
that was synced, of a file that was not, is an empty file. All this POSIX allows, and some file system does.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

Inode = int


class ForgetfulDisk:
    """What the disk has of the files below a folder that is there, and empty."""

    def __init__(self, folder: Path) -> None:
        assert not any(folder.iterdir())
        self._root = folder
        self._contents: dict[Inode, bytes] = {}
        self._names: dict[Inode, dict[str, Inode]] = {}
        self._folders: set[Inode] = set()
        self._held: list[int] = []
        self._keep(os.open(folder, os.O_RDONLY))

    def fsync(self, descriptor: int) -> None:
        """In place of `os.fsync`: from now on the disk has this file's content, or this folder's names."""
        self._keep(os.dup(descriptor))

    def survivors(self, *, forgets_removals: bool) -> Iterator[tuple[Path, bytes]]:
        """The files that are there when the power is back, relative, with what they hold.

        What was removed and not synced is there again if it `forgets_removals`, and else gone. A file that was only
        renamed is there by its former name, and so is one that another was renamed over.
        """
        return self._below(Path(), self._root.stat().st_ino, None if forgets_removals else self._seen())

    def restore(self, folder: Path, *, forgets_removals: bool) -> None:
        """Write the survivors into an empty folder."""
        for path, content in self.survivors(forgets_removals=forgets_removals):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)

    def _seen(self) -> Mapping[Inode, set[str]]:
        """What a process sees: every file and folder, and the names in it."""
        everything = (self._root, *self._root.rglob("*"))
        return {
            each.lstat().st_ino: {name.name for name in each.iterdir()} if each.is_dir() else set()
            for each in everything
        }

    def _below(self, path: Path, folder: Inode, seen: Mapping[Inode, set[str]] | None) -> Iterator[tuple[Path, bytes]]:
        for name, inode in self._names.get(folder, {}).items():
            if seen is not None and inode not in seen and name not in seen.get(folder, ()):
                continue
            if inode in self._folders:
                yield from self._below(path / name, inode, seen)
            else:
                yield path / name, self._contents.get(inode, b"")

    def _keep(self, descriptor: int) -> None:
        """Hold what is synced, and whatever has a name in it: a number that is free again would be given again."""
        self._held.append(descriptor)
        seen, inode = Path(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor).st_ino
        if not seen.is_dir():
            self._contents[inode] = seen.read_bytes()
            return
        names = {each.name: each for each in os.scandir(seen)}
        self._held += [os.open(each.path, os.O_PATH | os.O_NOFOLLOW) for each in names.values()]
        self._names[inode] = {name: each.inode() for name, each in names.items()}
        self._folders |= {each.inode() for each in names.values() if each.is_dir()}
