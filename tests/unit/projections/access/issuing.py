"""An issuer of tokens for tests: key pairs, their JWKS, and tokens that are right but for what a test spoils."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

ISSUER = "https://id.example/realms/shop"
AUDIENCE = "topolog"


class Key:
    """A pair and the name it goes by in the set."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.private: RSAPrivateKey = generate_private_key(65537, 2048)

    @property
    def public(self) -> dict[str, Any]:
        found = jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**found, "kid": self.name, "use": "sig", "alg": "RS256"}

    def token(self, *, algorithm: str = "RS256", kid: str | None = None, **claims: Any) -> str:
        """A token about ann of ops for an hour; a claim that is None is left out."""
        usual = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 3600, "sub": "ann", "roles": ["ops"]}
        kept = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode(kept, self.private, algorithm, headers={"kid": kid or self.name})


def write_keys(path: Path, *keys: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"keys": keys}))
    return path
