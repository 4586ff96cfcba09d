"""The journal of a node's rows: what is whole comes back, what was cut short was never there."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from topolog.events.errors import BadInput
from topolog.events.ids import NodeId, Position
from topolog.events.partitions import PartitionState
from topolog.streams.local.demo.disk import DiskReplica, Journal
from topolog.streams.local.demo.replication.messages import Cell, Version, Write
from topolog.streams.node.views import CopyView, PartitionView

OWN, OTHER = NodeId("n1"), NodeId("n2")
GROUP_NUMBER = 7


def view(
    token: int, state: PartitionState = PartitionState.OWNING, *, since: int = 10, group: int = GROUP_NUMBER
) -> PartitionView:
    """The one partition, of which this node has the one copy; nobody acts where it is lost."""
    is_lost = state is PartitionState.LOST
    primary = OWN if state is PartitionState.OWNING else None
    return PartitionView("rows", group, 0, Position(token), primary, (CopyView(OWN, state, Position(since)),), is_lost)


class Life:
    """One process of the node: it joins, with what the journal has."""

    def __init__(self, path: Path, *told: PartitionView, closed: set[str]) -> None:
        self.journal = Journal(path)
        self.replica = DiskReplica(
            OWN, "rows", self.journal, lambda key, value: None if key in closed else value.replace(b"closed", b"")
        )
        self.replica.adopt(told)
        self.replica.come_back()
        self.replica.write_down()

    @property
    def rows(self) -> dict[str, bytes | None]:
        partition = self.replica.partition(("rows", 0))
        assert partition is not None
        return {key: cell.value for key, cell in partition.content.rows()}

    def write(self, token: int, key: str, value: bytes | None) -> None:
        number = len(key)
        self.replica.begin(Write(number, "rows", 0, Position(token), key, value, if_absent=False))
        self.replica.write_down()


class Disk:
    """The node's disk, and the processes that it has had: the file of a former one need not be closed. Rows with a key
    in `closed` count for nothing, nor does the word in any other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.closed: set[str] = set()
        self._lives: list[Life] = []

    def begin(self, *told: PartitionView) -> Life:
        """The next process."""
        life = Life(self.path, *told, closed=self.closed)
        self._lives.append(life)
        return life

    def owner(self) -> Life:
        """The first process: it acts for the partition, which begins empty."""
        life = self.begin()
        life.replica.enter()
        life.replica.adopt([view(10)])
        life.replica.write_down()
        return life

    def close(self) -> None:
        for life in self._lives:
            life.journal.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with closing(Disk(tmp_path / "journal")) as disk:
        yield disk


def test_rows_of_a_whole_copy_come_back_as_they_were(disk: Disk) -> None:
    """The newest value of each, and no deleted one; the same again behind another restart."""
    life = disk.owner()
    for key, value in (("a", b"1"), ("bb", b"2"), ("a", b"3"), ("ccc", b"4"), ("bb", None)):
        life.write(10, key, value)
    for _ in range(2):
        back = disk.begin(view(10))
        assert back.rows == {"a": b"3", "ccc": b"4"}
        assert back.replica.whole() == {GROUP_NUMBER: {0: 10}}


def test_what_is_written_after_a_return_is_kept_with_what_was_there(disk: Disk) -> None:
    """Under the number that the content had: nothing is written twice."""
    disk.owner().write(10, "a", b"1")
    back = disk.begin(view(10, PartitionState.LOST))
    back.replica.enter()
    back.replica.adopt([view(20, since=20)])
    back.write(20, "bb", b"2")
    assert disk.begin(view(20)).rows == {"a": b"1", "bb": b"2"}
    assert len(disk.path.read_bytes().splitlines()) == 3


def test_a_return_that_is_cut_short_takes_nothing_away(disk: Disk) -> None:
    """A process that has joined and was given nothing back yet dies: what it came with is there for the next one."""
    disk.owner().write(10, "a", b"1")
    back = disk.begin(view(10, PartitionState.LOST))
    back.replica.enter()
    back.replica.write_down()
    assert disk.begin(view(10, PartitionState.LOST)).rows == {"a": b"1"}


def test_a_copy_that_was_cleared_is_not_whole(disk: Disk) -> None:
    """The log has said that it is needed no more (EX11)."""
    life = disk.owner()
    life.write(10, "a", b"1")
    life.replica.adopt([view(10, PartitionState.RENTING, since=30)])
    life.replica.write_down()
    assert disk.begin(view(10)).replica.whole() == {}


def test_a_copy_that_is_being_loaded_is_not_whole(disk: Disk) -> None:
    life = disk.begin()
    life.replica.enter()
    theirs = CopyView(OTHER, PartitionState.OWNING, Position(10))
    copies = (theirs, CopyView(OWN, PartitionState.MOVING, Position(11)))
    other = PartitionView("rows", GROUP_NUMBER, 0, Position(10), OTHER, copies, is_lost=False)
    life.replica.adopt([other])
    life.replica.write_down()
    assert disk.begin(other).replica.whole() == {}


def test_rows_of_a_group_that_was_dropped_stay_away(disk: Disk) -> None:
    """Another group has its name by now, which its number tells."""
    disk.owner().write(10, "a", b"1")
    back = disk.begin(view(10, group=GROUP_NUMBER + 1))
    assert back.rows == {}
    assert back.replica.whole() == {}


@pytest.mark.parametrize("cut", range(1, 22, 4))
def test_a_line_that_was_cut_short_was_never_written(disk: Disk, cut: int) -> None:
    """A process dies in the middle of it: all before it is there."""
    life = disk.owner()
    life.write(10, "a", b"1")
    life.write(10, "bb", b"2")
    life.journal.close()
    disk.path.write_bytes(disk.path.read_bytes()[:-cut])
    assert disk.begin(view(10)).rows == {"a": b"1"}


def test_a_journal_that_is_damaged_is_refused(disk: Disk) -> None:
    """What cannot be read may have been acknowledged: nobody goes on without it in silence."""
    life = disk.owner()
    life.write(10, "a", b"1")
    life.journal.close()
    first, *rest = disk.path.read_bytes().splitlines(keepends=True)
    disk.path.write_bytes(b"".join([first[:-5] + b"\n", *rest]))
    with pytest.raises(BadInput, match="damaged in line 1") as refused:
        disk.begin(view(10))
    assert "loads all anew" in refused.value.hint


def test_a_journal_is_written_anew_by_whoever_opens_it(disk: Disk) -> None:
    """Only with what counts: a row that was written a hundred times is there once."""
    life = disk.owner()
    for number in range(100):
        life.write(10, "a", b"%d" % number)
    life.journal.close()
    back = disk.begin(view(10))
    back.journal.close()
    assert len(disk.path.read_bytes().splitlines()) == 2
    assert back.rows == {"a": b"99"}


def test_a_deletion_that_others_may_not_have_comes_back_with_its_version(disk: Disk) -> None:
    """An older write of that row, which is still under way, must not bring it back."""
    life = disk.owner()
    life.write(10, "a", b"1")
    life.write(10, "a", None)
    partition = disk.begin(view(10)).replica.partition(("rows", 0))
    assert partition is not None
    partition.content.put("a", Cell(Version(Position(10), 1), b"1"))
    assert dict(partition.content.rows()) == {}


def test_what_counts_no_more_is_neither_in_memory_nor_in_the_file(disk: Disk) -> None:
    """And the next process finds the rest, each row under its version, and what was written since."""
    life = disk.owner()
    for key in ("a", "bb", "ccc"):
        life.write(10, key, b"one")
    life.write(10, "ccc", None)
    before = disk.path.read_bytes()
    disk.closed.add("a")
    assert life.replica.sweep()
    assert life.rows == {"bb": b"one"}
    life.write(10, "dddd", b"four")
    assert b'"a"' in before
    assert b'"a"' not in disk.path.read_bytes()
    assert disk.begin(view(10)).rows == {"bb": b"one", "dddd": b"four"}
    size = disk.path.stat().st_size
    assert not life.replica.sweep()
    assert disk.path.stat().st_size == size


def test_what_counts_no_more_is_not_stored_again(disk: Disk) -> None:
    """Whoever sends it; of a row that counts in part the rest is stored."""
    life = disk.owner()
    disk.closed.add("a")
    life.write(10, "a", b"one")
    life.write(10, "bb", b"half closed")
    assert life.rows == {"bb": b"half "}
    assert b'"a"' not in disk.path.read_bytes()
