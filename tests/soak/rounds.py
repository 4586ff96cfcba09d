"""One round: its faults, the healing, the way to rest, and the verdict over all that has happened on its stage."""

import contextlib
import logging
import random
import signal
import threading
import time
from collections.abc import Callable

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.soak.history import History, Rule, Violation
from tests.soak.judge import judge
from tests.soak.operations import AnyLine, DiaryReader, Held, Read, Stood, Told
from tests.soak.proxy import Way
from tests.soak.schedule import Fault, Kind, Target, moments, plan
from tests.soak.stage import CLIENTS, COORDINATORS, FENCE_MS, MARGIN_MS, PROJECTOR, Stage

from topolog.events.errors import Unreachable
from topolog.events.kafka import KafkaWriter
from topolog.events.leases import members
from topolog.events.topics import Topic, topic_name

REST_LIMIT_S = 60.0
"""Some seconds as a rule: a killed node's lease, a broker's start; more on a machine that does other things too."""

NS_PER_S = 1_000_000_000
LOOK_AGAIN_S = 0.1
WAYS = {Kind.HOLD: tuple(Way), Kind.HOLD_OUT: (Way.TO_BROKER,), Kind.HOLD_IN: (Way.TO_CLIENT,)}

Undo = Callable[[], None]


class Ended(msgspec.Struct, frozen=True):
    """What became of a round. `waited_for` is what rest was waiting for last, `operations` counts the proposals, reads
    and lease checks that were judged for the first time."""

    seed: int
    faults: tuple[Fault, ...]
    left_out: tuple[Fault, ...]
    seconds: float
    waited_for: str
    operations: int
    violations: tuple[Violation, ...]


class Rounds:
    """Rounds on one stage, one after the other; the history that is judged is that of all of them."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._lines: list[AnyLine] = []
        self._diaries = [DiaryReader(stage.folder / f"{name}.jsonl") for name in CLIENTS]
        self._writer = KafkaWriter(stage.kafka, stage.cluster)
        self._admin = AdminClient({**stage.kafka}, logger=logging.getLogger("tests.soak"))
        self._pause = threading.Event()
        self._waited_for = ""

    def close(self) -> None:
        self._writer.close()

    def settle(self) -> list[Violation]:
        """Wait until everything that was started is there."""
        return self._rest(time.monotonic_ns())

    def play(self, seed: int, faults: tuple[Fault, ...] | None = None) -> Ended:
        """The round of this seed, or of these faults."""
        faults = plan(seed) if faults is None else faults
        began_s = time.monotonic()
        known = len(self._lines)
        self._stage.quiet.unlink(missing_ok=True)
        left_out = self._torment(faults, began_s, random.Random(seed))
        found = self._stage.heal()
        self._stage.quiet.touch()
        found += self._rest(time.monotonic_ns())
        found += self._judge(at_rest=not found)
        seconds = time.monotonic() - began_s
        counted = sum(isinstance(line, Held | Read | Told) for line in self._lines[known:])
        return Ended(seed, faults, left_out, seconds, self._waited_for, counted, tuple(found))

    def _torment(self, faults: tuple[Fault, ...], began_s: float, chance: random.Random) -> tuple[Fault, ...]:
        """Let each fault begin and end in its time; those are returned that could not be made here."""
        undos: dict[int, Undo] = {}
        left_out: list[Fault] = []
        for at_ms, begins, fault in moments(faults):
            self._pause.wait(max(0.0, began_s + at_ms / 1000 - time.monotonic()))
            if not begins:
                undos.pop(id(fault), _nothing)()
            elif (undo := self._begin(fault, chance)) is not None:
                undos[id(fault)] = undo
            else:
                left_out.append(fault)
        return tuple(left_out)

    def _begin(self, fault: Fault, chance: random.Random) -> Undo | None:
        """Do it; how to undo it, None if it cannot be done here."""
        if fault.kind is Kind.FOREIGN:
            return self._write_foreign(chance)
        if fault.target in (Target.BROKER, Target.BROKER_LEADER):
            return self._hurt_broker(fault)
        return self._hurt(fault, self._name(fault))

    def _hurt(self, fault: Fault, name: str) -> Undo | None:
        stage, child = self._stage, self._stage.children[name]
        match fault.kind:
            case Kind.KILL:
                stage.kill(name)
                return lambda: stage.start(name)
            case Kind.RESTART:
                stage.restart(name)
                return _nothing
            case Kind.PAUSE:
                child.send(signal.SIGSTOP)
                return lambda: child.send(signal.SIGCONT)
            case Kind.CLOCK:
                if name not in stage.clocks:
                    return None
                stage.clocks[name].step(fault.size)
                return lambda: stage.clocks[name].step(0)
            case Kind.CUT:
                stage.network.cut(name)
            case Kind.DELAY:
                stage.network.delay(name, fault.size)
            case Kind.ZOMBIE:
                stage.network.hold(name, Way.TO_BROKER)
            case kind:
                stage.network.hold(name, *WAYS[kind])
        return lambda: stage.network.restore(name)

    def _hurt_broker(self, fault: Fault) -> Undo:
        stage, index = self._stage, self._broker(fault)
        if fault.kind is Kind.KILL:
            stage.kill_broker(index)
            return lambda: stage.start_broker(index)
        stage.signal_broker(index, signal.SIGSTOP)
        return lambda: stage.signal_broker(index, signal.SIGCONT)

    def _name(self, fault: Fault) -> str:
        leader = self._stage.audit.leader() or COORDINATORS[fault.which % 2]
        match fault.target:
            case Target.LEADER:
                return leader
            case Target.STAND_BY:
                return next(name for name in COORDINATORS if name != leader)
            case Target.NODE:
                return CLIENTS[fault.which % len(CLIENTS)]
            case _:
                return PROJECTOR

    def _broker(self, fault: Fault) -> int:
        """Any node, or the one that leads the partition of `decisions`, as far as anybody can say now."""
        if fault.target is Target.BROKER_LEADER:
            topic = topic_name(self._stage.cluster, Topic.DECISIONS)
            with contextlib.suppress(KafkaException, KeyError):
                leader: int = self._admin.list_topics(topic, timeout=1).topics[topic].partitions[0].leader
                if leader > 0:
                    return leader - 1
        return fault.which % len(self._stage.brokers)

    def _write_foreign(self, chance: random.Random) -> Undo:
        """Noise on every topic, and records that were there before, once more: stamped, keyed and all."""
        stage = self._stage
        with stage.audit.lock:
            earlier = chance.sample(stage.audit.recent, min(12, len(stage.audit.recent)))
        with contextlib.suppress(Unreachable):
            for topic in Topic:
                self._writer.append(topic, "noise", chance.randbytes(chance.randrange(300)))
                stamped = (("topolog-stamp", chance.randbytes(90)), ("theirs", b"x"))
                self._writer.append(topic, stage.cluster, chance.randbytes(40), stamped)
            for entry in earlier:
                self._writer.append(entry.topic, entry.key or "", entry.value, entry.headers)
            self._writer.flush(0.5)
        return _nothing

    def _rest(self, healed_ns: int) -> list[Violation]:
        """Wait until the cluster is at rest; one violation if it does not come to rest."""
        deadline = time.monotonic() + REST_LIMIT_S
        found: list[Violation] = []
        while unrest := self._unrest(healed_ns):
            self._waited_for = unrest
            if time.monotonic() > deadline:
                return [*found, Violation(Rule.REST, f"after {REST_LIMIT_S:g} s: {unrest}")]
            found += self._stage.mend()
            if found or self._stage.audit.violations:
                return found
            self._pause.wait(LOOK_AGAIN_S)
        return found

    def _unrest(self, healed_ns: int) -> str:
        """Why the cluster is not at rest; nothing if everybody serves again and knows all there is."""
        for diary in self._diaries:
            self._lines += diary.read()
        audit = self._stage.audit
        if dead := [name for name, child in self._stage.children.items() if not child.is_alive]:
            return f"{', '.join(dead)} do not run"
        if time.monotonic_ns() - audit.seen_ns > NS_PER_S:
            return "nobody decides"
        if unrest := audit.unrest(set(CLIENTS)):
            return unrest
        if behind := self._behind(healed_ns):
            return f"{', '.join(behind)} hold no lease yet"
        position, state_hash = self._stage.projected()
        if position < max(0, audit.position() - 10):
            return f"the projector stands at {position}, the log at {audit.position()}"
        if (read := audit.position()) < (known := max(position, self._known())):
            return f"the auditor stands at {read}, somebody knows of {known}"
        self._lines.append(Stood(PROJECTOR, 0, time.monotonic_ns(), position=position, state_hash=state_hash))
        return ""

    def _known(self) -> int:
        """The highest position that any client knows of."""
        return max((line.position for line in self._lines if isinstance(line, Held | Stood | Told)), default=0)

    def _behind(self, healed_ns: int) -> list[str]:
        with self._stage.audit.lock:
            current: dict[str, int] = {row.node: row.incarnation for row in members(self._stage.audit.state)}
        holding = {
            line.client
            for line in self._lines
            if isinstance(line, Held) and line.at_ns > healed_ns and current.get(line.client) == line.incarnation
        }
        return sorted(set(CLIENTS) - holding)

    def _judge(self, *, at_rest: bool) -> list[Violation]:
        audit = self._stage.audit
        with audit.lock:
            history = History(
                fence_ms=FENCE_MS,
                margin_ms=MARGIN_MS,
                decided=tuple(audit.decided),
                requests=dict(audit.requests),
                digests=dict(audit.digests),
                released_ms=dict(audit.released_ms),
                certified_ms=dict(audit.certified_ms),
                state_hashes=dict(audit.state_hashes),
                lines=self._lines,
                kills=self._stage.kills,
            )
            return [*audit.violations, *judge(history, at_rest=at_rest)]


def _nothing() -> None:
    """For faults that are over by themselves."""
