"""Who comes after the store that is shown: at most one successor, read on beside it; and the stores that were shown.

A successor is what somebody has offered (`generations.py`). It is read on by the projector itself until it stands where
the shown one does or further; then it gets a number, and readers get it. What was shown stays open until its last
reading has ended, and on the disk for as long as it is kept for a way back.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from topolog.events.errors import LogDiverged, TopologError
from topolog.events.failpoints import reach
from topolog.projections import generations, taking_over
from topolog.projections.layout import Meta
from topolog.projections.projection import Projection
from topolog.projections.store import Store
from topolog.projections.upkeep.about import about, note

_LOGGER = logging.getLogger(__name__)


class Succession:
    """One thread calls. `keeps` says whether a store that was shown is kept."""

    def __init__(self, folder: Path, keeps: Callable[[], bool], wall_ms: Callable[[], int]) -> None:
        self._folder = folder
        self._keeps = keeps
        self._wall_ms = wall_ms
        self._path = generations.taken_path(folder)
        self.successor: Projection | None = None
        self.former: list[Store] = []
        self._damaged: set[Path] = set()

    def look(self, shown: Meta) -> Projection | None:
        """What is offered, opened; None if nothing is. Raises what keeps it from being taken, and it is refused
        then."""
        taken = generations.claim(self._folder)
        if taken is None:
            return None
        reach("projector.taken")
        self._path = taken
        try:
            self._path = generations.admit(self._folder) or taken
            self.successor = taking_over.opened(self._folder, shown)
        except TopologError as error:
            self._turn_down(error)
            raise
        _LOGGER.info("A rebuilt store is offered; it stands at position %d.", self.successor.meta.position)
        return self.successor

    def complete(self, shown: Projection, *, at_end: bool) -> Projection | None:
        """The successor as what is to be shown, once it stands where `shown` does; None before that.

        `at_end`: no more will come for now. Raises LogDiverged if it never will stand there, and what opening it
        raises.
        """
        successor = self.successor
        if successor is None or not successor.is_proven:
            return None
        if successor.meta.position < shown.meta.position:
            if at_end:
                raise LogDiverged(
                    f"The log ends at position {successor.meta.position}, and position {shown.meta.position} is shown.",
                    hint="The topic was cut short: compare it with a backup before going on.",
                )
            return None
        taking_over.take_sides_along(shown.store, successor.store)
        reach("projector.succeeding")
        generations.promote(self._folder)
        reach("projector.succeeded")
        self.successor = None
        self.former.append(shown.store)
        return successor.again()

    def note_former(self, former: Projection, now: Projection, damage: str | None) -> None:
        """Say of what was shown that it is so no more, and in what it differs from what is; one with known damage is
        set aside."""
        doubt = self._difference(former, now)
        if doubt:
            _LOGGER.error("%s", doubt)
        if damage:
            self._damaged.add(former.store.path)
        if self._keeps():
            noted = msgspec.structs.replace(
                about(former.store.path),
                replaced_ms=self._wall_ms(),
                doubt=damage or doubt,
                position=former.meta.position,
                state_hash=former.meta.state_hash.hex(),
            )
            note(former.store.path, noted)
        reach("projector.former-noted")

    def refuse(self, error: TopologError) -> None:
        """What is offered does not become what is shown."""
        if self.successor is not None:
            self.successor.store.close()
            self.successor = None
        self._turn_down(error)

    def drop_former(self) -> None:
        """Let go of the stores that were shown before, once their last reading has ended."""
        for store in [each for each in self.former if each.close_if_idle()]:
            self.former.remove(store)
            if self._keeps() and store.path in self._damaged:
                generations.move_aside(store.path)
            elif not self._keeps():
                shutil.rmtree(store.path, ignore_errors=True)
            if self._keeps() and not self.former:
                generations.drop_all_but_former(self._folder)

    def close(self) -> None:
        for store in (*self.former, *([self.successor.store] if self.successor else ())):
            store.close()
        self.former.clear()

    def _turn_down(self, error: TopologError) -> None:
        _LOGGER.error("A rebuilt store is not taken over: %s", error)
        generations.refuse(self._folder, self._path, str(error))

    def _difference(self, former: Projection, now: Projection) -> str:
        with now.store.reading() as reading:
            there = reading.decision(former.meta.position)
        if there is not None and there.state_hash != former.meta.state_hash:
            return (
                f"At position {former.meta.position} the store of before had the state hash "
                f"{former.meta.state_hash.hex()}, the rebuilt one has {there.state_hash.hex()}."
            )
        compared = about(now.store.path).compared
        if compared and compared.store == former.store.path.name and not compared.is_equal:
            return (
                f"Up to position {compared.position}, {compared.differences} rows of the store of before were not "
                f"those of the rebuilt one, such as {', '.join(compared.examples)}."
            )
        return ""
