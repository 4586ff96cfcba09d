"""A client of the query API, for services and scripts as for the commands: questions, watches, requests.

    with Api("http://127.0.0.1:8642") as api:
        api.get(("partitions", "orders", "17")).item["primary"]
        lost = [each["name"] for each in api.list(("partitions",), {"state": "LOST"})]
        outcome = api.submit({"kind": "hold", "on": True, "reason": "maintenance"}).item
        for event in api.watch(("nodes",)):
            ...

A path has one segment for each part of an address under the cluster's: ("nodes",), ("nodes", "n1"), ("nodes", "n1",
"history"). Parameters are those of the API, by name. Answers are plain data; every failure is one of topolog's errors
(`topolog.events.errors`).

Reads see what was written: an `Api` remembers the newest token of its answers and demands it of each later read that
asks for neither a moment nor a token itself, whichever server answers. `tokens` shares that over processes.
"""

import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from topolog.events.errors import BadInput, NotFound, TopologError, Unreachable
from topolog.projections.cli.following import Follower, WatchEvent
from topolog.projections.cli.problems import Json, is_transient, problem_error, watch_error
from topolog.projections.cli.session_tokens import MemoryTokens, Tokens
from topolog.projections.cli.transport import ANSWER_S, Param, Transport

Params = Mapping[str, Param]
Segments = tuple[str, ...]

PAGE_ROWS = 1000
"""The most the API gives at once."""

CATCH_UP = "10s"
"""How long a server may take to reach what was seen before."""

SILENCE_S = 60.0
"""A watch that says nothing for so long, no bookmark even, is broken."""

PAUSES_S = (0.1, 5.0)
"""Between two attempts to resume a watch: the first, and the longest."""

_BOUND = frozenset({"as_of", "to", "at_least", "cursor"})
"""Who asks for one of these has said already what the answer must know."""


def _unguarded(_: str) -> None:
    """Whoever may change something changes it."""


def _in_silence(_: TopologError, __: float) -> None:
    """Nobody wants to hear of a connection that was made again."""


@dataclass(frozen=True)
class Answer:
    """One answer of the API: its envelope with kind, apiVersion, asOf, and item or items."""

    status: int
    body: Json

    @property
    def item(self) -> Json:
        item = self.body.get("item")
        return item if isinstance(item, dict) else {}

    @property
    def items(self) -> list[Json]:
        """Its items; the one item as a list if it is about one."""
        items = self.body.get("items")
        return items if isinstance(items, list) else [self.item]

    @property
    def as_of(self) -> Json:
        return self.body.get("asOf") or {}

    @property
    def next(self) -> str | None:
        return self.body.get("next")

    @property
    def token(self) -> str | None:
        """Demanded of a later read, it sees all that this answer knew."""
        token = self.item.get("token")  # of a partition it is a number, which readers of rows are fenced by
        return token if isinstance(token, str) else self.as_of.get("token")

    @property
    def is_refusal(self) -> bool:
        return self.status == HTTPStatus.CONFLICT

    @property
    def error(self) -> TopologError:
        """The error a refusal stands for."""
        return problem_error(self.status, self.body)


class Api:
    """A session with one API about one cluster; a context manager.

    `cluster` None means the only one the API serves, which is asked for when it is first needed. `token_file` holds the
    bearer token, `ca_file` the certificates that https is checked by, those of the machine unless it is given. `tokens`
    keeps what was seen, in memory unless something else is given. `patience_s`: how long an answer may take, 30 s
    unless it is given.
    """

    def __init__(
        self,
        url: str,
        cluster: str | None = None,
        *,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        tokens: Tokens | None = None,
        patience_s: float | None = None,
    ) -> None:
        self._transport = Transport(url, token_file, ca_file, patience_s)
        self._given_cluster = cluster
        self._tokens = MemoryTokens() if tokens is None else tokens
        self.guard: Callable[[str], None] = _unguarded
        """Called with its reason before anything is changed; what it raises prevents that."""

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._transport.close()

    @property
    def url(self) -> str:
        return self._transport.url

    @cached_property
    def cluster(self) -> str:
        """The cluster's name; NotFound if the API serves none, BadInput that lists them if it serves several."""
        if self._given_cluster:
            return self._given_cluster
        match self.clusters():
            case [only]:
                return only
            case []:
                raise NotFound(f"The API at {self.url} serves no cluster.", hint="Make one with `topolog up`.")
            case names:
                raise BadInput(
                    f"The API at {self.url} serves several clusters: {', '.join(names)}.",
                    hint="Name one with --cluster or TOPOLOG_CLUSTER__NAME.",
                )

    def clusters(self) -> Sequence[str]:
        """The names of all clusters that the API serves, as far as you may know."""
        return [str(item["name"]) for item in self._get("/v1/clusters", {}).items]

    # Questions.

    def get(self, path: Segments, params: Params | None = None) -> Answer:
        """One answer about the cluster."""
        given = dict(params or {})
        address = self._address(path)
        token = None if given.keys() & _BOUND else self._tokens.newest(self.cluster)
        if token is None:
            return self._remembered(self._get(address, given))
        status, body = self._transport.send("GET", address, {**given, "at_least": token, "wait": CATCH_UP})
        if status in (HTTPStatus.CONFLICT, HTTPStatus.BAD_REQUEST):  # of another log, or no address that takes tokens
            if status == HTTPStatus.CONFLICT:
                self._tokens.forget(self.cluster, token)
            return self._remembered(self._get(address, given))
        return self._remembered(_answer(status, body))

    def of_process(self, what: str, params: Params) -> Answer:
        """One answer about the process itself, whatever clusters it serves."""
        return self._get(f"/v1/{what}", params)

    def get_rows(self, path: Segments, params: Params, at_most: int | None) -> Answer:
        """A list, from as many pages as `at_most` rows take; the cursors hold all pages to one position."""
        first = self.get(path, params if at_most is None else {**params, "limit": min(at_most, PAGE_ROWS)})
        items, cursor = list(first.items), first.next
        while at_most is not None and cursor and len(items) < at_most:
            page = self.get(path, {"limit": min(at_most - len(items), PAGE_ROWS), "cursor": cursor})
            items, cursor = items + page.items, page.next
        return Answer(first.status, {**first.body, "items": items, "next": cursor})

    def list(self, path: Segments, params: Params | None = None) -> Iterator[Json]:
        """All rows, one after the other, of one position; pages are read as they are needed."""
        page = self.get(path, {"limit": PAGE_ROWS, **(params or {})})
        yield from page.items
        while page.next:
            page = self.get(path, {"limit": PAGE_ROWS, "cursor": page.next})
            yield from page.items

    def diff(self, path: Segments, since: str, until: str | None = None, params: Params | None = None) -> Answer:
        """What of a list differs between two moments (`until` None: now), all of it; a moment is what `as_of` takes."""
        moments = {"from": since} if until is None else {"from": since, "to": until}
        first = self.get(("diff", *path), {**(params or {}), **moments, "limit": PAGE_ROWS})
        items, cursor = list(first.items), first.next
        while cursor:
            page = self.get(("diff", *path), {**moments, "limit": PAGE_ROWS, "cursor": cursor})
            items, cursor = items + page.items, page.next
        return Answer(first.status, {**first.body, "items": items, "next": None})

    def watch(
        self,
        path: Segments,
        params: Params | None = None,
        *,
        since: str | None = None,
        on_break: Callable[[TopologError, float], None] = _in_silence,
        with_present: bool = False,
    ) -> Generator[WatchEvent]:
        """The rows that are there (ADDED), SYNCED, then every change for as long as the caller goes on; with `since`, a
        token, only the changes behind it. `with_present`: also what is known of now alone, as the leases of nodes; then
        events have no tokens.

        A connection that breaks is made again, without gap or repeat; `on_break` hears of it. Raises what the API says
        if it refuses, as Gone for a token whose history is not kept, and Unreachable if it was never reached.
        """
        follower = Follower(since)
        asked = {**(params or {}), "watch": "present" if with_present else "true"}
        was_reached, pause_s = False, PAUSES_S[0]
        while True:
            try:
                with closing(self._connected(path, asked, follower)) as events:
                    for event in events:
                        was_reached, pause_s = True, PAUSES_S[0]
                        yield from follower.feed(event)
                error: TopologError = Unreachable(f"The API at {self.url} has ended the watch.")
            except TopologError as found:
                if not was_reached or not is_transient(found):
                    raise
                error = found
            on_break(error, pause_s)
            time.sleep(pause_s * random.uniform(0.5, 1))  # so that not all come at once
            pause_s = min(pause_s * 2, PAUSES_S[1])

    def changes(
        self, path: Segments, since: str, wait_s: float, params: Params | None = None
    ) -> tuple[Sequence[Json], str]:
        """What has happened behind the token `since`, as watch objects, and the token to go on with; waits so long for
        the first of them. BadInput if this API cannot tell."""
        asked = {**(params or {}), "changes_since": since, "wait": f"{max(1, round(wait_s * 1000))}ms"}
        status, body = self._transport.send("GET", self._address(path), asked, ANSWER_S + wait_s)
        answer = _answer(status, body)
        if answer.body.get("kind") != "ChangeList":
            raise BadInput(f"The API at {self.url} does not tell what changes.")
        return answer.items, answer.next or since

    # Requests.

    def submit(
        self, request: Json, params: Params | None = None, timeout_s: float = 10.0, request_id: str | None = None
    ) -> Answer:
        """Make a request and follow it for as long as `params` say, which may take `timeout_s`.

        A request that was sent under its `request_id` before is not made again: the answer is about the first one. A
        refusal is an answer too (`is_refusal`). OutcomeUnknown if the connection broke after the request went out.
        """
        if (params or {}).get("dry_run") != "true":
            self.guard(str(request.get("reason") or ""))
        address, patience_s = self._address(("requests",)), ANSWER_S + timeout_s
        status, body = self._transport.send(
            "POST", address, params or {}, patience_s, body=request, request_id=request_id
        )
        if status == HTTPStatus.CONFLICT:
            return Answer(status, body)
        return self._remembered(_answer(status, body))

    def judge(self, node: str, past: Json, params: Params) -> Answer:
        """What would become of a node that joined with this past; nothing is changed."""
        return _answer(*self._transport.send("POST", self._address(("nodes", node, "join")), params, body=past))

    def replay(self, letter: str, reason: str) -> Answer:
        """Have a dead letter appended to its topic again; Refused with the reason if that makes no sense."""
        return self.post(("dead-letters", letter, "replay"), {"reason": reason})

    def post(self, path: Segments, body: Json, params: Params | None = None) -> Answer:
        """What an action of one thing answers; what it does, it does."""
        self.guard(str(body.get("reason") or ""))
        return _answer(*self._transport.send("POST", self._address(path), params or {}, body=body))

    def act_on_projections(self, body: Json) -> Answer:
        """Have the process that answers do something about its stores; Refused with the reason if it makes no sense."""
        return self.post(("projections", "actions"), body)

    # What is not about a cluster.

    def metrics(self) -> str:
        """Figures of the server, as Prometheus reads them."""
        return self._transport.text("/metrics")

    def document(self, address: str) -> tuple[int, Json]:
        """Status and body of an address outside of the clusters: /readyz, /openapi.json."""
        return self._transport.document(address)

    def _address(self, path: Segments) -> str:
        return "/".join(["/v1/clusters", *(quote(segment, safe="") for segment in (self.cluster, *path))])

    def _get(self, address: str, params: Params) -> Answer:
        return _answer(*self._transport.send("GET", address, params))

    def _remembered(self, answer: Answer) -> Answer:
        if answer.token:
            self._tokens.keep(self.cluster, answer.token)
        return answer

    def _connected(self, path: Segments, params: Params, follower: Follower) -> Generator[WatchEvent]:
        """The events of one connection, as they come; an ERROR is raised."""
        since = follower.connect()
        asked: dict[str, Param] = {**params, **({} if since is None else {"since": since})}
        with self._transport.lines(self._address(path), asked, SILENCE_S) as lines:
            for line in lines:
                kind, token = str(line.get("type")), str(line.get("token") or "")
                if kind == "ERROR":
                    raise watch_error(line)
                item = line.get("item")
                yield WatchEvent(kind, token, str(line.get("name") or ""), item if isinstance(item, dict) else {})


def _answer(status: int, body: Json) -> Answer:
    if status < HTTPStatus.BAD_REQUEST:
        return Answer(status, body)
    raise problem_error(status, body)
