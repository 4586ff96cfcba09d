"""Which pages of findings a projector keeps: the keys that differ, for people to look at (`differences.py`).

Threats. A comparison of two tables that have nothing in common writes millions of keys; the rendezvous is started again
and writes its pages once more; anybody who may write to the topic writes something else.

Invariants. Of a session at most 10,000 keys are kept, and only those of the newest comparison of each segment; of all
sessions the 20 newest that have any, and nothing that the topic no longer has.

Argument. What is kept follows from the pages in their order and from what is kept already, so it is the same after a
crash. A page in the place of another takes it. Whether pages are whole, and those that the log speaks of, is asked when
they are read: RowsCompared names the digest over them.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from topolog.events.codec import CODEC
from topolog.events.log import Entry
from topolog.events.repair_definition import SEGMENTS_MAX
from topolog.events.repair_plan import Difference
from topolog.events.topics import Topic
from topolog.events.tree_pages import PageKind, TreePage
from topolog.projections.sides import FindingsBodyRow, FindingsRow, SideRow, SideWrite

KEYS_MAX = 10_000
SESSIONS_MAX = 20

_NUMBER_MAX = 10**6
_SESSION_MAX = (1 << 63) - 1
_DIFFERENCES = msgspec.msgpack.Decoder(tuple[Difference, ...])

Rows = dict[tuple[str, str], SideRow | None]


def findings_write(held: Iterable[FindingsRow], entries: Sequence[Entry]) -> Rows:
    """What these entries of `trees` change of what is held: rows by (kind, key), None for one that goes."""
    keeping = _Keeping(held)
    for entry in entries:
        record = CODEC.read(entry.value) if entry.topic is Topic.TREES else None
        if isinstance(record, TreePage) and record.kind is PageKind.FINDINGS and _is_sound(record):
            keeping.take(record, entry.appended_at_ms)
    return keeping.changes


def key_of(row: FindingsRow) -> str:
    return f"{prefix_of(row.session, row.segment, row.step)}{row.page:06d}"


def prefix_of(session: int, segment: int, step: int) -> str:
    return f"{session:019d}/{segment:04d}/{step:06d}/"


def digest_of(pages: Sequence[FindingsRow]) -> bytes | None:
    """The digest over these pages, as the log names it (`tree_pages.digest_of`); None unless they are whole."""
    if [each.page for each in pages] != list(range(len(pages))) or not pages or not pages[-1].is_last:
        return None
    return hashlib.sha256(b"".join(each.digest for each in pages)).digest()


def expiry(held: Iterable[FindingsRow], before_ms: int) -> SideWrite:
    """What removes the pages that the topic took before that time."""
    gone = [key_of(row) for row in held if row.appended_ms < before_ms]
    return SideWrite({(kind.KIND, key): None for key in gone for kind in (FindingsRow, FindingsBodyRow)}, {})


class _Keeping:
    """The pages that are held while some more are read."""

    def __init__(self, held: Iterable[FindingsRow]) -> None:
        self.changes: Rows = {}
        self._held: dict[str, FindingsRow] = {key_of(row): row for row in held}

    def take(self, page: TreePage, appended_ms: int) -> None:
        found = _differences(page.payload)
        if found is None or self._is_old(page):
            return
        self._drop(key for key, row in self._held.items() if _is_former(row, page))
        row = FindingsRow(
            session=page.task.session,
            segment=page.task.segment,
            step=page.task.step,
            page=page.page,
            is_last=page.is_last,
            digest=hashlib.sha256(page.payload).digest(),
            rows=len(found),
            kept=0,
            appended_ms=appended_ms,
        )
        key = key_of(row)
        others = (each.kept for each in self._of_session(row.session) if key_of(each) != key)
        row = msgspec.structs.replace(row, kept=max(0, min(len(found), KEYS_MAX - sum(others))))
        self._held[key] = row
        self.changes[FindingsRow.KIND, key] = row
        self.changes[FindingsBodyRow.KIND, key] = FindingsBodyRow(found[: row.kept])
        self._drop_old_sessions()

    def _is_old(self, page: TreePage) -> bool:
        """Whether the segment was compared again since."""
        same = (each for each in self._of_session(page.task.session) if each.segment == page.task.segment)
        return any(each.step > page.task.step for each in same)

    def _of_session(self, number: int) -> Iterator[FindingsRow]:
        return (row for row in self._held.values() if row.session == number)

    def _drop_old_sessions(self) -> None:
        newest = sorted({row.session for row in self._held.values()})[-SESSIONS_MAX:]
        self._drop(key for key, row in self._held.items() if row.session < newest[0])

    def _drop(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            del self._held[key]
            self.changes |= {(kind.KIND, key): None for kind in (FindingsRow, FindingsBodyRow)}


def _is_former(row: FindingsRow, page: TreePage) -> bool:
    return (row.session, row.segment) == (page.task.session, page.task.segment) and row.step < page.task.step


def _is_sound(page: TreePage) -> bool:
    return (
        0 <= page.task.session <= _SESSION_MAX
        and 0 <= page.task.segment < SEGMENTS_MAX
        and 0 < page.task.step < _NUMBER_MAX
        and 0 <= page.page < _NUMBER_MAX
    )


def _differences(payload: bytes) -> tuple[Difference, ...] | None:
    """What the page holds; None if that is something else."""
    try:
        return _DIFFERENCES.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
