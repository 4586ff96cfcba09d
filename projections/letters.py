"""Dead letters: input that nobody could read, kept until somebody has looked (RD10).

A letter is known by its offset in the topic `dead`, which has one partition. Its bytes and headers lie in a row of
their own, for a list needs neither. A letter that is replayed stays, and the record it is replayed as names it in a
header that survives a second death. Letters have no past: they go when the topic has dropped them.
"""

from collections.abc import Iterator

from topolog.events.asked import Request as AnyRequest
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC, describe_prefix
from topolog.events.dead_letters import ERRORS
from topolog.events.errors import NotFound, Refused
from topolog.events.log import Headers
from topolog.events.topics import REQUEST_TOPICS, Topic
from topolog.projections import forgotten_outcomes, queries
from topolog.projections.moments import iso
from topolog.projections.resources import DeadLetter, DeadLetterDetail
from topolog.projections.sides import REPLAYS, LetterBodyRow, LetterRow, letter_key
from topolog.projections.store import Reading

NO_PAST = "Dead letters have no past: they are here until their topic drops them."
REASON = "topolog-replay-reason"
ACTOR = "topolog-replay-actor"

_DUMPED_BYTES = 512
_LINE_BYTES = 16
_SENSELESS = {
    Topic.HEARTBEATS.short_name: "A heartbeat speaks of a moment that is past, and its node has sent others since.",
}


def letters(reading: Reading, before: int | None = None) -> Iterator[DeadLetter]:
    """Every letter that is kept, newest first; those with an id below `before` only."""
    for _, row in reading.sides(LetterRow, after=None if before is None else letter_key(before)):
        yield _shown(row)


def letter(reading: Reading, name: str) -> DeadLetterDetail:
    """One letter with its headers and its first bytes, what they would be read as now, and what became of replays."""
    row, body = _rows(reading, name)
    request = request_in(body.value)
    outcome = queries.outcome(reading, request) if request else None
    return DeadLetterDetail(
        **{field: getattr(_shown(row), field) for field in DeadLetter.__struct_fields__},
        headers={header: value.decode("utf-8", "replace") for header, value in body.headers},
        key=body.key.decode("utf-8", "replace"),
        key_hex=body.key.hex(),
        schema=describe_prefix(body.value),
        readable=readable(body.value),
        request=str(request) if request else None,
        request_status=outcome.status.value if outcome else None,
        replayed_as=tuple(str(each.offset) for _, each in reading.sides(LetterRow) if each.replays == row.offset),
        dump=dump(body.value[:_DUMPED_BYTES]),
    )


def replayable(reading: Reading, name: str) -> tuple[LetterRow, LetterBodyRow]:
    """The letter, if it makes sense to append it to its topic again; raises Refused with the reason if it does not."""
    row, body = _rows(reading, name)
    if row.truncated_from is not None:
        raise Refused(
            "TRUNCATED",
            "K7",
            f"Dead letter {name} was too big to be kept: {len(body.value)} of {row.truncated_from} bytes are here.",
            hint="Whoever sent it must send it again, in a record of at most 850,000 bytes.",
        )
    if row.topic not in {topic.short_name for topic in REQUEST_TOPICS}:
        why = _SENSELESS.get(row.topic, f"Nothing that was meant for {row.topic or 'no topic'} is waited for.")
        raise Refused("NOT_REPLAYABLE", "K7", f"Dead letter {name} is not replayed. {why}")
    request = request_in(body.value)
    if request and queries.outcome(reading, request) is None and forgotten_outcomes.is_forgotten(reading, request):
        raise forgotten_outcomes.refusal(reading, request)
    return row, body


def headers_again(row: LetterRow, body: LetterBodyRow, actor: str, reason: str) -> Headers:
    """The original headers, and which letter is replayed by whom and why; of an earlier replay nothing is kept."""
    ours = (REPLAYS, REASON, ACTOR)
    original = [(name, value) for name, value in body.headers if name not in ours and not name.startswith(ERRORS)]
    said = ((REPLAYS, str(row.offset)), (ACTOR, actor), (REASON, reason))
    return (*original, *((name, text.encode()) for name, text in said if text))


def request_in(value: bytes) -> RequestId | None:
    """The id of the request that this version reads in these bytes."""
    record = CODEC.read(value)
    return record.id if isinstance(record, AnyRequest) else None


def readable(value: bytes) -> str | None:
    """What this version reads in these bytes, None if it cannot read them either."""
    record = CODEC.read(value)
    return None if record is None else type(record).__name__


def dump(data: bytes) -> str:
    """The bytes as people look at them: offset, hexadecimal, and what is printable."""
    lines = []
    for start in range(0, len(data), _LINE_BYTES):
        part = data[start : start + _LINE_BYTES]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:06x}  {part.hex(' '):<{_LINE_BYTES * 3}} {text}")
    return "\n".join(lines)


def _rows(reading: Reading, name: str) -> tuple[LetterRow, LetterBodyRow]:
    key = letter_key(int(name)) if name.isascii() and name.isdecimal() and len(name) < 19 else ""
    row, body = reading.side(LetterRow, key), reading.side(LetterBodyRow, key)
    if row is None or body is None:
        raise NotFound(
            f"There is no dead letter {name!r}.", hint="`topolog get dead-letters` lists those that are kept."
        )
    return row, body


def _shown(row: LetterRow) -> DeadLetter:
    return DeadLetter(
        id=str(row.offset),
        time=iso(row.appended_ms),
        topic=row.topic,
        partition=row.partition,
        offset=row.source_offset,
        reason=row.reason,
        size=row.size,
        truncated_from=row.truncated_from,
        replays=None if row.replays is None else str(row.replays),
    )
