"""Avro bytes and records: strict both ways, and every released version readable by older and newer readers."""

import contextlib
import copy
from collections.abc import Mapping
from typing import Any

import fastavro
import msgspec
import pytest
from fastavro.schema import to_parsing_canonical_form
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.events.examples import EXAMPLES, N1, REF, VIEW

from topolog import schemas
from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events import terms
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC, RECORDS, Codec, Record, describe_prefix, full_name
from topolog.events.errors import BadInput, Undecodable
from topolog.events.framing import MARKER
from topolog.events.ids import Incarnation, Position, Term, Version
from topolog.events.levels import FIRST_LEVEL
from topolog.events.object_types import ObjectType
from topolog.events.topics import RECORD_BYTES_MAX

CONTRACT = schemas.load()
named = pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)


def test_there_is_an_example_of_every_record() -> None:
    """A record without an example would be tested by nothing here."""
    assert [type(record) for record in EXAMPLES] == list(RECORDS)


@named
def test_a_record_is_read_back_as_it_was_written(record: Record) -> None:
    """Codec round trip of every record."""
    assert CODEC.decode(CODEC.encode(record)) == record


def crc_64_avro(text: bytes) -> int:
    """The fingerprint as Avro's specification computes it."""
    empty = value = 0xC15D213AA4D7A795
    for byte in text:
        step = (value ^ byte) & 0xFF
        for _ in range(8):
            step = step >> 1 ^ (empty if step & 1 else 0)
        value = value >> 8 ^ step
    return value


def test_the_fingerprint_of_null_is_the_known_one() -> None:
    """The vector of Avro's own tests: the schema "null" has the fingerprint 63dd24e7cc258f8a."""
    assert crc_64_avro(b'"null"') == 0x63DD24E7CC258F8A


@named
def test_a_value_opens_with_marker_and_fingerprint_of_its_schema(record: Record) -> None:
    """Single-object encoding: C3 01, then CRC-64-AVRO of the canonical schema, little endian."""
    canonical = to_parsing_canonical_form(fastavro.parse_schema(CONTRACT[full_name(type(record))][-1]))
    fingerprint = crc_64_avro(canonical.encode()).to_bytes(8, "little")
    assert CODEC.encode(record)[:10] == b"\xc3\x01" + fingerprint


def test_no_two_records_have_one_fingerprint() -> None:
    """The fingerprint alone says what the bytes are."""
    assert len({CODEC.encode(record)[:10] for record in EXAMPLES}) == len(EXAMPLES)


WRONG: tuple[tuple[Record, str], ...] = (
    (terms.TermStarted("four", "c1", life=7), "a text for a number"),  # type: ignore[arg-type]
    (terms.TermStarted(1 << 63, "c1", life=7), "a number beyond 64 bits"),
    (terms.TermStarted(4, None, life=7), "nothing for a text"),  # type: ignore[arg-type]
    (m.LeasesRenewed("00"), "a text for bytes"),  # type: ignore[arg-type]
    (q.RequestRefused(REF, "s", "C", "R", "m", {"n": 1}), "a number in a map of texts"),  # type: ignore[dict-item]
    (q.RequestUnchanged(REF, "\ud800", None), "half a character"),
    (md.MetadataUpdateProposed(None, "T", Version(1), REF), "another record"),  # type: ignore[arg-type]
    (m.NodeLeft(N1, Incarnation(1), "BORED", 0, Position(1), VIEW), "no symbol of its enum"),  # type: ignore[arg-type]
)


@pytest.mark.parametrize(("record", "what"), WRONG, ids=[what for _, what in WRONG])
def test_a_value_of_the_wrong_type_is_not_written(record: Record, what: str) -> None:
    """Strict encoding: BadInput names the record, and nothing half-written gets out."""
    with pytest.raises(BadInput, match=type(record).__name__):
        CODEC.encode(record)


def with_type(type_: type, *changes: dict[str, Any]) -> Mapping[str, tuple[schemas.Schema, ...]]:
    """A contract in which the record's schema has these fields at its end."""
    changed = copy.deepcopy(CONTRACT[full_name(type_)][-1])
    changed["fields"].extend(changes)
    return {**CONTRACT, full_name(type_): (changed,)}


def test_an_unknown_field_is_not_dropped_in_silence() -> None:
    """Strict: a type with a field that its schema lacks cannot be written."""
    wider: Any = msgspec.defstruct("TermEnded", [("term", int), ("why", str)], module=terms.__name__)
    with pytest.raises(BadInput, match="why"):
        Codec([wider], CONTRACT).encode(wider(4, "told to"))


def test_a_missing_field_is_not_filled_in_silence() -> None:
    """Strict: a schema's field that the type lacks cannot be written, though it has a default."""
    schema = with_type(terms.TermEnded, {"name": "why", "type": "string", "default": "?", "doc": "Why."})
    with pytest.raises(BadInput, match="why"):
        Codec([terms.TermEnded], schema).encode(terms.TermEnded(4))


@named
def test_bytes_that_end_early_are_refused(record: Record) -> None:
    """Cut anywhere, a value is Undecodable and never another record."""
    data = CODEC.encode(record)
    for length in range(len(data)):
        with pytest.raises(Undecodable):
            CODEC.decode(data[:length])


@named
def test_bytes_that_go_on_are_refused(record: Record) -> None:
    """Whatever stands behind the record was not meant."""
    with pytest.raises(Undecodable, match="after its end"):
        CODEC.decode(CODEC.encode(record) + b"\x00")


@given(st.binary(max_size=60), st.sampled_from(EXAMPLES))
def test_garbage_is_undecodable_or_a_record(garbage: bytes, record: Record) -> None:
    """No bytes make the codec fail in another way, not even behind a prefix that it knows."""
    with pytest.raises(Undecodable):
        CODEC.decode(garbage)
    with contextlib.suppress(Undecodable):
        assert type(CODEC.decode(CODEC.encode(record)[:10] + garbage)) is type(record)


def test_a_foreign_fingerprint_is_named() -> None:
    """Undecodable says which schema is missing, or that there is no marker."""
    with pytest.raises(Undecodable, match="fingerprint 0000000000000001 are no record"):
        CODEC.decode(MARKER + bytes(7) + b"\x01" + b"body")
    assert describe_prefix(b"{}") == "no single-object marker"


# Two versions of every record: a nullable field is added, as every new version may do.

NEW_FIELD = {"name": "since", "type": ["null", "string"], "default": None, "doc": "Since which release."}


def newer(type_: type) -> tuple[type[Any], schemas.Schema]:
    """The record as a later release has it: its type, and its schema with one more field."""
    kept = [
        (each.name, each.type, *(() if each.required else (each.default,))) for each in msgspec.structs.fields(type_)
    ]
    made: type[Any] = msgspec.defstruct(
        type_.__name__,
        [*kept, ("since", str | None, None)],
        bases=type_.__bases__,
        module=type_.__module__,
        frozen=True,
    )
    schema = copy.deepcopy(CONTRACT[full_name(type_)][-1])
    schema["fields"].append(NEW_FIELD)
    return made, schema


@named
def test_a_newer_reader_reads_older_bytes(record: Record) -> None:
    """What was written before a field came is read with the field's default."""
    made, schema = newer(type(record))
    reader = Codec([made], {full_name(made): (CONTRACT[full_name(made)][-1], schema)})
    decoded: Any = reader.decode(CODEC.encode(record))
    assert decoded == made(*(getattr(record, name) for name in record.__struct_fields__), None)
    assert reader.decode(reader.encode(decoded)) == decoded


@named
def test_an_older_reader_that_knows_the_newer_schema_reads_its_bytes(record: Record) -> None:
    """Writers stay at the older version while the newer is already in the contract: what is new is left out."""
    made, schema = newer(type(record))
    writer = Codec([made], {full_name(made): (schema,)})
    older = Codec([type(record)], {full_name(made): (schema, CONTRACT[full_name(made)][-1])})
    new_record = made(*(getattr(record, name) for name in record.__struct_fields__), "v2")
    assert older.decode(writer.encode(new_record)) == record
    assert older.encode(record) == CODEC.encode(record)


@named
def test_an_older_reader_without_the_newer_schema_stops(record: Record) -> None:
    """A fingerprint that is not in the contract is never guessed at."""
    made, schema = newer(type(record))
    data = Codec([made], {full_name(made): (schema,)}).encode(
        made(*(getattr(record, name) for name in record.__struct_fields__), "v2")
    )
    with pytest.raises(Undecodable, match="no record this version knows"):
        CODEC.decode(data)


# Feature levels: which of several versions is written (K28).


def of_two_levels(record: Record) -> tuple[Codec, type[Any]]:
    """A codec whose newest version of the record has a field more and may be written from the next level on."""
    made, schema = newer(type(record))
    contract = {full_name(made): (CONTRACT[full_name(made)][-1], {**schema, "feature_level": FIRST_LEVEL + 1})}
    return Codec([made], contract), made


@named
def test_at_an_older_level_the_older_version_is_written(record: Record) -> None:
    """K28: members of the older build read every byte, as the same record."""
    codec, made = of_two_levels(record)
    values = [getattr(record, name) for name in record.__struct_fields__]
    assert codec.encode(made(*values), FIRST_LEVEL) == CODEC.encode(record)
    assert codec.encode(made(*values, "new"), FIRST_LEVEL + 1)[:10] != CODEC.encode(record)[:10]


@named
def test_what_an_older_version_cannot_say_is_not_written_in_it(record: Record) -> None:
    """K28: a value that would be lost without a word is an error of the writer."""
    codec, made = of_two_levels(record)
    with pytest.raises(BadInput, match=f"feature level {FIRST_LEVEL}"):
        codec.encode(made(*(getattr(record, name) for name in record.__struct_fields__), "new"), FIRST_LEVEL)


def test_a_record_of_a_newer_level_is_not_written_at_all() -> None:
    """K28: a type that the level does not know has no version to be written in."""
    name = full_name(terms.TermEnded)
    codec = Codec([terms.TermEnded], {name: ({**CONTRACT[name][-1], "feature_level": 2},)})
    with pytest.raises(BadInput, match="feature level 1"):
        codec.encode(terms.TermEnded(Term(3)), FIRST_LEVEL)


def test_bytes_that_are_no_record_are_none_for_who_only_looks() -> None:
    """Unknown, damaged or whole."""
    value = CODEC.encode(terms.TermEnded(Term(3)))
    assert CODEC.read(b"rubbish") is None
    assert CODEC.read(value[:-1]) is None
    assert CODEC.read(value) == terms.TermEnded(Term(3))


def test_a_decision_is_written_only_if_it_is_read_as_it_was_decided() -> None:
    """Whoever decides folds the object, all others fold the bytes (K8)."""
    same = q.RequestersForgotten(("r",))
    assert CODEC.decode(CODEC.encode_decision(same, FIRST_LEVEL)) == same
    with pytest.raises(Undecodable, match="would not be read as it was decided"):
        CODEC.encode_decision(q.RequestersForgotten(["r"]), FIRST_LEVEL)  # type: ignore[arg-type]


def test_of_more_bytes_than_a_record_may_have_none_is_looked_at() -> None:
    """A batch of a few kilobytes unpacks to a hundred megabytes, and decoding those silences a coordinator."""
    definition = ObjectType("T", {"id": "long"})
    record = md.UpdateRequested(RequestId("op", 1), bytes(16), "ada", "x" * RECORD_BYTES_MAX, definition, 0)
    value = CODEC.encode(record)
    with pytest.raises(Undecodable, match="the limit is 900000"):
        CODEC.decode(value)
    assert CODEC.read(value) is None
    assert CODEC.read(CODEC.encode(msgspec.structs.replace(record, reason="x" * (RECORD_BYTES_MAX - 500)))) is not None
