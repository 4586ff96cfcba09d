"""Static tokens for scripts: what a file of them says, and whose token it is that somebody shows.

    ci  operator@main:groups/orders*,viewer@main  sha256$5f0c…  2027-01-01

A line has a name, grants, the hash of the token and, if it is not to hold for ever, the day from which it is refused.
Threats: a file that is read by the wrong people, and a caller who learns a token by how long a refusal takes.
Invariant: the token itself is nowhere but with its holder, for 256 random bits need no slow hash; every comparison
takes the same time, and all lines are compared.
"""

import hashlib
import hmac
import logging
import re
import secrets
import stat
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path

import msgspec

from topolog.events.errors import BadInput
from topolog.projections.api.access.grants import Grant, parse_all
from topolog.projections.api.access.principals import Principal

PREFIX = "topolog_"
"""What every token begins with, so that scanners of repositories and logs know one when they see it."""

METHOD = "token"
_LOGGER = logging.getLogger(__name__)
_LINE = re.compile(r"(?P<name>\S+)\s+(?P<grants>\S+)\s+sha256\$(?P<hash>[0-9a-f]{64})(\s+(?P<until>\d{4}-\d\d-\d\d))?")
_HINT = "A line is NAME GRANTS sha256$HASH [UNTIL], as `topolog auth token new` prints it."


class Token(msgspec.Struct, frozen=True):
    """One line: `until` is the first day on which it no longer holds (UTC)."""

    name: str
    grants: tuple[Grant, ...]
    digest: bytes
    until: date | None = None


def new() -> str:
    """A token nobody can guess."""
    return f"{PREFIX}{secrets.token_urlsafe(32)}"


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def line_of(name: str, grants: str, token: str, until: str = "") -> str:
    """The line to add to the file; raises BadInput for a name or grants that none can hold."""
    line = f"{name} {grants} sha256${digest_of(token).hex()}{f' {until}' if until else ''}"
    parse_line(line)
    return line


def parse_line(line: str) -> Token:
    """Raises BadInput for anything that is no line; what it says is never repeated, for it may be a token."""
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise BadInput("it is no line of a tokens file", hint=_HINT)
    try:
        until = date.fromisoformat(found["until"]) if found["until"] else None
    except ValueError as error:
        raise BadInput("its day is none", hint=_HINT) from error
    return Token(found["name"], parse_all(found["grants"]), bytes.fromhex(found["hash"]), until)


class TokensFile:
    """The tokens of a file, which is read anew when it has changed; a line that cannot be read gives nothing."""

    def __init__(self, path: Path) -> None:
        """Raises BadInput for a file that cannot be read, or that others than its owner may write."""
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()
        complaints = self._read()
        if complaints:
            raise BadInput(f"{path}, {complaints[0]}.", hint=_HINT)

    def principal(self, shown: str) -> Principal | None:
        """Whose token this is; None if it is nobody's, or too old."""
        self._look_again()
        digest, today, found = digest_of(shown), datetime.now(UTC).date(), None
        for token in self._tokens:
            is_it = hmac.compare_digest(token.digest, digest)
            if is_it and (token.until is None or today < token.until):
                found = token
        return None if found is None else Principal(found.name, METHOD, found.grants, _end_s(found))

    def stamp(self) -> tuple[int, int, int] | None:
        """What is another one once the file has changed; None if there is none to read."""
        try:
            return self._stamp_now()
        except OSError:
            return None

    def _look_again(self) -> None:
        try:
            if self._stamp_now() != self._stamp:
                for complaint in self._read():
                    _LOGGER.error("%s, %s: it gives nobody access.", self._path, complaint)
        except (OSError, BadInput) as error:
            if self._tokens:
                _LOGGER.error("No token holds any more: %s", error)
            self._tokens, self._stamp = (), None

    def _read(self) -> list[str]:
        """Take the tokens in; complaints about lines, by their numbers."""
        try:
            stamp = self._stamp_now()
            mode = self._path.stat().st_mode
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"The tokens file {self._path} cannot be read: {error}.") from error
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise BadInput(
                f"The tokens file {self._path} can be written by others: anybody could let themselves in.",
                hint=f"chmod 600 {self._path}",
            )
        tokens, complaints = [], []
        for number, token in _tokens(lines):
            if isinstance(token, BadInput):
                complaints.append(f"line {number}: {token.message}")
            else:
                tokens.append(token)
        self._tokens, self._stamp = tuple(tokens), stamp
        return complaints

    def _stamp_now(self) -> tuple[int, int, int]:
        now = self._path.stat()
        return now.st_mtime_ns, now.st_size, now.st_ino


def _end_s(token: Token) -> float | None:
    return None if token.until is None else datetime.combine(token.until, time.min, UTC).timestamp()


def _tokens(lines: list[str]) -> Iterator[tuple[int, Token | BadInput]]:
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                yield number, parse_line(line)
            except BadInput as error:
                yield number, error
