"""One of many nodes dies at a million partitions: from its certificate to the set that names who acts.

    python -m tests.benchmarks.large_exchange [--groups 16] [--partitions 65000] [--nodes 300] [--deaths 5] [--profile]

The coordinator's real core and rules in memory, without a broker: measured is what stands between the word that a node
has died, or the end of its lease, and the records that go to the log; before that, what a stand-by that has read it all
takes to lead. Behind the first death the cluster has loads to do, so at the next ones all others are asked for their
maps; then a node joins. Beside that, what these sets cost their readers: a node whose service hears of every change,
and a projector with its store on this disk.
"""

import argparse
import cProfile
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.benchmarks.told import add_json, spread, tell
from tests.unit.projections.chronicle import LOG_ID, SECRET, Chronicle

from topolog.events import membership as m
from topolog.events import ownership
from topolog.events.asked import RequestId
from topolog.events.awaited import Asked
from topolog.events.changes import pack_changes
from topolog.events.codec import CODEC, Record
from topolog.events.exchange import ExchangeCompleted, ExchangeStarted, FullPartitionMap, open_exchange, queued
from topolog.events.fold import Ignored
from topolog.events.group_definition import Affinity, GroupDefinition
from topolog.events.groups import GroupCreated, GroupRow
from topolog.events.ids import Incarnation, NodeId, Offset, TopologyVersion
from topolog.events.leases import FENCING, NodeKind, NodeRow
from topolog.events.log import Entry
from topolog.events.ownership import Change, Copy
from topolog.events.partitions import PartitionState, codes_of, encode_codes
from topolog.events.single_maps import Copies, NodeMap, split_map
from topolog.events.stamp import HEADER_NAME
from topolog.events.terms import cluster
from topolog.events.topics import Topic
from topolog.projections.projector import Projector
from topolog.streams.coordinator.core import Core
from topolog.streams.node.core import NodeCore
from topolog.streams.node.hooks import Hooks
from topolog.streams.rules.affinity import Candidate, Placement, ideal

GOAL_MS = 150
TAKE_OVER = "a stand-by takes over: its claim read back, the first decision encoded (goal 250)"
CHANGES_AT_ONCE = 40_000
CAPABILITIES = (FENCING,)
STRANGER = "stranger"
"""A member that holds nothing and hangs: it never answers."""


def written(groups: int, partitions: int, nodes: int, backups: int) -> Chronicle:
    """A log in which all groups are shared out as the affinity wants them."""
    chronicle = Chronicle(pace_ms=10).start()
    names = tuple(f"n{number:03d}" for number in range(nodes))
    for name in names:
        chronicle.join(name, renewed=False)
    stranger = m.Joiner(STRANGER, 1, NodeKind.SERVER, "", {"rack": "r2"}, CAPABILITIES)
    row = cluster(chronicle.fold.state)
    view = TopologyVersion(row.topology_version.major + 1, 0)
    chronicle.decide(m.NodeJoined(chronicle.ref(STRANGER), stranger, row.next_slot, view))
    candidates = [Candidate(NodeId(name)) for name in names]
    wanted = ideal(candidates, Placement(partitions=partitions, backups=backups)).tolist()
    laid_out = [Change(each, tuple(map(_owned, held)), held[0]) for each, held in enumerate(wanted)]
    packed = [pack_changes(laid_out[at : at + CHANGES_AT_ONCE]) for at in range(0, partitions, CHANGES_AT_ONCE)]
    for group in range(groups):
        view = cluster(chronicle.fold.state).topology_version
        definition = GroupDefinition(f"g{group:03d}", partitions, backups, Affinity(node_filter={"rack": "r1"}))
        chronicle.decide(
            GroupCreated(chronicle.ref(), group + 1, definition, TopologyVersion(view.major, view.minor + 1))
        )
        triggers = queued(chronicle.fold.state)
        chronicle.decide(
            ExchangeStarted(triggers, (), Offset(0), 0),
            *(FullPartitionMap(definition.name, () if group else names, each) for each in packed),
            ExchangeCompleted(triggers[-1].version, (), ()),
        )
    return chronicle


def _owned(node: int) -> Copy:
    return Copy(node, PartitionState.OWNING, wanted=True)


class Site:
    """A leading core whose records are in the log as soon as they are made, and are read back."""

    def __init__(self, chronicle: Chronicle) -> None:
        self.log = chronicle.log
        self.core = Core("c2", 1)
        self._read = 0
        self._heard = 0
        self._sequence = 0
        self._read_on()

    def take_over(self) -> None:
        """From the claim of a stand-by that has read all there is to the first decision of its term."""
        self.core.claim()
        self.land()
        self.core.settle()
        self.core.renew()

    def die(self, node: str) -> None:
        row = self.core.state.get(NodeRow, node)
        assert row is not None
        self.core.hear(self._entry(Topic.HEARTBEATS, node, m.NodeDied(row.node, row.incarnation, SECRET)))
        self.core.settle()

    def join(self, node: str) -> None:
        joiner = m.Joiner(node, 1, NodeKind.SERVER, f"http://{node}", {"rack": "r1"}, CAPABILITIES)
        request = m.JoinRequested(RequestId(f"bench-{node}", 1), LOG_ID, node, "", joiner)
        self.core.ask(self._entry(Topic.OPERATIONS, "bench", request))
        self.core.settle()

    def answers(self) -> list[Entry]:
        """The single maps and the early heartbeats that the open exchange asks for, as they come from the log."""
        row = open_exchange(self.core.state)
        return [entry for asked in (row.awaited if row else ()) for entry in self._answers_of(asked)]

    def hear(self, answers: list[Entry]) -> None:
        for entry in answers:
            (self.core.hear_map if entry.topic is Topic.MAPS else self.core.hear)(entry)
        self.core.settle()

    def land(self) -> None:
        outbox, self.core.outbox = self.core.outbox, []
        for each in outbox:
            self.log.put(Topic.DECISIONS, "main", each.value, ((HEADER_NAME, each.stamp),))
        self._read_on()

    def _read_on(self) -> None:
        entries = self.log.entries(Topic.DECISIONS)[self._read :]
        self._read += len(entries)
        for entry in entries:
            assert not isinstance(self.core.read(entry), Ignored)

    def _answers_of(self, asked: Asked) -> Iterator[Entry]:
        assert asked.node != STRANGER, "nobody needs it"
        if asked.needs_map:
            yield from self._map_of(asked.node, asked.incarnation)
            return
        header = self.core.confirmed
        assert header.log_id is not None
        applied = m.Applied(header.log_id, header.position, header.chain)
        self._sequence += 1
        beat = m.Heartbeat(
            *(asked.node, asked.incarnation, self._sequence, applied, header.position, None, CAPABILITIES),
            fenced=False,
            secret=b"",
        )
        yield self._entry(Topic.HEARTBEATS, asked.node, beat)

    def _map_of(self, node: NodeId, incarnation: Incarnation) -> Iterator[Entry]:
        """What the log lists of it: nobody has loaded or cleared anything."""
        state, number, row = self.core.state, ownership.number_of(self.core.state, node), open_exchange(self.core.state)
        assert row is not None
        groups = {}
        for name, group in state.rows(GroupRow):
            rows = list(ownership.rows_of(state, name, group.partitions))
            held = () if number is None else ownership.held(rows, number)
            states = {each.partition: PartitionState.OWNING for each in held}
            groups[name] = Copies(encode_codes(codes_of(states, group.partitions)))
        header = self.core.confirmed
        self._sequence += 1
        applied = m.Applied(LOG_ID, header.position, header.chain)
        told = NodeMap(node, incarnation, row.started_at, self._sequence, applied, groups)
        return (self._entry(Topic.MAPS, node, part) for part in split_map(told))

    def _entry(self, topic: Topic, key: str, record: Record) -> Entry:
        self._heard += 1
        return Entry(topic, 0, Offset(self._heard), key, CODEC.encode(record), (), 0)


class Readers:
    """Others who read the same log: a node with a service, and a projector."""

    def __init__(self, site: Site, folder: Path, node: str) -> None:
        self._site = site
        self._hooks = Hooks()
        self.told = 0
        self._hooks.on_map.append(self._note)
        self._core = NodeCore(NodeId(node), CAPABILITIES)
        self._core.incarnate(Incarnation(1), {})
        self._reader = site.log.reader()
        self._reader.assign({(Topic.DECISIONS, 0): Offset(0)})
        self._projector = Projector(site.log.reader(), folder, "main", wall_ms=lambda: 0)

    def node(self) -> None:
        for entry in self._reader.poll(0):
            found = self._core.read(entry)
            assert not isinstance(found, Ignored)
            for folded in found:
                self._hooks.hook(self._core, folded)
                self._core.apply(folded, 0)
            if found:
                self._hooks.adopt(self._core, self._core.state.drain())
                self._core.finish()

    def projector(self) -> None:
        while self._projector.step():
            pass
        assert self._projector.stopped is None

    def close(self) -> None:
        self._projector.close()

    def _note(self, found: object) -> None:
        self.told += len(found)  # type: ignore[arg-type]


class Stopwatch:
    """ms by label, each with those of the processor; `profile` collects what the coordinator does."""

    def __init__(self, *, is_profiling: bool) -> None:
        self.taken: dict[str, list[tuple[float, float]]] = {}
        self.profile = cProfile.Profile() if is_profiling else None

    @contextmanager
    def timing(self, label: str) -> Iterator[None]:
        if self.profile:
            self.profile.enable()
        start, used = time.perf_counter(), time.process_time()
        yield
        taken = (time.perf_counter() - start) * 1000, (time.process_time() - used) * 1000
        if self.profile:
            self.profile.disable()
        self.taken.setdefault(label, []).append(taken)

    def note(self, label: str, taken_s: tuple[float, float]) -> None:
        """Taken elsewhere: wall time and that of the processor."""
        self.taken.setdefault(label, []).append((taken_s[0] * 1000, taken_s[1] * 1000))

    def of(self, label: str) -> list[float]:
        return [wall for wall, _ in self.taken.get(label, [])]

    def report(self) -> None:
        print("ms: least, median, greatest (median of the processor)")
        for label, taken in self.taken.items():
            walls, own = [each for each, _ in taken], statistics.median(each for _, each in taken)
            print(f"{label:<68} {min(walls):7,.0f} {statistics.median(walls):7,.0f} {max(walls):7,.0f} ({own:,.0f})")
        if self.profile:
            pstats.Stats(self.profile).sort_stats("cumulative").print_stats(45)


def measure(arguments: argparse.Namespace) -> Stopwatch:
    watch = Stopwatch(is_profiling=arguments.profile)
    chronicle = written(arguments.groups, arguments.partitions, arguments.nodes, arguments.backups)
    site = Site(chronicle)
    with watch.timing(TAKE_OVER):
        site.take_over()
    site.land()
    with tempfile.TemporaryDirectory() as folder:
        readers = None if arguments.profile else Readers(site, Path(folder), "n001")
        follow(readers, Stopwatch(is_profiling=False), "the beginning")
        for number in range(arguments.deaths):
            what = "dies" if number else "dies, the first"
            event(site, watch, readers, f"one {what}", partial(site.die, f"n{number * 7 + 10:03d}"))
        event(site, watch, readers, "one joins", lambda: site.join("x001"))
        if readers:
            readers.close()
    watch.report()
    return watch


def event(site: Site, watch: Stopwatch, readers: Readers | None, label: str, happens: Callable[[], None]) -> None:
    """What happens is decided; if an exchange is open then, all that are asked answer, and its end is decided: both
    together are what the coordinator adds to a failover, beside the way of the answers."""
    before = time.perf_counter(), time.process_time()
    with watch.timing(f"{label}: whom it needs, decided and encoded"):
        happens()
    bytes_ = sum(len(each.value) for each in site.core.outbox)
    site.land()
    took = time.perf_counter() - before[0], time.process_time() - before[1]
    if answers := site.answers():
        before = time.perf_counter(), time.process_time()
        with watch.timing(f"{label}: {len(answers)} answers heard, the end decided and encoded"):
            site.hear(answers)
        took = took[0] + time.perf_counter() - before[0], took[1] + time.process_time() - before[1]
        bytes_ += sum(len(each.value) for each in site.core.outbox)
        print(f"{label}: {sum(len(each.value) for each in answers):,} bytes of answers")
        site.land()
    watch.note(f"{label}: decided and encoded (goal {GOAL_MS})", took)
    print(f"{label}: {bytes_:,} bytes of decisions", flush=True)
    follow(readers, watch, label)


def follow(readers: Readers | None, watch: Stopwatch, label: str) -> None:
    if readers:
        before = readers.told
        with watch.timing(f"{label}: a node folds it and tells its service"):
            readers.node()
        print(f"{label}: a service hears of {readers.told - before:,} partitions")
        with watch.timing(f"{label}: the projector folds and stores it"):
            readers.projector()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--partitions", type=int, default=65_000)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--backups", type=int, default=2)
    parser.add_argument("--deaths", type=int, default=4)
    parser.add_argument("--profile", action="store_true", help="show where the coordinator's time goes")
    add_json(parser)
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(
        f"{arguments.groups} groups of {arguments.partitions:,}, {arguments.nodes} nodes, {arguments.backups} backups"
    )
    watch = measure(arguments)
    decided = f"decided and encoded (goal {GOAL_MS})"
    labels = {"first_death_ms": "one dies, the first", "death_ms": "one dies", "join_ms": "one joins"}
    found = {key: watch.of(f"{label}: {decided}") for key, label in labels.items()}
    found["take_over_ms"] = watch.of(TAKE_OVER)
    found["stored_ms"] = watch.of("one dies: the projector folds and stores it")
    tell(arguments, {key: spread(taken) for key, taken in found.items() if taken})


if __name__ == "__main__":
    main()
