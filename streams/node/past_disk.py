"""Where a node keeps its past: a file in its data folder, or memory in tests and in the simulation."""

import os
from pathlib import Path
from typing import Protocol

from topolog.events.errors import BadInput, DiskFailed
from topolog.events.past_file import FILE_NAME, decode, encode
from topolog.events.views import Past


class PastDisk(Protocol):
    """What `store` has returned from, `load` gives after any crash."""

    def load(self) -> Past | None:
        """What was stored last, None if nothing ever was. Raises BadInput for what cannot be read."""

    def store(self, past: Past) -> None:
        """Returns when it is safe. Raises DiskFailed, and nobody knows what `load` gives then: this one or the last."""


class MemoryDisk:
    """One that outlives the sessions that are given it. To put an older disk back: `disk.past = copied`."""

    def __init__(self, past: Past | None = None) -> None:
        self.past = past
        self.syncs = 0

    def load(self) -> Past | None:
        return self.past

    def store(self, past: Past) -> None:
        self.past = past
        self.syncs += 1


class PastFile:
    """`<folder>/topolog-past.json`. Used only by the process that has the lock on the folder."""

    def __init__(self, folder: Path, node: str) -> None:
        self._folder = folder
        self._path = folder / FILE_NAME
        self._node = node

    def load(self) -> Past | None:
        try:
            return decode(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(f"Node {self._node!r} cannot read {self._path}: {error.strerror}.") from error
        except ValueError as error:  # also what is no JSON, no UTF-8, or of another shape
            raise BadInput(
                f"{self._path} does not say where node {self._node!r} has written: {error}.",
                hint="Put back the newest whole copy of the folder. Or start the node with an empty folder: it loads "
                "all anew from the others, and what it alone had is lost.",
            ) from error

    def store(self, past: Past) -> None:
        """A file of its own, put in the place of the former one when it is safe."""
        made = self._path.with_suffix(".new")
        try:
            _write_synced(made, encode(past))
            made.replace(self._path)
            _sync_folder(self._folder)
        except OSError as error:
            raise DiskFailed(
                f"Node {self._node!r} cannot write {self._path}: {error.strerror}.",
                hint="The node is fenced. Mend the disk, or make room on it, and start the process again.",
            ) from error


def _write_synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
