"""The query API over HTTP, as the commands need it: answers as plain data, every failure one of topolog's errors.

Invariant: what never left this machine is Unreachable, what may have left it is OutcomeUnknown, so that nobody who
sees Unreachable has to wonder whether a change was made.
"""

from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from ipaddress import ip_address
from types import TracebackType
from urllib.parse import quote

import httpx

from topolog.events.errors import BadInput, NotFound, OutcomeUnknown, TopologError, Unreachable
from topolog.projections.cli.credentials import bearer, of_settings, trust
from topolog.projections.cli.problems import Json, how_to_ask_again, is_problem, problem_error

CONNECT_S = 2.0  # someone watches: a port that is not answered by then is not going to be
ANSWER_S = 30.0  # a read at a position of the past may have to replay
PAGE_ROWS = 1000  # the most the API gives at once

Param = str | int

_UNNAMED = (
    "`topolog get requests` shows what was decided. With --request-id NAME/1, a name of your own, a request can be "
    "repeated without harm."
)


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
    def is_refusal(self) -> bool:
        return self.status == HTTPStatus.CONFLICT

    @property
    def error(self) -> TopologError:
        """The error a refusal stands for."""
        return problem_error(self.status, self.body)


class Api:
    """A session with one API about one cluster; a context manager.

    `cluster` None means the only one the API serves, which is asked for when it is first needed.
    """

    def __init__(self, url: str, cluster: str | None) -> None:
        self.url = url.rstrip("/")
        self._given_cluster = cluster
        timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
        try:
            is_local = _is_local(self.url)
            shown = bearer(self.url, of_settings().token_file, is_local=is_local)
            verify = trust(of_settings().ca_file)
            self._http = httpx.Client(
                base_url=self.url, timeout=timeout, trust_env=not is_local, headers=shown, verify=verify
            )
        except httpx.InvalidURL as error:
            raise _bad_url(url) from error

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    @cached_property
    def cluster(self) -> str:
        """The cluster's name; NotFound if the API serves none, BadInput that lists them if it serves several."""
        if self._given_cluster:
            return self._given_cluster
        names = [str(item["name"]) for item in self._get("/v1/clusters", {}).items]
        match names:
            case [only]:
                return only
            case []:
                raise NotFound(f"The API at {self.url} serves no cluster.", hint="Make one with `topolog up`.")
            case _:
                raise BadInput(
                    f"The API at {self.url} serves several clusters: {', '.join(names)}.",
                    hint="Name one with --cluster or TOPOLOG_CLUSTER__NAME.",
                )

    def get(self, path: tuple[str, ...], params: dict[str, Param]) -> Answer:
        """One answer about the cluster."""
        return self._get(self._address(path), params)

    def of_process(self, what: str, params: dict[str, Param]) -> Answer:
        """One answer about the process itself, whatever clusters it serves."""
        return self._get(f"/v1/{what}", params)

    def get_rows(self, path: tuple[str, ...], params: dict[str, Param], at_most: int | None) -> Answer:
        """A list, from as many pages as `at_most` rows take; the cursors hold all pages to one position."""
        first = self.get(path, params if at_most is None else {**params, "limit": min(at_most, PAGE_ROWS)})
        items, cursor = list(first.items), first.next
        while at_most is not None and cursor and len(items) < at_most:
            page = self.get(path, {"limit": min(at_most - len(items), PAGE_ROWS), "cursor": cursor})
            items, cursor = items + page.items, page.next
        return Answer(first.status, {**first.body, "items": items, "next": cursor})

    def submit(self, request: Json, params: dict[str, Param], timeout_s: float, request_id: str | None) -> Answer:
        """Make a request and follow it for as long as `params` say, which may take `timeout_s`.

        A request that was sent under its `request_id` before is not made again: the answer is about the first one. A
        refusal is an answer too (`is_refusal`). OutcomeUnknown if the connection broke after the request went out.
        """
        address, patience_s = self._address(("requests",)), ANSWER_S + timeout_s
        response = self._send("POST", address, params, patience_s, body=request, request_id=request_id)
        if response.status_code == HTTPStatus.CONFLICT:
            return Answer(response.status_code, self._body(response))
        return self._answer(response)

    def judge(self, node: str, past: Json, params: dict[str, Param]) -> Answer:
        """What would become of a node that joined with this past; nothing is changed."""
        address = self._address(("nodes", node, "join"))
        return self._answer(self._send("POST", address, params, ANSWER_S, body=past))

    def replay(self, letter: str, reason: str) -> Answer:
        """Have a dead letter appended to its topic again; Refused with the reason if that makes no sense."""
        address = self._address(("dead-letters", letter, "replay"))
        return self._answer(self._send("POST", address, {}, ANSWER_S, body={"reason": reason}))

    def act_on_projections(self, body: Json) -> Answer:
        """Have the process that answers do something about its stores; Refused with the reason if it makes no sense."""
        address = self._address(("projections", "actions"))
        return self._answer(self._send("POST", address, {}, ANSWER_S, body=body))

    def _address(self, path: tuple[str, ...]) -> str:
        return "/".join(["/v1/clusters", *(quote(segment, safe="") for segment in (self.cluster, *path))])

    def _get(self, address: str, params: dict[str, Param]) -> Answer:
        return self._answer(self._send("GET", address, params, ANSWER_S))

    def _send(
        self,
        method: str,
        address: str,
        params: dict[str, Param],
        answer_s: float,
        *,
        body: Json | None = None,
        request_id: str | None = None,
    ) -> httpx.Response:
        timeout = httpx.Timeout(answer_s, connect=CONNECT_S)
        headers = {} if request_id is None else {"Idempotency-Key": request_id}
        try:
            return self._http.request(method, address, params=params, json=body, headers=headers, timeout=timeout)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError) as error:
            raise _bad_url(self.url) from error
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(
                f"No API answers at {self.url}.",
                hint="Is it running? `topolog up` starts everything here; --api or TOPOLOG_API__URL names another.",
            ) from error
        except httpx.TransportError as error:
            raise self._cut_off(method, error, request_id or "") from error

    def _cut_off(self, method: str, error: httpx.TransportError, request_id: str) -> TopologError:
        what = type(error).__name__
        if method == "GET":
            return Unreachable(f"The API at {self.url} took the question and gave no answer ({what}).")
        return OutcomeUnknown(
            f"The API at {self.url} took the request and gave no answer ({what}): nobody knows if it was made.",
            request_id=request_id,
            hint=how_to_ask_again(request_id) if request_id else _UNNAMED,
        )

    def _answer(self, response: httpx.Response) -> Answer:
        body = self._body(response)
        if response.is_success:
            return Answer(response.status_code, body)
        raise problem_error(response.status_code, body)

    def _body(self, response: httpx.Response) -> Json:
        try:
            body = response.json()
        except ValueError:
            body = None
        if isinstance(body, dict) and ("kind" in body if response.is_success else is_problem(body)):
            return body
        if response.is_server_error:
            raise TopologError(f"The API at {self.url} failed ({response.status_code}).", hint="Its log says why.")
        raise Unreachable(
            f"What answers at {self.url} is no topolog API: {response.status_code} without an answer of ours.",
            hint="Name the API with --api or TOPOLOG_API__URL.",
        )


def _bad_url(url: str) -> BadInput:
    return BadInput(f"{url!r} is no address of an API.", hint="One looks like http://127.0.0.1:8642.")


def _is_local(url: str) -> bool:
    """Whether the address is this machine's, which no proxy of the environment can reach."""
    host = httpx.URL(url).host
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
