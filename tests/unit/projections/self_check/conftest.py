"""A log, a store that a projector has made of it, a rebuild to check it against, and ways to damage it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.sharing import shared_out
from tests.unit.projections.test_projector import eventful

from topolog.projections.projector import Projector
from topolog.projections.self_check import checking
from topolog.projections.self_check.opened import Holding, beside, store_path
from topolog.projections.self_check.rebuild import Rebuild
from topolog.projections.self_check.verdict import Verdict


def project(chronicle: Chronicle, folder: Path) -> Path:
    """Have a projector read the log to its end; the folder."""
    with closing(Projector(chronicle.log.reader(), folder, chronicle.cluster)) as projector:
        while projector.step():
            pass
        assert (projector.stopped, projector.meta.position) == (None, chronicle.position)
    return folder


def contents(folder: Path) -> dict[bytes, bytes]:
    """Every key and value of the store."""
    with beside(store_path(folder)) as view:
        return dict(view.scan(b"", b""))


def write(folder: Path, values: dict[bytes, bytes | None]) -> None:
    """As memory that has gone bad before RocksDB made its checksums would."""
    with closing(Holding(store_path(folder))) as holding:
        holding.write(values)


def flipped(value: bytes, bit: int = 0) -> bytes:
    data = bytearray(value)
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(data)


def damage_tables(folder: Path) -> None:
    """As a bad disk would: RocksDB's checksum of a block does not fit."""
    tables = sorted(store_path(folder).glob("*.sst"))
    assert tables
    for table in tables:
        table.write_bytes(flipped(table.read_bytes(), bit=8_000))


class Checker:
    """Checks folders against a rebuild of one log, as the command does."""

    def __init__(self, chronicle: Chronicle, scratch: Path) -> None:
        self.rebuild = Rebuild(chronicle.log.reader(), chronicle.cluster, scratch, count().__next__, lambda _: None)

    def check(self, folder: Path) -> Verdict:
        return checking.check(self.rebuild, folder)

    def mend(self, folder: Path) -> Verdict:
        return checking.mend(self.rebuild, folder, lambda _: None)


MakeChecker = Callable[[Chronicle], Checker]


@pytest.fixture
def make_checker(tmp_path: Path) -> Iterator[MakeChecker]:
    made: list[Checker] = []

    def make(chronicle: Chronicle) -> Checker:
        made.append(Checker(chronicle, tmp_path / f"scratch-{len(made)}"))
        return made[-1]

    yield make
    for checker in made:
        checker.rebuild.close()


@pytest.fixture
def chronicle() -> Chronicle:
    """A log in which a bit of everything has happened."""
    chronicle = Chronicle().start()
    shared_out(chronicle, "s1", "s2", "s3")
    return eventful(chronicle)


@pytest.fixture
def checker(chronicle: Chronicle, make_checker: MakeChecker) -> Checker:
    return make_checker(chronicle)


@pytest.fixture
def folder(chronicle: Chronicle, tmp_path: Path) -> Path:
    """A projector's folder at the end of the log; the projector has stopped."""
    return project(chronicle, tmp_path / "projector")
