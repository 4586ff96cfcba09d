"""The audit's files: lines of JSON that are only ever appended, on disk before what they are about happens.

Threats: a change that nobody can be asked about, and a caller who pushes the records of changes out by being turned
away a million times. Invariant: a change waits until its first line is synced, and does not happen if that fails; what
was turned away has files of its own, the same again within a while is one line with a count, and so is what one caller
is refused beyond so much in a minute: it can be varied without end.

    changes.jsonl  changes.1.jsonl …    the newest first; older ones than `files` are removed
    denied.jsonl   denied.1.jsonl …
"""

import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from heapq import merge
from pathlib import Path

import msgspec

from topolog.events.errors import BadInput, TopologError
from topolog.projections.api.access.audit import NOBODY, End, Record, ended
from topolog.projections.api.access.principals import Key

_LOGGER = logging.getLogger(__name__)
_SAME_AGAIN_S = 10.0
_KINDS_MAX = 1_000
_MINUTE_S = 60.0
DENIED_PER_MINUTE = 30
"""Refusals of one principal that have lines of their own, more than somebody's slips; all who are not known share one
such share."""

_CHANGES = "changes"
_DENIED = "denied"


class AuditFailed(TopologError):
    """A record of the audit could not be written, so what it is about must not happen."""

    code = "audit_failed"


class _Files:
    """The newest file of one kind and the ones before it. Belongs to the writer's thread; reading is anybody's."""

    def __init__(self, folder: Path, name: str, bytes_max: int, files: int) -> None:
        self._folder, self._name = folder, name
        self._bytes_max, self._files = bytes_max, files
        self._open: int | None = None

    def append(self, lines: bytes, *, syncs: bool) -> None:
        """Raises what the system says; half a line that it may then leave spoils no other."""
        try:
            if self._open is None or not self._takes_more(self._open):
                self._open = self._opened()
            view = memoryview(lines)
            while view:
                view = view[os.write(self._open, view) :]
            if syncs:
                os.fdatasync(self._open)
        except Exception:  # whatever it was, the file may end with half a line: the next one is another file
            with suppress(OSError):
                self.close()
            raise

    def close(self) -> None:
        found, self._open = self._open, None
        if found is not None:
            os.close(found)

    def newest_first(self) -> Iterator[bytes]:
        """Every line there is; a file that gets another name meanwhile is read once."""
        read = set()
        for number in range(self._files):
            with suppress(FileNotFoundError), self._path(number).open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                if inode not in read:
                    read.add(inode)
                    yield from reversed(file.read().splitlines())

    def _takes_more(self, file: int) -> bool:
        """Whether it has room, and has not been removed: what goes into a removed file is nowhere."""
        found = os.fstat(file)
        return found.st_size <= self._bytes_max and found.st_nlink > 0

    def _opened(self) -> int:
        """The newest file, at the start of a line; a new one if it is full."""
        self.close()
        newest = self._path(0)
        if newest.exists() and newest.stat().st_size > self._bytes_max:
            self._path(self._files - 1).unlink(missing_ok=True)
            for number in reversed(range(self._files - 1)):
                if self._path(number).exists():
                    self._path(number).rename(self._path(number + 1))
        found = os.open(newest, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        size = os.fstat(found).st_size
        if size and os.pread(found, 1, size - 1) != b"\n":
            os.write(found, b"\n")
        return found

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}{f'.{number}' if number else ''}.jsonl"


class _Again(msgspec.Struct):
    """What was turned away first at `since_s`, and how often it is yet to be told."""

    since_s: float
    record: Record
    count: int = 0


class _Line(msgspec.Struct):
    kind: str
    text: bytes
    written: Future[None]


class Ledger:
    """The audit of one process. Lines that come together are synced together, by a thread of its own."""

    def __init__(self, folder: Path, bytes_max: int, files: int, now_s: Callable[[], float]) -> None:
        """Raises BadInput if the folder cannot be used."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise BadInput(f"The audit's folder {folder} cannot be used: {error.strerror}.") from error
        self._kinds = {name: _Files(folder, name, bytes_max, files) for name in (_CHANGES, _DENIED)}
        self._now_s = now_s
        self._again: dict[tuple[str, ...], _Again] = {}
        self._shares: dict[Key, tuple[float, int]] = {}
        self._counting = threading.Lock()
        self._lines: queue.SimpleQueue[_Line | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="audit", daemon=True)
        self._writer.start()

    def begin(self, record: Record) -> Future[None]:
        """Done when the record is on disk; AuditFailed otherwise."""
        return self._append(_CHANGES, record)

    def end(self, end: End) -> Future[None]:
        return self._append(_CHANGES, end)

    def deny(self, record: Record) -> Future[None] | None:
        """Keep what was turned away; None if the same was kept a moment ago, or much of this caller's in the last
        minute, and it is only counted. Any thread.

        Of who is not known only the address tells one from another: what is asked for can be varied without end.
        """
        who = (record.method, record.principal)
        is_known = record.principal != NOBODY
        about = (record.principal, record.cluster, record.what) if is_known else ()
        same = (record.client, record.code, *about)
        with self._counting:
            self._tell_repeats()
            if same in self._again:
                self._again[same].count += 1
                return None
            if len(self._again) >= _KINDS_MAX:
                self._tell_repeats(at_once=True)
            if not self._has_share(who):
                rest = self._again.setdefault(who, _Again(self._now_s(), _rest(record)))
                rest.count += 1
                return None
            self._again[same] = _Again(self._now_s(), record)
            return self._append(_DENIED, record)

    def _has_share(self, who: Key) -> bool:
        """Whether one more of theirs gets a line; counts it."""
        now_s = self._now_s()
        since_s, kept = self._shares.get(who, (now_s, 0))
        if now_s - since_s >= _MINUTE_S:
            self._shares = {each: share for each, share in self._shares.items() if now_s - share[0] < _MINUTE_S}
            since_s, kept = now_s, 0
        self._shares[who] = since_s, kept + 1
        return kept < DENIED_PER_MINUTE

    def tell_repeats(self, *, at_once: bool = False) -> None:
        """Keep the counts of what was turned away again and again. Any thread."""
        with self._counting:
            self._tell_repeats(at_once=at_once)

    def _tell_repeats(self, *, at_once: bool = False) -> None:
        now_s = self._now_s()
        for same, again in list(self._again.items()):
            if at_once or now_s - again.since_s >= _SAME_AGAIN_S:
                del self._again[same]
                if again.count:
                    self._append(_DENIED, _repeated(again))

    def close(self) -> None:
        """Write what is waiting, and no more."""
        self.tell_repeats(at_once=True)
        self._lines.put(None)
        self._writer.join()
        for files in self._kinds.values():
            files.close()

    def newest_first(self) -> Iterator[Record]:
        """All that is kept, what was turned away among the changes."""
        changes, denied = self._changes(), self._denied()
        return merge(changes, denied, key=lambda record: record.time, reverse=True)

    def _changes(self) -> Iterator[Record]:
        ends: dict[str, End] = {}
        for line in self._kinds[_CHANGES].newest_first():
            found = _decoded(line)
            if isinstance(found, Record):
                yield ended(found, ends.pop(found.id, None))
            elif found is not None:
                ends[found.id] = found

    def _denied(self) -> Iterator[Record]:
        for line in self._kinds[_DENIED].newest_first():
            found = _decoded(line)
            if isinstance(found, Record):
                yield found

    def _append(self, kind: str, told: Record | End) -> Future[None]:
        line = _Line(kind, msgspec.json.encode(told), Future())
        self._lines.put(line)
        return line.written

    def _write(self) -> None:
        goes_on = True
        while goes_on:
            waiting = [self._lines.get()]
            while not self._lines.empty():
                waiting.append(self._lines.get())
            goes_on = None not in waiting
            for kind, files in self._kinds.items():
                self._write_together(files, [each for each in waiting if each is not None and each.kind == kind], kind)

    def _write_together(self, files: _Files, lines: list[_Line], kind: str) -> None:
        """Whatever goes wrong is told to those who wait: a thread that had died of it would keep them for ever."""
        if not lines:
            return
        waited_for = [each.written for each in lines if each.written.set_running_or_notify_cancel()]
        failed: AuditFailed | None = None
        try:
            files.append(b"".join(each.text + b"\n" for each in lines), syncs=kind == _CHANGES)
        except Exception as error:  # a full disk or a defect
            _LOGGER.error("The audit cannot be written: %s", error, exc_info=not isinstance(error, OSError))
            why = (isinstance(error, OSError) and error.strerror) or "this is a defect of topolog"
            failed = AuditFailed(f"The audit cannot be written: {why}.", hint="Nothing was changed.")
        for each in waited_for:
            if failed is None:
                each.set_result(None)
            else:
                each.set_exception(failed)


def _rest(record: Record) -> Record:
    """The line for all that its principal is refused beyond their share."""
    return Record(
        id=record.id,
        time=record.time,
        principal=record.principal,
        method=record.method,
        client=record.client,
        agent="",
        cluster=record.cluster,
        what="whatever else was refused",
        parameters={},
        dry_run=False,
        reason="",
        result=record.result,
        status=record.status,
        code=record.code,
        detail=f"More than {DENIED_PER_MINUTE} refusals within a minute: this is the count of the others.",
    )


def _repeated(again: _Again) -> Record:
    return msgspec.structs.replace(again.record, id=f"{again.record.id}-again", count=again.count)


def _decoded(line: bytes) -> Record | End | None:
    """What a line says; None for what a crash has left of one."""
    if not line:
        return None
    try:
        return msgspec.json.decode(line, type=Record)
    except msgspec.ValidationError:
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(line, type=End)
    except msgspec.DecodeError:
        pass
    return None
