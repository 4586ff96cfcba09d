"""Confluent's framing: exact bytes, and a way back that needs no registry."""

import pytest
from tests.unit.events.examples import EXAMPLES

from topolog.events.codec import CODEC, Record
from topolog.events.errors import Undecodable
from topolog.events.framing import PREFIX_BYTES, SCHEMA_HEADER, framed, schema_id, unframed

IDS = {CODEC.encode(record)[:PREFIX_BYTES]: 7 + number for number, record in enumerate(EXAMPLES)}


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_a_framed_record_is_read_back_without_a_registry(record: Record) -> None:
    """A log must not need the registry it was written with: the header is enough, and the bytes are the same."""
    value = CODEC.encode(record)
    wire, headers = framed(value, IDS)
    assert wire[:1] == b"\0"
    assert int.from_bytes(wire[1:5]) == schema_id(wire) == IDS[value[:PREFIX_BYTES]]
    assert wire[5:] == value[PREFIX_BYTES:]
    assert unframed(wire, (("other", b"x"), *headers)) == value


def test_what_has_no_id_stays_as_it_is() -> None:
    """A registry that is away, or refuses one schema, must not stop the log; a log may be mixed."""
    value = CODEC.encode(EXAMPLES[0])
    assert framed(value, {}) == (value, ())
    assert unframed(value, ()) == value


@pytest.mark.parametrize("headers", [(), ((SCHEMA_HEADER, b"short"),), (("topolog-stamp", bytes(8)),)])
def test_a_framed_record_that_does_not_name_its_schema_is_left_alone(headers: tuple[tuple[str, bytes], ...]) -> None:
    """It is somebody else's: the reader that has a registry asks it, for all others it is undecodable, with its id."""
    wire = b"\0\0\0\0\x07body"
    assert unframed(wire, headers) == wire
    with pytest.raises(Undecodable, match="schema id 7 of a registry"):
        CODEC.decode(wire)


def test_another_fingerprint_in_the_header_gives_other_bytes() -> None:
    """So the chain hash, which is over the bytes put back together, covers the header as well."""
    value = CODEC.encode(EXAMPLES[0])
    wire, _ = framed(value, IDS)
    assert unframed(wire, ((SCHEMA_HEADER, bytes(8)),)) != value


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0\0\0"])
def test_bytes_too_short_for_an_id_have_none(value: bytes) -> None:
    """Any bytes may stand on a topic."""
    assert schema_id(value) is None
    assert unframed(value, ()) == value
