"""Bearer tokens of an OIDC issuer: who has signed, for whom, until when, and which roles it gives.

Threats: a token that is unsigned, signed with a published key as if it were a secret, meant for another service, or
older than it may be; an issuer that says nothing, for whose keys invented tokens wait in all threads. Invariant: the
algorithms are named by the settings and are all of key pairs; issuer, audience and end are always checked; a claim
gives a role only through the mapping of the settings; what may wait has threads of its own.
"""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt
import msgspec

from topolog.events.errors import BadInput
from topolog.projections.api.access.grants import Grant
from topolog.projections.api.access.principals import Principal, Unknown
from topolog.projections.api.access.signing_keys import KEPT_S, SigningKeys

METHOD = "oidc"
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_BYTES_MAX = 16_384
_THREADS = 4

Roles = Mapping[str, tuple[Grant, ...]]
"""What each value of the roles claim, or each group of a proxy's header, gives."""


class Issuer(msgspec.Struct, frozen=True):
    """Whom to believe. `roles_claim`, `name_claim`: paths of claims, dotted; `leeway_s`: how far clocks may differ."""

    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    leeway_s: float
    roles_claim: str
    name_claim: str


class BearerTokens:
    """Tokens of one issuer. `principal` may fetch keys, so it is called in one of `threads`, and in no other."""

    def __init__(self, issuer: Issuer, keys: SigningKeys, roles: Roles) -> None:
        if strange := [each for each in issuer.algorithms if each not in ALGORITHMS]:
            raise BadInput(
                f"auth.oidc_algorithms: {strange[0]} is none that can be believed.",
                hint=f"There are {', '.join(ALGORITHMS)}.",
            )
        self._issuer = issuer
        self._keys = keys
        self._roles = roles
        self.threads = ThreadPoolExecutor(_THREADS, "bearer")

    def principal(self, token: str) -> Principal:
        """Who the token is about; Unknown with the reason if it does not hold."""
        claims = self._claims(token)
        name = claim_at(claims, self._issuer.name_claim)
        if not isinstance(name, str) or not name.strip():
            raise Unknown(f"The token has no claim {self._issuer.name_claim!r} that names somebody.")
        grants = granted(self._roles, values_of(claim_at(claims, self._issuer.roles_claim)))
        until_s = min(int(claims["exp"]) + self._issuer.leeway_s, time.time() + KEPT_S)
        return Principal(name, METHOD, grants, until_s)

    @property
    def generation(self) -> int:
        """What is another one once the keys were read anew."""
        return self._keys.generation

    def _claims(self, token: str) -> Mapping[str, Any]:
        if len(token) > _BYTES_MAX:
            raise Unknown("The token is too long to be one.")
        try:
            name = jwt.get_unverified_header(token).get("kid")
            claims: Mapping[str, Any] = jwt.decode(
                token,
                self._keys.key(name),
                algorithms=list(self._issuer.algorithms),
                audience=self._issuer.audience,
                issuer=self._issuer.issuer,
                leeway=self._issuer.leeway_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            # never the error's text of keys or of the token
            raise Unknown(_why(error)) from None
        return claims


def _why(error: Exception) -> str:
    reasons: tuple[tuple[type[Exception], str], ...] = (
        (jwt.ExpiredSignatureError, "The token has expired."),
        (jwt.ImmatureSignatureError, "The token does not hold yet: are the clocks right?"),
        (jwt.InvalidAudienceError, "The token is meant for another audience."),
        (jwt.InvalidIssuerError, "The token is of another issuer."),
        (jwt.MissingRequiredClaimError, "The token lacks exp, iss or aud."),
        (jwt.InvalidAlgorithmError, "The token is signed with an algorithm that is not allowed."),
        (jwt.InvalidSignatureError, "The token's signature is wrong."),
    )
    return next((text for kind, text in reasons if isinstance(error, kind)), "The token cannot be read.")


def claim_at(claims: Mapping[str, Any], path: str) -> object:
    """The claim of this name, or the one at this dotted path."""
    if path in claims:
        return claims[path]
    at: object = claims
    for key in path.split("."):
        at = at.get(key) if isinstance(at, Mapping) else None
    return at


def values_of(claim: object) -> list[str]:
    """The roles in a claim: a list of texts, or one text with spaces or commas between."""
    if isinstance(claim, str):
        return claim.replace(",", " ").split()
    return [each for each in claim if isinstance(each, str)] if isinstance(claim, list) else []


def granted(roles: Roles, values: Iterable[str]) -> tuple[Grant, ...]:
    """All that these values give, each grant once."""
    return tuple(dict.fromkeys(grant for value in values for grant in roles.get(value, ())))
