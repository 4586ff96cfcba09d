"""The keys with which an issuer signs: a JWKS from a file or an address, kept for a while and fetched anew when it
names a key that is not among them.

Threats: an issuer that is down must not lock everybody out at once; a caller who invents key names must not make this
process fetch without end; symmetric keys in the set would let whoever reads it sign. Invariant: at most one fetch in
`_PAUSE_S`; keys older than `_STALE_S` count no more; only keys of pairs are kept.
"""

import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import jwt

from topolog.events.errors import BadInput
from topolog.projections.api.access.principals import Denied, Unknown

_LOGGER = logging.getLogger(__name__)
_PAUSE_S = 10.0
KEPT_S = 300.0
"""Nobody is believed for longer without a look at the keys that the issuer publishes."""

_STALE_S = 3_600.0
_PATIENCE_S = 5.0
_BYTES_MAX = 1 << 20
_OF_PAIRS = ("RSA", "EC", "OKP")

Keys = Mapping[str, jwt.PyJWK]


class KeysUnknown(Exception):
    """The key set cannot be had now."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Keys come from where the settings say, and from nowhere else."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> NoReturn:
        raise urllib.error.HTTPError(req.full_url, code, "it sends its callers elsewhere", headers, fp)


class SigningKeys:
    """The keys of one issuer, by their ids; `generation` counts how often they were read anew. Called from worker
    threads, for it may fetch."""

    def __init__(self, place: str, now_s: Callable[[], float] = time.monotonic) -> None:
        """`place`: an https address, or a file, which must be there. Raises BadInput."""
        self._place = place
        self._is_file = "://" not in place
        self._now_s = now_s
        self._lock = threading.Lock()
        self.generation = 0
        self._keys: Keys = {}
        self._read_s, self._tried_s = float("-inf"), float("-inf")
        if self._is_file:
            try:
                self._keys, self._read_s = self._load(), now_s()
            except KeysUnknown as error:
                raise BadInput(f"auth.oidc_jwks: {error}.", hint="Name a JWKS, a file or an https address.") from error
        else:
            _check_address(place)

    def key(self, name: str | None) -> jwt.PyJWK:
        """The key of this id, or the only one if a token names none; Unknown if there is none such."""
        if self._now_s() - self._read_s > KEPT_S or self._find(name) is None:
            self._refresh()
        if self._now_s() - self._read_s > _STALE_S:
            raise Denied(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "issuer_unreachable",
                "The issuer's keys cannot be had, so no bearer token can be checked.",
                hint="This server's log says why; static tokens still hold.",
            )
        found = self._find(name)
        if found is None:
            raise Unknown("The token is signed with a key that the issuer does not publish.")
        return found

    def _find(self, name: str | None) -> jwt.PyJWK | None:
        if name is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(name)

    def _refresh(self) -> None:
        """Read the keys anew, unless that was tried a moment ago; what goes wrong leaves those that are known.

        Nobody waits for another's fetch who can go on with keys that are known.
        """
        if not self._lock.acquire(blocking=not self._keys):
            return
        try:
            if self._now_s() - self._tried_s < _PAUSE_S:
                return
            self._tried_s = self._now_s()
            self._keys, self._read_s = self._load(), self._now_s()
            self.generation += 1
        except KeysUnknown as error:
            _LOGGER.warning("The keys of bearer tokens cannot be read anew: %s.", error)
        finally:
            self._lock.release()

    def _load(self) -> Keys:
        try:
            return _keys_in(Path(self._place).read_bytes() if self._is_file else self._fetch())
        except (OSError, HTTPException, ValueError, RecursionError, jwt.PyJWTError) as error:
            raise KeysUnknown(f"{self._place}: {error}") from error

    def _fetch(self) -> bytes:
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(self._place, timeout=_PATIENCE_S) as answer:
            body: bytes = answer.read(_BYTES_MAX + 1)
        if len(body) > _BYTES_MAX:
            raise ValueError(f"more than {_BYTES_MAX} bytes are no key set")
        return body


def _keys_in(body: bytes) -> Keys:
    """Keys of pairs that are meant for signatures; a set without any is an error."""
    document = json.loads(body)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError('a key set is a JSON object with "keys"')
    keys: dict[str, jwt.PyJWK] = {}
    for each in listed:
        if isinstance(each, dict) and each.get("kty") in _OF_PAIRS and each.get("use", "sig") == "sig":
            try:
                keys.setdefault(str(each.get("kid", "")), jwt.PyJWK(each))
            except jwt.PyJWTError as error:
                _LOGGER.warning("A key of the issuer is passed over: %s", error)
    if not keys:
        raise ValueError("it holds no key with which signatures can be checked")
    return keys


def _check_address(place: str) -> None:
    parts = urlsplit(place)
    host = parts.hostname or ""
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host)):
        return
    raise BadInput(
        f"auth.oidc_jwks: keys would come from {place} without protection.", hint="Name an https address, or a file."
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
