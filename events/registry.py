"""The schema registry: the ids it gives our schemas, and the meaning of ids that others wrote (owner of httpx here).

Only the coordinator talks to it, and nothing that is decided waits for it. Until it has answered, decisions are written
in single-object encoding, which every reader reads beside the framed ones (framing.py); a schema that it refuses stays
unframed. An id in a request of somebody else is looked up once; what cannot be found out in a second goes on as it
came, which is to the dead letters, and can be replayed from there.

Subjects are the records' full names (RecordNameStrategy): one topic carries many records, and the contract is one for
all clusters. Any registry with Confluent's HTTP API will do.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import httpx
import msgspec

from topolog import schemas
from topolog.events.codec import CODEC
from topolog.events.errors import BadInput, Permanent, Retriable, Unreachable
from topolog.events.framing import framed, schema_id, with_prefix
from topolog.events.ids import Offset
from topolog.events.log import Entry, Headers, LogReader, LogWriter, OnDelivery, Partition
from topolog.events.topics import REQUEST_TOPICS, Topic

_LOGGER = logging.getLogger("topolog.registry")
_ACCEPT: Final = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
_ANSWER_LIMIT_S = 1.0  # the coordinator waits while it asks: a registry must not cost a term
_REGISTER_LIMIT_S = 10.0  # nobody waits for a single one, and a registry that has just started is slow
_QUIET_S = {Permanent: 0.1, Retriable: 10.0}
"""No question for so long after one that was answered with no, or not answered: garbage must not become a load."""

_IDS_MAX = 10_000
_START_WAIT_S = 15.0  # registering takes one or two; a registry that is away says so at once, or in a second


class Registry:
    """Registers every released schema, again and again until it has worked, in a thread of its own.

    `ids`: what is registered so far, by prefix; replaced, never changed, so that any thread may read it.
    """

    def __init__(self, url: str, *, retry_s: float = 10.0) -> None:
        self.ids: Mapping[bytes, int] = {}
        self._url = url.rstrip("/")
        self._retry_s = retry_s
        self._client = httpx.Client(headers=_ACCEPT)
        self._prefixes: dict[int, bytes | None] = {}
        self._quiet_until_s = 0.0
        self._tried, self._done = threading.Event(), threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._register_all, name="schema registry", daemon=True)

    def start(self) -> None:
        """Begin to register, and wait for the end of the first attempt, so that a log is mixed only if it must be."""
        self._thread.start()
        self._tried.wait(_START_WAIT_S)

    def wait(self, wait_s: float) -> bool:
        """Whether everything is registered, after at most so long."""
        return self._done.wait(wait_s)

    def close(self) -> None:
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join(_REGISTER_LIMIT_S)
        self._client.close()

    def prefix_of(self, number: int) -> bytes | None:
        """The prefix of our schema that this id means; None if it means none, or cannot be asked about now."""
        known = {given: prefix for prefix, given in self.ids.items()}
        if number in known or number in self._prefixes:
            return known.get(number) or self._prefixes[number]
        if time.monotonic() < self._quiet_until_s:
            return None
        try:
            answer = self._ask("GET", f"/schemas/ids/{number}")
            prefix = CODEC.released_prefix(answer.get("schema"))
        except (Permanent, Retriable) as error:
            kind = Retriable if isinstance(error, Retriable) else Permanent
            self._quiet_until_s = time.monotonic() + _QUIET_S[kind]
            _LOGGER.warning("The meaning of schema id %s is not known: %s", number, error)
            return None
        if len(self._prefixes) < _IDS_MAX:
            self._prefixes[number] = prefix
        return prefix

    def _register_all(self) -> None:
        is_told = False
        while not self._closed.is_set():
            try:
                self._register_missing()
            except Unreachable as error:
                if not is_told:
                    _LOGGER.warning("Decisions are written without Confluent's framing until this is over: %s", error)
                is_told = True
                self._tried.set()
                self._closed.wait(self._retry_s)
            else:
                _LOGGER.info("The schema registry at %s knows %d of our schemas.", self._url, len(self.ids))
                self._done.set()
                self._tried.set()
                return

    def _register_missing(self) -> None:
        """Oldest versions first, as compatibility is checked; what was registered before an outage is not repeated."""
        refused = 0
        for name, versions in schemas.load().items():
            for schema in versions:
                prefix = CODEC.released_prefix(json.dumps(schema))
                if prefix is None or prefix in self.ids or self._closed.is_set():
                    continue
                try:
                    body = {"schema": json.dumps(schema), "schemaType": "AVRO"}
                    answer = self._ask("POST", f"/subjects/{name}/versions", body, limit_s=_REGISTER_LIMIT_S)
                    self.ids = {**self.ids, prefix: msgspec.convert(answer.get("id"), int)}
                except (Permanent, msgspec.ValidationError) as error:
                    refused += 1
                    if refused == 1:
                        _LOGGER.warning("%s is written without Confluent's framing: %s", name, error)

    def _ask(self, method: str, path: str, body: Any = None, *, limit_s: float = _ANSWER_LIMIT_S) -> dict[str, Any]:
        """The registry's answer; Unreachable if there is none or it is not able, BadInput if it says no."""
        try:
            response = self._client.request(method, self._url + path, json=body, timeout=limit_s)
            answer = response.json() if response.content else {}
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise Unreachable(f"No schema registry answers at {self._url} ({type(error).__name__}).") from error
        if response.status_code >= 500:
            raise Unreachable(f"The schema registry at {self._url} answers {response.status_code}.")
        if response.is_error or not isinstance(answer, dict):
            raise BadInput(f"The schema registry answers {response.status_code} to {path}: {response.text[:200]}")
        return answer


class FramingWriter:
    """A writer whose decisions go out in Confluent's framing; every other topic is read by topolog alone."""

    def __init__(self, inner: LogWriter, registry: Registry) -> None:
        self._inner = inner
        self._registry = registry

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if topic is Topic.DECISIONS:
            value, added = framed(value, self._registry.ids)
            headers = (*headers, *added)
        self._inner.append(topic, key, value, headers, on_delivery)

    def serve(self) -> None:
        self._inner.serve()

    def flush(self, timeout_s: float) -> int:
        return self._inner.flush(timeout_s)

    def close(self) -> None:
        self._inner.close()


class FramingReader:
    """A reader that understands requests which others wrote with a registry's serializer."""

    def __init__(self, inner: LogReader, registry: Registry) -> None:
        self._inner = inner
        self._registry = registry

    def poll(self, timeout_s: float) -> list[Entry]:
        return [self._understood(entry) for entry in self._inner.poll(timeout_s)]

    def _understood(self, entry: Entry) -> Entry:
        number = schema_id(entry.value) if entry.topic in REQUEST_TOPICS else None
        prefix = None if number is None else self._registry.prefix_of(number)
        if prefix is None:
            return entry
        value = with_prefix(entry.value, prefix)
        if CODEC.read(value) is None:
            return entry  # a dead letter keeps the bytes that came
        return msgspec.structs.replace(entry, value=value)

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        self._inner.assign(starts)

    def at_end(self, topic: Topic) -> bool:
        return self._inner.at_end(topic)

    def hears(self, topic: Topic) -> bool:
        return self._inner.hears(topic)

    def bounds(self, partition: Partition) -> tuple[Offset, Offset] | None:
        return self._inner.bounds(partition)

    def counted(self, entry: Entry, fence_ms: int) -> None:
        self._inner.counted(entry, fence_ms)

    def proven(self) -> bool:
        return self._inner.proven()

    def close(self) -> None:
        self._inner.close()
