"""What the clients of a soak did and were told: one JSON line each, written before and after every operation.

Times are ns of CLOCK_MONOTONIC, which all processes of one machine share, so that any two of them can be compared. An
operation without its second line is one whose outcome nobody was told: it may have happened, once, or not at all.
"""

import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import msgspec


class Line(msgspec.Struct, frozen=True, tag=True):
    """`client` is the node's name, `life` the process id: what one client did is in order within one life."""

    client: str
    life: int
    at_ns: int


class Asked(Line, frozen=True):
    """A proposal is about to be handed over; `operation` numbers those of this life."""

    operation: int
    type_name: str
    fields: Mapping[str, str]


class Sent(Line, frozen=True):
    """It has been handed over under this request id; None if nothing had to be sent."""

    operation: int
    request: str | None


class Told(Line, frozen=True):
    """Its outcome. `accepted`: that of the version too. A refusal has a `code` and no version or position."""

    operation: int
    request: str | None
    status: str
    version: int = 0
    position: int = -1
    accepted: bool = False
    code: str = ""


class Read(Line, frozen=True):
    """A read that passed both its lease checks began at `at_ns`; `version` 0: the type was not there.

    `incarnation` is None if it changed meanwhile, so that nobody can say which of them read.
    """

    incarnation: int | None
    returned_ns: int
    type_name: str
    version: int
    fields_crc: int


class Held(Line, frozen=True):
    """A lease check of this incarnation, begun at `at_ns`, passed; `position` was read after it."""

    incarnation: int
    position: int


class Stood(Line, frozen=True):
    """The hash of the node's state at a position."""

    position: int
    state_hash: str


class Ended(Line, frozen=True):
    """An error ended the node for good."""

    code: str
    message: str


AnyLine = Asked | Sent | Told | Read | Held | Stood | Ended


def fields_crc(fields: Iterable[tuple[str, str]]) -> int:
    """A number for a type's fields and their kinds."""
    return zlib.crc32(repr(sorted(fields)).encode())


class Diary:
    """Appends lines to a file, each by one write: what was noted before a kill -9 is in the file whole."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._file)

    def note(self, line: AnyLine) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")


class DiaryReader:
    """Reads a diary as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._decoder = msgspec.json.Decoder(AnyLine)

    def read(self) -> list[AnyLine]:
        """The whole lines since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [self._decoder.decode(line) for line in whole.splitlines()]
