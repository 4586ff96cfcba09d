"""The coordinator's loop: a core on a real log and a real clock.

One thread reads all topics with one reader, handles everything that is there, appends what was decided, and only then
waits again. Time enters here and nowhere else: the leader's beat, the silence after which a stand-by takes over, the
timers of deadlines. Every decision about time has the same form: it may be late without harm, never early.
"""

import logging
import math
import random
import secrets
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from functools import partial

import msgspec

from topolog.events.codec import CODEC, Codec
from topolog.events.errors import DamagedStore, Poisoned, TopologError
from topolog.events.failpoints import reach
from topolog.events.fold import Ignored
from topolog.events.ids import NOWHERE, Offset, Position
from topolog.events.log import Entry, LogReader, LogWriter, Partition
from topolog.events.lookahead import LookAhead
from topolog.events.terms import ClusterRow, LogStarted, TermEnded, cluster
from topolog.events.topics import REQUEST_TOPICS, Topic
from topolog.streams.clock import Clock
from topolog.streams.coordinator import places
from topolog.streams.coordinator.core import Core, Outgoing, Role
from topolog.streams.coordinator.deaths import Deaths
from topolog.streams.coordinator.hearing import Hearing, Silence
from topolog.streams.coordinator.letters import Burials
from topolog.streams.coordinator.measures import Measures
from topolog.streams.coordinator.read_backs import ReadBacks
from topolog.streams.coordinator.resuming import Resumption
from topolog.streams.coordinator.snapshots import PAUSE_S, Cadence, Snapshots
from topolog.streams.coordinator.timers import Timers
from topolog.streams.coordinator.tracing import Traces
from topolog.streams.restoring import Restorer
from topolog.streams.rules import exchange
from topolog.streams.rules.exchange import Patience

_LOGGER = logging.getLogger("topolog.coordinator")
_NS_PER_MS = 1_000_000
_DECISIONS: Partition = (Topic.DECISIONS, 0)

UNREAD_MAX = 4096
"""Own records that may be unread before requests wait: deciding further ahead of the broker gains nothing (K6)."""

ANSWER_MS_MAX = 50
"""How long one step decides requests: a batch of big ones must not silence the leader."""

PROMPT_UNREAD_MAX = 2
"""With at most so many own records unread the loop waits a millisecond for the send: lower latency, same load."""

_RETIRE_MS = 5_000


class LeaseTerms(msgspec.Struct, frozen=True):
    """The terms a new log starts with; in a log that exists its own stand."""

    fence_ms: int = 20_000
    margin_ms: int = 5_000
    heartbeat_ms: int = 1_000


class Driver:
    """One coordinator process: leads, or stands by until the leader is silent for `takeover_ms` or retires.

    `terms` are for a log that it founds, `cadence` says when it takes snapshots, `patience` how long exchanges wait.
    `takeover_ms` None means fence_ms x 0.4, plus up to a quarter of that so that stand-bys do not claim at once (K5);
    one that is given goes with the fence of `terms`, and is taken in proportion where another fence is in force.
    `interruptions` says how often the writer has lost the log, and with it what was in flight: behind each nothing is
    appended before the log is proven to be the one that was read (K26).
    """

    def __init__(  # noqa: PLR0913 (keyword settings of one object, each explained above)
        self,
        reader: LogReader,
        writer: LogWriter,
        clock: Clock,
        cluster_name: str,
        instance: str,
        *,
        terms: LeaseTerms = LeaseTerms(),  # noqa: B008 (frozen value)
        takeover_ms: int | None = None,
        cadence: Cadence = Cadence(),  # noqa: B008 (frozen value)
        patience: Patience = Patience(),  # noqa: B008 (frozen value)
        chance: random.Random | None = None,
        codec: Codec = CODEC,
        interruptions: Callable[[], int] = lambda: 0,
    ) -> None:
        self._reader = LookAhead(reader)
        self._heartbeats = Hearing(self._reader, Topic.HEARTBEATS)
        self._maps = Hearing(self._reader, Topic.MAPS)
        self._silence = Silence(self._reader)
        self._writer = writer
        self._clock = clock
        self._cluster = cluster_name
        self.instance = instance
        self._terms = terms
        self._takeover_ms = takeover_ms
        self._cadence = cadence
        self._patience = patience
        self._codec = codec
        self._interruptions = interruptions
        self._proven_at = 0
        self._chance = chance or random.Random(secrets.randbits(64))
        self.life = self._chance.getrandbits(63)
        self._deaths = Deaths()
        self.ignored: Counter[Ignored] = Counter()
        self._burials = Burials(writer)
        self.measures = Measures()
        self._start_over()

    @property
    def role(self) -> Role:
        return self.core.role

    def run(self, stopping: Callable[[], bool]) -> None:
        """Step until `stopping`, then retire in order so that a stand-by leads at once."""
        while not stopping():
            self.step(0.05)
        if self.role is Role.LEADING:
            self.retire()

    @property
    def dead_count(self) -> int:
        return self._burials.count

    @property
    def is_deaf(self) -> bool:
        """Whether it cannot tell who is silent, of members or of leaders: nobody is put out, or followed, meanwhile."""
        hearing = self._heartbeats if self.role is Role.LEADING else self._silence
        return hearing.is_deaf

    @property
    def parked(self) -> int:
        """Requests that are read and not yet decided."""
        return len(self._parked)

    @property
    def waits(self) -> Counter[str]:
        """How many deadlines run, or are to, by what their keys begin with. Any thread may ask."""
        return self._timers.kinds()

    def retire(self) -> None:
        """End the own term and wait, not for long, until its end is read back."""
        self.core.at_ms = self._clock.wall_ms()
        self.core.retire()
        self._append()  # at once: a step waits for records first
        deadline_ns = self._clock.monotonic_ns() + _RETIRE_MS * _NS_PER_MS
        while self.role is Role.RETIRING and self._clock.monotonic_ns() < deadline_ns:
            self.step(0.05)
        reach("coordinator.retired")

    def step(self, timeout_s: float) -> None:
        """Read what is there, waiting up to `timeout_s` for the first record; decide; append."""
        entries = self._reader.poll(0 if self._parked else min(timeout_s, self._pause_s()))
        now_ns = self._clock.monotonic_ns()
        self.measures.note_read(entries, self._reader, now_ns)
        if self._restorer:
            self._restore(self._restorer, entries, now_ns)
            return
        self.core.at_ms = self._clock.wall_ms()
        self._deaths.note(entries)
        inputs = entries if self.core.role is Role.LEADING else []  # a new leader reads them from its own place on
        self._read_decisions([entry for entry in entries if entry.topic is Topic.DECISIONS], now_ns)
        if self.core.role is Role.LEADING:
            self._lead(inputs, now_ns)
        elif self.core.role is Role.FOLLOWING:
            self._stand_by(now_ns)
        self._append()
        if self.core.role is Role.DEPOSED:
            self.measures.depositions += 1
            _LOGGER.warning("%s is deposed in term %d; starting again from the log", self.instance, self._term())
            self._start_over()

    def _start_over(self, *, from_snapshot: bool = True) -> None:
        self.core = Core(self.instance, self.life, self._patience, self._codec)
        self.measures.start_over()
        self._traces = Traces(self._cluster)
        self._timers = Timers()
        self._next = Offset(0)
        self._read_backs = ReadBacks()
        self._parked: deque[Entry] = deque()
        self._founding = False
        self._listens = False
        self._is_proving = False
        self._beaten_ns: int | None = None
        self._led_since = NOWHERE
        self._snapshots: Snapshots | None = None
        now_ns = self._clock.monotonic_ns()
        self.started_from: Position | None = None
        self._restorer: Restorer | None = Restorer(self._reader, now_ns, self._codec) if from_snapshot else None
        if self._restorer:
            self._restore(self._restorer, (), now_ns)
        else:
            self._restart_silence(now_ns)
            self._reader.assign({_DECISIONS: self._next})

    def _restore(self, restorer: Restorer, entries: Sequence[Entry], now_ns: int) -> None:
        """Go on towards the place in the log from which to read; until it is found there is nobody to decide."""
        restored = restorer.step(entries, now_ns)
        self._restart_silence(now_ns)
        if restored:
            self._restorer = None
            self._next, self.started_from = restored.next_offset, restored.position
            if restored.position is not None:
                self.core.begin_from(restored.fold)

    def _term(self) -> int:
        return self.core.confirmed.term

    def _leader(self) -> int:
        """The life that leads, 0 if none does."""
        row = self.core.state.get(ClusterRow, "")
        return row.life if row else 0

    def _read_decisions(self, entries: list[Entry], now_ns: int) -> None:
        for entry in entries:
            self._next = Offset(entry.offset + 1)
            was = self.core.role
            term, leader = self._term(), self._leader()
            try:
                found = self.core.read(entry)
            except Poisoned as poisoned:
                self._reader.look_ahead(self.core.fold, poisoned, entry.offset)
                return
            except DamagedStore as error:
                _LOGGER.warning("%s starts again from the beginning of the log: %s", self.instance, error)
                self._start_over(from_snapshot=False)
                return
            if isinstance(found, Ignored):
                self.ignored[found] += 1
                _LOGGER.info("decisions@%d does not count: %s", entry.offset, found.value)
                continue
            self._reader.counted(entry, self._fence_ms)
            if self._snapshots:
                self._snapshots.note_read_back(entry)
            self._restart_silence(now_ns)
            if found and isinstance(found[-1].event, TermEnded):
                self._silence.end(now_ns)
            if self._term() != term or self.core.role is not was:
                self._deaths.term_is_over(leader)
                _LOGGER.info("%s is %s in term %d", self.instance, self.core.role.value, self._term())
            if was is not Role.LEADING and self.core.role is Role.LEADING:
                self._begin_to_lead(now_ns)
            if self.core.role is Role.DEPOSED:
                return

    # A stand-by.

    def _restart_silence(self, now_ns: int, *, is_heard: bool = True) -> None:
        founding_ms = self._terms.fence_ms
        takeover_ms = max(1, (self._takeover_ms or founding_ms * 2 // 5) * self._fence_ms // founding_ms)
        self._silence.restart(now_ns, takeover_ms, 1 + self._chance.random() / 4, is_heard=is_heard)

    def _stand_by(self, now_ns: int) -> None:
        """Claim the next term once the leader has been silent long enough, as heard by a reader at the log's end."""
        self._is_proving = False
        if not self._reader.at_end(Topic.DECISIONS):
            return
        header = self.core.confirmed
        if header.log_id is None:
            self._found()
        elif header.term == 0 or (header.closed and self._silence.is_over(now_ns)):
            self._claim()
        elif self._leader() in self._deaths:
            self._claim("has died")
        elif not self._listens:
            self._listen()
        elif not self._silence.could_be_broken(now_ns):
            self._restart_silence(now_ns, is_heard=False)
        elif self._silence.is_over(now_ns):
            self._claim("is silent")

    def _claim(self, fault: str = "") -> None:
        """Not before the log is proven to be the one that was read (K26): of a copy that was put back and has grown
        past our place all records are ignored, and whoever led on it by an older state would end every reader."""
        self._is_proving = not self._reader.proven()
        if self._is_proving:
            return
        if fault:
            _LOGGER.warning("the leader of term %d %s; %s claims the next", self._term(), fault, self.instance)
        reach("coordinator.claiming")
        self.core.claim()

    def _listen(self) -> None:
        """Read heartbeats too, for the death certificate of whoever leads, and for nothing else.

        From where the leader had read them: its own certificate stands behind, however long ago it was written.
        """
        self._listens = True
        heartbeats = {place: at for place, at in self.core.resume_at().items() if place[0] is Topic.HEARTBEATS}
        self._reader.assign({_DECISIONS: self._next, **heartbeats})

    def _found(self) -> None:
        if not self._founding:
            self._founding = True
            terms = self._terms
            log_id = self._chance.randbytes(16)
            leases = (terms.fence_ms, terms.margin_ms, terms.heartbeat_ms)
            self.core.found(LogStarted(log_id, self._cluster, *leases, self._codec.newest_level))
            reach("coordinator.founding")

    # A leader.

    def _begin_to_lead(self, now_ns: int) -> None:
        self._heartbeats.begin(now_ns)
        self._maps.begin(now_ns)
        self._led_since = self.core.confirmed.position
        self.measures.take_overs += 1
        self._snapshots = Snapshots(self.core, self._writer, self._clock, self._cluster, self._cadence)
        reach("coordinator.elected")
        self._resume()
        reach("coordinator.resumed")

    def _resume(self, remade: Collection[Partition] = ()) -> None:
        if remade:
            _LOGGER.warning("made anew since they were read: %s", sorted({topic.short_name for topic, _ in remade}))
        self._resumption = Resumption(self.core.resume_at(), self.core.confirmed.inputs, remade)
        self._reader.assign({_DECISIONS: self._next, **self._resumption.starts})

    def _lead(self, read: list[Entry], now_ns: int) -> None:
        if (entries := self._resumption.take(read)) is None or self._resumption.misses(self._reader.at_end):
            self._resume(self._resumption.remade)
            return
        for entry in entries:
            if entry.topic is Topic.HEARTBEATS:
                self.core.hear(entry)
                places.heard_beat(self.core)
            elif entry.topic is Topic.MAPS:
                self.core.hear_map(entry)
                places.heard_map(self.core, entry, self._led_since)
        self._answer([entry for entry in entries if entry.topic in REQUEST_TOPICS])
        self._pass_time(now_ns)
        self.core.settle()
        if self._beaten_ns is None or now_ns - self._beaten_ns >= self._fence_ms * _NS_PER_MS // 4:
            self.core.renew()
            self._beaten_ns = now_ns
        if self._snapshots:
            self._snapshots.step()

    def _pause_s(self) -> float:
        """How long a step may wait for records: not for long where something else is waited for."""
        is_awaiting = self._is_proving or (self._snapshots is not None and self._snapshots.is_under_way)
        return PAUSE_S if is_awaiting else math.inf

    def _answer(self, requests: list[Entry]) -> None:
        """Decide requests in order; heartbeats and the leader's beat never wait for more than a few of them (K15).

        Those that are left over, because the time is up or too much of our own is unread, come first next time.
        """
        if requests:
            reach("coordinator.asked")
        self._parked.extend(requests)
        until_ns = self._clock.monotonic_ns() + ANSWER_MS_MAX * _NS_PER_MS
        while self._parked and self.core.unread < UNREAD_MAX and self._clock.monotonic_ns() <= until_ns:
            request, known = self._parked.popleft(), len(self.core.decided)
            with self._traces.asked(self.core, request):
                self.core.ask(request)
            self.measures.note_asked(request, self.core.decided[known:], self._clock.wall_ms())
        if requests:
            reach("coordinator.decided")

    def _pass_time(self, now_ns: int) -> None:
        hearing, hears_maps = self._hears(now_ns)
        self._timers.change(self.core.agenda.drain().items())
        if hearing:
            for key in self._timers.pass_time(now_ns, self.core.confirmed.position):
                if hears_maps or not exchange.may_stop_a_server(key):
                    self.core.pass_deadline(key)
        self._note_read_back(now_ns)
        waited_through = self._read_backs.pass_time(now_ns)
        if hearing:
            self.core.agenda.waited_through = waited_through

    def _note_read_back(self, now_ns: int) -> None:
        """By the terms of what is decided: it knows of each change that was read back, and forgets only what a wait of
        its own has proved to be over."""
        self._read_backs.note(now_ns, self.core.confirmed.position, cluster(self.core.state).proceed_ms)

    def _hears(self, now_ns: int) -> tuple[bool, bool]:
        """Whether silence counts now: that of heartbeats, and that of single maps while somebody owes one.

        After a stall, unread input or an unreachable log the waits start again; nobody is stuck whom we cannot hear.
        """
        limit_ns = self._fence_ms * _NS_PER_MS // 4
        if not self.core.agenda.waits_for_maps:
            self._maps.begin(now_ns)
        heartbeats = self._heartbeats.listen(now_ns, limit_ns, self.core.interrupt_hearing)
        return heartbeats, self._maps.listen(now_ns, limit_ns, self.core.interrupt_maps)

    # Both.

    def _append(self) -> None:
        if (self.core.outbox or self.core.dead) and not self._finds_its_log():
            return
        dead, self.core.dead = self.core.dead, []
        self._burials.bury(dead)
        outbox, self.core.outbox = self.core.outbox, []
        decided, self.core.decided = self.core.decided, []
        self.measures.note_decided(decided, self.core.ahead.position, self._clock.monotonic_ns())
        if outbox:
            self._send(outbox)
            reach("coordinator.appended")
            if self.core.unread <= PROMPT_UNREAD_MAX:
                self._writer.flush(0.001)
        self._writer.serve()

    def _finds_its_log(self) -> bool:
        """Whether what is appended goes where this one has read, as far as anybody can know: an unbroken connection
        leads to the broker that was there before. Of another copy even its own records would be the end (K26)."""
        self._writer.serve()
        lost = self._interruptions()
        self._is_proving = lost != self._proven_at and not self._reader.proven()
        if not self._is_proving:
            self._proven_at = lost
        return not self._is_proving

    def _send(self, outbox: list[Outgoing]) -> None:
        on_delivery = partial(self._on_delivery, self.core)
        for some in places.sets_of(outbox):
            for index, outgoing in enumerate(some):
                places.come_to(some, index)
                headers = self._traces.headers(outgoing)
                self._writer.append(Topic.DECISIONS, self._cluster, outgoing.value, headers, on_delivery)
            places.leave(some)

    def _on_delivery(self, sender: Core, error: TopologError | None, _: Offset | None) -> None:
        """`sender` may be a core that was deposed long ago: its late failures say nothing of the present one."""
        if error is not None and sender.role is not Role.DEPOSED:
            _LOGGER.error("an append failed for good: %s", error)
            sender.depose()
        elif error is None:
            reach("coordinator.delivered")

    @property
    def _fence_ms(self) -> int:
        """The smallest fence in force: by it is measured how often a leader must be heard of, and must have heard."""
        if self.core.confirmed.log_id is None:
            return self._terms.fence_ms
        return cluster(self.core.state).fence_min_ms
