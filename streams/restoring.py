"""To start from a snapshot instead of from the beginning of the log: find one, load it, have the log prove it (K10).

Finding. A snapshot's SnapshotTaken stands behind its chunks, so the newest is the last record of its topic, or is found
backwards from there: a chunk says how many of its kind stand before it, anything else is stepped over. Loading. All
chunks from the offset it names on, by their index; chunks of others in between do not matter. Proving. As
`events/snapshots.py` argues, with the fold's own judge: the anchor is looked for in `decisions`, and from there on
every record counts, repeats and records of terms that are over aside, up to SnapshotTaken itself. A repeat of the
anchor that stands behind the next term would prove anything, so the search begins well before the place that is named,
and ends at the first record of a later term.

A snapshot that cannot be used costs a line in the log of the process and the next older one is tried, then the
beginning of the log, which is always right. Nothing is folded twice: after the proof the log is read from behind the
snapshot's position on.
"""

import logging
from collections.abc import Sequence
from enum import Enum

import msgspec

from topolog.events.codec import CODEC, Codec
from topolog.events.errors import LogDiverged, Undecodable
from topolog.events.failpoints import reach
from topolog.events.fold import Accepted, Fold, Header, Ignored, Judge, ends_term
from topolog.events.ids import Offset, Position
from topolog.events.log import Entry, LogReader, Partition
from topolog.events.rows import row_format
from topolog.events.snapshot_content import Loader
from topolog.events.snapshots import SnapshotChunk, SnapshotTaken
from topolog.events.stamp import Stamp, chain_after, decode_stamp
from topolog.events.terms import cluster
from topolog.events.topics import Topic

_LOGGER = logging.getLogger("topolog.snapshots")
_DECISIONS: Partition = (Topic.DECISIONS, 0)
_SNAPSHOTS: Partition = (Topic.SNAPSHOTS, 0)

TRIES_MAX = 3
"""Snapshots that are loaded or looked for in the log before the log is read from its beginning."""

LOOKS_MAX = 200
"""Records of the topic that are looked at for a snapshot's end: a topic full of rubbish is given up."""

LOOK_BACK = 1_000
"""Records of `decisions` before the anchor's named place at which it is looked for: in a copy of the log it may stand
earlier, and what stands later is a repeat then."""

PATIENCE_NS = 5_000_000_000
"""So long a topic may give nothing before the log is read from its beginning."""


class Announced(msgspec.Struct, frozen=True):
    """A SnapshotTaken as it closes its chunks: not yet proven. `value` are its bytes."""

    taken: SnapshotTaken
    offset: Offset
    value: bytes


class Restored(msgspec.Struct, frozen=True):
    """Where a reader starts: what is folded already, and the offset of `decisions` it reads from. `position` is that
    of the snapshot, None if there is none."""

    fold: Fold
    next_offset: Offset
    position: Position | None = None


class Unproven(Exception):
    """The log does not say that this snapshot is true."""


class Proof:
    """Whether the log vouches for a snapshot. Records of `decisions` go in, in order, from the anchor or before it on;
    `resume_at` is the offset behind the snapshot's position, there when the snapshot is proven."""

    def __init__(self, announced: Announced) -> None:
        self._announced = announced
        self._judge: Judge | None = None
        self.resume_at: Offset | None = None

    def read(self, entry: Entry) -> bool:
        """True when SnapshotTaken itself has been accepted; raises Unproven when it never can be."""
        if self._judge is None:
            self._look_for_anchor(entry)
            return False
        try:
            found = self._judge.judge(entry.stamp, entry.value)
        except LogDiverged as error:
            raise Unproven(f"the log goes on otherwise: {error.message}") from None
        if found is Ignored.GAP or self._judge.header.term != self._announced.taken.term:
            raise Unproven("its term ended before the log took note of it")
        return not isinstance(found, Ignored) and any(self._follows(each, entry.offset) for each in found)

    def _look_for_anchor(self, entry: Entry) -> None:
        taken, stamp = self._announced.taken, _stamp(entry)
        anchor = taken.anchor
        if stamp is None or stamp.log_id != taken.log_id:
            return
        if stamp.term > taken.term:
            raise Unproven("its term ended before what it is anchored at")
        if (stamp.term, stamp.sequence) != (taken.term, anchor.sequence):
            return
        if chain_after(stamp.chain, entry.stamp or b"", entry.value) != anchor.chain:
            return
        header = Header(taken.log_id, taken.term, anchor.sequence + 1, False, anchor.position, anchor.chain)
        self._judge = Judge(header)
        self._note_place(anchor.position, anchor.chain, entry.offset)

    def _follows(self, accepted: Accepted, offset: Offset) -> bool:
        """One accepted record behind the anchor; whether it is the SnapshotTaken."""
        if ends_term(accepted.value):
            raise Unproven("its term ended before the log took note of it")
        self._note_place(accepted.place.position, accepted.place.chain, offset)
        return self.resume_at is not None and accepted.value == self._announced.value

    def _note_place(self, position: Position, chain: bytes, offset: Offset) -> None:
        taken = self._announced.taken
        if position == taken.position:
            if chain != taken.chain:
                raise Unproven("the log has another history at its position")
            self.resume_at = Offset(offset + 1)


class _Stage(Enum):
    FINDING = "finding"
    LOADING = "loading"
    PROVING = "proving"


class Restorer:
    """Starts one reader; `reader` belongs to it until `step` has returned something. `codec`: the fold's."""

    def __init__(self, reader: LogReader, now_ns: int, codec: Codec = CODEC) -> None:
        self._reader = reader
        self._codec = codec
        self._stage = _Stage.FINDING
        self._look_at: Offset | None = None
        self._looks = self._tries = 0
        self._end = Offset(0)
        self._progress_ns = now_ns

    def step(self, entries: Sequence[Entry], now_ns: int) -> Restored | None:
        """What the last poll gave; where to start, as soon as that is known, with the reader assigned accordingly."""
        if self._look_at is None:
            return self._begin(now_ns)
        if entries:
            self._progress_ns = now_ns
        try:
            restored = self._advance(entries)
        except (Undecodable, Unproven) as error:
            return self._refuse(error)
        if restored is None and now_ns - self._progress_ns > PATIENCE_NS:
            return self._give_up("the topic of snapshots gives nothing")
        return restored

    def _begin(self, now_ns: int) -> Restored | None:
        bounds = self._reader.bounds(_SNAPSHOTS)
        if bounds is None:
            is_late = now_ns - self._progress_ns > PATIENCE_NS
            return self._give_up("the topic of snapshots cannot be read") if is_late else None
        self._oldest, end = bounds
        return self._look(Offset(end - 1))

    def _advance(self, entries: Sequence[Entry]) -> Restored | None:
        match self._stage:
            case _Stage.FINDING:
                return self._find(entries)
            case _Stage.LOADING:
                return self._load(entries)
            case _Stage.PROVING:
                return self._prove(entries)

    # Finding: one look at a time, backwards.

    def _look(self, at: Offset) -> Restored | None:
        if at < self._oldest:
            return self._start(Restored(Fold(codec=self._codec), Offset(0)))
        self._looks += 1
        if self._looks > LOOKS_MAX:
            return self._give_up(f"the last {LOOKS_MAX} records of their topic end no snapshot")
        self._stage, self._look_at = _Stage.FINDING, at
        self._reader.assign({_SNAPSHOTS: at})
        return None

    def _find(self, entries: Sequence[Entry]) -> Restored | None:
        assert self._look_at is not None
        if not entries and not self._reader.at_end(Topic.SNAPSHOTS):
            return None
        entry = entries[0] if entries else None
        record = self._codec.read(entry.value) if entry and entry.offset == self._look_at else None
        if isinstance(record, SnapshotTaken) and entry:
            return self._begin_to_load(Announced(record, entry.offset, entry.value))
        return self._look(Offset(self._look_at - 1 - (record.index if isinstance(record, SnapshotChunk) else 0)))

    # Loading.

    def _begin_to_load(self, announced: Announced) -> Restored | None:
        taken = announced.taken
        self._announced = announced
        self._tries += 1
        if self._tries > TRIES_MAX:
            return self._give_up(f"the newest {TRIES_MAX} cannot be used")
        if taken.row_format != row_format():
            raise Unproven("another version of topolog wrote its rows")
        if not self._oldest <= taken.first_offset < announced.offset:
            raise Unproven("its chunks are no longer kept")
        self._stage, self._loader, self._index = _Stage.LOADING, Loader(), 0
        self._reader.assign({_SNAPSHOTS: taken.first_offset})
        return None

    def _load(self, entries: Sequence[Entry]) -> Restored | None:
        taken = self._announced.taken
        for entry in entries:
            if entry.offset >= self._announced.offset or self._index == taken.chunks:
                break
            chunk = self._codec.read(entry.value)
            if isinstance(chunk, SnapshotChunk) and (chunk.log_id, chunk.chain) == (taken.log_id, taken.chain):
                self._feed(chunk)
        if self._index == taken.chunks:
            header, state = self._loader.finish(taken.digest, taken.state_hash)
            reach("snapshot.loaded")
            return self._begin_to_prove(Fold(state, header, self._codec))
        is_over = self._reader.at_end(Topic.SNAPSHOTS) or (entries and entries[-1].offset >= self._announced.offset)
        if is_over:
            raise Unproven(f"only {self._index} of its {taken.chunks} chunks are there")
        return None

    def _feed(self, chunk: SnapshotChunk) -> None:
        if chunk.index == self._index:
            self._loader.feed(chunk.content)
            self._index += 1

    # Proving.

    def _begin_to_prove(self, fold: Fold) -> Restored | None:
        taken, header = self._announced.taken, fold.header
        if (header.log_id, header.term, header.position, header.chain) != (
            taken.log_id,
            taken.term,
            taken.position,
            taken.chain,
        ):
            raise Unproven("its content is of another place than it says")
        self._fold, self._proof = fold, Proof(self._announced)
        self._stage = _Stage.PROVING
        bounds = self._reader.bounds(_DECISIONS)
        if bounds is None:
            raise Unproven("the log does not answer")
        oldest, self._end = bounds
        if not oldest <= taken.anchor.offset < self._end:
            raise Unproven("it is newer than the log")
        self._reader.assign({_DECISIONS: Offset(max(oldest, taken.anchor.offset - LOOK_BACK))})
        return None

    def _prove(self, entries: Sequence[Entry]) -> Restored | None:
        for entry in entries:
            if self._proof.read(entry):
                assert self._proof.resume_at is not None
                reach("snapshot.proven")
                self._reader.counted(entry, cluster(self._fold.state).fence_ms)
                position = self._announced.taken.position
                _LOGGER.info("starting from the snapshot of position %d", position)
                return self._start(Restored(self._fold, self._proof.resume_at, position))
        if self._reader.at_end(Topic.DECISIONS) or (entries and entries[-1].offset >= self._end - 1):
            raise Unproven("the log does not name it")
        return None

    # Ends.

    def _refuse(self, error: Exception) -> Restored | None:
        taken, offset = self._announced.taken, self._announced.offset
        _LOGGER.warning("the snapshot of position %d (snapshots@%d) is not used: %s", taken.position, offset, error)
        return self._look(Offset(offset - 1))

    def _give_up(self, reason: str) -> Restored:
        _LOGGER.warning("no snapshot is used, the log is read from its beginning: %s", reason)
        return self._start(Restored(Fold(codec=self._codec), Offset(0)))

    def _start(self, restored: Restored) -> Restored:
        self._reader.assign({_DECISIONS: restored.next_offset})
        return restored


def _stamp(entry: Entry) -> Stamp | None:
    try:
        return decode_stamp(entry.stamp or b"")
    except Undecodable:
        return None
