"""What a member answers about tables and rights, and when; kept in a file that outlives the member.

All processes of a machine share one monotonic clock, so answers of several members can be held against one log.
"""

import io
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from functools import partial
from pathlib import Path

import msgspec

from topolog.events.errors import NotFound, Retriable
from topolog.events.object_definition import Column, Privilege
from topolog.streams.node.client import Node

TABLES = ("shop.a", "shop.b", "shop.c")
PRINCIPALS = ("ada", "bob")


class Act(Enum):
    """READ: rows of a table were shown by these columns. WROTE: a row with these columns was taken. ABSENT: there is
    no such table. ALLOWED: a principal may read. KEPT: rows of a table are to be kept for `ttl_ms`."""

    READ = "READ"
    WROTE = "WROTE"
    ABSENT = "ABSENT"
    ALLOWED = "ALLOWED"
    KEPT = "KEPT"


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Begun, about to end and ended, in ns of CLOCK_MONOTONIC: what was read, was read between the first two.

    `name` is that of the object that is judged, a grant's for ALLOWED.
    """

    node: str
    act: Act
    name: str
    begun_ns: int
    closing_ns: int
    ended_ns: int
    incarnation: int = 0
    columns: tuple[Column, ...] = ()
    ttl_ms: int = 0


class Diary:
    """Answers of one process, in one file after the other. Any thread may call."""

    def __init__(self, folder: Path, node: str) -> None:
        self._folder = folder
        self._node = node
        self._encoder = msgspec.json.Encoder()
        self._writing = threading.Lock()
        self._file: io.FileIO | None = None

    def turn(self, page: int) -> None:
        """Go on in another file."""
        with self._writing:
            self._file = io.FileIO(self._folder / f"{page}.{self._node}.answers", "a")

    def note(self, answer: Answer) -> None:
        """One write, so that a process that is killed leaves whole lines. Nothing before the first page."""
        with self._writing:
            if self._file is not None:
                self._file.write(self._encoder.encode(answer) + b"\n")


def answers(folder: Path, page: int) -> Iterator[Answer]:
    """All that members have noted on this page, in no order."""
    decoder = msgspec.json.Decoder(Answer)
    for path in folder.glob(f"{page}.*.answers"):
        yield from decoder.decode_lines(path.read_bytes())


def answer_all(node: Node, diary: Diary) -> None:
    """Ask the node for everything once, and note what it answers; what it refuses for now is no answer."""
    asked = [partial(act, node, name) for name in TABLES for act in (_read, _write, _keep)]
    for ask in (*asked, *(partial(_allow, node, principal, TABLES[0]) for principal in PRINCIPALS)):
        with suppress(Retriable):
            if found := ask():
                diary.note(found)


def _read(node: Node, name: str) -> Answer:
    begun_ns = time.monotonic_ns()
    try:
        with node.using(name) as table:
            columns, incarnation = table.columns, table.incarnation
            closing_ns = time.monotonic_ns()
    except NotFound:
        return Answer(node.name, Act.ABSENT, name, begun_ns, begun_ns, time.monotonic_ns())
    return Answer(node.name, Act.READ, name, begun_ns, closing_ns, time.monotonic_ns(), incarnation, columns)


def _write(node: Node, name: str) -> Answer | None:
    begun_ns = time.monotonic_ns()
    try:
        with node.writing(name) as table:
            columns, incarnation = table.writable, table.incarnation
            closing_ns = time.monotonic_ns()
    except NotFound:
        return None  # said by a read as well
    return Answer(node.name, Act.WROTE, name, begun_ns, closing_ns, time.monotonic_ns(), incarnation, columns)


def _keep(node: Node, name: str) -> Answer | None:
    begun_ns = time.monotonic_ns()
    ttl_ms = node.ttl_ms(name)
    if ttl_ms is None:
        return None
    return Answer(node.name, Act.KEPT, name, begun_ns, begun_ns, time.monotonic_ns(), ttl_ms=ttl_ms)


def _allow(node: Node, principal: str, name: str) -> Answer | None:
    begun_ns = time.monotonic_ns()
    if not node.allows(principal, Privilege.READ, name):
        return None  # a right fails closed: to be refused is never wrong here
    return Answer(node.name, Act.ALLOWED, f"{principal}@{name}", begun_ns, begun_ns, time.monotonic_ns())
