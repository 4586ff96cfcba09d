"""The exclusive lock on a node's data folder: proof that no former process of the node still lives (LE23).

Only for local disks: a lock on a network file system may survive its holder or be held twice.
"""

import fcntl
import hashlib
import os
import re
import secrets
from pathlib import Path

from topolog.events.errors import BadInput

_ID_CHARS = 32


class FolderInUse(BadInput):
    """Another process holds it."""


class FolderLock:
    """flock on `<folder>/topolog-node.lock`; the kernel lets go of it when the process dies, whatever killed it.

    The file's content is the folder's random id, made with the folder: two folders of one node are not one. A copy of a
    folder has the same content, and its lock proves nothing about the original: so the id that is told says as well
    which file it is, and since which start of which machine. After another start the former lease is waited for. `key`
    is the content, which nobody is told: from it the secrets of the lives in this folder follow (`events/proof.py`).
    """

    def __init__(self, folder: Path, node: str) -> None:
        self._path = folder / "topolog-node.lock"
        self._node = node
        self._descriptor: int | None = None
        self.key = b""

    def acquire(self) -> str:
        """Take the lock; the folder's id. Raises FolderInUse, or BadInput if it cannot be used."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadInput(f"Node {self._node!r} cannot use {self._path.parent}: {error.strerror}.") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise FolderInUse(
                f"Another process uses the folder {self._path.parent} of node {self._node!r}.",
                hint="Stop it, or give this process a folder of its own.",
            ) from error
        self._descriptor = descriptor
        file = os.fstat(descriptor)
        known = self._id_in(descriptor)
        self.key = known.encode()
        told = f"{known} {file.st_dev} {file.st_ino} {_boot()}"
        return hashlib.blake2b(told.encode(), digest_size=_ID_CHARS // 2).hexdigest()

    def let_go(self) -> None:
        """Free the folder at once, also of what a forked child still holds: flock counts the file that both opened."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget_copy()

    def forget_copy(self) -> None:
        """In a forked child: let go of the descriptor; the lock is the parent's."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _id_in(self, descriptor: int) -> str:
        found = os.pread(descriptor, _ID_CHARS, 0).decode("ascii", "replace")
        if re.fullmatch(f"[0-9a-f]{{{_ID_CHARS}}}", found):
            return found
        made = secrets.token_hex(_ID_CHARS // 2)
        os.pwrite(descriptor, made.encode(), 0)
        os.fsync(descriptor)
        return made


def _boot() -> str:
    """Which start of which machine this is; the kernel knows the processes of no other."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
