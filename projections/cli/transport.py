"""HTTP to one query API: requests and streams of lines, every failure one of topolog's errors.

Invariant: what never left this machine is Unreachable, what may have left it is OutcomeUnknown, so that nobody who
sees Unreachable has to wonder whether a change was made.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path

import httpx

from topolog.events.errors import OutcomeUnknown, TopologError, Unreachable
from topolog.projections.cli.credentials import bearer, trust
from topolog.projections.cli.problems import Json, bad_api, how_to_ask_again, is_problem, problem_error

CONNECT_S = 2.0  # someone watches: a port that is not answered by then is not going to be
ANSWER_S = 30.0  # a read at a position of the past may have to replay

Param = str | int

_UNNAMED = (
    "`topolog get requests` shows what was decided. With --request-id NAME/1, a name of your own, a request can be "
    "repeated without harm."
)


class Transport:
    """Connections to the API at `url`; `credentials.py` has what is shown to it, and how it is believed."""

    def __init__(
        self,
        url: str,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        patience_s: float | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._token_file = token_file
        self._patience_s = patience_s
        timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
        try:
            self._http = httpx.Client(
                base_url=self.url, timeout=timeout, trust_env=not _is_local(self.url), verify=trust(self.url, ca_file)
            )
        except httpx.InvalidURL as error:
            raise bad_api(url) from error

    def close(self) -> None:
        self._http.close()

    def send(
        self,
        method: str,
        address: str,
        params: Mapping[str, Param],
        answer_s: float = ANSWER_S,
        *,
        body: Json | None = None,
        request_id: str | None = None,
    ) -> tuple[int, Json]:
        """Status and body of the answer, a problem document or one of our envelopes; raises for any other answer."""
        timeout = httpx.Timeout(self._patience_s or answer_s, connect=min(CONNECT_S, self._patience_s or CONNECT_S))
        headers = self._headers() | ({} if request_id is None else {"Idempotency-Key": request_id})
        try:
            response = self._http.request(
                method, address, params=dict(params), json=body, headers=headers, timeout=timeout
            )
        except httpx.HTTPError as error:
            raise self._failed(method, error, request_id or "") from error
        return response.status_code, self._body(response)

    def text(self, address: str) -> str:
        """An answer that is no document, as /metrics gives it."""
        try:
            response = self._http.get(address, headers=self._headers())
        except httpx.HTTPError as error:
            raise self._failed("GET", error, "") from error
        if not response.is_success:
            raise TopologError(f"The API at {self.url} has no {address} ({response.status_code}).")
        return response.text

    def document(self, address: str) -> tuple[int, Json]:
        """An answer that is a document without an envelope, as those of /readyz and /openapi.json."""
        try:
            response = self._http.get(address, headers=self._headers())
            body = response.json()
        except httpx.HTTPError as error:
            raise self._failed("GET", error, "") from error
        except (ValueError, RecursionError):
            body = None
        return response.status_code, body if isinstance(body, dict) else {}

    @contextmanager
    def lines(self, address: str, params: Mapping[str, Param], silence_s: float) -> Iterator[Iterator[Json]]:
        """A stream of JSON lines while it lasts; raises Unreachable if it breaks, or says nothing for `silence_s`."""
        headers = self._headers() | {"Accept": "application/jsonl"}
        timeout = httpx.Timeout(silence_s, connect=CONNECT_S)
        try:
            with self._http.stream("GET", address, params=dict(params), headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                    raise problem_error(response.status_code, self._body(response))
                yield (self._line(text) for text in response.iter_lines() if text.strip())
        except httpx.HTTPError as error:
            raise self._failed("GET", error, "") from error

    def _headers(self) -> dict[str, str]:
        """What shows who asks; the file is read each time, for a token may be replaced while this goes on."""
        return bearer(self.url, self._token_file, is_local=_is_local(self.url))

    def _line(self, text: str) -> Json:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):  # cut in the middle, by whatever stands between
            found = None
        if not isinstance(found, dict):
            raise Unreachable(f"The API at {self.url} broke off in the middle of a line.")
        return found

    def _failed(self, method: str, error: httpx.HTTPError, request_id: str) -> TopologError:
        if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
            return bad_api(self.url)
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return Unreachable(
                f"No API answers at {self.url}.",
                hint="Is it running? `topolog up` starts everything here; --api or TOPOLOG_API__URL names another.",
            )
        what = type(error).__name__
        if method == "GET":
            return Unreachable(f"The API at {self.url} took the question and gave no answer ({what}).")
        return OutcomeUnknown(
            f"The API at {self.url} took the request and gave no answer ({what}): nobody knows if it was made.",
            request_id=request_id,
            hint=how_to_ask_again(request_id) if request_id else _UNNAMED,
        )

    def _body(self, response: httpx.Response) -> Json:
        try:
            body = response.json()
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict) and ("kind" in body if response.is_success else is_problem(body)):
            return body
        if response.is_server_error:
            raise TopologError(f"The API at {self.url} failed ({response.status_code}).", hint="Its log says why.")
        if response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise problem_error(response.status_code, {})
        raise Unreachable(
            f"What answers at {self.url} is no topolog API: {response.status_code} without an answer of ours.",
            hint="Name the API with --api or TOPOLOG_API__URL.",
        )


def _is_local(url: str) -> bool:
    """Whether the address is this machine's, which no proxy of the environment can reach."""
    host = httpx.URL(url).host
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
