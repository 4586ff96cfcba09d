"""What the command line shows to an API: the token of `api.token_file`, and by which authority it believes https.

Threat: a token that is sent to whoever listens. Invariant: it goes to an https address or stays on this machine.
"""

import functools
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from topolog.events.errors import BadInput
from topolog.settings import Api, load, read_secret


@dataclass(frozen=True)
class Credentials:
    """Headers for every request, and what https is checked by."""

    headers: dict[str, str] = field(default_factory=dict, repr=False)
    verify: ssl.SSLContext | bool = True


def credentials(url: str, *, is_local: bool) -> Credentials:
    """What the settings say for an API at this address; raises BadInput for files that cannot be used."""
    api = _api()
    verify = True if api.ca_file is None else _trusting(api.ca_file)
    if api.token_file is None:
        return Credentials(verify=verify)
    if not (is_local or url.lower().startswith("https://")):
        raise BadInput(
            f"Your token would go to {url} for everybody on the way to read.",
            hint="Name an https address, or unset api.token_file for this API.",
        )
    token = read_secret(api.token_file, "api.token_file").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput(f"api.token_file: {api.token_file} holds no token.", hint="It holds one token and nothing else.")
    return Credentials({"Authorization": f"Bearer {token}"}, verify)


@functools.cache
def _api() -> Api:
    return load().settings.api


def _trusting(authority: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(authority))
    except OSError as error:  # every ssl.SSLError is one
        raise BadInput(f"api.ca_file: {authority} cannot be used: {error.strerror or error}.") from error
