"""RocksDB as stores use it: a view that holds still, and its errors as ours (an owner of rocksdict)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rocksdict import Rdict

from topolog.events.errors import BadInput, DamagedStore, Retriable


class DiskFull(Retriable):
    """Nothing more can be written until there is room again; a store that met this must be opened anew."""

    code = "disk_full"


class TooManyOpenFiles(Retriable):
    """The process may open no more files; the store is as good as it was."""

    code = "too_many_open_files"


class UnreadableBlock(DamagedStore):
    """RocksDB cannot read something that it has written: what it can read is as it was written."""


@contextmanager
def translated() -> Iterator[None]:
    """RocksDB's errors as ours: they are bare Exceptions, told apart by their text. Others are defects and stay so."""
    try:
        yield
    except Exception as error:  # rocksdict raises nothing more exact; see above
        if type(error) is not Exception:
            raise
        text = str(error)
        if "Too many open files" in text:
            raise TooManyOpenFiles(
                f"A file of the store cannot be opened: {text}.", hint="Raise the limit of open files (ulimit -n)."
            ) from error
        if re.match(r"IO error: [^/]*\block\b", text):
            raise BadInput(
                f"Another process uses the store: {text}.", hint="Stop it, or give this one a folder of its own."
            ) from error
        if "No space left" in text:
            raise DiskFull(f"The disk of the store is full: {text}.") from error
        raise UnreadableBlock(f"RocksDB cannot read what it has written: {text}.") from error


class View:
    """The keys and values as they were at one moment: one iterator, which RocksDB keeps to the state it was made in.

    (A rocksdict Snapshot would say it better, but the iterators of 0.3.29's snapshots show later writes.)
    """

    def __init__(self, db: Rdict) -> None:
        with translated():
            self._iterator = db.iter()
        self._seeks = 0

    def get(self, key: bytes) -> bytes | None:
        with translated():
            self._seek(key)
            if self._iterator.valid() and self._iterator.key() == key:
                return bytes(self._iterator.value())
            self._iterator.status()
        return None

    def scan(self, start: bytes, prefix: bytes, *, back: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) from `start` on, or back, while keys begin with `prefix`; other reads may come in between."""
        with translated():
            seeks = self._seek(start, back=back)
            while self._iterator.valid() and (key := bytes(self._iterator.key())).startswith(prefix):
                yield key, bytes(self._iterator.value())
                if seeks != self._seeks:
                    seeks = self._seek(key, back=back)
                if back:
                    self._iterator.prev()
                else:
                    self._iterator.next()
            self._iterator.status()

    def close(self) -> None:
        """Give up the iterator, whoever still holds this view: RocksDB keeps its lock until the last one is gone."""
        del self._iterator

    def _seek(self, key: bytes, *, back: bool = False) -> int:
        self._seeks += 1
        if back:
            self._iterator.seek_for_prev(key)
        else:
            self._iterator.seek(key)
        return self._seeks
