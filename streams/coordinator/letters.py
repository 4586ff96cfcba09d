"""How a record that nobody can read is put aside: its bytes untouched, with Kafka's own names for the reasons."""

import msgspec

from topolog.events.log import Entry
from topolog.events.topics import RECORD_BYTES_MAX
from topolog.streams.coordinator.core import Dead

_STUB_BYTES = 10_000


def letter(dead: Dead) -> Entry:
    """The dead record with the reasons; one that is too big to be appended keeps its beginning and its size."""
    entry = dead.entry
    whole = msgspec.structs.replace(entry, headers=(*entry.headers, *_error_headers(dead)))
    size = len(entry.value) + sum(len(name) + len(content) for name, content in whole.headers)
    if size <= RECORD_BYTES_MAX:
        return whole
    cut = ("__dlq.errors.truncated.from.bytes", str(size).encode())
    return msgspec.structs.replace(entry, value=entry.value[:_STUB_BYTES], headers=(*_error_headers(dead), cut))


def _error_headers(dead: Dead) -> tuple[tuple[str, bytes], ...]:
    return (
        ("__dlq.errors.topic", dead.entry.topic.short_name.encode()),
        ("__dlq.errors.partition", str(dead.entry.partition).encode()),
        ("__dlq.errors.offset", str(dead.entry.offset).encode()),
        ("__dlq.errors.message", dead.reason.encode()),
        ("__dlq.errors.exception", b"Undecodable"),
    )
