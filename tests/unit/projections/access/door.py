"""An API with a door for tests: tokens of each role, an issuer, a proxy, and an audit in a folder."""

import time
from collections.abc import Mapping
from pathlib import Path

from tests.unit.projections.access.issuing import AUDIENCE, ISSUER, Key, write_keys

from topolog.projections.api.access import tokens
from topolog.projections.api.access.access import Access
from topolog.projections.api.access.authn import Authentication
from topolog.projections.api.access.bearer import BearerTokens, Issuer
from topolog.projections.api.access.grants import parse_all
from topolog.projections.api.access.ledger import Ledger
from topolog.projections.api.access.limits import Limits
from topolog.projections.api.access.signing_keys import SigningKeys
from topolog.projections.api.access.tokens import TokensFile

KEY = Key("k1")
ROLES = {"ops": parse_all("operator@main")}
NARROW = "operator@main:groups/orders*"


class Door:
    """Tokens by the name of who holds them, and what the app needs to know of them."""

    def __init__(self, folder: Path, *, limits: Limits | None = None, metrics_are_open: bool = False) -> None:
        grants = {
            "viewer": "viewer@main",
            "operator": "operator@main",
            "admin": "admin@main",
            "auditor": "auditor@main",
            "narrow": NARROW,
            "stranger": "admin@other",
            "root": "admin",
        }
        self.tokens = {name: tokens.new() for name in grants}
        lines = [tokens.line_of(name, granted, self.tokens[name]) for name, granted in grants.items()]
        file = folder / "tokens"
        file.touch(0o600)
        file.write_text("\n".join(lines))
        keys = SigningKeys(str(write_keys(folder / "jwks.json", KEY.public)))
        bearer = BearerTokens(Issuer(ISSUER, AUDIENCE, ("RS256",), 30, "roles", "sub"), keys, ROLES)
        self.audit = folder / "audit"
        self.ledger = Ledger(self.audit, 1 << 20, 4, time.monotonic)
        limits = limits or Limits(1_000, 10, time.monotonic)
        authentication = Authentication(TokensFile(file), bearer)
        self.access = Access(authentication, limits, self.ledger, metrics_are_open)

    def of(self, name: str) -> Mapping[str, str]:
        """The header with which this principal asks."""
        return {"Authorization": f"Bearer {self.tokens[name]}"}
