"""The image: each role starts in it, on a Kafka in a container beside it.

TOPOLOG_TEST_IMAGE=NAME          the image of topolog, which .ci/container has built
TOPOLOG_TEST_KAFKA_IMAGE=NAME    that of Kafka, instead of the one that docker/compose.yaml names
"""

import json
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.install.environments import ROOT, run

IMAGE, KAFKA_IMAGE = "TOPOLOG_TEST_IMAGE", "TOPOLOG_TEST_KAFKA_IMAGE"
PATIENCE_S = 180.0
TURN_S = 1.0
Compose = Callable[..., str]


def services(image: str, kafka_image: str | None) -> dict[str, dict[str, Any]]:
    """Those of docker/compose.yaml that need no profile, from images that are there, with no port of this machine."""
    held: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
    found = {}
    for name, service in held.items():
        if "profiles" in service:
            continue
        kept = {key: value for key, value in service.items() if key not in ("build", "ports")}
        kept["image"] = image if service["image"] == "topolog" else kafka_image or service["image"]
        found[name] = kept
    return found


def test_the_services_tried_are_those_that_the_page_shows() -> None:
    """Every role that has a service is tried, nothing is built again and no port is taken."""
    tried = services("topolog:tried", "kafka:tried")
    assert {service["image"] for service in tried.values()} == {"topolog:tried", "kafka:tried"}
    assert {service["command"][1] for service in tried.values() if service.get("command", [""])[0] == "run"} == {
        "coordinator",
        "demo-node",
        "lease-health",
        "projector",
        "rendezvous",
    }
    assert not any({"ports", "build"} & set(service) for service in tried.values())


@pytest.fixture
def image(asked: Mapping[str, str]) -> str:
    if IMAGE not in asked:
        pytest.skip(f"no image is named ({IMAGE}): .ci/container builds one wherever an engine answers")
    return asked[IMAGE]


@pytest.fixture
def compose(image: str, asked: Mapping[str, str], tmp_path: Path) -> Iterator[Compose]:
    """Commands of docker compose about a project of its own, which is removed with all that it has kept."""
    tried = services(image, asked.get(KAFKA_IMAGE))
    volumes: dict[str, dict[str, str]] = {
        volume.split(":")[0]: {} for service in tried.values() for volume in service.get("volumes", ())
    }
    file = tmp_path / "compose.json"
    file.write_text(json.dumps({"services": tried, "volumes": volumes}))
    program = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    base = [*program, "--project-name", f"topolog-test-{uuid.uuid4().hex[:8]}", "--file", str(file)]
    try:
        yield lambda *command: run([*base, *command])
    finally:
        run([*base, "down", "--volumes", "--timeout", "15"])


def test_each_role_starts_in_the_image(compose: Compose) -> None:
    """The API of the projector lists the demo's nodes, and no role has ended or begun anew."""
    compose("up", "--detach")
    names = _eventually(lambda: sorted(compose("exec", "-T", "api", "topolog", "get", "nodes", "-o", "name").split()))
    assert [name.rpartition("/")[2] for name in names] == ["n1", "n2", "n3"]
    for service in services("", None).keys() - {"topics"}:  # which makes them, and ends
        container = compose("ps", "--all", "--quiet", service).strip()
        assert container, f"{service} has no container"
        state = json.loads(run(["docker", "inspect", container]))[0]
        assert (state["State"]["Running"], state["RestartCount"]) == (True, 0), compose("logs", service)


def _eventually(names: Callable[[], list[str]]) -> list[str]:
    """The names of nodes once there are three; what the command said last if that never comes."""
    deadline_s, said = time.monotonic() + PATIENCE_S, ""
    while time.monotonic() < deadline_s:
        try:
            if len(found := names()) == 3:
                return found
            said = " ".join(found)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            said = str(error)
        time.sleep(TURN_S)
    raise AssertionError(f"three nodes are not members after {PATIENCE_S:g} s: {said}")
