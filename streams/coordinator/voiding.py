"""Voiding a record by an operator's command: one short term of a coordinator that decides nothing else (K27).

Threats. The record is one that this version can read, or that newer ones can, and voiding it would part old readers
from new ones; another record is meant than the one that stands there; a leader, or a second operator, appends at the
same time; the command dies half-way.

How it works. `find` folds the log as every reader does, up to the record at which they all stop. `void` then claims the
next term as a coordinator does, and its word counts only if the first record of that term read back is its own (K5); a
leader that still lives is deposed by it, starts again and finds the voiding. The term is the one next to the last that
`find` has read, so whoever voided the record meanwhile has taken it, and the claim fails. Then it appends
`RecordVoided` and its term's end, and believes what it reads back (K6). Whatever is lost on the way leaves a term
without a voiding, which changes nothing: try again.
"""

from collections.abc import Callable

import msgspec

from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.errors import NotFound, Poisoned, Refused, TopologError, Unreachable
from topolog.events.fold import Fold, Ignored, next_term
from topolog.events.ids import Offset, Position, Term
from topolog.events.log import LogReader, LogWriter
from topolog.events.lookahead import LookAhead, Search
from topolog.events.stamp import HEADER_NAME, NO_CHAIN, Stamp, chain_after, decode_stamp, encode_stamp
from topolog.events.terms import TermEnded, TermStarted, cluster
from topolog.events.topics import Topic
from topolog.events.voiding import RecordVoided, voided_row
from topolog.streams.clock import Clock

PATIENCE_S = 30.0
"""How long the log may say nothing at all before the command gives up."""

_NS_PER_S = 1_000_000_000


class Finding(msgspec.Struct, frozen=True):
    """The record at which every reader of this version stops.

    `level` is the feature level in force there, `behind` counts the accepted records after it.
    """

    position: Position
    chain: bytes
    stamp: Stamp
    value: bytes
    why: str
    level: int
    behind: int


class Voider:
    """One run of the command. `instance` is the name it leads its term by, `life` tells it from others of that name."""

    def __init__(
        self, reader: LogReader, writer: LogWriter, clock: Clock, cluster_name: str, instance: str, life: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._cluster = cluster_name
        self._instance = instance
        self._life = life
        self._fold = Fold()
        self._search: Search | None = None
        self._failure: TopologError | None = None

    def find(self) -> Finding | None:
        """The first record that cannot be folded and is not voided, None if there is none up to the end of the log."""
        self._fold, ahead = Fold(), LookAhead(self._reader)
        ahead.assign({(Topic.DECISIONS, 0): Offset(0)})
        try:
            self._fold_all(ahead)
        except Poisoned as poisoned:
            self._search = ahead.search
            assert self._search is not None
            return _finding(poisoned, self._search)
        return None

    def check(self, finding: Finding | None, position: int, chain: bytes) -> Finding:
        """The finding, if it is the record that is named and may be voided; raises Refused or NotFound if it is not."""
        newest = self._fold.header.position if finding is None else finding.position - 1
        if position <= newest:
            raise self._not_needed(position)
        if finding is None:
            raise NotFound(
                f"There is no position {position}: the log ends at position {newest}, and all of it is read."
            )
        if position != finding.position:
            raise _refused(
                "NOT_THE_FIRST",
                f"Readers stop at position {finding.position} already; nobody knows what stands at {position}.",
                f"Look at position {finding.position} first (chain {finding.chain.hex()}).",
            )
        if chain != finding.chain:
            raise _refused(
                "OTHER_RECORD",
                f"The record at position {position} has the chain hash {finding.chain.hex()}, not {chain.hex()}.",
                "Another log or another record was meant; take both from what the stopped readers say.",
            )
        _check_build(finding)
        _check_kind(finding)
        return finding

    def void(self, finding: Finding, reason: str, actor: str) -> Position:
        """Void the record that was found; returns the position of the voiding, read back.

        Raises Unreachable if somebody else was quicker, or if it is not known what became of it.
        """
        search = self._search
        assert search is not None, "a record is voided after it was found"
        record = (finding.position, finding.chain)
        term = self._claim(search, finding, reason, actor)
        self._append(search, [RecordVoided(finding.position, finding.chain), TermEnded(term)], reason, actor)
        self._read_until(search, lambda: search.judge.header.closed or search.judge.header.term > term)
        if record not in search.found:
            raise Unreachable(
                f"Term {search.judge.header.term} began before position {finding.position} was voided.",
                hint="Another coordinator took over. Nothing has changed; run the command again.",
            )
        return search.found[record]

    def _fold_all(self, ahead: LookAhead) -> None:
        """Fold the log to its end; raises Poisoned for the first record that cannot be folded and is not voided."""
        deadline_ns = self._deadline_ns()
        while not ahead.at_end(Topic.DECISIONS):
            entries = ahead.poll(0.1)
            deadline_ns = self._deadline_ns() if entries else deadline_ns
            self._check_patience(deadline_ns)
            for entry in entries:
                try:
                    if not isinstance(self._fold.read(entry.stamp, entry.value), Ignored):
                        ahead.counted(entry, cluster(self._fold.state).fence_ms)
                except Poisoned as poisoned:
                    ahead.look_ahead(self._fold, poisoned, entry.offset)
                    break

    def _not_needed(self, position: int) -> Refused:
        row = voided_row(self._fold.state, position)
        if row is not None and row.voided_at is not None:
            return _already(position, row.voided_at)
        return _refused(
            "NOT_POISONED",
            f"Position {position} needs no voiding: this version reads it.",
            "A reader of an older version that stops there must be upgraded: what newer ones read is never voided.",
        )

    def _claim(self, search: Search, finding: Finding, reason: str, actor: str) -> Term:
        """Begin the next term; its first record, read back, must be ours (K5)."""
        header = search.judge.header
        assert header.log_id is not None
        term = next_term(header)
        cause = f"claimed by {self._instance} to void position {finding.position}"
        now_ms = self._clock.wall_ms()
        stamp = Stamp(header.log_id, term, 0, 0, 1, NO_CHAIN, now_ms, header.inputs, cause, actor, reason)
        claim = encode_stamp(stamp), self._encoded(TermStarted(term, self._instance, self._life))
        self._send(*claim)
        if self._read_until(search, lambda: search.judge.header.term >= term) != claim:
            raise Unreachable(
                f"Another coordinator began term {term}.", hint="Nothing has changed; run the command again."
            )
        return term

    def _append(self, search: Search, events: list[Decision], reason: str, actor: str) -> None:
        """Append sets of one event each, as the leader of the term that has just begun."""
        header = search.judge.header
        assert header.log_id is not None
        chain, cause = header.chain, f"`topolog void` by {actor}"
        for sequence, event in enumerate(events, header.next_sequence):
            now_ms = self._clock.wall_ms()
            stamp = Stamp(
                header.log_id, header.term, sequence, 0, 1, chain, now_ms, header.inputs, cause, actor, reason
            )
            encoded, value = encode_stamp(stamp), self._encoded(event)
            chain = chain_after(chain, encoded, value)
            self._send(encoded, value)

    def _encoded(self, event: Decision) -> bytes:
        """In schemas that all may read: the level may have risen behind the record that was found, it never falls."""
        return CODEC.encode_decision(event, cluster(self._fold.state).feature_level)

    def _send(self, stamp: bytes, value: bytes) -> None:
        self._writer.append(Topic.DECISIONS, self._cluster, value, ((HEADER_NAME, stamp),), self._on_delivery)

    def _on_delivery(self, error: TopologError | None, _: Offset | None) -> None:
        self._failure = self._failure or error

    def _read_until(self, search: Search, is_met: Callable[[], bool]) -> tuple[bytes | None, bytes] | None:
        """Read on until the condition holds; returns the record that made it hold."""
        deadline_ns = self._deadline_ns()
        while True:
            self._writer.serve()
            if self._failure:
                raise Unreachable(f"The log did not take a record: {self._failure.message}", hint=_RUN_AGAIN)
            for entry in self._reader.poll(0.1):
                if entry.topic is Topic.DECISIONS and not is_met():
                    search.read(entry)
                    last = entry.stamp, entry.value
            if is_met():
                return last
            self._check_patience(deadline_ns)

    def _deadline_ns(self) -> int:
        return self._clock.monotonic_ns() + int(PATIENCE_S * _NS_PER_S)

    def _check_patience(self, deadline_ns: int) -> None:
        if self._clock.monotonic_ns() > deadline_ns:
            raise Unreachable(f"The log has said nothing for {PATIENCE_S:g} s.", hint=_RUN_AGAIN)


_RUN_AGAIN = "Run the command again: it says so if the record is voided by now."


def _finding(poisoned: Poisoned, search: Search) -> Finding:
    position = Position(poisoned.position)
    stamp = decode_stamp(poisoned.stamp)
    behind = search.judge.header.position - position
    return Finding(position, poisoned.chain, stamp, poisoned.value, str(poisoned.__cause__), poisoned.level, behind)


def _check_build(finding: Finding) -> None:
    """Only a build that knows the level in force can tell a poisoned record from one of a newer build."""
    if finding.level > CODEC.newest_level:
        raise _refused(
            "OLDER_BUILD",
            f"Feature level {finding.level} is in force at position {finding.position}, and this build knows levels "
            f"up to {CODEC.newest_level}: newer builds may have folded what it cannot read, and would stop at the "
            "voiding.",
            "Upgrade the readers that stopped. To void a record, run the command of the newest build.",
        )


def _check_kind(finding: Finding) -> None:
    """What opens the log or a term is never voided."""
    if finding.stamp.sequence == 0:
        opened = f"term {finding.stamp.term}" if finding.stamp.term else "the log"
        raise _refused(
            "OPENS_A_TERM",
            f"Position {finding.position} opens {opened} and cannot be voided: readers would not know who leads, or on "
            "what terms of lease.",
            "Find out which version wrote it, and read the log with that one.",
        )


def _already(position: int, voided_at: Position) -> Refused:
    return _refused("ALREADY_VOIDED", f"Position {position} is voided already, by position {voided_at}.", "")


def _refused(code: str, message: str, hint: str) -> Refused:
    return Refused(code, "K27", message, hint=hint)
