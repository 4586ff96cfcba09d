"""What docker/ says, held against what it is about: no engine is needed, tests/kafka_container.py is for that."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from topolog.commands.tree import root
from topolog.settings.model import load
from topolog.streams.local.jars import KAFKA_VERSION

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "topolog"}


def pins(lock: str) -> dict[str, str]:
    """Each requirement of a lock with its hashes, as it stands there without the comments."""
    text = re.sub(r"^ *#.*\n", "", (ROOT / lock).read_text(), flags=re.MULTILINE)
    entries = re.split(r"\n(?=\S)", text.strip())
    return {entry.partition("==")[0]: entry for entry in entries}


def test_the_issue_s_roles_are_all_there() -> None:
    """Issues 4.6 and 8: Kafka, two coordinators, lease health, the rendezvous, the query API, demo nodes."""
    roles = [" ".join(service["command"][:2]) for service in OURS.values()]
    assert "kafka" in SERVICES
    assert roles.count("run coordinator") == 2
    assert roles.count("run lease-health") == roles.count("run rendezvous") == 1
    assert roles.count("run projector") == 1
    assert roles.count("run demo-node") > 1


@pytest.mark.parametrize("name", OURS)
def test_each_service_runs_a_command_that_exists_with_settings_that_exist(name: str) -> None:
    """A renamed command or a misspelt setting would show only when somebody starts the containers."""
    command: Any = root()
    arguments = [word for word in OURS[name]["command"] if not word.startswith("-")]
    for word in arguments[:2]:
        command = command.commands[word]
    settings = load({}, environ=OURS[name]["environment"]).settings
    assert settings.kafka["bootstrap.servers"] == "kafka:29092"


def test_nothing_is_published_beyond_loopback_and_nothing_secret_is_named() -> None:
    """Neither the broker nor the API asks who is there."""
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert not re.search(r"password|secret|token", (ROOT / "docker/compose.yaml").read_text(), re.IGNORECASE)


def test_every_file_means_the_same_kafka() -> None:
    """The version of the jars is the one that images are called by."""
    for file in ("docker/compose.yaml", ".ci/container"):
        named = re.findall(r"kafka:(\d+\.\d+\.\d+)", (ROOT / file).read_text())
        assert named
        assert set(named) == {KAFKA_VERSION}


def test_the_image_is_made_of_what_the_tests_ran_with() -> None:
    """docker/requirements.lock is a part of requirements.lock, to the hash; `make image-lock` makes it so again."""
    all_pins, image_pins = pins("requirements.lock"), pins("docker/requirements.lock")
    assert len(image_pins) > 20
    assert {name: pin for name, pin in image_pins.items() if all_pins.get(name) != pin} == {}
