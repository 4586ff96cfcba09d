"""The one fold: which records of `decisions` count, and what they change. Every reader of the log is made of it.

Threats. Two coordinators append at once; a deposed one's sends arrive minutes late, twice, or only in part; a send
fails in the middle of a set; a foreign program writes into the topic; the log is cut short or swapped for a copy.

Invariant (K3). What is accepted of a term is a prefix of what its coordinator decided, in whole sets; all readers
accept the same records, wherever they stop and start.

Argument. A record is judged by its stamp alone, before its value is decoded, against a header that the accepted
records before it have made. A term opens with the first record of a term higher than all before; within it only the
next sequence is accepted, a repeat is ignored, and the first gap closes the term for good, so nothing behind a lost
record ever counts. A set cut short by the end of its term never happened. Each stamp carries the chain hash before it:
if that is not the reader's own, the log is not the one the reader has folded, and the reader stops.

A kept record is decoded and folded, or the reader stops with its position, fingerprint and reason (K8): skipping it
would make this reader's state differ from every other's. The one exception is a record that an operator has voided
(`voiding.py`): all readers leave it out. A fold that has stopped stands as it stood before the record it stopped at.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec

from topolog.events import (
    baseline,
    drains,
    exchange,
    groups,
    lease_terms,
    levels,
    membership,
    metadata,
    objects,
    repair,
    replicas,
    requests,
    schedules,
    snapshots,
    terms,
    views,
    voiding,
)
from topolog.events.codec import CODEC, Codec, describe_prefix, stated_fingerprint
from topolog.events.decision import Decision
from topolog.events.errors import BadInput, DamagedStore, LogDiverged, Poisoned, Undecodable
from topolog.events.ids import NOWHERE, Place, Position, Term
from topolog.events.stamp import NO_CHAIN, TERM_MAX, InputOffset, Stamp, chain_after, decode_stamp
from topolog.events.state import State
from topolog.events.voiding import LeftOut, RecordVoided, Voiding


class Ignored(Enum):
    """Why a record does not count."""

    NO_STAMP = "it has no stamp"
    FOREIGN_LOG = "it belongs to another log"
    OLD_TERM = "its term is over"
    CLOSED_TERM = "its term was closed by a gap or by its own end"
    REPEAT = "it stands in the log already"
    GAP = "a record before it is missing, which closes its term"


class Header(msgspec.Struct, frozen=True):
    """All the fold must know to judge the next record. `inputs` is how far the accepted sets have read each input."""

    log_id: bytes | None = None
    term: Term = Term(0)
    next_sequence: int = 0
    closed: bool = False
    position: Position = NOWHERE
    chain: bytes = NO_CHAIN
    inputs: tuple[InputOffset, ...] = ()


def next_term(header: Header) -> Term:
    """The term to claim after this one; raises LogDiverged if there is no higher number."""
    if header.term == TERM_MAX:
        raise LogDiverged(
            f"Term {header.term} is the last that there can be: after position {header.position} nobody can lead.",
            hint="No coordinator counts so far, so somebody else has written to the log. Take away that right, then "
            "start from a backup of the log.",
        )
    return Term(header.term + 1)


class Accepted(msgspec.Struct, frozen=True):
    """One record of a whole accepted set, not yet decoded."""

    place: Place
    stamp: Stamp
    stamp_bytes: bytes
    value: bytes


Event = Decision | LeftOut
"""What is folded: a decision, or the place of one that was voided."""


class Folded(msgspec.Struct, frozen=True):
    """One decision that has been folded."""

    place: Place
    stamp: Stamp
    event: Event


Standing = tuple[Header, tuple[Accepted, ...]]
"""Where a judge stands: the header, and the records of the set that is open."""


class Judge:
    """Accepts whole sets of records by their stamps (K3); never looks at a value."""

    def __init__(self, header: Header = Header()) -> None:  # noqa: B008 (frozen value)
        self.header = header
        self._open: list[Accepted] = []

    @property
    def standing(self) -> Standing:
        """All it knows: a judge that is given this judges what comes next as this one would."""
        return self.header, tuple(self._open)

    def stand(self, standing: Standing) -> None:
        self.header, whole = standing
        self._open = list(whole)

    def judge(self, stamp_bytes: bytes | None, value: bytes) -> list[Accepted] | Ignored:
        """The whole set this record completes, nothing yet while its set is open, or why it does not count.

        Raises LogDiverged if the record is next in order but does not continue the chain, or if its term's start is
        missing.
        """
        try:
            stamp = decode_stamp(stamp_bytes or b"")
        except Undecodable:
            return Ignored.NO_STAMP
        assert stamp_bytes is not None
        refusal = self._refusal(stamp)
        if refusal is Ignored.GAP:
            self._open.clear()
            self.end_term()
        if refusal is not None:
            return refusal
        accepted = self._extend(stamp, stamp_bytes, value)
        self._open.append(accepted)
        self.header = msgspec.structs.replace(self.header, next_sequence=stamp.sequence + 1)
        return self._close_set(stamp) if stamp.index + 1 == stamp.size else []

    def end_term(self) -> None:
        """The term's own end has been accepted (`ends_term`): nothing more of it counts."""
        self.header = msgspec.structs.replace(self.header, closed=True)

    def _refusal(self, stamp: Stamp) -> Ignored | None:
        header = self.header
        if header.log_id is None:
            return None if _opens_log(stamp) else Ignored.FOREIGN_LOG
        if stamp.log_id != header.log_id:
            return Ignored.FOREIGN_LOG
        if stamp.term < header.term:
            return Ignored.OLD_TERM
        if stamp.term > header.term:
            self._check_opens_term(stamp)
            return None
        if header.closed:
            return Ignored.CLOSED_TERM
        if stamp.sequence < header.next_sequence:
            return Ignored.REPEAT
        return Ignored.GAP if stamp.sequence > header.next_sequence else None

    def _check_opens_term(self, stamp: Stamp) -> None:
        """A leader writes nothing before it has read its TermStarted back, so a term without one has lost it."""
        if not _opens_term(stamp):
            raise LogDiverged(
                f"After position {self.header.position} the log holds record {stamp.sequence} of term {stamp.term}, "
                f"but not the start of that term.",
                hint="Records were lost or the log was swapped. Compare it with a backup before going on.",
            )

    def _extend(self, stamp: Stamp, stamp_bytes: bytes, value: bytes) -> Accepted:
        if stamp.sequence == 0:
            self._open.clear()
            self.header = msgspec.structs.replace(self.header, log_id=stamp.log_id, term=stamp.term, closed=False)
        before = self._open[-1].place if self._open else None
        chain = before.chain if before else self.header.chain
        if stamp.sequence and stamp.chain != chain:
            raise LogDiverged(
                f"After position {self.header.position} the log continues another history: record {stamp.sequence} of "
                f"term {stamp.term} follows {stamp.chain.hex()}, this reader has {chain.hex()}.",
                hint="The log was cut short, swapped for a copy or forked. Compare it with a backup before going on.",
            )
        if stamp.index != len(self._open) or (self._open and stamp.size != self._open[0].stamp.size):
            raise LogDiverged(f"Record {stamp.sequence} of term {stamp.term} does not continue the set it stands in.")
        position = Position(self.header.position + len(self._open) + 1)
        return Accepted(Place(position, chain_after(chain, stamp_bytes, value), stamp.term), stamp, stamp_bytes, value)

    def _close_set(self, stamp: Stamp) -> list[Accepted]:
        whole, self._open = self._open, []
        last = whole[-1].place
        self.header = msgspec.structs.replace(
            self.header,
            position=last.position,
            chain=last.chain,
            inputs=stamp.inputs or self.header.inputs,
            closed=self.header.position == NOWHERE,
        )
        return whole


def _opens_log(stamp: Stamp) -> bool:
    return stamp.term == 0 and stamp.sequence == 0 and stamp.size == 1


def _opens_term(stamp: Stamp) -> bool:
    return stamp.sequence == 0 and stamp.size == 1


_EVOLVE: dict[type, Callable[[State, Any, Place], None]] = {
    event: protocol.evolve
    for protocol, events in (
        (terms, terms.TermEvent.__args__),
        (levels, (levels.FeatureLevelRaised,)),
        (requests, requests.RequestEvent.__args__),
        (membership, membership.MembershipEvent.__args__),
        (metadata, metadata.MetadataEvent.__args__),
        (groups, groups.GroupEvent.__args__),
        (exchange, exchange.ExchangeEvent.__args__),
        (baseline, baseline.BaselineEvent.__args__),
        (drains, drains.DrainEvent.__args__),
        (lease_terms, lease_terms.LeaseTermsEvent.__args__),
        (objects, objects.ObjectEvent.__args__),
        (replicas, replicas.ReplicaEvent.__args__),
        (repair, repair.RepairEvent.__args__),
        (schedules, schedules.ScheduleEvent.__args__),
        (snapshots, (snapshots.SnapshotTaken,)),
        (voiding, voiding.VoidingEvent.__args__),
    )
    for event in events
}


_OTHERS: tuple[tuple[tuple[type, ...], Callable[[State, Any, Place], None]], ...] = (
    (exchange.OTHERS, exchange.evolve_others),
    (baseline.OTHERS, baseline.evolve_others),
    (drains.OTHERS, drains.evolve_others),
    (objects.OTHERS, objects.evolve_others),
    (schedules.OTHERS, schedules.evolve_others),
)
"""What decisions of one protocol mean for others, behind what their own makes of them."""


def evolve(state: State, event: Event, place: Place) -> None:
    """Fold one event into the state: total, never refuses; an assertion that fails is a poisoned log."""
    before = state.get(terms.ClusterRow, "")
    _EVOLVE[type(event)](state, event, place)
    for events, evolve_others in _OTHERS:
        if isinstance(event, events):
            evolve_others(state, event, place)
    if state.get(terms.ClusterRow, "") is not before:
        _note_view(state, before, place)


def _note_view(state: State, before: terms.ClusterRow | None, place: Place) -> None:
    """Keep the view if it has changed."""
    row = terms.cluster(state)
    if before is None or before.topology_version != row.topology_version:
        views.note_view(state, row.topology_version, baseline.online(state), place)


class Fold:
    """A reader of the log: the judge, and the state that the accepted sets have made."""

    def __init__(self, state: State | None = None, header: Header = Header(), codec: Codec = CODEC) -> None:  # noqa: B008 (frozen value)
        require_assertions()
        self.state = state or State()
        self._judge = Judge(header)
        self._codec = codec
        self._began = header.position
        self._voided: set[Voiding] = set()

    @property
    def header(self) -> Header:
        return self._judge.header

    def judge(self) -> Judge:
        """A judge of its own that stands where this fold stands."""
        judge = Judge()
        judge.stand(self._judge.standing)
        return judge

    def void(self, voiding: Voiding) -> None:
        """The log voids this record, though further on: leave it out when it comes."""
        self._voided.add(voiding)

    def read(self, stamp: bytes | None, value: bytes) -> list[Folded] | Ignored:
        """Fold one record: the decisions of the set it completes, [] while the set is open, or why it is ignored.

        Raises Poisoned for an accepted record that cannot be decoded or folded, after which the fold stands before this
        record; DamagedStore if the state it began with holds what was voided since; LogDiverged as `Judge.judge` does.
        """
        before = self._judge.standing
        verdict = self._judge.judge(stamp, value)
        if isinstance(verdict, Ignored):
            return verdict
        self.state.begin()
        try:
            return [self._fold(accepted) for accepted in verdict]
        except (Poisoned, DamagedStore):
            self.state.undo()
            self._judge.stand(before)
            raise
        finally:
            self.state.keep()

    def _fold(self, accepted: Accepted) -> Folded:
        place = accepted.place
        event: object = None
        try:
            event = self._event(accepted)
            evolve(self.state, event, place)  # type: ignore[arg-type]  # a request here is a KeyError, hence poisoned
        except Exception as error:  # whatever it is: skipping it would part this reader from all others (K8)
            self._check_beginning(event)
            raise _poisoned(accepted, error, self._level(), self._codec.newest_level) from error
        if ends_term(accepted.value):
            self._judge.end_term()
        return Folded(place, accepted.stamp, event)  # type: ignore[arg-type]  # evolve has a function only for these

    def _event(self, accepted: Accepted) -> object:
        if (accepted.place.position, accepted.place.chain) in self._voided:
            return LeftOut(accepted.place.position, stated_fingerprint(accepted.value), len(accepted.value))
        event = self._codec.decode(accepted.value)
        _check_opening(event, accepted.stamp)
        self._check_level(event, self._codec.level_of(accepted.value))
        return event

    def _check_level(self, event: object, level: int) -> None:
        """What an older member could not have read is poison to all: so one voiding suits every version."""
        if isinstance(event, terms.LogStarted):
            return  # it says itself at which level the log begins
        in_force = self._level()
        assert level <= in_force, f"its schema is of feature level {level}, in force is {in_force}"

    def _level(self) -> int:
        """The feature level in force, 0 before there is any."""
        row = self.state.get(terms.ClusterRow, "")
        return row.feature_level if row else 0

    def _check_beginning(self, event: object) -> None:
        """A store or snapshot that was made before a voiding holds what was voided: it must be made again."""
        if isinstance(event, RecordVoided) and event.position <= self._began:
            raise DamagedStore(
                f"The state that this reader began with holds position {event.position}, voided since.",
                hint="It has to begin with the log itself, and does when it is started again.",
            )


def require_assertions() -> None:
    """Raise BadInput under `python -O`: without its assertions a fold would fold what every other reader stops at."""
    if not __debug__:
        raise BadInput(
            "topolog does not run under `python -O` or PYTHONOPTIMIZE: its readers rely on assertions to stop at a "
            "poisoned log.",
            hint="Start it without -O, and with PYTHONOPTIMIZE unset.",
        )


def ends_term(value: bytes) -> bool:
    """Whether nothing more counts of the term in which this value is accepted.

    By its bytes alone: whoever folds it, leaves it out or looks ahead over it must accept the same behind it.
    """
    return CODEC.type_of(value) is terms.TermEnded and CODEC.read(value) is not None


def _poisoned(accepted: Accepted, error: Exception, level: int, known: int) -> Poisoned:
    position, chain = accepted.place.position, accepted.place.chain
    return Poisoned(
        f"The decision at position {position} (chain {chain.hex()}, {describe_prefix(accepted.value)}) cannot be "
        f"folded: {error}",
        position=position,
        chain=chain,
        stamp=accepted.stamp_bytes,
        value=accepted.value,
        level=level,
        hint=f"This reader stops here and skips nothing. {_cure(position, chain, level, known)}",
    )


def _cure(position: Position, chain: bytes, level: int, known: int) -> str:
    if level > known:
        return (
            f"Feature level {level} is in force and this build knows levels up to {known}: upgrade it. "
            "What newer builds read must not be voided."
        )
    return (
        "A newer version of topolog may know the record. If none does, "
        f"`topolog void --position {position} --chain {chain.hex()} --dry-run` shows what it is, and "
        "docs/runbooks/voiding.md says how to void it."
    )


def _check_opening(event: object, stamp: Stamp) -> None:
    """A log opens with LogStarted, a term with its own TermStarted, and neither stands anywhere else."""
    if stamp.sequence:
        assert not isinstance(event, terms.LogStarted | terms.TermStarted), "a term starts in the middle of a term"
    elif stamp.term:
        assert isinstance(event, terms.TermStarted) and event.term == stamp.term, "a term opens without TermStarted"
    else:
        assert isinstance(event, terms.LogStarted) and event.log_id == stamp.log_id, "a log opens without LogStarted"
