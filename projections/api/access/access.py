"""Who may use this process and how that is kept, as one object that the settings make and the app takes."""

import time
from ipaddress import ip_address

import msgspec

from topolog.events.errors import BadInput
from topolog.projections.api.access.authn import Authentication
from topolog.projections.api.access.ledger import Ledger
from topolog.projections.api.access.limits import Limits

CHANGES_PER_MINUTE = 600
WATCHES = 200


def _limits() -> Limits:
    return Limits(CHANGES_PER_MINUTE, WATCHES, time.monotonic)


class Access(msgspec.Struct, frozen=True):
    """The door's parts. Made of nothing it is open, and keeps no audit: for a server that only this machine reaches."""

    authentication: Authentication = Authentication()
    limits: Limits = msgspec.field(default_factory=_limits)
    ledger: Ledger | None = None
    metrics_are_open: bool = False

    def check_address(self, host: str) -> None:
        """Raise BadInput for an address that others can reach, unless the settings say who may ask."""
        if self.authentication.is_open and not ip_address(host.partition("%")[0]).is_loopback:
            raise BadInput(
                f"The API would listen at {host} and ask nobody who they are.",
                hint="Set auth.tokens_file, auth.oidc_issuer or auth.proxy_from, or auth.anonymous to what anybody may "
                "do (docs/security.md); or api.host to 127.0.0.1.",
            )

    def close(self) -> None:
        if self.ledger is not None:
            self.ledger.close()
