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
WRITER = f"""
import sys, time
from rocksdict import Options, Rdict, WriteBatch

options = Options(raw_mode=True)
options.create_if_missing(True)
options.set_write_buffer_size(200_000)  # a table every few milliseconds, and they are merged all the time
db = Rdict(sys.argv[1], options=options)
number = 0
while True:
    batch = WriteBatch(raw_mode=True)
    for number in range(number, number + {ROWS}):
        batch.put(b"r%09d" % number, bytes(50))
    number += 1
    db.write(batch)
    time.sleep(0.001)
    if number == {ROWS}:
        print("writing", flush=True)
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Path]:
    """A store into which a process writes rows faster than any projector: 0, 1, 2 …, some in each write."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "a")], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        yield tmp_path / "a"
        writer.kill()


def test_a_busy_store_is_seen_as_it_was_at_one_moment(busy: Path) -> None:
    """No row is missing that was written before one that is there, and no write is seen in part.

    Without looking at the list of files again, one of fifteen openings missed a table's worth of rows.
    """
    counts = [0]
    while len(counts) <= OPENED:
        with suppress(NotCaughtUp), beside(busy) as view:
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
