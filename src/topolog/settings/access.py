"""The settings of who may ask the API and how that is kept: `[api]`, `[auth]`, `[audit]`, and secrets in files.

docs/security.md says what to set when. A combination that lets in nobody, or everybody against its own words, is an
error at the start.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from topolog.events.errors import BadInput
from topolog.settings.own_api import DEFAULT_HOST, DEFAULT_PORT
from topolog.settings.secret_files import SECRET, read_secret
from topolog.settings.sources import Given
from topolog.settings.types import Duration, Folder, FolderOrNone, Port, Section, Text
from topolog.settings.values import api_url, home_path

_SECRET_FILE: Final = re.compile(r"(kafka\..+)[._]file")


def _listed(value: object) -> object:
    """A list of the file as the text that the environment has for it."""
    return "; ".join(map(str, value)) if isinstance(value, list) else value


Listed = Annotated[str, BeforeValidator(_listed)]


def items(text: str) -> list[str]:
    """What stands between `;` and line ends."""
    return [each.strip() for each in re.split(r"[;\n]", text) if each.strip()]


class Api(Section):
    host: Text = DEFAULT_HOST
    """The address that the API listens on."""
    port: Port = DEFAULT_PORT
    """The port that the API listens on."""
    tls_cert: FolderOrNone = None
    """The file of the API's certificate, and of what signed it, as PEM; with it the API speaks https only."""
    tls_key: FolderOrNone = None
    """The file of the certificate's key."""
    token_file: FolderOrNone = None
    """The file that holds the token which the command line shows; nobody else may read it."""
    ca_file: FolderOrNone = None
    """The file of the authority, as PEM, that the command line believes an https API by, unless the system does."""
    request_timeout_ms: Duration = Field(10_000, alias="request_timeout")
    """How long a request's head may take to come, and its body as long again; then the connection is ended."""
    connections: Annotated[int, Field(ge=2)] = 10_000
    """How many connections may be open, or fewer where the system lets the process open fewer files."""
    connections_per_peer: Annotated[int, Field(ge=1)] = 5_000
    """How many of them from one address, or from one /64 of IPv6; a proxy of auth.proxy_from may have all."""
    environment: Annotated[str, Field(max_length=40)] = ""
    """A word that stands on every page of the console, such as PRODUCTION."""
    url: Text = Field("", validate_default=True)
    """Where the command line finds the API; made of host and port unless it is set."""

    @field_validator("url")
    @classmethod
    def _where_the_api_listens(cls, url: str, given: ValidationInfo) -> str:
        scheme = "https" if given.data.get("tls_cert") else "http"
        return api_url(url) or f"{scheme}://{given.data.get('host') or DEFAULT_HOST}:{given.data.get('port')}"


class Auth(Section):
    """Who may ask the API. With nothing of it set everybody may do everything, and it must listen on loopback."""

    tokens_file: FolderOrNone = None
    """Static tokens for scripts: a file of `NAME GRANTS sha256$HASH`, whose lines `topolog auth token new` makes."""
    oidc_issuer: str = ""
    """The issuer of bearer tokens (JWT), exactly as their claim `iss` has it."""
    oidc_audience: str = ""
    """Whom the tokens must be meant for: their claim `aud`."""
    oidc_jwks: str = ""
    """Where the issuer's keys are: an https address, or a file."""
    oidc_algorithms: Listed = "RS256"
    """With which algorithms it signs, of key pairs only; several between `;`."""
    oidc_leeway_ms: Duration = Field(30_000, alias="oidc_leeway")
    """By how much clocks may differ."""
    oidc_roles_claim: str = "roles"
    """The claim that holds roles or groups; a path such as realm_access.roles."""
    oidc_name_claim: str = "sub"
    """The claim that names who asks; one that people cannot choose for themselves."""
    roles: Listed = ""
    """What a role or group gives, as `ops = operator@main viewer`; several between `;`."""
    proxy_from: Listed = ""
    """Addresses and networks of proxies that say who asks; several between `;`."""
    proxy_user_header: str = "X-Forwarded-User"
    """The header in which such a proxy names who asks."""
    proxy_groups_header: str = "X-Forwarded-Groups"
    """The header in which it names their groups."""
    anonymous: str = ""
    """What those may do who show nothing, such as viewer; whoever can reach the port is one of them."""
    authorization: bool = True
    """Whether grants decide; without it whoever is known may do everything."""
    open_metrics: bool = False
    """Whether /metrics asks nobody who they are."""
    changes_per_minute: Annotated[int, Field(ge=1)] = 600
    """How many changes one principal may ask for within a minute."""
    watches: Annotated[int, Field(ge=1)] = 200
    """How many watches one principal may have open."""

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked who they are."""
        return not (self.tokens_file or self.oidc_issuer or self.proxy_from or self.anonymous)


class Audit(Section):
    """What is kept of changes, and of attempts that were turned away."""

    data: Folder
    """Where the projector's process keeps it, a folder of its cluster unless it is set."""
    file_mib: Annotated[int, Field(ge=1)] = 8
    """From which size on a new file is begun."""
    files: Annotated[int, Field(ge=2)] = 8
    """How many files of changes, and of attempts that were turned away, are kept."""


def access_contradictions(api: Api, auth: Auth) -> Iterator[str]:
    """What is set by halves or against itself, each as a sentence that names the settings."""
    if (api.tls_cert is None) != (api.tls_key is None):
        yield "api.tls_cert and api.tls_key belong together"
    names_groups = bool(auth.oidc_issuer or auth.proxy_from)
    contradictions = {
        "auth.oidc_issuer needs auth.oidc_audience and auth.oidc_jwks: or tokens for others would be believed": (
            bool(auth.oidc_issuer) and not (auth.oidc_audience and auth.oidc_jwks)
        ),
        "auth.oidc_audience and auth.oidc_jwks mean nothing without auth.oidc_issuer": (
            not auth.oidc_issuer and bool(auth.oidc_audience or auth.oidc_jwks)
        ),
        "auth.roles must say what roles give: by auth.oidc_issuer or auth.proxy_from alone nobody may do anything": (
            names_groups and auth.authorization and not auth.roles
        ),
        "auth.roles means nothing without auth.oidc_issuer or auth.proxy_from": bool(auth.roles) and not names_groups,
        "auth.authorization is off, so auth.roles decides nothing": not auth.authorization and bool(auth.roles),
        "auth.authorization is off, so auth.anonymous would let everybody do everything": (
            not auth.authorization and bool(auth.anonymous)
        ),
        "auth.authorization is off, and nothing of auth.tokens_file, auth.oidc_issuer, auth.proxy_from is set": (
            not auth.authorization and auth.is_open
        ),
    }
    yield from (text for text, holds in contradictions.items() if holds)


def with_secrets(given: Mapping[str, Given]) -> dict[str, Given]:
    """The settings with each `kafka.….password_file` replaced by what is in the file; raises BadInput."""
    found: dict[str, Given] = {}
    for key, one in given.items():
        named = _SECRET_FILE.fullmatch(key)
        if named is None or not SECRET.search(named[1]):
            found[key] = one
        elif named[1] in given or named[1] in found:
            raise BadInput(f"{named[1]} is set, and so is {key} ({one.origin}).", hint="Leave one of them out.")
        else:
            path = home_path(Path(str(one.value)), f"{key} ({one.origin})")
            found[named[1]] = Given(read_secret(path, key), f"{one.origin}, file {path}")
    return found
