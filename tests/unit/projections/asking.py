"""The cluster against which the examples of docs/api.md are run, and how one is run: `curl` as people type it.

    python -m tests.unit.projections.asking "curl -s 'localhost:8642/v1/clusters/main/nodes'"

prints what it answers, as docs/api.md shows it.
"""

import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from httpx import Client, Response
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.lively import lively
from tests.unit.projections.serving import served

from topolog.projections import patience
from topolog.projections.api.listings import LISTINGS
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

API = "localhost:8642"
MAIN = "/v1/clusters/main"
DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.json"


@contextmanager
def asked(folder: Path) -> Iterator[Client]:
    """An API over a lively cluster in which no time goes by: it always answers the same."""
    chronicle = lively(Chronicle().start())
    projector = Projector(chronicle.log.reader(), folder, "main", now_s=lambda: 0.0, wall_ms=lambda: chronicle.now_ms)
    while projector.step():
        pass
    writer = AnsweringWriter(chronicle, projector)
    with pytest.MonkeyPatch.context() as patch, served(projector, Requester(writer, "api-1", "broker:9092")) as client:
        patch.setattr(patience, "wall_ms", lambda: chronicle.now_ms)
        yield client
    projector.close()


def addresses(client: Client) -> Iterator[tuple[str, str]]:
    """Every address that can be read, as docs/openapi.json has it, which another test compares with the API's own, and
    with the name of something that is there, if a list has it."""
    for path, methods in msgspec.json.decode(DOCUMENT.read_bytes())["paths"].items():
        if "get" not in methods:
            continue
        name = path.removeprefix("/v1/clusters/{cluster}/").split("/")[0]
        items = client.get(f"{MAIN}/{name}").json().get("items", []) if name in LISTINGS else []
        title = str(items[0][_TITLES.get(name, "name")]) if items else "x/1/1"
        parts = iter(title.split("/"))
        words = [next(parts, "1") if word.startswith("{") else word for word in path.split("/")[4:]]
        yield path, "/".join([MAIN, *words]) if "{cluster}" in path else path


_TITLES = (
    dict.fromkeys(("nodes", "leases", "lease-health", "single-maps", "branches"), "node")
    | dict.fromkeys(("baselines", "changes", "sessions", "repairs"), "number")
    | dict.fromkeys(("views", "exchanges"), "version")
    | {"decisions": "position", "requests": "id", "dead-letters": "id"}
)
"""Under which field the name is by which one of a list is asked for, where that is not `name`."""


def curl(client: Client, command: str) -> Response:
    """What `curl` would get: -s, -X, -H and -d are understood."""
    words = iter(shlex.split(command)[1:])
    method, headers, body, url = "GET", {}, None, ""
    for word in words:
        match word:
            case "-s":
                pass
            case "-X":
                method = next(words)
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d":
                body = next(words)
            case _:
                url = word
    return client.request(method, url.removeprefix(API), headers=headers, content=body)


def shown(answer: Response) -> str:
    """The answer as a page shows it: JSON with a member a line, short lists and objects in one."""
    if "json" not in answer.headers["Content-Type"]:
        return answer.text.replace("\r\n", "\n").rstrip()
    return shortened(msgspec.json.decode(answer.content))


def shortened(value: Any, indent: str = "", room: int = 110) -> str:
    flat = re.sub(r"\s+", " ", msgspec.json.format(msgspec.json.encode(value), indent=1).decode())
    if (len(indent) + len(flat) <= room and indent) or not isinstance(value, dict | list) or not value:
        return msgspec.json.format(msgspec.json.encode(value), indent=0).decode() if flat else flat
    deeper = indent + "  "
    if isinstance(value, dict):
        lines = [f'{deeper}"{name}": {shortened(each, deeper)}' for name, each in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(f"{deeper}{shortened(each, deeper)}" for each in value) + f"\n{indent}]"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, asked(Path(folder)) as client:
        sys.stdout.write(f"{shown(curl(client, sys.argv[1]))}\n")


if __name__ == "__main__":
    main()
