"""Where what is to hold of a store is written; the disk's errors as ours."""

import errno
from pathlib import Path

from topolog.events.errors import DiskFailed
from topolog.projections.archive import durable
from topolog.projections.rocks import DiskFull


def write(path: Path, content: bytes) -> None:
    """The file is whole and on the disk, or as it was: then DiskFull is raised, or DiskFailed."""
    try:
        durable.write(path, content)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFull(f"The disk of the store is full: {path.name} cannot be written.") from error
        raise DiskFailed(f"{path} cannot be written: {error.strerror}.", hint="Look for a failing disk.") from error
