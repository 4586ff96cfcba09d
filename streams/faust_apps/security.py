"""The settings of [kafka], which are librdkafka's, in faust's words: addresses, TLS, and a password.

What is about tuning has no meaning here and is left out; what is about security and cannot be translated is refused,
for a worker that spoke in the clear after all would be worse than none.
"""

import ssl
from collections.abc import Mapping
from typing import Any

from faust.auth import SASLCredentials, SSLCredentials
from faust.types.auth import AuthProtocol, SASLMechanism

from topolog.events.errors import BadInput

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_KNOWN = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
    }
)


def faust_settings(kafka: Mapping[str, str], who: str) -> dict[str, Any]:
    """`broker` and `broker_credentials` for a faust app; raises BadInput, in the name of `who`, for what faust cannot
    do."""
    unknown = [key for key in kafka if key.startswith(("sasl.", "ssl.", "security.")) and key not in _KNOWN]
    if unknown:
        raise BadInput(
            f"{who} cannot use kafka.{unknown[0]}: its Kafka client is faust's.",
            hint=f"It knows {', '.join(sorted(_KNOWN))}.",
        )
    protocol = _one_of(who, "security.protocol", kafka.get("security.protocol", "PLAINTEXT").upper(), _PROTOCOLS)
    addresses = [f"kafka://{each.strip()}" for each in kafka["bootstrap.servers"].split(",")]
    if protocol == "PLAINTEXT":
        return {"broker": addresses}
    context = _tls(kafka) if protocol.endswith("SSL") else None
    if protocol == "SSL":
        return {"broker": addresses, "broker_credentials": SSLCredentials(context)}
    named = kafka.get("sasl.mechanism") or kafka.get("sasl.mechanisms") or "PLAIN"
    credentials = SASLCredentials(
        username=kafka.get("sasl.username"),
        password=kafka.get("sasl.password"),
        ssl_context=context,
        mechanism=SASLMechanism(_one_of(who, "sasl.mechanism", named.upper(), _MECHANISMS)),
    )
    credentials.protocol = AuthProtocol.SASL_SSL if context else AuthProtocol.SASL_PLAINTEXT
    return {"broker": addresses, "broker_credentials": credentials}


def _one_of(who: str, key: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise BadInput(f"{who} cannot use kafka.{key} = {value}.", hint=f"It knows {', '.join(known)}.")
    return value


def _tls(kafka: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=kafka.get("ssl.ca.location"))
        if "ssl.certificate.location" in kafka:
            context.load_cert_chain(
                kafka["ssl.certificate.location"], kafka.get("ssl.key.location"), kafka.get("ssl.key.password")
            )
    except OSError as error:  # a file that is not there, and every ssl.SSLError
        raise BadInput(f"The files of kafka.ssl.… cannot be used: {error}.") from error
    return context
