"""The folders of the demo's nodes, and what befalls disks: a backup that is put back, and one that is replaced.

A backup is a copy of the files as they are at that moment, also of a node that runs: as of many a real one, nobody has
asked the node. What of that is believed when it comes back, the log decides (`events/views.py`).
"""

import re
import shutil
from pathlib import Path

from topolog.events.errors import BadInput

_NODE = re.compile(r"n[1-9]\d{0,2}")


class NodeFolders:
    """Below `data`; a node has at most one backup, the newest."""

    def __init__(self, data: Path) -> None:
        self._nodes = data / "nodes"
        self._backups = data / "backups"

    def names(self) -> tuple[str, ...]:
        """The nodes that have been started here, in the order of their numbers."""
        found = [each.name for each in self._nodes.iterdir()] if self._nodes.is_dir() else []
        return tuple(sorted(filter(_NODE.fullmatch, found), key=lambda name: int(name[1:])))

    def check_folder(self, name: str) -> None:
        """Raise BadInput if the node has none."""
        if not (self._nodes / name).is_dir():
            raise BadInput(f"Node {name} has no folder.", hint="It has one once it has been started.")

    def check_backup(self, name: str) -> None:
        """Raise BadInput if none was kept."""
        if not (self._backups / name).is_dir():
            raise BadInput(f"Node {name} has no backup.", hint=f"`topolog demo backup {name}` makes one.")

    def back_up(self, name: str) -> tuple[str, ...]:
        """Keep a copy of the folder; its files."""
        folder, new = self._nodes / name, self._backups / f"{name}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        copied = tuple(each.name for each in sorted(folder.iterdir()) if _copy(each, new))
        _put(new, self._backups / name)
        return copied

    def restore(self, name: str) -> None:
        """Put the backup in the place of the folder; it stays a backup."""
        new = self._nodes / f"{name}.new"
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(self._backups / name, new)
        _put(new, self._nodes / name)

    def wipe(self, name: str) -> None:
        """The folder is empty, as on a new disk."""
        shutil.rmtree(self._nodes / name, ignore_errors=True)


def _copy(file: Path, folder: Path) -> bool:
    """A file that is written anew has another name for a moment, and may be gone."""
    try:
        shutil.copy2(file, folder)
    except FileNotFoundError:
        return False
    return True


def _put(new: Path, place: Path) -> None:
    if place.exists():
        shutil.rmtree(place)
    new.rename(place)
