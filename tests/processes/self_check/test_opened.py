"""A store is read beside the process that writes it: what is seen is one moment of it, whole."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.unit.projections.self_check.conftest import contents

from topolog.events.errors import BadInput, DamagedStore, NotCaughtUp
from topolog.projections.self_check.opened import Holding, beside, store_path

OPENED = 40
ROWS = 100
WRITES = 40
WRITER = f"""
import sys
from rocksdict import Options, Rdict, WriteBatch

options = Options(raw_mode=True)
options.create_if_missing(True)
options.set_write_buffer_size(200_000)  # a table every few milliseconds
db = Rdict(sys.argv[1], options=options)
print("made", flush=True)
number = 0
for _ in sys.stdin:
    for _ in range({WRITES}):
        batch = WriteBatch(raw_mode=True)
        for number in range(number, number + {ROWS}):
            batch.put(b"r%09d" % number, bytes(50))
        number += 1
        db.write(batch)
"""


class Writer:
    """A process that writes rows into a store, 0, 1, 2 ..., some in each write, faster than any projector."""

    def __init__(self, path: Path, process: "subprocess.Popen[bytes]") -> None:
        self.path = path
        self._process = process

    def begin(self) -> None:
        """Have it write some tables' worth, meanwhile: were it never at rest, the store would outgrow the test."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "a")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"made\n"
        yield Writer(tmp_path / "a", process)
        process.kill()


def test_a_busy_store_is_seen_as_it_was_at_one_moment(writer: Writer) -> None:
    """No row is missing that was written before one that is there, and no write is seen in part.

    Without looking at the list of files again, one of fifteen openings missed a table's worth of rows.
    """
    counts = [0]
    while len(counts) <= OPENED:
        writer.begin()
        with suppress(NotCaughtUp), beside(writer.path) as view:
            numbers = [int(key[1:]) for key, _ in view.scan(b"r", b"r")]
            assert numbers == list(range(len(numbers)))
            counts.append(len(numbers))
    assert counts == sorted(counts)
    assert not any(count % ROWS for count in counts)


def test_what_is_seen_holds_still(folder: Path) -> None:
    """While the store is written, and its tables are merged."""
    whole = contents(folder)
    with beside(store_path(folder)) as view, closing(Holding(store_path(folder))) as holding:
        holding.write(dict.fromkeys(whole))
        assert dict(view.scan(b"", b"")) == whole
    assert contents(folder) == {}


def test_a_store_is_held_by_one(folder: Path) -> None:
    with closing(Holding(store_path(folder))), pytest.raises(BadInput, match="Another process uses"):
        Holding(store_path(folder))


def test_no_store_is_made_where_none_was(tmp_path: Path) -> None:
    """RocksDB would make an empty one, and the rows of one that has lost its list of files would go with it."""
    for opening in (Holding, lambda path: beside(path).__enter__()):
        with pytest.raises(DamagedStore):
            opening(tmp_path / "none")
