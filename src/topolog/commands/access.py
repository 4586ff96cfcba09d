"""From the settings to the API's door, and the commands around it that need no API: tokens for scripts."""

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topolog.commands.command_line import say
from topolog.commands.open_files import open_files_max
from topolog.events.errors import BadInput
from topolog.settings.access import Auth, items
from topolog.settings.model import Settings

if TYPE_CHECKING:
    from topolog.projections.api.access.access import Access
    from topolog.projections.api.access.authn import Authentication
    from topolog.projections.api.access.bearer import Roles
    from topolog.projections.api.connections import Bounds
    from topolog.projections.api.server import Tls


def access_of(settings: Settings) -> "Access":
    """Who may ask and what is kept of it; raises BadInput for files that cannot be read and grants that are none."""
    from topolog.projections.api.access.access import Access
    from topolog.projections.api.access.ledger import Ledger
    from topolog.projections.api.access.limits import Limits

    auth, audit = settings.auth, settings.audit
    return Access(
        _authentication(auth),
        Limits(auth.changes_per_minute, auth.watches, time.monotonic),
        Ledger(audit.data, audit.file_mib << 20, audit.files, time.monotonic),
        auth.open_metrics,
    )


def bounds_of(settings: Settings) -> "Bounds":
    """How many may be connected to the API, and how long they may take to ask."""
    from topolog.projections.api.connections import Bounds

    api = settings.api
    return Bounds(api.request_timeout_ms, api.connections, api.connections_per_peer).within(open_files_max())


def tls_of(settings: Settings) -> "Tls | None":
    """The API's certificate and key; raises BadInput if they cannot be used together."""
    import ssl

    from topolog.projections.api.server import Tls

    certificate, key = settings.api.tls_cert, settings.api.tls_key
    if certificate is None or key is None:
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except OSError as error:  # every ssl.SSLError is one
        raise BadInput(
            f"api.tls_cert and api.tls_key cannot be used: {error.strerror or error.args[-1]}.",
            hint="Two PEM files: the certificate with what signed it, and its key without a password.",
        ) from error
    return Tls(certificate, key)


def _authentication(auth: Auth) -> "Authentication":
    from topolog.projections.api.access.authn import Authentication
    from topolog.projections.api.access.bearer import BearerTokens, Issuer
    from topolog.projections.api.access.grants import parse_all
    from topolog.projections.api.access.proxies import Proxies, networks
    from topolog.projections.api.access.signing_keys import SigningKeys
    from topolog.projections.api.access.tokens import TokensFile

    roles = _roles(auth)
    bearer, proxies = None, None
    if auth.oidc_issuer:
        issuer = Issuer(
            auth.oidc_issuer,
            auth.oidc_audience,
            tuple(_words(auth.oidc_algorithms)),
            auth.oidc_leeway_ms / 1000,
            auth.oidc_roles_claim,
            auth.oidc_name_claim,
        )
        bearer = BearerTokens(issuer, SigningKeys(auth.oidc_jwks), roles)
    if auth.proxy_from:
        listed = networks(_words(auth.proxy_from))
        proxies = Proxies(listed, auth.proxy_user_header, auth.proxy_groups_header, roles)
    return Authentication(
        tokens=TokensFile(auth.tokens_file) if auth.tokens_file else None,
        bearer=bearer,
        proxies=proxies,
        anonymous=parse_all(auth.anonymous) if auth.anonymous else None,
        authorizes=auth.authorization,
    )


def _roles(auth: Auth) -> "Roles":
    from topolog.projections.api.access.grants import parse_all

    roles = {}
    for item in items(auth.roles):
        value, equals, grants = item.rpartition("=")
        if not equals or not value.strip():
            raise BadInput(f"auth.roles: {item!r} is no mapping.", hint="One looks like: ops = operator@main viewer")
        roles[value.strip()] = parse_all(grants)
    return roles


def _words(text: str) -> list[str]:
    return [each for each in re.split(r"[;,\s]+", text) if each]


def new_token(
    name: Annotated[str, typer.Argument(help="Who will show it: the log's actor, without spaces.")],
    grants: Annotated[
        str, typer.Option("--grants", metavar="GRANT,…", help="What it may, such as operator@main:groups/orders*.")
    ],
    until: Annotated[
        str, typer.Option("--until", metavar="2027-01-31", help="The first day on which it no longer holds (UTC).")
    ] = "",
    into: Annotated[
        Path | None, typer.Option("--into", metavar="FILE", help="Add the line to this file, auth.tokens_file.")
    ] = None,
) -> None:
    """Make a token, and print it this once; the line with its hash goes into the server's auth.tokens_file."""
    from topolog.projections.api.access import tokens

    token = tokens.new()
    line = tokens.line_of(name, grants, token, until)
    if into is not None:
        _add(into, line)
        say(f"{into} has the line of {name}. The token, which nobody can show again:")
    else:
        say(f"The line for auth.tokens_file:\n{line}\nThe token, which nobody can show again:")
    sys.stdout.write(f"{token}\n")


def _add(file: Path, line: str) -> None:
    """Append the line; a file that is made is its owner's alone. Raises BadInput."""
    try:
        file.touch(mode=0o600)
        text = file.read_text(encoding="utf-8")
        with file.open("a", encoding="utf-8") as tokens:
            tokens.write(f"{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} cannot be written: {error}.") from error
