"""Whose data folder it is, and whether a broker could work in it: checked before anything is started."""

import base64
import os
import uuid
from pathlib import Path

import msgspec

from topolog.events.errors import LocalBrokerError
from topolog.streams.local.kafka_config import parse_properties

OWNER_FILE = "topolog-broker.json"
QUORUM_FILE = "topolog-brokers.json"  # of a folder whose subfolders are the nodes of one Kafka
ROOM_BYTES = 100 << 20  # with less, Kafka starts and ends at the first segment that it cannot write
ANOTHER_FOLDER = "Name another folder: --set broker.data=..."


class Owner(msgspec.Struct, frozen=True):
    """Written before Kafka formats the folder, so that a start that was cut short can be done again."""

    kafka_cluster_id: str


def claim(folder: Path, cluster_id: str | None = None) -> Owner:
    """The owner of an existing folder; an empty one gets a new owner, of the Kafka cluster named if one is.

    Raises LocalBrokerError for a folder of something else, of another Kafka cluster, or with topics that lack Kafka's
    own description of the folder.
    """
    if "," in os.fspath(folder):
        raise LocalBrokerError(f"Kafka reads a comma as a list, and {folder} has one.", hint=ANOTHER_FOLDER)
    if (folder / QUORUM_FILE).exists():
        raise LocalBrokerError(
            f"{folder} holds a Kafka of several nodes.",
            hint="`topolog broker status` shows where it is: use it with --set kafka.bootstrap.servers=..., or name "
            "another folder with --set broker.data=...",
        )
    owner = _recorded_owner(folder)
    if owner is None:
        if any(entry.name != f"{OWNER_FILE}.new" for entry in folder.iterdir()):
            raise LocalBrokerError(f"{folder} is not empty and not a data folder of topolog's.", hint=ANOTHER_FOLDER)
        owner = Owner(cluster_id or new_uuid())
        write_atomically(folder / OWNER_FILE, owner)
    expected = owner if cluster_id is None else Owner(cluster_id)
    _check_kafka_folder(folder / "kafka", expected)
    return expected


def is_formatted(folder: Path) -> bool:
    return (folder / "kafka" / "meta.properties").exists()


def check_room(free_bytes: int, folder: Path) -> None:
    if free_bytes < ROOM_BYTES:
        raise LocalBrokerError(
            f"The disk of {folder} is full: {free_bytes >> 20} MB free, {ROOM_BYTES >> 20} MB needed.",
            hint="Free some space, or set broker.data to another disk.",
        )


def new_uuid() -> str:
    """Kafka's form of a UUID: 22 characters of url-safe base64; its tools take a leading dash for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def write_atomically(path: Path, value: msgspec.Struct) -> None:
    """As JSON; a crash leaves the old content or the new one."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(msgspec.json.encode(value) + b"\n")
    new.replace(path)


def _recorded_owner(folder: Path) -> Owner | None:
    path = folder / OWNER_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Owner)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise LocalBrokerError(f"{path} is damaged: {error}.", hint=ANOTHER_FOLDER) from error


def _check_kafka_folder(kafka: Path, owner: Owner) -> None:
    meta = kafka / "meta.properties"
    if meta.exists():
        found = parse_properties(meta.read_text(encoding="latin-1")).get("cluster.id")
        if found != owner.kafka_cluster_id:
            raise LocalBrokerError(
                f"{kafka} belongs to another Kafka cluster ({found} instead of {owner.kafka_cluster_id}).",
                hint=ANOTHER_FOLDER,
            )
    elif any(kafka.glob("*-[0-9]*/*.log")):
        raise LocalBrokerError(f"{kafka} holds topics but no meta.properties: it is damaged.", hint=ANOTHER_FOLDER)
