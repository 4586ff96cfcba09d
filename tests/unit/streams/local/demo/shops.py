"""Nodes of the example store in one process, on real HTTP, with the cluster's log in memory."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from topolog.events.group_definition import GroupDefinition
from topolog.events.partitions import PartitionState
from topolog.streams.local.demo import courier
from topolog.streams.local.demo.agreement import Agreement
from topolog.streams.local.demo.disk import Journal
from topolog.streams.local.demo.serving import Listener
from topolog.streams.local.demo.shards import Shards
from topolog.streams.local.demo.store import Store
from topolog.streams.node.client import Node
from topolog.streams.node.testing import LocalCluster

GROUP = GroupDefinition("rows", partitions=8, backups=1)
STEPS_MAX = 300


class Shop:
    """One node of the store, with its port."""

    def __init__(
        self, local: LocalCluster, name: str, stack: ExitStack, group: GroupDefinition, folder: Path | None
    ) -> None:
        listener = stack.enter_context(Listener())
        self.endpoint = listener.endpoint
        self.node: Node = local.node(name, endpoint=listener.endpoint)
        journal = stack.enter_context(closing(Journal(folder / f"{name}.journal"))) if folder else None
        self.shards = Shards(self.node, group, journal)
        self.store = Store(self.shards, Agreement(self.node, lambda _: None))
        stack.enter_context(self.node)
        listener.serve(self.store, self.shards, may_rot=True)
        stack.enter_context(self.shards)

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers; redirections are the caller's."""
        connection = HTTPConnection(urlsplit(self.endpoint).netloc, timeout=10)
        connection.request(method, path, body)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, msgspec.json.decode(data) if data else None, dict(response.headers)

    def post(self, parcel: bytes) -> int:
        connection = HTTPConnection(urlsplit(self.endpoint).netloc, timeout=10)
        connection.request("POST", courier.PATH, parcel)
        status = connection.getresponse().status
        connection.close()
        return status


class Shops:
    def __init__(self, local: LocalCluster) -> None:
        self.local = local
        self.group = GROUP
        self.folder: Path | None = None
        self.by_name: dict[str, Shop] = {}
        self._stacks: dict[str, ExitStack] = {}

    def open(self, *names: str) -> None:
        for name in names:
            self._stacks[name] = ExitStack()
            self.by_name[name] = Shop(self.local, name, self._stacks[name], self.group, self.folder)

    def kill(self, name: str, *, certificate: bool = True) -> None:
        """Its process is gone for everybody: no log, no answers."""
        del self.by_name[name]
        self.local.kill(name, certificate=certificate)
        self._stacks.pop(name).close()

    def close(self) -> None:
        for stack in self._stacks.values():
            stack.close()

    @property
    def any(self) -> Shop:
        return next(iter(self.by_name.values()))

    def ask(self, method: str, name: str, key: str, **columns: Any) -> tuple[int, Any]:
        """A row of this table, wherever it is; again, while time passes, behind a 503 that is not about the table."""
        shop, body = self.any, msgspec.json.encode(columns) if method == "PUT" else b""
        for _ in range(STEPS_MAX):
            status, found, headers = shop.ask(method, f"/rows/{name}/{key}", body)
            if status == 307:
                shop = next(e for e in self.by_name.values() if headers["Location"].startswith(e.endpoint + "/"))
            elif status == 503 and name not in found["detail"]:
                self.local.advance(0.2)
            else:
                return status, found
        raise AssertionError(f"{name}/{key} is not answered")

    def put(self, key: str, value: str) -> None:
        """As a client does: go where one is sent, again if it was not done. Time passes meanwhile."""
        for _ in range(STEPS_MAX):
            if self.try_to_put(key, value):
                return
            self.local.advance(0.2)
        raise AssertionError(f"{key} cannot be stored")

    def try_to_put(self, key: str, value: str) -> bool:
        body = msgspec.json.encode({"value": value})
        shop = self.any
        for _ in range(5):
            try:
                status, _, headers = shop.ask("PUT", f"/rows/Thing/{key}", body)
            except OSError:
                return False
            if status != 307:
                return status == 204
            found = [each for each in self.by_name.values() if headers["Location"].startswith(each.endpoint + "/")]
            if not found:
                return False
            shop = found[0]
        return False

    def get(self, key: str) -> str | None:
        shop = self.any
        for _ in range(STEPS_MAX):
            status, body, headers = shop.ask("GET", f"/rows/Thing/{key}")
            if status == 200:
                return str(body["value"])
            if status == 404:
                return None
            if status == 307:
                shop = next(e for e in self.by_name.values() if headers["Location"].startswith(e.endpoint + "/"))
            else:
                self.local.advance(0.2)
        raise AssertionError(f"{key} is not answered")

    def until(self, holds: Callable[[], bool]) -> None:
        """Time passes until it does."""
        for _ in range(STEPS_MAX):
            if holds():
                return
            self.local.advance(0.2)
        raise AssertionError(f"in vain: {[(n, s.shards.states()) for n, s in self.by_name.items()]}")

    def rest(self) -> None:
        """Until all copies own, two of each partition, the wanted primaries act and all owners are equal."""
        self.until(self._is_at_rest)

    def _is_at_rest(self) -> bool:
        views = self.any.node.partitions(GROUP.name)
        states = {copy.state for view in views for copy in view.copies}
        is_settled = all(view.copies and view.primary == view.copies[0].node for view in views)
        return states == {PartitionState.OWNING} and is_settled and all(self._are_equal(view) for view in views)

    def _are_equal(self, view: Any) -> bool:
        held = [self.rows(copy.node, view.partition) for copy in view.copies]
        return all(rows == held[0] for rows in held)

    def rows(self, name: str, partition: int) -> dict[str, Any]:
        shards = self.by_name[name].shards
        with shards._lock:
            found = shards._replica.partition((GROUP.name, partition))
            return dict(found.content.rows()) if found else {}
