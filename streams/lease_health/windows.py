"""The arithmetic of lease health: one node's account, and what one more heartbeat makes of it. Pure.

Threat. A worker that is killed reads again what it had counted: faust's table survives the crash, its place in the
topic is older. 70,000 records became 73,043 in a measurement.

Invariant. An account is a function of the heartbeats that the topic holds in order, each counted once, however often
each was read.

Argument. The account of a node is one value under one key, so figures and what has been counted change together or not
at all; windows of faust's own are other keys, each written by itself, and could disagree after a crash. A heartbeat is
known by (incarnation, sequence), which a node never uses twice: of an incarnation whose last sequence is known, what is
not above it is a repeat. Of an incarnation that was forgotten, Kafka's order says so: a repeat stands before the last
record counted, by offset and by time. (By the offset alone a topic that was made again would be taken for one.)
"""

from collections.abc import Iterable

import msgspec

from topolog.events.asked import SUBJECT_CHARS_MAX
from topolog.events.errors import Undecodable
from topolog.events.health import MINUTE_MS, WINDOW_MINUTES, Figures, LeaseHealth, Minute, told_every_ms
from topolog.events.ids import Incarnation, Offset
from topolog.events.membership import Heartbeat
from topolog.events.names import is_name

_FORMER_MAX = 4
"""Former incarnations that are remembered: more than that do not beat at once, unless somebody plays with the id."""


class Terms(msgspec.Struct, frozen=True):
    """Of which log heartbeats are measured, and by what terms of lease."""

    log_id: bytes
    fence_ms: int
    heartbeat_ms: int


class Heard(msgspec.Struct, frozen=True):
    """Where a heartbeat stands in its topic; `appended_ms` is LogAppendTime.

    `oldest` is the first offset that the partition still had when this worker took it: what stood before was deleted.
    """

    partition: int
    offset: Offset
    appended_ms: int
    oldest: Offset = Offset(0)


class Account(msgspec.Struct, frozen=True, array_like=True):
    """All that is kept of one node. `told_ms`: time of the heartbeat after which its health was told last."""

    health: LeaseHealth
    former: tuple[tuple[Incarnation, int], ...] = ()
    told_ms: int = 0


def is_of_its_node(beat: Heartbeat, key: bytes | None) -> bool:
    """Whether it stands under its node's own key, and that can be a node's id: it comes to stand in keys and lines."""
    return is_name(beat.node, SUBJECT_CHARS_MAX) and beat.node.encode() == key


def count(before: Account | None, beat: Heartbeat, heard: Heard, terms: Terms) -> Account | None:
    """The node's account with this heartbeat; None if it has been counted before, so that nothing changes."""
    if before is None or before.health.log_id != terms.log_id:
        return Account(_health(beat, heard, terms, 0, Figures(beats=1, starts=1), ()))
    health = before.health
    if beat.incarnation == health.incarnation:
        return None if beat.sequence <= health.sequence else _next(before, beat, heard, terms)
    former = dict(before.former)
    if beat.incarnation in former:
        if beat.sequence <= former[beat.incarnation]:
            return None
        return _stray(before, beat, heard)
    if heard.offset <= health.offset and heard.appended_ms <= health.beat_ms:
        return None
    remembered = ((health.incarnation, health.sequence), *before.former)[:_FORMER_MAX]
    first = _health(beat, heard, terms, 0, Figures(beats=1, starts=1), health.minutes)
    return Account(first, remembered, before.told_ms)


def told(before: Account | None, after: Account) -> Account | None:
    """The account with its health told, if it is to be told now: when something happened, and else now and then."""
    health = after.health
    is_news = before is None or _words(before.health) != _words(health)
    if is_news or not 0 <= health.beat_ms - after.told_ms < told_every_ms(health.fence_ms):
        return msgspec.structs.replace(after, told_ms=health.beat_ms)
    return None


def encode(account: Account) -> bytes:
    return _ENCODER.encode(account)


def decode(data: bytes) -> Account:
    """Raises Undecodable for an account of another version, which is begun anew."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Undecodable(f"An account of {len(data)} bytes cannot be read: {error}.") from error


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Account)


def _words(health: LeaseHealth) -> tuple[object, ...]:
    """What is told at once when it changes."""
    return health.incarnation, health.fenced, health.released, health.is_thin, health.window.is_flapping


def _next(before: Account, beat: Heartbeat, heard: Heard, terms: Terms) -> Account:
    """A later heartbeat of the same incarnation."""
    health = before.health
    if beat.sequence > health.sequence + 1 and health.offset < heard.oldest - 1:
        # The heartbeats in between are not late: they were deleted while nobody measured.
        unmeasured = _health(beat, heard, terms, 0, Figures(beats=1), health.minutes, health.whole)
        return msgspec.structs.replace(before, health=unmeasured)
    gap_ms = max(0, heard.appended_ms - health.beat_ms)  # a broker's clock may have been set back
    lateness_ms = max(0, gap_ms - terms.heartbeat_ms)
    one = Figures(
        beats=1,
        gaps=1,
        gap_max_ms=gap_ms,
        lateness_ms=lateness_ms,
        jitter_ms=abs(lateness_ms - health.lateness_ms) if health.whole.gaps else 0,
        missed=max(0, gap_ms // terms.heartbeat_ms - 1),
        lost=beat.sequence - health.sequence - 1,
        fencings=int(beat.fenced and not health.fenced),
        returns=int(health.fenced and not beat.fenced and health.whole.fencings > health.whole.returns),
    )
    return msgspec.structs.replace(
        before, health=_health(beat, heard, terms, lateness_ms, one, health.minutes, health.whole)
    )


def _stray(before: Account, beat: Heartbeat, heard: Heard) -> Account:
    """A heartbeat of a former incarnation that still runs: counted, and it says nothing of the present one."""
    health = before.health
    one = Figures(strays=1)
    later = msgspec.structs.replace(
        health, minutes=_with(health.minutes, one, heard.appended_ms), whole=health.whole.plus(one)
    )
    former = tuple((each, beat.sequence if each == beat.incarnation else sequence) for each, sequence in before.former)
    return msgspec.structs.replace(before, health=later, former=former)


def _health(
    beat: Heartbeat,
    heard: Heard,
    terms: Terms,
    lateness_ms: int,
    one: Figures,
    minutes: Iterable[Minute],
    whole: Figures | None = None,
) -> LeaseHealth:
    """The health after a heartbeat that adds the figures `one`."""
    return LeaseHealth(
        node=beat.node,
        incarnation=beat.incarnation,
        log_id=terms.log_id,
        partition=heard.partition,
        offset=heard.offset,
        sequence=beat.sequence,
        beat_ms=heard.appended_ms,
        lateness_ms=lateness_ms,
        fence_ms=terms.fence_ms,
        heartbeat_ms=terms.heartbeat_ms,
        fenced=beat.fenced,
        released=beat.is_release,
        minutes=_with(minutes, one, heard.appended_ms),
        whole=(whole or Figures()).plus(one),
    )


def _with(minutes: Iterable[Minute], one: Figures, now_ms: int) -> tuple[Minute, ...]:
    """The window's minutes with one heartbeat more; those of a time that is over, or has not come, are dropped."""
    this_ms = now_ms - now_ms % MINUTE_MS
    oldest_ms = this_ms - (WINDOW_MINUTES - 1) * MINUTE_MS
    known = {each.start_ms: each.figures for each in minutes if oldest_ms <= each.start_ms <= this_ms}
    known[this_ms] = known.get(this_ms, Figures()).plus(one)
    return tuple(Minute(start_ms, known[start_ms]) for start_ms in sorted(known))
