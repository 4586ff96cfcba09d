"""Kafka in a container, for the tests, and the choice between it and the local broker.

A container is the better test, because it is the Kafka that others run; but most machines without an engine have no
images either, and a test run must not hang on finding that out. So each question to the engine has seconds, a pull
has a limit, and whatever is chosen, the run says at its end which it was and why the other was not taken.

    TOPOLOG_TEST_BROKER=container|local   take this one or fail
    TOPOLOG_TEST_KAFKA_IMAGE=NAME:TAG     the image, instead of the two that are looked for
"""

import contextlib
import gc
import os
import socket
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from docker.client import from_env
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.errors import DockerException, ImageNotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from topolog.streams.local.jars import KAFKA_VERSION
from topolog.streams.local.kafka_config import SERVER
from topolog.streams.local.launch import STARTED

BROKER: Final = "TOPOLOG_TEST_BROKER"
IMAGE: Final = "TOPOLOG_TEST_KAFKA_IMAGE"

IMAGES: Final = (f"apache/kafka:{KAFKA_VERSION}", f"topolog-kafka:{KAFKA_VERSION}")
"""Apache's own, and the one that docker/build-kafka-image makes where none can be pulled."""

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"
ANSWER_LIMIT_S = 3
_START_LIMIT_S = 60
_PORT, _CONTROLLER_PORT = 9092, 9093


class Choice(msgspec.Struct, frozen=True):
    """What the tests run on: in `image`, or on the local broker if it is empty; `why` not on the other."""

    image: str
    why: str

    def __str__(self) -> str:
        return f"Kafka in a container of {self.image} ({self.why})" if self.image else f"local broker ({self.why})"


class Impossible(Exception):
    """A container was asked for and cannot be had."""


def choose(environ: Mapping[str, str], *, pull_limit_s: float = 120) -> Choice:
    """A container if one can be had within the limits, else the local broker; raises Impossible if it must be one."""
    wish = environ.get(BROKER, "")
    if wish not in ("", "container", "local"):
        raise Impossible(f"{BROKER} is {wish!r}; it can be container or local.")
    if wish == "local":
        return Choice("", f"{BROKER}=local")
    named = environ.get(IMAGE)
    try:
        image = _image_at_hand((named,) if named else IMAGES, pull_limit_s)
    except (DockerException, OSError) as error:  # what the library does not translate are requests' errors, OSErrors
        if wish:
            raise Impossible(f"{BROKER}=container, but {_said(error)}.") from error
        _drop(error)
        return Choice("", f"no container, because {_said(error)}")
    return Choice(image, f"{BROKER}=container" if wish else "an engine answers")


def _drop(error: BaseException | None) -> None:
    """Forget a failed call to the engine: the library leaves its socket open, which the run would warn of later."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        while error is not None:
            error.__traceback__, error = None, error.__context__
        gc.collect()


def _image_at_hand(images: tuple[str, ...], pull_limit_s: float) -> str:
    """The first of these that the engine has; if it has none, the first is pulled."""
    _knock(os.environ.get("DOCKER_HOST") or DEFAULT_HOST)
    with _engine() as client:
        for image in images:
            try:
                client.images.get(image)
            except ImageNotFound:
                continue
            return image
        _pull(client.api, images[0], pull_limit_s)
        return images[0]


@contextlib.contextmanager
def _engine() -> Iterator[Any]:
    """A client that speaks the engine's version of the API, closed whatever happens.

    Told to find the version by itself it would ask while it is being made; where that fails nobody has it to close.
    """
    with contextlib.closing(from_env(timeout=ANSWER_LIMIT_S, version=DEFAULT_DOCKER_API_VERSION)) as asking:
        version = asking.api.version(api_version=False)["ApiVersion"]
    with contextlib.closing(from_env(timeout=ANSWER_LIMIT_S, version=version)) as client:
        yield client


def _knock(host: str) -> None:
    """Raise OSError where nobody listens; the library would say so too, but leave its socket open behind it."""
    place = urlsplit(host)
    if place.scheme == "unix":
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.settimeout(ANSWER_LIMIT_S)
            knocking.connect(place.path)
    elif place.hostname and place.port:
        socket.create_connection((place.hostname, place.port), ANSWER_LIMIT_S).close()


def _pull(api: Any, image: str, limit_s: float) -> None:
    """Each line of the engine's progress comes within the seconds of an answer, or the pull has failed."""
    deadline = time.monotonic() + limit_s
    name, _, tag = image.rpartition(":")
    for line in api.pull(name, tag=tag, stream=True, decode=True):
        if "error" in line:
            raise DockerException(f"{image} is not here and cannot be pulled: {line['error']}")
        if time.monotonic() > deadline:
            raise DockerException(f"{image} is not here and pulling it took more than {limit_s:g} s")


def _said(error: Exception) -> str:
    text = str(error)
    nobody = isinstance(error, OSError) or "Error while fetching server API version" in text
    return "no container engine answers" if nobody else text.rstrip(".")


class KafkaContainer(DockerContainer):
    """One node of Kafka with the local broker's settings, published on a loopback port chosen before it starts.

    Chosen before, because a broker tells its clients where it is: the engine's choice would come too late.
    """

    def __init__(self, image: str, port: int) -> None:
        super().__init__(image)
        self.bootstrap = f"127.0.0.1:{port}"
        self.ports[str(_PORT)] = ("127.0.0.1", port)  # type: ignore[assignment]  # the engine takes an address too
        self.waiting_for(LogMessageWaitStrategy(STARTED).with_startup_timeout(_START_LIMIT_S))
        settings = {
            **SERVER,
            "node.id": 1,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": f"PLAINTEXT://:{_PORT},CONTROLLER://:{_CONTROLLER_PORT}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": f"1@localhost:{_CONTROLLER_PORT}",
        }
        for key, value in settings.items():
            self.with_env(f"KAFKA_{key.replace('_', '__').replace('.', '_').upper()}", str(value))


@contextlib.contextmanager
def started(image: str, port: int) -> Iterator[KafkaContainer]:
    """A container for as long as the block runs."""
    # The reaper would be a container of one more image, which may not be had; what starts here is stopped here.
    testcontainers_config.ryuk_disabled = True
    container = KafkaContainer(image, port)
    with contextlib.closing(container.get_docker_client().client), container:
        yield container
