"""A cluster for the example store: topics of its own on the shared broker, and one coordinator in a thread."""

import threading
from collections.abc import Iterator

import pytest

from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import PLANS
from topolog.streams.clock import SystemClock
from topolog.streams.coordinator.driver import Driver, LeaseTerms

SHORT = LeaseTerms(fence_ms=2000, margin_ms=500, heartbeat_ms=200)


@pytest.fixture
def coordinated(kafka: str, cluster: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The name of a cluster that is being coordinated, with short leases, and the settings that reach it."""
    settings = {"bootstrap.servers": kafka}
    KafkaAdmin(settings).create_topics(cluster, PLANS)
    reader, writer = KafkaReader(settings, cluster), KafkaWriter(settings, cluster)
    driver = Driver(reader, writer, SystemClock(), cluster, "c1", terms=SHORT)
    stopping = threading.Event()
    thread = threading.Thread(target=driver.run, args=(stopping.is_set,), name="coordinator")
    thread.start()
    yield cluster, settings
    stopping.set()
    thread.join()
    writer.close()
    reader.close()
