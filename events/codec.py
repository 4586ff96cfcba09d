"""Avro bytes <-> records: strict, single-object encoding, each version readable (the owner of fastavro).

A value is `C3 01`, the 8-byte CRC-64-AVRO fingerprint of the writer's schema, then the Avro body. The fingerprint finds
the writer's schema among all released versions; fastavro resolves it to the newest, which is what the frozen types
mirror. Strict writing refuses unknown and missing fields, for a typo with a default would be lost without a word.
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

import fastavro
import msgspec
from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form

from topolog import schemas
from topolog.events import (
    baseline,
    baseline_requests,
    drains,
    exchange,
    exchange_requests,
    groups,
    health,
    lease_terms,
    levels,
    membership,
    metadata,
    object_requests,
    objects,
    repair,
    repair_requests,
    replicas,
    requests,
    schedules,
    single_maps,
    snapshots,
    terms,
    tree_pages,
    voiding,
)
from topolog.events.asked import Request
from topolog.events.decision import Decision
from topolog.events.errors import BadInput, Undecodable
from topolog.events.framing import MARKER, PREFIX_BYTES
from topolog.events.topics import RECORD_BYTES_MAX

_REASON_CHARS_MAX = 200  # some errors repeat all the bytes that they complain about

DECISION_UNIONS: tuple[Any, ...] = (
    terms.TermEvent,
    levels.FeatureLevelRaised,
    requests.RequestEvent,
    membership.MembershipEvent,
    metadata.MetadataEvent,
    groups.GroupEvent,
    exchange.ExchangeEvent,
    baseline.BaselineEvent,
    drains.DrainEvent,
    lease_terms.LeaseTermsEvent,
    objects.ObjectEvent,
    replicas.ReplicaEvent,
    repair.RepairEvent,
    schedules.ScheduleEvent,
    snapshots.SnapshotTaken,
    voiding.RecordVoided,
)
"""The decisions of each protocol."""

REQUEST_UNIONS: tuple[Any, ...] = (
    membership.MembershipRequest,
    metadata.MetadataRequest,
    levels.LevelRaiseRequested,
    groups.GroupRequest,
    exchange_requests.ExchangeRequest,
    baseline_requests.BaselineRequest,
    drains.DrainRequested,
    lease_terms.LeaseTermsRequested,
    object_requests.ObjectRequest,
    repair_requests.RepairRequest,
)
"""What can be asked of each protocol."""

Sign = membership.Heartbeat | membership.NodeDied | terms.CoordinatorDied
"""What stands on the heartbeats topic: signs of life and of death."""

_Other = single_maps.SinglePartitionMap | snapshots.SnapshotChunk | health.HealthRecord | tree_pages.TreePage
"""What stands on a topic of its own."""

Record = Decision | Request | Sign | _Other


def _members(unions: Iterable[Any]) -> Iterator[Any]:
    return (type_ for union in unions for type_ in get_args(union) or (union,))


DECISIONS: tuple[type[Decision], ...] = tuple(_members(DECISION_UNIONS))
REQUESTS: tuple[type[Request], ...] = tuple(_members(REQUEST_UNIONS))
RECORDS: tuple[type, ...] = (*DECISIONS, *REQUESTS, *get_args(Sign), *get_args(_Other))


class Writer(msgspec.Struct, frozen=True):
    """One released schema version: what to parse its bodies with, which type they become, and from which feature
    level on it may be written."""

    prefix: bytes
    parsed: Any
    type: type
    level: int


class Released(msgspec.Struct, frozen=True):
    """A released schema version for others to read by: bytes with `prefix` have a body that `schema` (JSON) has
    written, and become what `newest` says, which is the newest version of the same record."""

    name: str
    prefix: bytes
    schema: str
    newest: str


def released(contract: Mapping[str, tuple[schemas.Schema, ...]] | None = None) -> Iterator[Released]:
    """Every version of every record in the contract, the product's unless it is given, by the record's name."""
    contract = contract or schemas.load()
    for type_ in sorted(RECORDS, key=lambda each: each.__name__):
        versions = contract[full_name(type_)]
        for schema in versions:
            yield Released(type_.__name__, _prefix(schema), json.dumps(schema), json.dumps(versions[-1]))


class Codec:
    """Encodes and decodes the records of `types` by the schema versions in `contract`.

    `newest_level`: the newest feature level that the contract knows, hence what its build can write and read.
    """

    def __init__(self, types: Iterable[type], contract: Mapping[str, tuple[schemas.Schema, ...]]) -> None:
        self._versions: dict[type, list[Writer]] = {}
        self._by_prefix: dict[bytes, Writer] = {}
        for type_ in types:
            for schema in contract[full_name(type_)]:
                parsed = fastavro.parse_schema(schema, named_schemas={})
                writer = Writer(_prefix(schema), parsed, type_, schemas.feature_level(schema))
                self._by_prefix[writer.prefix] = writer
                self._versions.setdefault(type_, []).append(writer)
        self.newest_level = max(writer.level for writer in self._by_prefix.values())

    def encode(self, record: Record, level: int | None = None) -> bytes:
        """The record's bytes in the newest schema that `level` allows, or in the newest of all.

        Raises BadInput if a value does not fit its field, or if it says what no schema of that level can say.
        """
        writer = self._writer_at(type(record), self.newest_level if level is None else level)
        is_newest = writer is self._versions[type(record)][-1]
        body = io.BytesIO()
        body.write(writer.prefix)
        try:
            fastavro.schemaless_writer(
                body, writer.parsed, msgspec.to_builtins(record, builtin_types=(bytes,)), strict=is_newest
            )
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise BadInput(f"A {type(record).__name__} cannot be written: {error}.") from error
        value = body.getvalue()
        if not is_newest and self.decode(value) != record:
            raise BadInput(f"A {type(record).__name__} says what cannot be said at feature level {level}.")
        return value

    def encode_decision(self, decision: Decision, level: int) -> bytes:
        """As `encode`, for what goes into the log, where no level is a matter of course.

        Raises Undecodable if readers would not fold just this decision: its leader, which folds the object and not the
        bytes, would be the only one to live on (K8, K10).
        """
        value = self.encode(decision, level)
        if self.read(value) != decision:
            raise Undecodable(f"A {type(decision).__name__} would not be read as it was decided, so it is not written.")
        return value

    def _writer_at(self, type_: type, level: int) -> Writer:
        allowed = [writer for writer in self._versions[type_] if writer.level <= level]
        if not allowed:
            raise BadInput(f"A {type_.__name__} cannot be written at feature level {level}.")
        return allowed[-1]

    def decode(self, data: bytes) -> Record:
        """The record in these bytes; raises Undecodable with the fingerprint and the reason.

        Of more bytes than a record may have none is looked at: Kafka bounds a batch as it is packed, and what that
        unpacks to would take its reader minutes and gigabytes.
        """
        if len(data) > RECORD_BYTES_MAX:
            raise Undecodable(f"{len(data)} bytes are no record: the limit is {RECORD_BYTES_MAX}.")
        writer = self._by_prefix.get(data[:PREFIX_BYTES])
        if writer is None:
            raise Undecodable(f"{len(data)} bytes with {describe_prefix(data)} are no record this version knows.")
        body = io.BytesIO(data)
        body.seek(PREFIX_BYTES)
        try:
            found = fastavro.schemaless_reader(body, writer.parsed, self._versions[writer.type][-1].parsed)
            record: Record = msgspec.convert(found, writer.type)
        except Exception as error:  # fastavro raises almost anything on damaged bytes
            raise Undecodable(
                f"A {writer.type.__name__} ({describe_prefix(data)}) is damaged: "
                f"{type(error).__name__}: {str(error)[:_REASON_CHARS_MAX]}."
            ) from error
        if body.tell() != len(data):
            raise Undecodable(f"A {writer.type.__name__} ({describe_prefix(data)}) has bytes after its end.")
        return record

    def read(self, data: bytes) -> Record | None:
        """The record in these bytes, None if there is none that this version can decode."""
        try:
            return self.decode(data)
        except Undecodable:
            return None

    def level_of(self, data: bytes) -> int:
        """The lowest feature level at which bytes of this schema may be written; 0 for a schema that is not known."""
        writer = self._by_prefix.get(data[:PREFIX_BYTES])
        return writer.level if writer else 0

    def released_prefix(self, schema: object) -> bytes | None:
        """What bytes of this schema begin with, if it is one of ours in its canonical form; `schema` is its JSON."""
        try:
            prefix = _prefix(json.loads(schema)) if isinstance(schema, str) else b""
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SchemaParseException, UnknownType):
            return None
        return prefix if prefix in self._by_prefix else None

    def type_of(self, data: bytes) -> type | None:
        """The type of the record that these bytes say they are, None if it is unknown; the body is not looked at."""
        writer = self._by_prefix.get(data[:PREFIX_BYTES])
        return writer.type if writer else None


def full_name(type_: type) -> str:
    """The Avro name of a record type: its protocol's namespace, or that of all requests, and its class name."""
    namespace = "requests" if issubclass(type_, Request) else _NAMESPACES[type_.__module__]
    return f"topolog.{namespace}.{type_.__name__}"


_NAMESPACES = {
    terms.__name__: "log",
    levels.__name__: "log",
    voiding.__name__: "log",
    requests.__name__: "requests",
    membership.__name__: "membership",
    metadata.__name__: "metadata",
    groups.__name__: "groups",
    exchange.__name__: "exchange",
    baseline.__name__: "baseline",
    drains.__name__: "baseline",
    lease_terms.__name__: "log",
    objects.__name__: "objects",
    single_maps.__name__: "exchange",
    snapshots.__name__: "log",
    health.__name__: "health",
    replicas.__name__: "repair",
    repair.__name__: "repair",
    schedules.__name__: "repair",
    tree_pages.__name__: "repair",
}


def describe_prefix(data: bytes) -> str:
    """What the first bytes say of the writer's schema, for people."""
    if data[:1] == b"\0" and len(data) >= 5:
        return f"schema id {int.from_bytes(data[1:5])} of a registry"
    stated = stated_fingerprint(data)
    return f"fingerprint {stated}" if stated else "no single-object marker"


def stated_fingerprint(data: bytes) -> str:
    """The fingerprint of the writer's schema that these bytes state (hexadecimal); empty if they state none."""
    if data[:2] != MARKER or len(data) < PREFIX_BYTES:
        return ""
    return data[2:PREFIX_BYTES].hex()


def _prefix(schema: schemas.Schema) -> bytes:
    canonical = to_parsing_canonical_form(fastavro.parse_schema(schema, named_schemas={}))
    return MARKER + bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))


CODEC = Codec(RECORDS, schemas.load())
"""The codec of all released records."""
