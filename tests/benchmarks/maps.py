"""What maps cost: bytes in memory and on the wire, and the time to make and to read one.

    python tests/benchmarks/maps.py [--rounds 20] [--write]

The bytes are the same in each run, and a test compares them with docs/partitions.md; the times are this machine's.
`--write` puts the times into that page.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from topolog.events import partitions as p
from topolog.events import single_maps as sm
from topolog.events.codec import CODEC
from topolog.events.group_definition import PARTITIONS_MAX
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.membership import Applied
from topolog.streams.rules.single_maps import Inbox, Known, KnownGroup, receive

PAGE = Path(__file__).parents[2] / "docs" / "partitions.md"
LOG_ID = bytes(16)
NODE = NodeId("node-007.rack-3.example")
BACKUPS = 2
SIZES = (1_024, PARTITIONS_MAX)
NODES = (3, 16, 300)


def held(partitions: int, nodes: int) -> p.Codes:
    """What one of so many nodes holds at rest: each partition with the chance that rendezvous gives it."""
    chance = random.Random(partitions * nodes)
    share = min(1.0, (BACKUPS + 1) / nodes)
    return bytes(p.PartitionState.OWNING.code if chance.random() < share else 0 for _ in range(partitions))


def restless(partitions: int) -> p.Codes:
    """The worst: each partition in another state than the one before."""
    return bytes(1 + partition % len(p.PartitionState) for partition in range(partitions))


def cases() -> dict[str, p.Codes]:
    found = {f"{size:,} partitions, one of {nodes} nodes": held(size, nodes) for size in SIZES for nodes in NODES}
    return found | {f"{size:,} partitions, the worst": restless(size) for size in SIZES}


def copies(codes: p.Codes, counter: sm.UpdateCounter | None, load: sm.Finished | None = None) -> sm.Copies:
    """Packed, with this counter and this finished load for each copy."""
    present = [partition for partition, code in enumerate(codes) if code]
    counters = dict.fromkeys(present, counter) if counter else {}
    loads = dict.fromkeys(present, load) if load else {}
    return sm.Copies(p.encode_codes(codes), sm.pack_counters(counters), sm.pack_finished(loads))


USUAL = sm.UpdateCounter(1_000_000, 1_001_000)
LARGEST = sm.UpdateCounter((1 << 62), (1 << 63) - 1)


def node_map(groups: Mapping[str, sm.Copies]) -> sm.NodeMap:
    return sm.NodeMap(NODE, Incarnation(-(1 << 60)), Position(4_000_000), 12, at(4_000_001), groups)


def at(position: int) -> Applied:
    return Applied(LOG_ID, Position(position), bytes(16))


def records(groups: Mapping[str, sm.Copies]) -> list[int]:
    """Bytes of each record of the map."""
    return [len(CODEC.encode(part)) for part in sm.split_map(node_map(groups))]


def sizes() -> list[tuple[str, ...]]:
    """Per case: copies, bytes in memory, as bits, as it is sent, and the record's without and with counters."""
    rows: list[tuple[str, ...]] = [
        ("map of one group", "copies", "in memory", "bits alone", "as sent", "record", "with counters")
    ]
    for name, codes in cases().items():
        bits = p.pack_states(p.states_of(codes), len(codes))
        counter = LARGEST if name.endswith("worst") else USUAL
        plain, counted = copies(codes, None), copies(codes, counter)
        figures = (len(codes) - codes.count(0), len(codes), len(bits), len(plain.states))
        rows.append((name, *(f"{each:,}" for each in figures), told({"g": plain}), told({"g": counted})))
    return rows


def told(groups: Mapping[str, sm.Copies]) -> str:
    found = records(groups)
    return f"{sum(found):,}" + (f" in {len(found)} records" if len(found) > 1 else "")


def whole_maps() -> list[tuple[str, ...]]:
    """Bytes of the single maps that one exchange collects from all nodes."""
    rows: list[tuple[str, ...]] = [("groups of 1,024", "nodes", "all single maps", "with counters")]
    for groups, nodes in ((1, 3), (10, 3), (10, 8), (10, 16), (977, 300)):
        shares = {f"group-{number}": held(1_024 + number, nodes)[number:] for number in range(groups)}
        without = sum(records({name: copies(codes, None) for name, codes in shares.items()})) * nodes
        counted = sum(records({name: copies(codes, USUAL) for name, codes in shares.items()})) * nodes
        rows.append((f"{groups:,}", f"{nodes}", f"{without:,}", f"{counted:,}"))
    return rows


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows as Markdown, the first as its head, numbers to the right."""
    head, *body = rows
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *body))


def best_ms(what: Callable[[], object], rounds: int) -> str:
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        what()
        taken.append(time.perf_counter() - start)
    return f"{min(taken) * 1_000:.3f}"


def times(rounds: int) -> list[tuple[str, ...]]:
    """ms, the best of some rounds."""
    rows: list[tuple[str, ...]] = [
        ("map of one group", "encode", "decode", "decode to a dict", "receive", "with counters", "unpack counters")
    ]
    for name, codes in cases().items():
        size = len(codes)
        plain, counted_copies = copies(codes, None), copies(codes, USUAL)
        known = Known(
            LOG_ID,
            Position(4_000_001),
            {NODE: Incarnation(-(1 << 60))},
            {"g": KnownGroup(size, Position(1))},
            Position(4_000_000),
            Position(4_000_000),
        )
        without, counted = (sm.split_map(node_map({"g": each})) for each in (plain, counted_copies))
        actions: list[Callable[[], object]] = [
            partial(p.encode_codes, codes),
            partial(p.decode_codes, plain.states, size),
            partial(states_in, plain.states, size),
            partial(take_in, without, known),
            partial(take_in, counted, known),
            partial(sm.unpack_counters, counted_copies.counters, size),
        ]
        rows.append((name, *(best_ms(each, rounds) for each in actions)))
    return rows


def states_in(data: bytes, partitions: int) -> dict[int, p.PartitionState]:
    return p.states_of(p.decode_codes(data, partitions))


def take_in(parts: list[sm.SinglePartitionMap], known: Known) -> None:
    """What a coordinator does with a map when its bytes have been decoded."""
    inbox = Inbox()
    for part in parts:
        inbox, _ = receive(inbox, known, part)
    assert inbox.kept


def in_page(text: str, name: str, block: str) -> str:
    """The page with this block between the marks of that name."""
    before, begin, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->")
    assert end, f"the page has no place for {name}"
    return f"{before}{begin}{block}\n{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="put the times into docs/partitions.md")
    arguments = parser.parse_args()
    measured = table(times(arguments.rounds))
    for block in (table(sizes()), table(whole_maps()), measured):
        sys.stdout.write(f"{block}\n\n")
    if arguments.write:
        PAGE.write_text(in_page(PAGE.read_text(encoding="utf-8"), "times", measured), encoding="utf-8")


if __name__ == "__main__":
    main()
