"""What docker/ says, held against what it is about: no engine is needed, tests/kafka_container.py is for that."""

import os
import re
import shutil
import subprocess
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
    """OP24: Kafka, two coordinators, lease health, the rendezvous, the query API, demo nodes."""
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


TOOL = """#!/usr/bin/env bash
call="${0##*/} $*"
[[ -z $FAILS || ! $call =~ $FAILS ]] || exit "$CODE"
case $call in
    "docker run "*) echo 3.11 ;;
    "apt-get "*) echo deb http://127.0.0.1 stable main ;;
esac
"""
TOOLS = ("bin/docker", "bin/apt-get", "bin/mmdebstrap", ".venv/bin/python", ".venv/bin/pytest")


def run_script(script: str, folder: Path, fails: str, code: int, fakes: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run a script of ours in a clone where every tool does nothing, and those whose call matches `fails` fail."""
    for name in ("docker/build-base", "docker/build-image", "docker/Dockerfile", ".ci/container"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for name in (*TOOLS, *fakes):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(TOOL)
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "FAILS": fails, "CODE": str(code)}
    done = subprocess.run([folder / script], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("fails", "code"),
    [
        ("^$", 0),
        ("docker version", 3),
        ("docker image inspect|apt-get", 3),
        ("docker image inspect|mmdebstrap", 3),
        ("docker image inspect|docker import", 1),
        ("pip download", 3),
        ("pip download.*--require-hashes", 1),
        ("docker build", 1),
    ],
)
@pytest.mark.parametrize("tool_code", [1, 3])
def test_an_image_that_does_not_build_is_not_one_that_a_machine_cannot_make(
    tmp_path: Path, fails: str, code: int, tool_code: int
) -> None:
    """Exit code 3 of docker/build-image says that an engine, a base or an index is not here; a fault of ours is 1."""
    ended, said = run_script("docker/build-image", tmp_path, fails, tool_code)
    assert ended == code, said


@pytest.mark.parametrize(("build_code", "code", "says"), [(3, 0, "roles left out"), (1, 1, "does not build")])
def test_the_run_passes_without_an_image_only_where_none_can_be_made(
    tmp_path: Path, build_code: int, code: int, says: str
) -> None:
    """The base is not here and cannot be pulled, so docker/build-image is what makes the image."""
    fakes = ("docker/provide-engine", "docker/build-image", "bin/docker-compose")
    fails = "docker image inspect python|docker pull|build-image"
    ended, said = run_script(".ci/container", tmp_path, fails, build_code, fakes)
    assert (ended, says in said) == (code, True), said
