"""Reading every block of a store from the disk, slowly: what has rotted is found before somebody asks for it.

RocksDB's checksums are looked at by reading, so it is every key and value that is read, past the kernel's cache; and
each value is decoded, for bits also flip before a checksum is made. The projector goes on with the store meanwhile.
"""

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator

from topolog.events.errors import DamagedStore
from topolog.projections.rocks import UnreadableBlock, View
from topolog.projections.self_check.findings import What, finding, place_of
from topolog.projections.self_check.opened import beside_on_disk
from topolog.projections.upkeep.pace import Pace
from topolog.projections.upkeep.tasks import Finding, Phase, Progress, Report, Scrub, Scrubbed

FINDINGS_MAX = 20
"""More are not listed: the store is to be built anew in any case."""

_CHUNK_BYTES = 1 << 20
_FILE = re.compile(r" in \S*?([^/\s]+\.(?:sst|log)) offset (\d+)")


def scrub(
    task: Scrub,
    tell: Callable[[Report], None],
    *,
    now_s: Callable[[], float] = time.monotonic,
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Do the task; raises NotCaughtUp for a store that is never at rest, and what the disk raises."""
    began_ms = wall_ms()
    pace = Pace(task.bytes_per_s, now_s, sleep)
    findings: list[Finding] = []
    rows = size = told = 0
    try:
        with beside_on_disk(task.path) as (view, borders):
            for key, value in _everything(view, borders, findings):
                rows, size = rows + 1, size + len(key) + len(value)
                _judge(key, value, findings)
                if size - told >= _CHUNK_BYTES:
                    pace.spend(size - told)
                    told = size
                    tell(Progress(Phase.FOLDING, size, pace.rate(size), began_ms=began_ms))
                if len(findings) >= FINDINGS_MAX:
                    break
    except DamagedStore as error:
        findings.append(_unreadable(error, task.path.name))
    tell(Scrubbed(task.path.name, began_ms, wall_ms(), rows, size, findings))


def _everything(view: View, borders: list[bytes], findings: list[Finding]) -> Iterator[tuple[bytes, bytes]]:
    """Every key and value that can be read; behind what cannot be it goes on where the next file begins or ends."""
    start: bytes | None = b""
    while start is not None:
        last = start
        try:
            for key, value in view.scan(start, b""):
                last = key
                yield key, value
            return
        except UnreadableBlock as error:
            findings.append(_unreadable(error, f"behind {place_of(last)}"))
            start = next(iter(borders[bisect_right(borders, last) :]), None)
        if start == last:
            return


def _judge(key: bytes, value: bytes, findings: list[Finding]) -> None:
    found = finding(key, None, value)
    if found.what is What.UNDECODABLE:
        findings.append(Finding(str(found.place), found.why))


def _unreadable(error: DamagedStore, place: str) -> Finding:
    file = _FILE.search(error.message)
    return Finding(f"{file[1]} offset {file[2]}" if file else place, error.message)
