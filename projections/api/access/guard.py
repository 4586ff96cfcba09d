"""The door of this process: every request passes here before any route sees it.

Who asks (authn.py), whether they may (authz.py), how often (limits.py), and, of what changes something, a record that
is on disk before it happens (ledger.py). A change's body is read here, once, and handed on as it was judged.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from topolog.events.errors import DamagedStore
from topolog.events.requests import REQUEST_BYTES_MAX
from topolog.projections.api.access import audit, losses
from topolog.projections.api.access.access import Access
from topolog.projections.api.access.addresses import METRICS, OF_THIS_PROCESS, Wanted, wanted
from topolog.projections.api.access.admission import Admission, Sight
from topolog.projections.api.access.asked_changes import Change
from topolog.projections.api.access.authn import ACTOR, is_loopback
from topolog.projections.api.access.authz import asked_of, check_address, check_change, check_reason, dry_run, loss
from topolog.projections.api.access.grants import Right
from topolog.projections.api.access.ledger import AuditFailed
from topolog.projections.api.access.principals import Denied, Principal, Unknown
from topolog.projections.api.forms import too_big
from topolog.projections.api.parameters import AT_LEAST
from topolog.projections.api.problems import problem
from topolog.projections.moments import iso
from topolog.projections.patience import wall_ms

Standing = Callable[[str], AbstractContextManager[losses.Stands]]

_LOGGER = logging.getLogger(__name__)
_READS = ("GET", "HEAD", "OPTIONS")
_TOLD_BYTES_MAX = 1 << 16
_DIGITS_MAX = 20
NOBODY = Principal(audit.NOBODY, audit.NOBODY, ())


class Visit(msgspec.Struct):
    """One request on its way through the door."""

    method: str
    path: str
    query: str
    headers: Headers
    peer: str
    client: str = ""
    principal: Principal = NOBODY
    admission: Admission | None = None
    wanted: Wanted | None = None
    what: str = ""
    body: bytes = b""

    @property
    def where(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def may_list(self) -> bool:
        """Whether all things of the kind that is asked for may be named to whoever asks, and not the one alone."""
        asked = self.wanted.asked if self.wanted is not None else None
        return asked is None or self.principal.may(msgspec.structs.replace(asked, name=None))


class Guard:
    """ASGI middleware. `clusters`: those that this process serves, asked anew each time; `standing`: what is served of
    one now."""

    def __init__(self, app: ASGIApp, access: Access, clusters: Callable[[], Sequence[str]], standing: Standing) -> None:
        self._app = app
        self._access = access
        self._clusters = clusters
        self._standing = standing
        self._state = Sight(access.authentication.state)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._visited(_visit(scope), scope, receive, send)
        else:  # nothing here speaks WebSocket
            await send({"type": "websocket.close", "code": 1008})

    async def _visited(self, visit: Visit, scope: Scope, receive: Receive, send: Send) -> None:
        with ExitStack() as while_open:
            try:
                await self._admit(visit, while_open)
                found = {"principal": visit.principal, "admission": visit.admission, "may_list": visit.may_list}
                scope.setdefault("state", {}).update(found)
                _name_actor(scope, visit.principal, self._access.authentication.is_open)
                if visit.method in _READS or visit.wanted is None or not visit.wanted.changes:
                    await self._app(scope, receive, send)
                    return
                record = await self._begun(visit, receive)
            except Denied as denied:
                await self._turn_away(visit, denied, scope, receive, send)
                return
            except AuditFailed as error:
                hint = "It is refused rather than done without a record; this server's log says why."
                answer = problem(HTTPStatus.SERVICE_UNAVAILABLE, error.code, error.message, hint=hint)
                await answer(scope, receive, send)
                return
            await self._changed(visit, record, scope, receive, send)

    async def _admit(self, visit: Visit, while_open: ExitStack) -> None:
        """Raise Denied unless this address may be asked by whoever asks."""
        authentication = self._access.authentication
        visit.wanted = wanted(visit.method, visit.path, visit.query)
        visit.client = authentication.client(visit.peer, visit.headers.raw)
        is_exempt = visit.path == METRICS and self._access.metrics_are_open
        if visit.wanted is not None and (visit.wanted.is_probe or is_exempt) and not authentication.is_open:
            with suppress(Denied):  # who is not known is answered all the same, and told less
                visit.principal = await authentication.principal(visit.peer, visit.headers.raw)
            return
        _check_origin(visit, is_open=authentication.is_open)
        if authentication.is_open:
            visit.principal = await authentication.principal(visit.peer, visit.headers.raw)
            return
        visit.admission = Admission(lambda: self._judged(visit), self._state, lambda denied: self._kept(visit, denied))
        await visit.admission.judged()
        if _may_wait(visit):
            while_open.enter_context(self._access.limits.watching(visit.principal))

    async def _judged(self, visit: Visit) -> Principal:
        visit.principal = await self._access.authentication.principal(visit.peer, visit.headers.raw)
        check_address(visit.principal, visit.wanted, self._clusters(), visit.where)
        return visit.principal

    async def _begun(self, visit: Visit, receive: Receive) -> audit.Record | None:
        """Judge the body and keep a record of what begins, but of a dry run, which takes no more than to read; raises
        Denied, and AuditFailed if none can be kept."""
        assert visit.wanted is not None
        visit.body = await _body(visit.headers.get("content-length", ""), receive)
        is_open = self._access.authentication.is_open
        is_protected = visit.wanted.asked is not None and visit.wanted.asked.right is Right.ADMINISTER
        visit.what, because = _what(visit), ""
        if visit.wanted.asks_by_form:
            asked = await run_in_threadpool(self._asked, visit, visit.wanted.cluster or "")
            if asked is not None:
                visit.what = f"{asked.what} {asked.subjects}".strip()
                is_protected, because = asked.is_protected, loss(asked)
                check_change(visit.principal, asked)
        if is_protected and not is_open:
            check_reason(visit.what, audit.text_in(visit.body, "reason"), because)
        if not is_open:
            self._access.limits.change(visit.principal)
        if visit.wanted.asks_by_form and dry_run(visit.query):
            return None
        record = _record(visit, audit.BEGUN)
        if self._access.ledger is not None:
            await asyncio.wrap_future(self._access.ledger.begin(record))
        return record

    def _asked(self, visit: Visit, cluster: str) -> Change | None:
        """What the body's form changes, beside what stands; reads the store."""
        try:
            with self._standing(cluster) as stands:
                return asked_of(visit.principal, cluster, visit.body, visit.query, stands)
        except DamagedStore:
            return asked_of(visit.principal, cluster, visit.body, visit.query, losses.UNKNOWN)

    async def _changed(
        self, visit: Visit, record: audit.Record | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Let the change through, and keep its end."""
        status, told = int(HTTPStatus.INTERNAL_SERVER_ERROR), bytearray()

        async def heard(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body" and len(told) < _TOLD_BYTES_MAX:
                told.extend(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, _again(visit.body, receive), heard)
        finally:
            if self._access.ledger is not None and record is not None:
                self._access.ledger.end(audit.end_of(record.id, status, bytes(told)))

    async def _turn_away(self, visit: Visit, denied: Denied, scope: Scope, receive: Receive, send: Send) -> None:
        """A problem document that says why."""
        written = self._kept(visit, denied)
        if written is not None:
            with suppress(AuditFailed):  # it is denied all the same, and the writer has complained
                await asyncio.wrap_future(written)
        headers = {"WWW-Authenticate": _challenge(denied)} if isinstance(denied, Unknown) else {}
        more: Mapping[str, Any] = {"missing": list(denied.missing)} if denied.missing else {}
        answer = problem(denied.status, denied.code, denied.why, hint=denied.hint, headers=headers, **more)
        if denied.status is HTTPStatus.TOO_MANY_REQUESTS:
            answer.headers["Retry-After"] = "1"
        await answer(scope, receive, send)

    def _kept(self, visit: Visit, denied: Denied) -> Future[None] | None:
        """Have it in the audit; of a flood of the same only a count is kept."""
        record = msgspec.structs.replace(
            _record(visit, audit.DENIED), status=int(denied.status), code=denied.code, detail=audit.short(denied.why)
        )
        ledger = self._access.ledger
        return None if ledger is None else ledger.deny(record)


def _visit(scope: Scope) -> Visit:
    peer = scope["client"][0] if scope.get("client") else ""
    query = scope["query_string"].decode("latin-1")
    return Visit(scope["method"], scope["path"], query, Headers(scope=scope), peer)


def _may_wait(visit: Visit) -> bool:
    """Whether the answer may wait for what is yet to come: a watch, a long poll, what must know of a later position."""
    asked = parse_qsl(visit.query)
    return AT_LEAST in visit.headers or any(
        name in ("changes_since", "at_least") or (name == "watch" and value != "false") for name, value in asked
    )


def _check_origin(visit: Visit, *, is_open: bool) -> None:
    """Raise Denied for what a page of another site makes a browser ask.

    An open API is there for this machine alone, so it must not answer under a name of another site that was made to
    mean this machine; and nowhere may such a page change something, whether or not the browser adds credentials.
    """
    host = visit.headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if is_open and name and not is_loopback(name.strip("[]")):
        raise Denied(
            HTTPStatus.FORBIDDEN,
            "foreign_host",
            f"This API is for this machine alone, and was asked under the name {name!r}.",
            hint="Ask at 127.0.0.1 or localhost, or say in [auth] who may ask.",
        )
    site, origin = visit.headers.get("sec-fetch-site"), visit.headers.get("origin")
    is_foreign = (
        site not in ("same-origin", "none")
        if site is not None
        else origin is not None and origin.partition("://")[2] != host
    )
    if visit.method not in _READS and is_foreign:
        raise Denied(
            HTTPStatus.FORBIDDEN, "foreign_origin", f"A page of {origin or 'another site'} may change nothing here."
        )


def _name_actor(scope: Scope, principal: Principal, is_open: bool) -> None:
    """Nobody reads from a header who asks: what it says is what was found out, unless nobody is asked who they are."""
    if is_open:
        return
    kept = [(name, value) for name, value in scope["headers"] if name.lower() != ACTOR.encode()]
    scope["headers"] = [*kept, (ACTOR.encode(), principal.actor.encode("ascii"))]


async def _body(length: str, receive: Receive) -> bytes:
    """The body, of this length as its head has it; raises Denied for more than a request may have, before it is read if
    the head says so."""
    if length.isdecimal() and int(length[:_DIGITS_MAX]) > REQUEST_BYTES_MAX:
        raise _too_big()
    body, goes_on = bytearray(), True
    while goes_on:
        message = await receive()
        if message["type"] != "http.request":
            raise Denied(HTTPStatus.BAD_REQUEST, "cut_off", "The connection ended within the request.")
        body += message.get("body", b"")
        if len(body) > REQUEST_BYTES_MAX:
            raise _too_big()
        goes_on = message.get("more_body", False)
    return bytes(body)


def _too_big() -> Denied:
    error = too_big()
    return Denied(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error.code, error.message, hint=error.hint)


def _again(body: bytes, receive: Receive) -> Receive:
    """The same body for the route, then what comes of the connection."""
    given = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def received() -> Message:
        return next(given, None) or await receive()

    return received


def _record(visit: Visit, result: str) -> audit.Record:
    cluster = visit.wanted.cluster if visit.wanted is not None else None
    return audit.Record(
        id=uuid.uuid4().hex,
        time=iso(wall_ms()),
        principal=visit.principal.name,
        method=visit.principal.method,
        client=visit.client or visit.peer,
        agent=audit.short(visit.headers.get("user-agent", "")),
        cluster=cluster or "",
        what=audit.short(visit.what or _what(visit)),
        parameters=audit.parameters(dict(parse_qsl(visit.query)), visit.body),
        dry_run=dry_run(visit.query),
        reason=audit.text_in(visit.body, "reason"),
        result=result,
        request_id=audit.short(visit.headers.get("idempotency-key", "")),
        trace_id=audit.trace_id(visit.headers.get("traceparent", "")),
    )


def _what(visit: Visit) -> str:
    """What is done, as far as the address says it: `replay dead-letters/3`; of a read the address."""
    asked = visit.wanted.asked if visit.wanted is not None and visit.wanted.changes else None
    if asked is None:
        return visit.where
    done = visit.path.rpartition("/")[2]
    if asked.resource == OF_THIS_PROCESS:
        done = audit.text_in(visit.body, "action") or done
    return f"{done} {asked.resource}{'' if asked.name is None else f'/{asked.name}'}"


def _challenge(denied: Denied) -> str:
    return 'Bearer realm="topolog"' + (', error="invalid_token"' if denied.code == "invalid_token" else "")
