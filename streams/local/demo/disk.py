"""The rows of one node on its disk: a journal, so that its copies outlive its process.

Threats. A process dies in the middle of a line. A copy that is being loaded is taken for whole. Rows of a group that
was dropped come back under its name. An old journal takes the place of the newest: that is not ours to see, but the
log's (`events/views.py`), and then nothing that is here is believed.

Invariant. What this node has said to anybody, to a client or to another node, is in the kernel's hands before it is
said; and a copy that the log lists as this node's own is named here as whole before the log can list it.

Argument. Rows lie in *contents*; a copy that is exchanged as a whole gets another content, under a number that nobody
has had. A line says of a row what it is in one content, or of a partition which content is the whole copy of it. All
that an operation has changed is written before what it leads to is sent (`write_down`). A line that is cut short was
never answered for, and can only be the last one. A name that is out of date does no harm: the log decides who owns, and
of a copy that it does not list the disk is not asked.

What the kernel has is safe from the death of the process, not of the machine: a store that must outlive that one too
syncs here. The file grows while the process lives; whoever opens it first writes down anew what counts.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from topolog.events.errors import BadInput
from topolog.events.ids import NodeId, Position
from topolog.streams.local.demo.replication.content import Content, Keep, everything
from topolog.streams.local.demo.replication.messages import Cell, Version
from topolog.streams.local.demo.replication.replica import Replica

NAME = "rows.journal"


class Put(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A row of one content, None if it was deleted."""

    content: int
    key: str
    token: Position
    number: int
    value: bytes | None


class Whole(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """From here on this content is a whole copy of the partition; None: nothing is."""

    partition: int
    group_number: int
    content: int | None


class Left(msgspec.Struct, frozen=True):
    """A whole copy that a former process has left."""

    group_number: int
    content: int
    cells: Mapping[str, Cell]


_LINE = msgspec.json.Decoder(Put | Whole)


class Journal:
    """One file of lines, appended to; nothing of it is for sure before `flush`.

    Opened when it is first asked for something. By then the node's folder is locked, so nobody else writes it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._left: dict[int, Left] = {}
        self._numbers: Iterator[int] = iter(())

    def taken_up(self) -> Mapping[int, Left]:
        """What a former process has left, by partition: whoever asks first has it. Raises BadInput if it is damaged."""
        self._opened()
        found, self._left = self._left, {}
        return found

    def next_content(self) -> int:
        self._opened()
        return next(self._numbers)

    def write(self, entry: Put | Whole) -> None:
        self._opened().write(_encoded(entry))

    def begin_anew(self, entries: Iterable[Put | Whole]) -> None:
        """Write these in the place of all that was written before."""
        self._opened().close()
        self._file = self._replaced(entries)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._left = self._read()
            self._numbers = itertools.count(max((each.content for each in self._left.values()), default=0) + 1)
            self._file = self._written_anew()
        return self._file

    def _read(self) -> dict[int, Left]:
        contents: dict[int, dict[str, Cell]] = {}
        whole: dict[int, Whole] = {}
        for entry in self._entries():
            match entry:
                case Put():
                    contents.setdefault(entry.content, {})[entry.key] = _cell(entry)
                case Whole():
                    whole[entry.partition] = entry
        return {
            number: Left(each.group_number, each.content, contents.get(each.content, {}))
            for number, each in whole.items()
            if each.content is not None
        }

    def _entries(self) -> Iterator[Put | Whole]:
        lines = self._path.read_bytes().split(b"\n") if self._path.exists() else [b""]
        for number, line in enumerate(lines[:-1], 1):  # the last one is empty, or was cut short
            try:
                yield _LINE.decode(line)
            except msgspec.MsgspecError as error:
                raise BadInput(
                    f"{self._path} is damaged in line {number}: {error}.",
                    hint="Move it away: the node loads all anew from the others.",
                ) from error

    def _written_anew(self) -> BinaryIO:
        entries: list[Put | Whole] = []
        for number, each in self._left.items():
            entries += (_put(each.content, key, cell) for key, cell in each.cells.items())
            entries.append(Whole(number, each.group_number, each.content))
        return self._replaced(entries)

    def _replaced(self, entries: Iterable[Put | Whole]) -> BinaryIO:
        """A file of these in the place of the former one; a crash leaves one or the other."""
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("wb") as file:
            file.writelines(map(_encoded, entries))
        new.replace(self._path)
        return self._path.open("ab")


class DiskContent(Content):
    """Rows that are in the journal too; `number` is the content's there."""

    def __init__(self, page_rows: int, journal: Journal, number: int, keep: Keep) -> None:
        super().__init__(page_rows, keep)
        self.number = number
        self._journal = journal

    def take_up(self, cells: Iterable[tuple[str, Cell]]) -> None:
        """Rows that are in the journal under this number."""
        for key, cell in cells:
            super().put(key, cell)

    def put(self, key: str, cell: Cell) -> None:
        before = self.get(key)
        super().put(key, cell)
        if self.get(key) is not before:
            self._journal.write(Put(self.number, key, cell.version.token, cell.version.number, cell.value))

    def rewrite(self, key: str, value: bytes) -> None:
        super().rewrite(key, value)
        version = self._cells[key].version
        self._journal.write(Put(self.number, key, version.token, version.number, value))


class DiskReplica(Replica):
    """The copies of a node, of one group, on its disk."""

    def __init__(self, node: NodeId, group: str, journal: Journal, keep: Keep = everything) -> None:
        super().__init__(node, keep=keep)
        self._group = group
        self._journal = journal
        self._written: dict[int, Whole] = {}

    def come_back(self) -> None:
        for number, left in self._journal.taken_up().items():
            partition = self.partition((self._group, number))
            if partition is None or partition.view is None or partition.view.group_number != left.group_number:
                continue
            content = DiskContent(self._page_rows, self._journal, left.content, self._keep)
            content.take_up(left.cells.items())
            partition.content, partition.is_whole = content, True
            self._written[number] = Whole(number, left.group_number, left.content)

    def write_down(self) -> None:
        for (_, number), partition in self.partitions():
            content, view = partition.content, partition.view
            assert isinstance(content, DiskContent), "all contents are made here"
            written = self._written.get(number)
            if view is None or (written is not None and written.content == content.number):
                continue  # as long as it lies there, it is what was whole last
            if partition.is_whole:
                self._note(Whole(number, view.group_number, content.number))
            elif written is not None and written.content is not None:
                self._note(Whole(number, view.group_number, None))
        self._journal.flush()

    def sweep(self) -> bool:
        """As for what is in memory; then the file is written anew, so that nothing of it lies there either."""
        has_swept = super().sweep()
        if has_swept:
            self._journal.begin_anew(self._entries())
        return has_swept

    def _entries(self) -> Iterator[Put | Whole]:
        for content in self._contents():
            assert isinstance(content, DiskContent), "all contents are made here"
            yield from (_put(content.number, key, cell) for key, cell in content.cells())
        yield from self._written.values()

    def _note(self, whole: Whole) -> None:
        self._written[whole.partition] = whole
        self._journal.write(whole)

    def _new_content(self) -> Content:
        return DiskContent(self._page_rows, self._journal, self._journal.next_content(), self._keep)


def _cell(put: Put) -> Cell:
    return Cell(Version(put.token, put.number), put.value)


def _put(content: int, key: str, cell: Cell) -> Put:
    return Put(content, key, cell.version.token, cell.version.number, cell.value)


def _encoded(entry: Put | Whole) -> bytes:
    return msgspec.json.encode(entry) + b"\n"
