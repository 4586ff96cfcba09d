"""A door of static tokens for tests, at which grants are given and taken back while it is in use."""

import time
from collections.abc import Mapping
from pathlib import Path

from topolog.projections.api.access import tokens
from topolog.projections.api.access.access import Access
from topolog.projections.api.access.authn import Authentication
from topolog.projections.api.access.ledger import Ledger
from topolog.projections.api.access.limits import Limits
from topolog.projections.api.access.tokens import TokensFile


class Doorkeeper:
    """Keeps the tokens file of `access`; each name has one token, whatever is granted to it."""

    def __init__(self, folder: Path, ledger: Ledger | None = None) -> None:
        self._file = folder / "tokens"
        self._file.touch(0o600)
        self._next = folder / "tokens.next"
        self._lines: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        authentication = Authentication(TokensFile(self._file))
        self.access = Access(authentication, Limits(1_000, 10, time.monotonic), ledger)

    def let_in(self, name: str, grants: str) -> Mapping[str, str]:
        """The header with which this principal asks, to whom this is granted from now on, and nothing else."""
        token = self._tokens.setdefault(name, tokens.new())
        self._lines[name] = tokens.line_of(name, grants, token)
        self._write()
        return {"Authorization": f"Bearer {token}"}

    def shut_out(self, name: str) -> None:
        """Their token is taken back."""
        del self._lines[name]
        self._write()

    def _write(self) -> None:
        """As whoever deploys does it: the file is there, whole, at every moment, and each time another one."""
        self._next.touch(0o600)
        self._next.write_text("".join(f"{line}\n" for line in self._lines.values()))
        self._next.replace(self._file)
