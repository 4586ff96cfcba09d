"""The registry's client against the one in tests/unit/events/registry_server.py: on, off, refusing, coming back."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.unit.events import registry_server
from tests.unit.events.examples import EXAMPLES
from tests.unit.events.registry_server import FIRST_ID, RegistryServer

from topolog import schemas
from topolog.events.codec import CODEC, DECISIONS, REQUESTS, full_name
from topolog.events.framing import PREFIX_BYTES, schema_id, unframed
from topolog.events.log import Entry, InMemoryLog
from topolog.events.registry import FramingReader, FramingWriter, Registry
from topolog.events.topics import Topic

DECISION = next(record for record in EXAMPLES if type(record) in DECISIONS)
REQUEST = next(record for record in EXAMPLES if type(record) in REQUESTS)
VALUE, ASKED = CODEC.encode(DECISION), CODEC.encode(REQUEST)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server.running() as server:
        yield server


@contextlib.contextmanager
def started(url: str) -> Iterator[Registry]:
    with contextlib.closing(Registry(url, retry_s=0.02)) as registry:
        registry.start()
        yield registry


def foreign(server: RegistryServer) -> bytes:
    """A request as another program's serializer frames it, whose schema has an id of its own: it has lost its docs."""
    schema = schemas.load()[full_name(type(REQUEST))][-1]
    text = json.dumps({key: part for key, part in schema.items() if key != "doc"})
    return b"\0" + server.register("theirs-value", text).to_bytes(4) + ASKED[PREFIX_BYTES:]


def test_every_released_schema_is_registered_under_the_record_s_name(server: RegistryServer) -> None:
    """RecordNameStrategy: a topic has many records; each version of each is there, the oldest first."""
    with started(server.url) as registry:
        of_ours = {full_name(type(record)) for record in EXAMPLES}
        assert {subject for subject, _ in server.schemas} >= of_ours
        assert registry.ids[VALUE[:PREFIX_BYTES]] >= FIRST_ID
        texts = [json.loads(text) for subject, text in server.schemas if subject == full_name(type(DECISION))]
        assert texts == list(schemas.load()[full_name(type(DECISION))])


def test_decisions_go_out_framed_and_come_back_the_same_for_who_has_no_registry(server: RegistryServer) -> None:
    """Other programs find the schema by its id; ours by the header, whatever is set where they run."""
    log = InMemoryLog()
    with started(server.url) as registry:
        FramingWriter(log.writer(), registry).append(Topic.DECISIONS, "c", VALUE, (("topolog-stamp", b"s"),))
        [entry] = log.entries(Topic.DECISIONS)
        assert schema_id(entry.value) == registry.ids[VALUE[:PREFIX_BYTES]]
        assert entry.stamp == b"s"
    assert unframed(entry.value, entry.headers) == VALUE


@pytest.mark.parametrize("topic", [topic for topic in Topic if topic is not Topic.DECISIONS])
def test_what_only_topolog_reads_is_not_framed(server: RegistryServer, topic: Topic) -> None:
    """Heartbeats are read by faust, dead letters keep their bytes, snapshots are found by offset."""
    log = InMemoryLog()
    with started(server.url) as registry:
        FramingWriter(log.writer(), registry).append(topic, "k", ASKED)
    assert [entry.value for number in range(8) for entry in _partition(log, topic, number)] == [ASKED]


def _partition(log: InMemoryLog, topic: Topic, number: int) -> list[Entry]:
    with contextlib.suppress(KeyError):
        return list(log.entries(topic, number))
    return []


def test_while_the_registry_is_away_decisions_go_out_unframed_and_later_framed(server: RegistryServer) -> None:
    """Nothing that is decided waits for a registry; a mixed log is read as one."""
    log = InMemoryLog()
    server.is_down = True
    with started(server.url) as registry:
        writer = FramingWriter(log.writer(), registry)
        writer.append(Topic.DECISIONS, "c", VALUE)
        server.is_down = False
        assert registry.wait(10)
        writer.append(Topic.DECISIONS, "c", VALUE)
    entries = log.entries(Topic.DECISIONS)
    assert [schema_id(entry.value) is not None for entry in entries] == [False, True]
    assert {unframed(entry.value, entry.headers) for entry in entries} == {VALUE}


def _hang_up(listener: socket.socket) -> None:
    listener.accept()[0].close()


def test_a_registry_that_is_not_there_delays_a_start_by_one_question() -> None:
    """A dead address is no reason for a coordinator not to start, nor to wait for each of its schemas."""
    with socket.create_server(("127.0.0.1", 0)) as unheard:
        unheard.settimeout(10)
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        hanging_up = threading.Thread(target=_hang_up, args=(unheard,))
        hanging_up.start()
        with contextlib.closing(Registry(url)) as registry:
            registry.start()
            assert not registry.wait(0)
            assert registry.ids == {}
        hanging_up.join()


def test_one_refused_schema_stays_unframed_and_the_others_are_framed(server: RegistryServer) -> None:
    """An incompatible subject of somebody else's must cost one record its framing, not all."""
    server.refused.add(full_name(type(DECISION)))
    with started(server.url) as registry:
        assert VALUE[:PREFIX_BYTES] not in registry.ids
        assert ASKED[:PREFIX_BYTES] in registry.ids


def test_a_request_of_another_program_is_understood_once_its_id_has_been_looked_up(server: RegistryServer) -> None:
    """Its serializer has registered the schema under an id of its own; equal in canonical form is enough."""
    log = InMemoryLog()
    with started(server.url) as registry:
        reader = FramingReader(log.reader(), registry)
        reader.assign({(Topic.REQUESTS, 0): None})
        for _ in range(2):
            log.writer().append(Topic.REQUESTS, "k", foreign(server))
        assert [entry.value for entry in reader.poll(0)] == [ASKED, ASKED]
        assert len(server.asked) == 1


def test_what_no_registry_can_explain_is_left_as_it_came(server: RegistryServer) -> None:
    """An unknown id, a schema that is not ours, a damaged body: the dead letter keeps the bytes, to be replayed."""
    theirs = server.register("theirs-value", '{"type": "record", "name": "Other", "fields": []}')
    values = [b"\0\0\0\0\1body", b"\0" + theirs.to_bytes(4), foreign(server)[:-1], b"\0", b"garbage", ASKED]
    log = InMemoryLog()
    with started(server.url) as registry:
        reader = FramingReader(log.reader(), registry)
        reader.assign({(Topic.REQUESTS, 0): None})
        for value in values:
            log.writer().append(Topic.REQUESTS, "k", value)
        assert [entry.value for entry in reader.poll(0)] == values


def test_a_registry_that_does_not_answer_is_not_asked_for_every_record(server: RegistryServer) -> None:
    """A second of waiting for each of a thousand foreign records would cost the coordinator its term."""
    log = InMemoryLog()
    with started(server.url) as registry:
        wire = foreign(server)
        server.is_down = True
        reader = FramingReader(log.reader(), registry)
        reader.assign({(Topic.REQUESTS, 0): None})
        for _ in range(50):
            log.writer().append(Topic.REQUESTS, "k", wire)
        assert {entry.value for entry in reader.poll(0)} == {wire}
        assert len(server.asked) == 1
