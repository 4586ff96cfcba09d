"""`topolog spark rebuild` as a process of its own, and who reads all the time while a projector takes over from it."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.broker.conftest import PATIENCE_S, Site

Json = dict[str, Any]


def rebuild(site: Site, folder: Path, *args: str) -> tuple[int, Json, str]:
    """Exit code, what is said of the one cluster, and stderr."""
    settings = {"cluster.name": site.cluster, "kafka.bootstrap.servers": site.bootstrap, "projector.data": str(folder)}
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "topolog", "spark", "rebuild", "-o", "json", *args, *sets]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    (item,) = json.loads(done.stdout)["items"] if done.stdout else ({},)
    return done.returncode, item, done.stderr


class Asking:
    """Asks the API all the time for lists and single rows; what was not 200, or older than an answer before."""

    def __init__(self, site: Site, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/clusters/{site.cluster}"
        self._stop = threading.Event()
        self.wrong: list[str] = []
        self.count = 0

    @contextmanager
    def all_the_time(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._ask, args=(path,)) for path in ("cluster", "types", "decisions")]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _ask(self, path: str) -> None:
        seen = -1
        with httpx.Client(trust_env=False, timeout=30) as client:
            while not self._stop.is_set():
                try:
                    answer = client.get(f"{self._url}/{path}").raise_for_status()
                except httpx.HTTPError as error:
                    self.wrong.append(f"{path}: {error!r}")
                    continue
                reached = int(answer.json()["asOf"]["position"])
                if reached < seen:
                    self.wrong.append(f"{path}: {reached} behind {seen}")
                seen = max(seen, reached)
                self.count += 1
