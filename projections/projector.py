"""The projector: reads `decisions`, folds, stores, and knows how old what it knows is.

Threats. A reader that shows yesterday's cluster as today's because its broker is gone; one that goes on behind a record
it could not fold; one that resumes in another log than the one it has folded; a damaged store.

Invariants. What is stored is a prefix of the log, in whole sets. `age_ms` never says less than the time since this
reader last knew that it had read to the end.

Argument. A batch is written only up to its last whole set that was folded without complaint, even if the next one is
poison, and the reader stops there for good: reads go on and say so. To resume, the record that was stored last is read
again and its chain hash compared, for the offset alone proves nothing (K3, K9). A broker that is gone sends no end of
partition, and neither does an idle one; but the leader writes at least every fence_ms / 4, so «at the end» is believed
only while the last record that counts is younger than fence_ms / 2.

A store that is offered (`succession.py`) is read on beside the one that is shown, which nobody writes meanwhile, until
it stands where that one does or further; then readers get the new one. So no read fails, and no position goes back. If
anything is wrong with what is offered it is refused, and the projector goes on as if nothing had been.

A store of which something cannot be read is read on and shown as long as it can be, for what can be read is as it was
written; another one is built beside it (`upkeep/`) and takes its place. Where it cannot be written any more nothing new
is shown until then: in a process that builds nothing beside, until it is started on another folder.
"""

import logging
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from topolog.events.errors import DamagedStore, Poisoned, TopologError
from topolog.events.failpoints import reach
from topolog.events.ids import Offset
from topolog.events.log import LogReader
from topolog.events.lookahead import LookAhead
from topolog.events.topics import Topic
from topolog.projections import generations, opening
from topolog.projections.freshness import Freshness
from topolog.projections.layout import Meta, WholeSet
from topolog.projections.progress import Measured
from topolog.projections.recovery import Recovering, Recovery
from topolog.projections.rocks import DiskFull
from topolog.projections.side_topics import SideTopics
from topolog.projections.sides import SIDE_PARTITIONS
from topolog.projections.store import Present, Reading, Store, reading_of
from topolog.projections.succession import Succession
from topolog.projections.upkeep.keeper import TERMS, Keeper, Terms
from topolog.projections.upkeep.orders import UpkeepOrder
from topolog.projections.upkeep.workshop import Workshop

DECISIONS = (Topic.DECISIONS, 0)

T = TypeVar("T")

_POLL_S = 0.1
ROOM_BYTES = 256 << 20
"""So much must be free before a store that met a full disk is opened again: to open it writes what its log holds."""

_LOGGER = logging.getLogger(__name__)


class Projector:
    """One reader of the log and its store. One thread calls `step` or `run`; any thread reads.

    `now_s` is a monotonic clock, `wall_ms` the time of day (UTC). `decided` counts decisions by event since the process
    started; `keeper` knows what is done beside, and does it in `workshop`: None is for a process that does nothing
    beside.
    """

    def __init__(
        self,
        reader: LogReader,
        folder: Path,
        cluster: str,
        *,
        now_s: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        workshop: Workshop | None = None,
        terms: Terms = TERMS,
    ) -> None:
        """Raises BadInput if the folder is another cluster's or in use; a store that cannot be opened is set aside."""
        self.cluster = cluster
        self.wall_ms = wall_ms
        self.decided: Counter[str] = Counter()
        self._stopped: str | None = None
        self._measured = Measured(reader, now_s)
        self._reader = LookAhead(self._measured)
        self._folder = folder
        self._now_s = now_s
        self._started_ms = wall_ms()
        self._freshness = Freshness()
        self._swap = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._damage: str | None = None
        self._lacks_room = False
        self._hopes = False
        self._is_first_end = True
        self._sides = SideTopics(now_s, wall_ms)
        self._shown, self._held = opening.opened(folder, cluster, holds=workshop is not None)
        self.keeper = Keeper(folder, cluster, workshop, terms, now_s, wall_ms)
        self._succession = Succession(folder, lambda: self.keeper.keeps_former, wall_ms)
        if self._held:
            self.keeper.note_damage(self._shown.store, self._held)
        self._recovery = Recovery(self._log_end, now_s)
        self._counted_to = self.meta.position
        self._assign()

    @property
    def meta(self) -> Meta:
        """Where the store stands."""
        return self._shown.meta

    @property
    def stopped(self) -> str | None:
        """Why this projector reads no further, None while it does: for good, but for a full disk, a store that is built
        anew, or a pause that somebody has asked for."""
        if self._stopped:
            return self._stopped
        if self._held:
            what = "another one is built beside it" if self.keeper.can_build else "this process builds no other one"
            return f"The store is damaged, and {what}: {self._held}"
        paused = self.keeper.status.paused
        return f"It is paused by {paused.by}{f': {paused.reason}' if paused.reason else '.'}" if paused else None

    @property
    def is_paused(self) -> bool:
        """Whether it reads no further for a pause alone."""
        return self.keeper.status.paused is not None and not self._stopped and not self._held

    @property
    def age_ms(self) -> int:
        """How long ago this reader last knew that it had read to the end of the log.

        A reader that has not known it yet goes by the time of day and the time of the newest decision it has stored.
        """
        known = self._freshness.age_ms(self._now_s())
        return self._stored_ago_ms if known is None else known

    @property
    def quiet_ms(self) -> int:
        """How long ago this reader has read the newest decision; by the time of day for one that it has not read."""
        known = self._freshness.quiet_ms(self._now_s())
        return self._stored_ago_ms if known is None else known

    @property
    def _stored_ago_ms(self) -> int:
        return max(0, self.wall_ms() - (self.meta.logged_at_ms or self._started_ms))

    @property
    def has_started(self) -> bool:
        """Whether it has read to the end once since it was made, or says why it does not."""
        return self._recovery.is_over or self.stopped is not None

    @property
    def recovering(self) -> Recovering:
        """How far it has come since it was made."""
        return self._recovery.told

    @property
    def fence_ms(self) -> int:
        """The cluster's; 0 while nothing has been decided."""
        return self._freshness.fence_ms

    def step(self, timeout_s: float = 0.0) -> int:
        """Read what is there, waiting up to `timeout_s` for the first record; returns how many records came.

        After an error that no later record can mend it sets `stopped` and reads nothing more; on a full disk until
        there is room again, at a poisoned record until it is voided.
        """
        try:
            if self._lacks_room:
                self._resume()
            if self._damage and self._succession.successor is None:
                self.keeper.note_damage(self._shown.store, self._damage)
                self._damage = None
            self._succession.drop_former()
            self.keeper.look(self._shown.store, reads_former=bool(self._succession.former))
            if self.keeper.status.paused or (self._stopped and not self._hopes):
                self._freshness.lose()
                return 0
            self._look_for_successor()
            found = self._read(timeout_s)
            self._succeed()
            self._go_on()
            return found
        except TopologError as error:
            self._meet(error)
        return 0

    def run(self, stop: threading.Event) -> None:
        """Step until `stop` is set, then close the log's reader."""
        try:
            while not stop.is_set():
                self.step(_POLL_S)
                if self.stopped:
                    stop.wait(_POLL_S)
        except Exception as error:  # a defect of ours: answers go on, and say that they grow old
            self._stop(f"The projector failed: {error!r}.")
            raise
        finally:
            self._reader.close()

    def close(self) -> None:
        """Close the store, once no reading of it is open, and end what is done beside."""
        self.keeper.close()
        self._succession.close()
        self._shown.store.close()

    def act(self, order: UpkeepOrder) -> None:
        """Have an order about this store hold; raises Refused if it makes no sense now. Any thread."""
        self.keeper.act(order, self._shown.store, reads_former=bool(self._succession.former))

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """A reading of the newest position; damage that it meets is noted, and mended where that can be done."""
        with ExitStack() as stack:
            with self._swap:
                shown = self._shown
                view = stack.enter_context(shown.store.view())
            present = Present(self._sides.heard_ago_ms, self._measured.progress(), self.quiet_ms, self.stopped)
            reading = reading_of(view, present)
            try:
                yield reading
            except DamagedStore as error:
                if shown is self._shown:
                    self._damage = error.message
                raise

    def told(self, tell: Callable[[Keeper, Store, Recovering, int], T]) -> T:
        """What `tell` makes of the stores of this projector: what is kept, what is shown, how far it is, its age
        (ms)."""
        return tell(self.keeper, self._shown.store, self._recovery.told, self.age_ms)

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Call `listener` in the projector's thread after each write."""
        self._listeners.append(listener)

    def _meet(self, error: TopologError) -> None:
        """What an error means for this projector."""
        if self._succession.successor is not None:
            try:
                self._refuse(error)
                return
            except TopologError as unwritten:
                error = unwritten
        match error:
            case DamagedStore():
                self._held = self._damage = error.message
                self._freshness.lose()
                return
            case Poisoned():
                self._hopes = True
            case DiskFull():
                self._lacks_room = True
        self._stop(str(error))

    def _assign(self) -> None:
        """Have the reader go on where what is shown stands."""
        self._note_terms()
        sides = {partition: self._shown.store.side_offset(partition) for partition in SIDE_PARTITIONS}
        self._reader.assign({DECISIONS: self.meta.last_offset, **sides})

    def _resume(self) -> None:
        """Go on from what is stored, once there is room; after a failure RocksDB writes only when opened again."""
        if shutil.disk_usage(self._folder).free < ROOM_BYTES:
            return
        with self._swap:
            self._shown.store.close()
            self._shown, self._held = opening.opened(self._folder, self.cluster, holds=self.keeper.can_build)
            self._assign()
        _LOGGER.info("There is room again: the projector goes on from position %d.", self.meta.position)
        self._lacks_room, self._stopped = False, None

    def _look_for_successor(self) -> None:
        """Begin to read on what is offered."""
        if self._succession.successor is not None or self._reader.search is not None:
            return
        try:
            with self.keeper.claiming():
                successor = self._succession.look(self.meta)
        except TopologError as error:
            self.keeper.turned_down(str(error))
            return
        if successor is not None:
            self._freshness.lose()
            self._reader.assign({DECISIONS: successor.meta.last_offset})

    def _succeed(self) -> None:
        """Show the successor as soon as it stands where what is shown does."""
        former = self._shown
        shown = self._succession.complete(former, at_end=self._reader.at_end(Topic.DECISIONS))
        if shown is None:
            return
        with self._swap:
            self._shown = shown
        damage, self._held, self._damage = self._held or self._damage, None, None
        self._assign()
        noted = self.keeper.status.damage
        is_known = noted is not None and noted.store == former.store.path.name
        try:
            self._succession.note_former(former, shown, noted.why if noted and is_known else damage)
        finally:  # whatever cannot be written, it is shown
            self.keeper.succeeded(shown.store)
        _LOGGER.info("The rebuilt store is shown, at position %d.", self.meta.position)
        self._tell()

    def _refuse(self, error: TopologError) -> None:
        """Go on with what is shown."""
        self._succession.refuse(error)
        self._shown = self._shown.again()
        self._assign()
        self.keeper.turned_down(str(error))

    def _read(self, timeout_s: float) -> int:
        written = self._succession.successor or self._shown
        if self._held and written is self._shown:
            return 0
        polled = self._reader.poll(timeout_s)
        sides = [entry for entry in polled if entry.topic is not Topic.DECISIONS]
        self._sides.note(sides, self._shown.store)
        entries = [entry for entry in polled if entry.topic is Topic.DECISIONS]
        if entries:
            reach("projector.read")
        counted = written.take(entries, self._reader, self._note_written)
        if written is self._shown:
            self._note_end(counted=counted)
        return len(polled)

    def _note_end(self, *, counted: bool) -> None:
        at_end = self._reader.at_end(Topic.DECISIONS)
        self._freshness.note(self._now_s(), counted=counted, at_end=at_end)
        self._recovery.note(self.meta, at_end=at_end)
        if at_end and self._is_first_end and not self._succession.former:
            self._is_first_end = False
            reach("projector.caught-up")
            keep = generations.former_path(self._folder) if self.keeper.keeps_former else None
            generations.drop_older_generations(self._folder, keep=keep)

    def _log_end(self) -> Offset | None:
        bounds = self._reader.bounds(DECISIONS)
        return bounds[1] if bounds else None

    def _note_written(self, sets: Sequence[WholeSet]) -> None:
        new = [folded for each in sets for folded in each.decisions if folded.place.position > self._counted_to]
        self.decided.update(type(folded.event).__name__ for folded in new)
        if new:
            self._counted_to = new[-1].place.position
        if self._succession.successor is None:
            self._tell()

    def _tell(self) -> None:
        self._note_terms()
        for listener in self._listeners:
            listener()

    def _note_terms(self) -> None:
        self._freshness.fence_ms = self._shown.fence_ms

    def _go_on(self) -> None:
        """What could not be folded has been voided."""
        if self._hopes and self._reader.search is None:
            self._hopes, self._stopped = False, None
            _LOGGER.info("The projector goes on from position %d: what stopped it is voided.", self.meta.position)

    def _stop(self, reason: str) -> None:
        if reason != self._stopped:
            _LOGGER.error("The projector stops at position %d: %s", self.meta.position, reason)
        self._stopped = reason
        self._freshness.lose()
