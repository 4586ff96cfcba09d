"""How long it takes to share a million partitions out over 300 nodes with two backups, and to go on after a change.

    python tests/benchmarks/affinity.py [--nodes 300] [--backups 2] [--runs 7]

Every group is computed by itself here, as if no two had the same placement; groups that have are computed once, which
the line «of one placement» shows. Each figure is the least, the median and the greatest of the runs, in ms of time and,
in brackets, the median in ms of processor: on a busy machine only the latter says what the work costs. The last line
compares with the same rule in plain Python, one node at a time, in the same run.
"""

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

from topolog.events.ids import NodeId
from topolog.streams.rules.affinity import Candidate, Placement, ideal, ideal_after

MIX = (1 << 64) - 1
PLAIN_PARTITIONS = 100


def cluster_of(count: int) -> list[Candidate]:
    """Two nodes a host, fifteen a rack."""
    return [
        Candidate(NodeId(f"node-{number}"), {"host": f"h{number // 2}", "rack": f"r{number // 15}"})
        for number in range(count)
    ]


def measured(label: str, work: Callable[[], object], runs: int) -> float:
    """Print what `work` takes; the median in ms of processor."""
    wall, processor = [], []
    for _ in range(runs):
        start, used = time.perf_counter(), time.process_time()
        work()
        wall.append((time.perf_counter() - start) * 1000)
        processor.append((time.process_time() - used) * 1000)
    cpu_ms = statistics.median(processor)
    print(
        f"{label:<52} {min(wall):8,.1f} {statistics.median(wall):8,.1f} {max(wall):8,.1f} ({cpu_ms:,.1f})", flush=True
    )
    return cpu_ms


def measure(label: str, groups: int, placement: Placement, cluster: Sequence[Candidate], runs: int) -> None:
    """All groups anew, after the loss of one node, and after its return."""
    rest = [*cluster[:100], *cluster[101:]]
    full, without = ideal(cluster, placement), ideal(rest, placement)

    def every(work: Callable[..., Any], *arguments: object) -> Callable[[], object]:
        return lambda: [work(*arguments) for _ in range(groups)]

    measured(f"{label}: anew", every(ideal, cluster, placement), runs)
    measured(f"{label}: one node lost", every(ideal_after, full, cluster, rest, placement), runs)
    measured(f"{label}: one node joins", every(ideal_after, without, rest, cluster, placement), runs)


def plain(cluster: Sequence[Candidate], backups: int) -> list[list[int]]:
    """The rule for some partitions, in Python alone; the nodes' Java hashes are given."""
    hashes = list(enumerate(range(1, len(cluster) + 1)))
    return [
        [node for _, node in sorted((mixed(java_hash | partition << 32), node) for node, java_hash in hashes)][
            : backups + 1
        ]
        for partition in range(PLAIN_PARTITIONS)
    ]


def mixed(k: int) -> int:
    k = (~k + (k << 21)) & MIX
    k ^= k >> 24
    k = k * 265 & MIX
    k ^= k >> 14
    k = k * 21 & MIX
    k ^= k >> 28
    k = k * ((1 << 31) + 1) & MIX
    return k - (1 << 64) if k >> 63 else k


def memory(cluster: Sequence[Candidate], placement: Placement) -> None:
    tracemalloc.start()
    assignment = ideal(cluster, placement)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(
        f"memory of a group of {placement.partitions:,} partitions: {assignment.nbytes / 1e6:.2f} MB kept, "
        f"{(peak - kept) / 1e6:.1f} MB more while it is computed"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--backups", type=int, default=2)
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    cluster, runs = cluster_of(arguments.nodes), arguments.runs
    usual = Placement(partitions=1024, backups=arguments.backups)
    large = Placement(partitions=65_000, backups=arguments.backups)
    racks = Placement(partitions=65_000, backups=arguments.backups, backup_filter=("rack",))
    hosts = Placement(partitions=65_000, backups=arguments.backups, exclude_neighbours_by="host")
    print(f"{arguments.nodes} nodes, {arguments.backups} backups" + "ms: least, median, greatest (processor)".rjust(75))
    measured("977 groups of 1,024, of one placement: anew", lambda: ideal(cluster, usual), runs)
    measure("977 groups of 1,024", 977, usual, cluster, runs)
    measure("16 groups of 65,000", 16, large, cluster, runs)
    measure("16 groups of 65,000, apart by rack", 16, racks, cluster, runs)
    measure("16 groups of 65,000, apart by host", 16, hosts, cluster, runs)
    memory(cluster, large)
    in_numpy = measured("1 group of 65,000: anew", lambda: ideal(cluster, large), runs)
    in_python = measured(
        f"{PLAIN_PARTITIONS} partitions in plain Python", lambda: plain(cluster, arguments.backups), runs
    )
    ratio = in_python / PLAIN_PARTITIONS / (in_numpy / large.partitions)
    print(f"a partition in plain Python costs {ratio:,.0f} times as much")


if __name__ == "__main__":
    main()
