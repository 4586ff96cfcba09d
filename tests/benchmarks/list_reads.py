"""What lists cost who asks for them: 10,000 partitions over HTTP on this machine, page by page and all at once.

    python -m tests.benchmarks.list_reads [--groups 10] [--nodes 30] [--rounds 60] [--write]

Goal (OP29): a list of 10,000 partitions in less than 200 ms, p95. A real server and a client in one process, so
both share one processor. `--write` puts the figures into docs/api.md.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from httpx import Client
from tests.benchmarks.partition_reads import written
from tests.benchmarks.told import Spread, add_json, spread, tell
from tests.unit.projections.serving import served

from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
MAIN = "/v1/clusters/main"
LIMIT = 1_000


def page(client: Client, **parameters: str | int) -> str | None:
    """One page; `next` of it."""
    answer = client.get(f"{MAIN}/partitions", params={"limit": LIMIT, **parameters}).raise_for_status()
    following: str | None = msgspec.json.decode(answer.content)["next"]
    return following


def all_pages(client: Client) -> None:
    cursor = page(client)
    while cursor is not None:
        cursor = page(client, cursor=cursor)


def export(client: Client, **parameters: str | int) -> None:
    client.get(f"{MAIN}/export/partitions", params=parameters).raise_for_status().read()


def again(client: Client) -> None:
    """What is asked for anew by who has it."""
    tag = client.get(f"{MAIN}/partitions", params={"limit": 1}).headers["ETag"]
    assert client.get(f"{MAIN}/partitions", params={"limit": LIMIT}, headers={"If-None-Match": tag}).status_code == 304


def questions(position: int) -> Mapping[str, Callable[[Client], object]]:
    return {
        "all, in pages of 1,000": all_pages,
        "all, exported as JSON lines": export,
        "all, exported as CSV": lambda client: export(client, format="csv"),
        "all, exported as of a past position": lambda client: export(client, as_of=position - 10),
        "all, exported, three fields": lambda client: export(client, fields="name,state,primary"),
        "the first page of 100": lambda client: page(client, limit=100),
        "a page of 1,000": page,
        "a page of 100, sorted by another field": lambda client: page(client, limit=100, sort="-since,name"),
        "those of one node": lambda client: page(client, node="n017"),
        "the same again, by its ETag": again,
    }


def times_ms(client: Client, ask: Callable[[Client], object], rounds: int) -> tuple[Spread, float]:
    """What it takes by the clock of who asks, and the mean of the processor's time, the asker's own included."""
    found, began_own_s = [], time.process_time()
    for _ in range(rounds):
        began_s = time.perf_counter()
        ask(client)
        found.append((time.perf_counter() - began_s) * 1000)
    return spread(found), (time.process_time() - began_own_s) * 1000 / rounds


def measured(groups: int, nodes: int, rounds: int) -> dict[str, tuple[Spread, float]]:
    chronicle = written(groups, nodes)
    with tempfile.TemporaryDirectory() as folder:
        projector = Projector(chronicle.log.reader(), Path(folder), "main", wall_ms=lambda: chronicle.now_ms)
        while projector.step():
            pass
        with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
            asked = questions(chronicle.position)
            found = {name: times_ms(client, ask, rounds) for name, ask in asked.items()}
        projector.close()
    return found


def table(found: Mapping[str, tuple[Spread, float]]) -> str:
    lines = [f"| {name} | {wall.p50:,.1f} | {wall.p95:,.1f} | {own:,.1f} |" for name, (wall, own) in found.items()]
    return "\n".join(["| question | p50 ms | p95 ms | processor ms |", "|---|---:|---:|---:|", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10, help="of 1,024 partitions each, with two backups")
    parser.add_argument("--nodes", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--write", action="store_true", help=f"put the figures into {PAGE.name}")
    add_json(parser)
    arguments = parser.parse_args()
    found = measured(arguments.groups, arguments.nodes, arguments.rounds)
    sys.stdout.write(f"{table(found)}\n")
    if arguments.write:
        before, begin, rest = PAGE.read_text(encoding="utf-8").partition("<!-- costs -->\n")
        _, end, after = rest.partition("<!-- end of costs -->")
        PAGE.write_text(f"{before}{begin}{table(found)}\n{end}{after}", encoding="utf-8")
    tell(arguments, {f"{name.replace(' ', '_').replace(',', '')}_ms": wall for name, (wall, _) in found.items()})


if __name__ == "__main__":
    main()
