"""What a projector begins with: its store as it was left, or what takes the place of one that is damaged.

What cannot be read of a store leaves the rest as it was written; such a store can be shown, and not be folded on. One
whose rows have not the hash that was stored with them says that something is wrong and not what: nobody is shown it.
Then the former store counts again, if one is kept and nothing is known against it, and else the log is read from its
beginning.
"""

import logging
from pathlib import Path

from topolog.events.errors import DamagedStore
from topolog.events.failpoints import reach
from topolog.events.state import State
from topolog.projections.generations import generation_path, move_aside
from topolog.projections.projection import Projection
from topolog.projections.rocks import UnreadableBlock
from topolog.projections.store import Store
from topolog.projections.upkeep.about import about

_LOGGER = logging.getLogger(__name__)


def opened(folder: Path, cluster: str, *, holds: bool) -> tuple[Projection, str | None]:
    """What is to be shown, and its damage if it is shown as it is; `holds` says whether that may be.

    Raises BadInput if the folder is another cluster's or in use.
    """
    while True:
        path = generation_path(folder)
        is_new = not path.exists()
        try:
            store = Store(folder, cluster)
        except DamagedStore as error:
            if is_new:
                raise
            _set_aside(folder, path, error.message)
            continue
        try:
            return Projection(store, store.load()), None
        except UnreadableBlock as error:
            if holds and _is_shown(store):
                return Projection(store, State()), error.message
            store.close()
            _set_aside(folder, path, error.message)
        except DamagedStore as error:
            store.close()
            _set_aside(folder, path, error.message)
        except BaseException:  # whatever it is, RocksDB's lock must not outlive it
            store.close()
            raise


def _is_shown(store: Store) -> bool:
    """Whether it can answer at all: a reading begins with where the store stands."""
    try:
        with store.reading() as reading:
            return reading.position >= 0 and reading.decision(reading.position) is not None
    except DamagedStore:
        return False


def _set_aside(folder: Path, path: Path, damage: str) -> None:
    aside = move_aside(path)
    reach("projector.set-aside")
    _LOGGER.error("The store is damaged: %s It lies in %s now.", damage, aside)
    while (left := generation_path(folder)).exists():
        doubt = about(left).doubt
        if not doubt:
            _LOGGER.error("The former store %s takes its place.", left)
            return
        move_aside(left)
    _LOGGER.error("The log is read from its beginning.")
