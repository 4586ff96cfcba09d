"""What Kafka is told, and what its complaints mean."""

from pathlib import Path

import pytest

from topolog.streams.local.kafka_config import (
    Seat,
    decisive_line,
    known_complaint,
    parse_properties,
    properties,
    server_properties,
)


def test_every_listener_is_on_the_loopback_address() -> None:
    """What runs here has no password, so nobody else on the network may reach it."""
    told = parse_properties(server_properties(Path("/data/kafka"), Seat(19092)))
    assert told["listeners"] == "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093"
    assert told["advertised.listeners"] == "PLAINTEXT://127.0.0.1:19092"
    assert told["log.dirs"] == "/data/kafka"


def test_topics_are_never_made_by_accident() -> None:
    """A misspelt topic must be an error, not an empty topic."""
    assert parse_properties(server_properties(Path("/data"), Seat(1)))["auto.create.topics.enable"] == "false"


def test_a_path_of_any_letters_survives_javas_format() -> None:
    """Java reads Latin-1 with backslash escapes, in UTF-16 units."""
    assert properties({"a": "/home/jürgen/🦊\\x"}) == "a=/home/j\\u00fcrgen/\\ud83e\\udd8a\\\\x\n"


@pytest.mark.parametrize(
    ("line", "means"),
    [
        ("java.net.BindException: Address already in use", "Its port is in use."),
        ("java.io.IOException: No space left on device", "The disk is full."),
        ("Invalid cluster.id in: /data/meta.properties", "The data folder belongs to another Kafka cluster."),
        ("Failed to acquire lock on file .lock in /data.", "Another Kafka uses the data folder."),
        ("Could not reserve enough space for object heap", "This machine has too little memory left for it."),
        ("java.lang.UnsupportedClassVersionError: kafka/Kafka", "The Java is too old for it."),
    ],
)
def test_a_known_complaint_is_decisive_and_has_a_meaning(line: str, means: str) -> None:
    """It is found among other errors, before the ones that only follow from it."""
    log = [
        "[1] INFO starting (kafka)",
        "[2] ERROR shutting down (kafka)",
        line,
        "\tat kafka.Kafka.main",
        "[3] INFO end",
    ]
    assert decisive_line(log) == line
    complaint = known_complaint(line)
    assert complaint is not None
    assert complaint.means == means


def test_an_unknown_end_is_told_by_its_first_exception_or_error() -> None:
    """Later ones mostly follow from the first; without one, the last line has to do."""
    exception = "java.lang.RuntimeException: Stored node id 7 doesn't match previous node id 1"
    assert decisive_line(["[1] ERROR Exiting Kafka", exception, "\tat kafka.Kafka.main"]) == exception
    assert decisive_line(["[1] INFO a", "[2] ERROR b", "[3] ERROR c"]) == "[2] ERROR b"
    assert decisive_line(["[1] INFO a", "[2] INFO b", ""]) == "[2] INFO b"
    assert decisive_line([]) == "it wrote nothing"
    assert known_complaint("[2] ERROR b") is None
