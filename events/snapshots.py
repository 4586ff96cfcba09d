"""Snapshots of the state: a reader need not start at the beginning of the log (K10).

Threats. A snapshot of a state that its leader had only decided ahead of the log, and that never came to be; chunks of a
deposed leader, whole and in good order; a chunk that is missing, damaged or somebody else's; a snapshot of another log,
or of this one before it was restored from an older copy; rows of another version; offsets that point elsewhere because
the log was mirrored. A reader that starts from a wrong state would decide and serve from it, and nothing behind it in
the log need contradict it.

Invariant. What a reader folds from a snapshot and the tail of the log is, at every position, the state, the header and
the verdicts that it would have from the whole log. If a snapshot cannot be proven it is not used: a snapshot saves
time, it is never needed.

Argument. A leader cuts its state at a set's border, ahead of what it has read back; appends the content in chunks, then
SnapshotTaken as their closing record; and when the log has all of them it logs the same bytes as a decision of the same
term. What is accepted of a term is a prefix of what its leader decided (K3), so where SnapshotTaken is accepted, all
that the leader had decided up to the cut is accepted too, and its state at the cut, which the digest fixes, is the
log's. There remains: is this SnapshotTaken, read by somebody who does not start at the beginning, accepted? It names an
anchor, the last record that its leader had read back, hence one that is accepted. A reader that finds the anchor and
reads on, by the fold's own rules, an unbroken chain of the anchor's term that has the snapshot's chain hash at its
position and then SnapshotTaken, has read accepted records only: between them stands no later term, no gap and no end,
or the chain would have ended there. A deposed leader's records, all of them behind the term that deposed it, prove
nothing.

Premises. The leader folds the decision and not its bytes, so what it cuts is the log's state only if the bytes are read
as what was decided: it decodes each before it appends it (`Codec.encode_decision`), or it could live on, and take
snapshots, past a record that stops all others (K8). And the anchor that is found is the accepted one: in the log that
the leader wrote it stands where it is said to; in a copy with other offsets a repeat of it might be found instead, a
late one, behind the start of the next term. So the search begins a thousand records early and a later term ends it: a
copy would have to be shifted by more than that, and to hold such a repeat with all that followed it, to be believed.

The proof is `streams/restoring.py`, the taking `streams/coordinator/snapshots.py`, the bytes `snapshot_content.py`.
"""

from typing import ClassVar

import msgspec

from topolog.events.decision import Decision
from topolog.events.ids import Offset, Place, Position, Term
from topolog.events.state import Row, State


class SnapshotRow(Row, frozen=True):
    """The newest snapshot, said at position `said_at`."""

    KIND: ClassVar[str] = "snapshot"

    position: Position
    chain: bytes
    state_hash: bytes
    rows: int
    content_bytes: int
    chunks: int
    first_offset: Offset
    said_at: Position


class SnapshotAnchor(msgspec.Struct, frozen=True):
    """An accepted record of the term that takes the snapshot; `offset` is where it stood for the leader."""

    offset: Offset
    sequence: int
    position: Position
    chain: bytes


class SnapshotTaken(Decision, frozen=True):
    log_id: bytes
    term: Term
    position: Position
    chain: bytes
    state_hash: bytes
    row_format: str
    digest: bytes
    rows: int
    content_bytes: int
    chunks: int
    first_offset: Offset
    anchor: SnapshotAnchor


class SnapshotChunk(msgspec.Struct, frozen=True):
    """A piece of the content; no decision."""

    log_id: bytes
    position: Position
    chain: bytes
    index: int
    content: bytes


def last_snapshot(state: State) -> SnapshotRow | None:
    return state.get(SnapshotRow, "")


def evolve(state: State, event: SnapshotTaken, place: Place) -> None:
    assert event.term == place.term, "a snapshot is true only in the term that took it"
    assert event.anchor.position <= event.position < place.position, "a snapshot is of an earlier position"
    row = SnapshotRow(
        position=event.position,
        chain=event.chain,
        state_hash=event.state_hash,
        rows=event.rows,
        content_bytes=event.content_bytes,
        chunks=event.chunks,
        first_offset=event.first_offset,
        said_at=place.position,
    )
    state.put("", row)
