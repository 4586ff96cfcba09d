"""Keeps a store: has what was ordered done beside the projector, and notices what has to be.

Threats. The process is killed between an order and its end, or what does it is; two orders at once; a disk that damages
whatever is written; what is built is refused.

Invariant. An order holds from the moment it is answered until it is carried out, given up with a reason, or cancelled,
and is carried out once.

Argument. It is on the disk before it is answered (`orders.py`), and what is made for it carries its id: who starts
behind a crash sees whether the store that is shown is the one that was wanted. What builds goes on where it was; one
that ends for a passing reason, or dies, is begun again after a pause that grows, and one that dies again and again
without coming further is given up. What was cancelled is shown to nobody, for it is cancelled under the same lock under
which the projector claims what is offered, and withdrawn before the next claim and before the next order.
"""

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from topolog.events.errors import Refused
from topolog.events.failpoints import reach
from topolog.projections import generations
from topolog.projections.store import Store
from topolog.projections.upkeep.about import about
from topolog.projections.upkeep.orders import Action, Damage, Orders, Refusal, UpkeepOrder, UpkeepStatus
from topolog.projections.upkeep.tasks import Build, Failed, Offered, Phase, Progress, Scrub, Scrubbed
from topolog.projections.upkeep.workshop import Work, Workshop

MENDS_MAX = 3
"""A store that is built anew for damage more often than this in one process life has a bad disk."""

_DEATHS_MAX = 5
_EXPIRY_EVERY_S = 60.0
_PAUSE_MIN_S = 1.0
_PAUSE_MAX_S = 30.0
_ROOM = 1.2
"""So many times what is shown must be free on the disk, for another one."""

_BY_ITSELF = "topolog"
_LOGGER = logging.getLogger(__name__)


class Terms(msgspec.Struct, frozen=True):
    """How a store is kept: for how long the former one is, every how many seconds all of it is read (0: never), and at
    most how fast."""

    former_kept_ms: int = 0
    scrub_every_ms: int = 0
    scrub_bytes_per_s: float = 8e6


TERMS = Terms()


class Keeper:
    """`workshop` None: nothing is done beside, and of damage it is only said that it is there. The projector's thread
    calls what is marked so, any thread the rest."""

    def __init__(
        self,
        folder: Path,
        cluster: str,
        workshop: Workshop | None,
        terms: Terms,
        now_s: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self.terms = terms
        self.folder = folder
        self._cluster = cluster
        self._workshop = workshop
        self._now_s = now_s
        self._wall_ms = wall_ms
        self._orders = Orders(folder)
        self._build: Work | None = None
        self._scrub: Work | None = None
        self._is_offered = False
        self._is_tidy = False
        self._deaths = self._mends = 0
        self._again_at_s = self._scrub_again_at_s = self._expires_at_s = 0.0
        self._scrubs_from_ms = wall_ms()
        self.progress: Progress | None = None
        self.scrub_progress: Progress | None = None
        self.waits_for = ""

    @property
    def can_build(self) -> bool:
        return self._workshop is not None

    @property
    def keeps_former(self) -> bool:
        return self.terms.former_kept_ms > 0

    @property
    def status(self) -> UpkeepStatus:
        return self._orders.status

    @property
    def phase(self) -> Phase | None:
        """How far the order is, None if there is none."""
        if self.status.wanted is None:
            return None
        if self._is_offered:
            return Phase.OFFERED
        if self.waits_for:
            return Phase.WAITING
        return self.progress.phase if self.progress else Phase.FOLDING

    def act(self, order: UpkeepOrder, shown: Store, *, reads_former: bool) -> None:
        """Have the order hold; raises Refused if it makes no sense now. What it takes is done in its time.

        `reads_former`: a reading of the store that was shown before is still open.
        """
        with self._orders.changing:
            self._drop_cancelled()
            self._check(order, shown)
            match order.action:
                case Action.REBUILD | Action.BACK:
                    self._orders.change(wanted=order, refused=None)
                    self._forget_progress()
                case Action.CANCEL:
                    is_own = self.status.wanted is not None and self.status.wanted.by == _BY_ITSELF
                    self._orders.change(wanted=None)
                    if is_own:  # what it began by itself it does not begin again
                        self._mends = MENDS_MAX
                case Action.PAUSE:
                    self._orders.change(paused=self.status.paused or order)
                case Action.RESUME:
                    self._orders.change(paused=None)
                case Action.DROP_FORMER:
                    self._drop_former(reads_former=reads_former)
                case Action.SCRUB:
                    self._orders.change(scrub=self.status.scrub or order)
            reach("projector.ordered")
        _LOGGER.info("%s asks the projector of %s to %s: %s", order.by, self._cluster, order.action, order.reason)

    def look(self, shown: Store, *, reads_former: bool) -> None:
        """The projector's thread, between two looks at the log: carry on what is wanted."""
        with self._orders.changing:
            self._mend(shown)
            self._tend_build(shown, reads_former=reads_former)
            self._tend_scrub(shown)
            if not reads_former and self._now_s() >= self._expires_at_s:
                self._expires_at_s = self._now_s() + _EXPIRY_EVERY_S
                self._expire_former()

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """The projector's thread: it takes up what is offered, which nobody cancels meanwhile or has cancelled."""
        with self._orders.changing:
            self._drop_cancelled()
            yield

    def succeeded(self, shown: Store) -> None:
        """The projector's thread: another store is shown."""
        with self._orders.changing:
            self._is_offered = False  # also if the disk is full: then `look` finds that it is done
            self._orders.change(damage=None)
            self._check_done(shown)

    def turned_down(self, why: str) -> None:
        """The projector's thread: what was offered is refused, and gone."""
        with self._orders.changing:
            if self._is_offered and self.status.wanted is not None:
                self._is_offered = False  # also if the disk is full: then it is built once more
                self._give_up(why)

    def note_damage(self, shown: Store, why: str) -> None:
        """The projector's thread: something of the shown store cannot be read. Another one is to take its place."""
        with self._orders.changing:
            if self.status.damage is None or self.status.damage.store != shown.path.name:
                _LOGGER.error("The store %s is damaged: %s", shown.path.name, why)
                self._orders.change(damage=Damage(shown.path.name, why, self._wall_ms()))
            self._mend(shown)

    def close(self) -> None:
        """Nothing is done any more; what is ordered holds for whoever starts next."""
        for work in (self._build, self._scrub):
            if work is not None:
                work.stop()
        self._build = self._scrub = None

    # What is built.

    def _mend(self, shown: Store) -> None:
        """Want another store in the place of one that is damaged."""
        damage = self.status.damage
        if damage is None or damage.store != shown.path.name or self._mends >= MENDS_MAX:
            return
        if self.status.wanted is None and self._now_s() >= self._again_at_s and self.can_build:
            self._mends += 1
            self._orders.change(wanted=self._own_order(Action.REBUILD, damage.why), refused=None)
            self._forget_progress()

    def _tend_build(self, shown: Store, *, reads_former: bool) -> None:
        wanted = self.status.wanted
        if wanted is None or self._workshop is None:
            self._tidy_up()
        elif self._build is not None:
            self._hear_of_build(self._build)
        elif not self._is_offered and self._now_s() >= self._again_at_s and not self._check_done(shown):
            try:
                self._begin_build(self._workshop, wanted, reads_former=reads_former)
            except OSError as error:  # no process, no memory or no room for it: there may be in a while
                self._fail(Failed("not_begun", f"It cannot be begun: {error}.", is_passing=True))

    def _drop_cancelled(self) -> None:
        if self.status.wanted is None:
            self._tidy_up()

    def _tidy_up(self) -> None:
        """What was built and is wanted no more goes, or back to where it was."""
        if self._is_tidy:
            return
        self._is_tidy = True
        self._end_build()
        offered = generations.offered_path(self.folder)
        if offered is not None and about(offered).order:
            generations.withdraw(self.folder)
        else:
            generations.dismiss(self.folder)
        self._forget_progress(is_tidy=True)

    def _begin_build(self, workshop: Workshop, wanted: UpkeepOrder, *, reads_former: bool) -> None:
        self._is_tidy = False
        if generations.is_pending(self.folder):  # by a process before this one, or it is somebody else's
            offered = generations.offered_path(self.folder)
            self._is_offered = offered is None or about(offered).order == wanted.id
            return
        if wanted.action is Action.BACK and not generations.is_recalled(self.folder):
            if reads_former:
                return
            if not generations.recall(self.folder):
                self._give_up("The former store is gone.")
                return
            reach("projector.recalled")
        self._build = workshop.begin(Build(self.folder, self._cluster, wanted.id, wanted.reason, wanted.rate))

    def _hear_of_build(self, work: Work) -> None:
        is_over, reports = work.is_over(), work.reports()
        for report in reports:
            match report:
                case Progress():
                    if self.progress is None or report.done > self.progress.done:
                        self._deaths, self.waits_for = 0, ""
                    self.progress = report
                case Offered():
                    self._is_offered, self.waits_for = generations.is_pending(self.folder), ""
                case Failed():
                    self._fail(report)
        if is_over and self._build is work:
            self._build = None
            if not self._is_offered and not any(isinstance(report, Failed | Offered) for report in reports):
                self._fail(Failed("died", "What builds it has ended by itself.", is_passing=self._deaths < _DEATHS_MAX))

    def _fail(self, failed: Failed) -> None:
        self._build = None
        if not failed.is_passing:
            self._give_up(failed.message)
            return
        self._deaths += 1
        self.waits_for = failed.message
        self._again_at_s = self._now_s() + min(_PAUSE_MAX_S, _PAUSE_MIN_S * 2 ** (self._deaths - 1))
        _LOGGER.warning("What is built beside the store is tried again: %s", failed.message)

    def _give_up(self, why: str) -> None:
        wanted = self.status.wanted
        assert wanted is not None
        _LOGGER.error("The %s of the store comes to nothing: %s", wanted.action, why)
        self._orders.change(wanted=None, refused=Refusal(wanted, why, self._wall_ms()))
        self._is_tidy = False
        self._tidy_up()
        self._again_at_s = self._now_s() + _PAUSE_MAX_S

    def _check_done(self, shown: Store) -> bool:
        """Whether the store that is shown is the one that is wanted; then it is wanted no more."""
        wanted = self.status.wanted
        if wanted is None or about(shown.path).order != wanted.id:
            self._is_offered = False
            return wanted is None
        self._orders.change(wanted=None, refused=None)
        _LOGGER.info("The %s of the store of %s is done: %s is shown.", wanted.action, self._cluster, shown.path.name)
        self._end_build()
        self._forget_progress(is_tidy=True)
        return True

    def _end_build(self) -> None:
        if self._build is not None:
            self._build.stop()
            self._build = None

    def _forget_progress(self, *, is_tidy: bool = False) -> None:
        self.progress, self.waits_for, self._is_offered, self._is_tidy = None, "", False, is_tidy
        self._deaths, self._again_at_s = 0, 0.0

    # What is read through.

    def _tend_scrub(self, shown: Store) -> None:
        if self._scrub is not None:
            self._hear_of_scrub(self._scrub, shown)
        elif self._workshop is not None and self._is_scrub_due():
            try:
                self._scrub = self._workshop.begin(Scrub(shown.path, self.terms.scrub_bytes_per_s))
            except OSError as error:
                _LOGGER.warning("The store is not read through now, which cannot be begun: %s", error)
                self._scrub_again_at_s = self._now_s() + _PAUSE_MAX_S

    def _is_scrub_due(self) -> bool:
        if self._build is not None or self._now_s() < self._scrub_again_at_s:
            return False
        if self.status.scrub is not None:
            return True
        last_ms = self.status.scrubbed.ended_ms if self.status.scrubbed else self._scrubs_from_ms
        return 0 < self.terms.scrub_every_ms <= self._wall_ms() - last_ms

    def _hear_of_scrub(self, work: Work, shown: Store) -> None:
        is_over = work.is_over()
        for report in work.reports():
            match report:
                case Progress():
                    self.scrub_progress = report
                case Scrubbed():
                    ended = msgspec.structs.replace(report, ended_ms=self._wall_ms())
                    self._orders.change(scrub=None, scrubbed=ended)
                    if report.findings and report.store == shown.path.name:
                        self.note_damage(shown, "; ".join(f"{each.place}: {each.what}" for each in report.findings[:3]))
                case Failed():
                    _LOGGER.warning("The store was not read through: %s", report.message)
        if is_over:
            self._scrub = self.scrub_progress = None
            self._scrub_again_at_s = self._now_s() + _PAUSE_MAX_S

    # Orders.

    def _check(self, order: UpkeepOrder, shown: Store) -> None:
        if order.action in (Action.REBUILD, Action.BACK, Action.SCRUB) and self._workshop is None:
            raise Refused("NOT_HERE", "", "This process does nothing beside projecting.")
        wanted = self.status.wanted
        if order.action in (Action.REBUILD, Action.BACK):
            if wanted is not None:
                raise Refused(
                    "ALREADY_WANTED",
                    "",
                    f"A {wanted.action} is under way: {wanted.reason}",
                    {"since_ms": str(wanted.at_ms), "by": wanted.by},
                    hint="Wait for it, or cancel it first.",
                )
            if order.action is Action.BACK:
                self._surely_former()
            else:
                self._check_room(shown)
        if order.action is Action.CANCEL and wanted is None:
            raise Refused("NOTHING_TO_CANCEL", "", "Nothing is being built.")
        if order.action is Action.CANCEL and generations.is_taken(self.folder):
            raise Refused("TOO_LATE", "", "It is just being taken over.", hint="`back` undoes it.")

    def _check_room(self, shown: Store) -> None:
        needed, free = round(_ROOM * bytes_of(shown.path)), shutil.disk_usage(self.folder).free
        if free < needed:
            raise Refused(
                "NO_ROOM",
                "",
                f"Another store needs some {needed >> 20} MiB, and {free >> 20} MiB are free.",
                {"needed_bytes": str(needed), "free_bytes": str(free)},
                hint="`drop-former` removes the store of before, if one is kept.",
            )

    def _surely_former(self) -> Path:
        former = generations.former_path(self.folder)
        if former is None:
            raise Refused("NO_FORMER", "", "No former store is kept.")
        return former

    def _drop_former(self, *, reads_former: bool) -> None:
        former = generations.former_path(self.folder)
        gone = [*([former] if former else []), *generations.damaged_paths(self.folder)]
        if not gone:
            raise Refused("NO_FORMER", "", "No former store is kept, and none was set aside.")
        if reads_former:
            raise Refused("IN_USE", "", "Somebody still reads the former store.", hint="Try again in a moment.")
        for path in gone:
            shutil.rmtree(path, ignore_errors=True)

    def _expire_former(self) -> None:
        former = generations.former_path(self.folder)
        since_ms = about(former).replaced_ms if former else 0
        if former and since_ms and self._wall_ms() - since_ms >= self.terms.former_kept_ms:
            _LOGGER.info("Removing %s, which was kept for a way back.", former)
            shutil.rmtree(former, ignore_errors=True)

    def _own_order(self, action: Action, why: str) -> UpkeepOrder:
        at_ms = self._wall_ms()
        return UpkeepOrder(f"{_BY_ITSELF}-{at_ms}", action, _BY_ITSELF, why, at_ms)


def bytes_of(store: Path) -> int:
    """What a store takes on the disk."""
    total = 0
    for path in store.glob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # RocksDB has just removed it
            continue
    return total
