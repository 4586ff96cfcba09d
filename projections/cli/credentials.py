"""What the command line shows to an API, its token, and by which authority it believes https.

Threat: a token that is sent to whoever listens. Invariant: it goes to an https address or stays on this machine, and
comes from a file that nobody else may read.
"""

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from topolog.events.errors import BadInput
from topolog.settings.own_api import OwnApi, load_own_api
from topolog.settings.secret_files import read_secret

if TYPE_CHECKING:
    import ssl


def bearer(url: str, token_file: Path | None, *, is_local: bool) -> dict[str, str]:
    """The header that shows the token, none without a file; raises BadInput for a file or an address unfit for it."""
    if token_file is None:
        return {}
    if not (is_local or url.lower().startswith("https://")):
        raise BadInput(
            f"Your token would go to {url} for everybody on the way to read.",
            hint="Name an https address, or unset api.token_file for this API.",
        )
    token = read_secret(token_file, "api.token_file").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput(f"api.token_file: {token_file} holds no token.", hint="It holds one token and nothing else.")
    return {"Authorization": f"Bearer {token}"}


def trust(url: str, ca_file: Path | None) -> "ssl.SSLContext | bool":
    """What https is checked by, as httpx takes it; raises BadInput for a file that is no certificate.

    For an address without https no authorities are loaded, which takes longer than the question: that context believes
    nobody.
    """
    import ssl

    if ca_file is None:
        return True if url.lower().startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:  # every ssl.SSLError is one
        raise BadInput(f"api.ca_file: {ca_file} cannot be used: {error.strerror or error}.") from error


@functools.cache
def of_settings() -> OwnApi:
    """The settings of the command line's own API."""
    return load_own_api()
