"""Decisions on a real broker, framed for a real registry: what other programs read, and what ours read without it.

Confluent's own deserializer needs packages that topolog does not (authlib, cachetools); where they are missing that one
test is left out, and fastavro with the schema that the registry returns for the id stands for it.
"""

import contextlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import fastavro
import httpx
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from tests.broker import apicurio
from tests.broker.conftest import Site, eventually

from topolog.events.framing import SCHEMA_HEADER, schema_id
from topolog.events.metadata import ObjectType
from topolog.events.registry import Registry
from topolog.events.topics import Topic, topic_name

WANTED = "TOPOLOG_TEST_REGISTRY"
MADE_HERE = ObjectType("Customer", {"id": "long"}, affinity_key="id")


@pytest.fixture(scope="module")
def registry(
    asked: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory, unused_port: Callable[[], int]
) -> Iterator[str]:
    """The URL of an Apicurio that knows all schemas already, so that no coordinator has to begin without it."""
    if not apicurio.is_here():
        if asked.get(WANTED) != "1":
            pytest.skip(f"Apicurio is not in the cache ({apicurio.ARCHIVE.name}); {WANTED}=1 fetches it, 159 MB")
        apicurio.fetch()
    with (
        apicurio.running(tmp_path_factory.mktemp("apicurio"), unused_port()) as url,
        contextlib.closing(Registry(url)) as first,
    ):
        first.start()
        assert first.wait(60), "the registry has not taken all schemas"
        yield url


@pytest.fixture
def decided(site: Site, registry: str) -> list[Message]:
    """All records of `decisions` as they are on the wire, after one round of agreement; ours have folded them."""
    site.coordinator("c1", env={**os.environ, "TOPOLOG_REGISTRY__URL": registry})
    with site.node("n1") as node:
        outcome = node.propose(MADE_HERE)
        eventually(lambda: node.position >= outcome.position, "the node to apply what it has proposed")
        assert site.agrees_with(node)
    count = len(site.entries(Topic.DECISIONS))
    consumer = Consumer({**site.kafka, "group.id": "foreign", "isolation.level": "read_committed"})
    try:
        consumer.assign([TopicPartition(topic_name(site.cluster, Topic.DECISIONS), 0, 0)])
        return consumer.consume(count, timeout=30)
    finally:
        consumer.close()


def test_every_decision_is_framed_and_ours_read_it_without_a_registry(decided: list[Message]) -> None:
    """The fixture's node and auditor have no registry set: the header has told them the schema."""
    assert len(decided) > 5
    for message in decided:
        value, headers = message.value(), message.headers()
        assert isinstance(value, bytes)
        assert schema_id(value) is not None
        assert SCHEMA_HEADER in dict(headers or ())


def test_the_registry_s_schema_reads_the_body(decided: list[Message], registry: str) -> None:
    """Whatever program: take the id, ask for the schema, read what follows."""
    names = []
    for message in decided:
        value = message.value()
        assert isinstance(value, bytes)
        schema = json.loads(httpx.get(f"{registry}/schemas/ids/{schema_id(value)}", timeout=30).json()["schema"])
        body = io.BytesIO(value[5:])
        fastavro.schemaless_reader(body, fastavro.parse_schema(schema, named_schemas={}), None)
        assert body.tell() == len(value) - 5
        names.append(schema["name"])
    assert names[0] == "LogStarted"
    assert "MetadataUpdateAccepted" in names


def test_confluent_s_own_deserializer_reads_every_decision(decided: list[Message], registry: str) -> None:
    """The reader that most of them use, with nothing but the registry's address."""
    for needed in ("authlib.integrations.httpx_client", "cachetools"):
        pytest.importorskip(needed, reason="Confluent's client for registries needs authlib and cachetools")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    with SchemaRegistryClient({"url": registry}) as client:
        read = AvroDeserializer(client)
        place = SerializationContext(decided[0].topic(), MessageField.VALUE)  # type: ignore[arg-type]
        found: list[Any] = [read(message.value(), place) for message in decided]
    assert found[0]["cluster"]
    assert any(record.get("type_name") == "Customer" or record.get("name") == "Customer" for record in found)
