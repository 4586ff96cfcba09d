"""What somebody wants of one projector's store, kept in its folder: it holds over restarts.

upkeep.json    paused, what is to be built or brought back, what is to be read through, what became of the last ones
"""

import logging
import threading
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from topolog.projections.upkeep.tasks import Scrubbed
from topolog.projections.upkeep.writing import write

_NAME = "upkeep.json"
_LOGGER = logging.getLogger(__name__)


class Action(StrEnum):
    """What can be asked for. Each is about this process's store, and asks nothing of the cluster."""

    REBUILD = "rebuild"
    BACK = "back"
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    DROP_FORMER = "drop-former"
    SCRUB = "scrub"


class UpkeepOrder(msgspec.Struct, frozen=True):
    """Who wants what, why, and since when (UTC). `rate` is the most records per second; None sets no limit."""

    id: str
    action: Action
    by: str
    reason: str
    at_ms: int
    rate: float | None = None


class Refusal(msgspec.Struct, frozen=True):
    """What was wanted and is not had."""

    order: UpkeepOrder
    why: str
    at_ms: int


class Damage(msgspec.Struct, frozen=True):
    """What of a store cannot be read, and since when that is known (UTC)."""

    store: str
    why: str
    at_ms: int


class UpkeepStatus(msgspec.Struct, frozen=True):
    """All that holds at one moment. `wanted` is a REBUILD or a BACK, `refused` the last of them that came to
    nothing."""

    paused: UpkeepOrder | None = None
    wanted: UpkeepOrder | None = None
    scrub: UpkeepOrder | None = None
    scrubbed: Scrubbed | None = None
    refused: Refusal | None = None
    damage: Damage | None = None


class Orders:
    """The status of one folder; any thread reads it, and changes it while it holds `changing`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self.changing = threading.RLock()
        self.status = self._read()

    def change(self, **changes: Any) -> None:
        """Have these fields hold, on the disk first; raises DiskFull and DiskFailed, and nothing has changed then."""
        with self.changing:
            status = msgspec.structs.replace(self.status, **changes)
            if status != self.status:
                write(self._path, msgspec.json.encode(status))
                self.status = status

    def _read(self) -> UpkeepStatus:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=UpkeepStatus)
        except FileNotFoundError:
            return UpkeepStatus()
        except (OSError, msgspec.DecodeError) as error:
            _LOGGER.error("%s cannot be read, so nothing of it holds: %s", self._path, error)
            return UpkeepStatus()
