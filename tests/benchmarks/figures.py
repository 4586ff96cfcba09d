"""All figures that the README shows: what is measured, by which command, its goal, and what peers publish.

docs/design/operating.md has the goals. A peer's figure is of its own machine and conditions unless it says
«here». Only Apache Ignite's and Helix's were measured beside ours.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec
from tests.benchmarks.told import Spread, Value

P50_P99, P50_P95, P50_MAX, P95, P99 = ("p50", "p99"), ("p50", "p95"), ("p50", "max"), ("p95",), ("p99",)


class Sense(Enum):
    """Which way a goal lies."""

    AT_MOST = "≤"
    AT_LEAST = "≥"


class Run(msgspec.Struct, frozen=True):
    """One command, `python -m tests.benchmarks.MODULE …`. `quick`: the same in seconds, to see that it works."""

    name: str
    module: str
    arguments: str
    quick: str
    limit_s: int
    kept: str = ""
    """The option for a folder that is kept between runs, if the script takes one."""


class Figure(msgspec.Struct, frozen=True):
    """One row of the table: what `run` tells under `key`, `parts` of it if it is a spread; `goal` for each part."""

    section: str
    what: str
    run: str
    key: str
    unit: str
    parts: Sequence[str] = ()
    goal: Sequence[float] = ()
    sense: Sense = Sense.AT_MOST
    peers: str = ""

    def values(self, value: Value) -> list[float]:
        """What is shown of a value; raises ValueError if it is not of this figure's form."""
        if isinstance(value, Spread) != bool(self.parts):
            raise ValueError(f"{self.run}: {self.key} is {value}, the table wants {self.parts or 'a number'}")
        return [getattr(value, part) for part in self.parts] if isinstance(value, Spread) else [float(value)]

    def is_met(self, value: Value) -> bool:
        """Whether every part of it is as good as its goal."""
        pairs = zip(self.values(value), self.goal, strict=False)
        return all(one <= goal if self.sense is Sense.AT_MOST else one >= goal for one, goal in pairs)


RUNS = (
    Run("watchers", "watchers", "--watchers 1000 --rounds 200", "--watchers 20 --rounds 3", 300),
    Run(
        "metadata",
        "metadata_round",
        "--members 3 8 16 32 64 --in-flight",
        "--members 1 --proposals 20 --warm-up 1 --in-flight",
        1_500,
    ),
    Run(
        "in-flight",
        "metadata_round",
        "--members 1 3 16 --flight-members 1 3 16 --proposals 200",
        "--members 1 --flight-members 1 --in-flight 4 --proposals 20 --warm-up 1",
        900,
    ),
    Run(
        "one-process",
        "metadata_round",
        "--members 3 8 16 32 64 --in-flight --one-process --proposals 200",
        "--members 2 --proposals 10 --warm-up 1 --in-flight --one-process",
        1_500,
    ),
    Run("pauses", "store_pauses", "--rounds 5", "--nodes 3 --rounds 1 --partitions 4", 900),
    Run("reads", "partition_reads", "--groups 977 --rounds 200", "--groups 5 --nodes 20 --rounds 5", 1_800),
    Run("lists", "list_reads", "--rounds 60", "--groups 1 --nodes 20 --rounds 3", 600),
    Run("as-of-1m", "as_of_reads", "--positions 1000000", "--positions 3000 --reads 50", 900, "--cache"),
    Run(
        "takeover",
        "takeover",
        "--rounds 20 --slow-rounds 2",
        "--rounds 1 --slow-rounds 0",
        1_500,
    ),
    Run("memory", "memory", "--proposals 5000", "--proposals 50 --rest 1", 600),
    Run("projector", "rebuild", "--clusters 1", "--clusters 1 --decisions 3000", 600, "--folder"),
    Run("exchange-1m", "large_exchange", "", "--groups 2 --partitions 500 --nodes 20 --deaths 2", 1_200),
    Run("false-removals", "false_removals", "--stalls 20000", "--stalls 100", 3_600),
    Run("exchange", "exchange", "--groups 1 10", "--members 3 --groups 1 --rounds 1", 900),
    Run(
        "schema",
        "schema_change",
        "--only latency deaths",
        "--members 2 --changes 5 --only latency --warm-up 1",
        600,
    ),
    Run("command-line", "command_line", "", "--rounds 3", 300),
    Run("why", "explanations", "", "3000", 900),
    Run("generations", "generations", "", "--decisions 2000", 600, "--folder"),
    Run("start", "snapshot_start", "", "--positions 3000 --types 20 --tail 200", 900),
    Run("trees", "replica_trees", "", "--rows 20000 --rounds 1", 1_200, "--folder"),
    Run("as-of-20m", "as_of_reads", "--positions 20000000", "--positions 4000 --reads 50", 7_200, "--cache"),
)

METADATA = "A new field: proposed → accepted by all → applied at the proposer"
MANY = "Accepted a second, many at once"
CRASH = "Crashes"
READS = "Reads, on the server"
FOLLOWING = "Following the log"
SHARED = "Partitions and definitions"
MEMORY = "Memory, resident"
COMMAND_LINE = "The command line: processor, as a multiple of `python -c ''`"

_ROUND_GOALS = {3: (2.5, 6.0), 8: (4.0, 10.0), 16: (6.0, 14.0), 32: (10.0, 22.0), 64: (18.0, 32.0)}
_IGNITE_MS = {3: "1.6 / 8", 8: "3.6 / 17", 16: "6.8 / 43", 32: "15 / 34"}
_IGNITE_PER_S = {3: 363, 8: 178, 16: 74, 32: 35}
_FLIGHT_GOALS = {16: 1_000.0, 64: 2_200.0, 256: 3_000.0}
_EXCHANGE_PEERS = {(3, 1): 57, (8, 1): 85, (16, 1): 179, (3, 10): 125, (8, 10): 154, (16, 10): 509}
_ROLES = {
    "coordinator": "coordinator",
    "stand_by": "its stand-by",
    "projector": "projector, API and console",
    "node": "a node with the client",
    "sentinel": "the sentinel beside it",
    "lease_health": "lease health (faust)",
    "broker": "the local broker (JVM)",
}


def _rounds() -> list[Figure]:
    found = []
    for members, goal in _ROUND_GOALS.items():
        ignite = f"Ignite 2.18 in memory, here: {_IGNITE_MS[members]}" if members in _IGNITE_MS else ""
        what = f"{members} members, each a process"
        found.append(Figure(METADATA, what, "metadata", f"round_ms.{members}", "ms", P50_P99, goal, peers=ignite))
    for members in _ROUND_GOALS:
        what = f"{members} members in one process"
        found.append(Figure(METADATA, what, "one-process", f"round_ms.{members}", "ms", P50_P99))
    for members, per_s in _IGNITE_PER_S.items():
        what = f"one at a time, a second, {members} members"
        ignite = f"Ignite, new types, here: {per_s}"
        found.append(Figure(METADATA, what, "metadata", f"rounds_per_s.{members}", "/s", peers=ignite))
    what = "coordinator's processor a proposal, 64 members"
    return [*found, Figure(METADATA, what, "metadata", "coordinator_ms.64", "ms", goal=(2.0,))]


def _flights() -> list[Figure]:
    etcd = "etcd, 3 nodes of 8 cores, keys rather than decisions of all members: 583 with 1 client, 50,104 with 1,000"
    return [
        Figure(
            MANY,
            f"{members} member{'s' if members > 1 else ''}, {in_flight} in flight",
            "in-flight",
            f"accepted_per_s.{members}.{in_flight}",
            "/s",
            goal=(goal,) if members == 16 else (),
            sense=Sense.AT_LEAST,
            peers=etcd if (members, in_flight) == (1, 16) else "",
        )
        for members in (1, 3, 16)
        for in_flight, goal in _FLIGHT_GOALS.items()
    ]


def _exchanges() -> list[Figure]:
    return [
        Figure(
            SHARED,
            f"a server joins {members}, {groups} group{'s' if groups > 1 else ''} of 1,024: exchange completed",
            "exchange",
            f"join_completed_ms.{members}.{groups}",
            "ms",
            P50_MAX,
            peers=f"Ignite, all partitions paused for, here: {paused} (ours pauses none)",
        )
        for (members, groups), paused in _EXCHANGE_PEERS.items()
    ]


def _memory() -> list[Figure]:
    return [
        Figure(MEMORY, f"{name}, {when}", "memory", f"{key}_mb.{moment}", "MB")
        for key, name in _ROLES.items()
        for moment, when in (("rest", "at rest"), ("load", "after 5,000 proposals"))
    ]


FIGURES = (
    *_rounds(),
    *_flights(),
    Figure(
        FOLLOWING,
        "decision → the last of 1,000 watchers of the API (log in memory)",
        "watchers",
        "last_ms",
        "ms",
        P50_P99,
        (15.0, 40.0),
        peers="etcd, 1,000 watchers, here: 6 / 17",
    ),
    Figure(
        FOLLOWING,
        "projector, live, mixed log in memory",
        "projector",
        "live_per_s",
        "events/s",
        goal=(50_000.0,),
        sense=Sense.AT_LEAST,
        peers="Marten appends 80,000 to 110,000; its rate of projecting is unpublished",
    ),
    Figure(
        FOLLOWING,
        "rebuild from an archive, one cluster, one process",
        "projector",
        "rebuilt_per_s",
        "events/s",
        goal=(300_000.0,),
        sense=Sense.AT_LEAST,
        peers="none published",
    ),
    Figure(FOLLOWING, "a node starts, 1 M positions, with a snapshot", "start", "with_s.1000000", "s"),
    Figure(FOLLOWING, "the same without one", "start", "without_s.1000000", "s"),
    Figure(
        FOLLOWING,
        "projector starts again → first read",
        "generations",
        "restart_ms",
        "ms",
        peers="PD loads 3 M regions in 13 s (8 cores, 2016; 100 s and more in large clusters, 2024)",
    ),
    Figure(FOLLOWING, "a rebuilt store takes the live one's place", "generations", "switch_ms", "ms", P50_MAX),
    Figure(
        CRASH,
        "`kill -9` of a node → its partitions served by another",
        "pauses",
        "kill_served_ms",
        "ms",
        P50_MAX,
        (500.0, 500.0),
        peers="Ignite 800 to 1,200, Helix 30,000, both here; YugabyteDB about 3,000 (its docs)",
    ),
    Figure(
        CRASH,
        "`kill -9` of a node → out of the membership, with its sentinel",
        "takeover",
        "node_left_ms.sentinel",
        "ms",
        P50_MAX,
        (500.0, 500.0),
        peers="KRaft 9,000, its default session",
    ),
    Figure(
        CRASH,
        "the same without a sentinel, fence 20 s: the lease",
        "takeover",
        "node_left_ms.silent",
        "ms",
        P50_MAX,
    ),
    Figure(
        CRASH,
        "`kill -9` of the coordinator → first decision of the next (goal without detection, at 1 M partitions)",
        "takeover",
        "leader_killed_ms.sentinel",
        "ms",
        P50_MAX,
        (1_000.0, 1_000.0),
        peers="Kafka with ZooKeeper 7,400 and 14,900 (140 k partitions, 2018)",
    ),
    Figure(
        CRASH,
        "it is stopped in order → first decision of the next (goal at 1 M partitions)",
        "takeover",
        "leader_stopped_ms.sentinel",
        "ms",
        P50_MAX,
        (250.0, 250.0),
    ),
    Figure(
        CRASH,
        "false removals over 20,000 simulated stalls, 64 nodes",
        "false-removals",
        "false",
        "",
        goal=(0.0,),
        peers="KAFKA-15019, etcd#15247: theirs do remove",
    ),
    Figure(READS, "any of 1 M partitions by name", "reads", "any_partition_by_name_ms", "ms", P50_P99, (2.0, 2.0)),
    Figure(READS, "any page of 1,000 of them", "reads", "any_page_ms", "ms", P50_P99, (50.0, 50.0)),
    Figure(
        READS,
        "10,000 partitions over HTTP, in pages of 1,000",
        "lists",
        "all_in_pages_of_1000_ms",
        "ms",
        P50_P95,
        (200.0, 200.0),
        peers="KRaft, metadata of 5,000 topics × 50 partitions: 54 (JMH, no network)",
    ),
    Figure(
        READS,
        "10,000 partitions over HTTP, exported",
        "lists",
        "all_exported_as_JSON_lines_ms",
        "ms",
        P50_P95,
        (200.0, 200.0),
    ),
    Figure(
        READS,
        "as of any of 1 M positions: a row",
        "as-of-1m",
        "row_ms",
        "ms",
        P50_P95,
        (50.0, 50.0),
        peers="Ignite 3 keeps 1 h, etcd until compaction",
    ),
    Figure(READS, "as of any of 1 M positions: a page of 100", "as-of-1m", "page_ms", "ms", P50_P95, (50.0, 50.0)),
    Figure(READS, "as of a time, 1 M positions: a row", "as-of-1m", "time_ms", "ms", P50_P95, (50.0, 50.0)),
    Figure(READS, "as of any of 20 M positions: a row", "as-of-20m", "row_ms", "ms", P50_P95, (50.0, 50.0)),
    Figure(READS, "as of any of 20 M positions: a page of 100", "as-of-20m", "page_ms", "ms", P50_P95, (50.0, 50.0)),
    Figure(READS, "as of a time, 20 M positions: a row", "as-of-20m", "time_ms", "ms", P50_P95, (50.0, 50.0)),
    Figure(READS, "why is this partition here, 1 M positions", "why", "why_ms", "ms", P50_P99, (200.0, 200.0)),
    Figure(
        SHARED,
        "one of 300 nodes dies, 1 M partitions: decided and encoded",
        "exchange-1m",
        "death_ms",
        "ms",
        P50_MAX,
        (500.0, 500.0),
        peers="KRaft's image step alone 19.6 (6,667 topics, JMH)",
    ),
    Figure(
        SHARED,
        "take-over, 300 nodes, 1 M partitions: what it takes beside the broker",
        "exchange-1m",
        "take_over_ms",
        "ms",
        P50_MAX,
        (250.0, 250.0),
    ),
    Figure(
        SHARED,
        "the first death after a take-over, the same",
        "exchange-1m",
        "first_death_ms",
        "ms",
        P50_MAX,
        (500.0, 500.0),
    ),
    *_exchanges(),
    Figure(SHARED, "a table's column changes, 3 members, all up", "schema", "change_ms.3", "ms", P50_P99),
    Figure(SHARED, "the same, 16 members", "schema", "change_ms.16", "ms", P50_P99),
    Figure(
        SHARED,
        "trees of 20 M rows, 2^12 leaves, Spark on two cores",
        "trees",
        "rows_per_s.FAST.12",
        "rows/s",
        goal=(2_000_000.0,),
        sense=Sense.AT_LEAST,
        peers="Cassandra 5 validates 90,000 to 440,000 a node",
    ),
    *_memory(),
    Figure(COMMAND_LINE, "`topolog get nodes`, until it asks", "command-line", "get", "×", goal=(14.0,)),
    Figure(COMMAND_LINE, "`topolog get --help`", "command-line", "help", "×", goal=(11.0,)),
    Figure(COMMAND_LINE, "`topolog version`", "command-line", "version", "×", goal=(11.0,)),
    Figure(COMMAND_LINE, "the Tab key behind `topolog get`", "command-line", "tab", "×", goal=(11.0,)),
    Figure(
        COMMAND_LINE, "the Tab key behind `topolog get node`, until it asks", "command-line", "names", "×", goal=(11.0,)
    ),
)


def runs_by_name() -> Mapping[str, Run]:
    return {run.name: run for run in RUNS}
