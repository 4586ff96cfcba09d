"""`[kafka]` for Java's clients: librdkafka's settings as Spark's Kafka source takes them.

Why: a cluster's access is written down once, in librdkafka's words, and Spark reads with the Java client, whose words
for security are others. What decides whether and as whom a client gets in is translated or refused, never left out: a
reader that verifies no certificate because its setting meant nothing to Java would tell nobody. What only tunes
librdkafka means nothing to Java, and is named.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from topolog.events.errors import BadInput

_SAME = frozenset(
    {
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.kerberos.service.name",
        "ssl.key.password",
    }
)
_OTHER_NAME = {
    "bootstrap.servers": "bootstrap.servers",
    "metadata.broker.list": "bootstrap.servers",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.partition.fetch.bytes": "max.partition.fetch.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "ssl.keystore.password": "ssl.keystore.password",
}
_OF_SECURITY = ("ssl.", "sasl.", "security.", "enable.ssl.", "enable.sasl.", "https.")
_PEM = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem")
_TOGETHER = frozenset(
    {
        *_PEM,
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.keystore.location",
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.kerberos.principal",
        "sasl.kerberos.keytab",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
_HINT = "Give Spark a properties file of Java's clients instead: --kafka-properties FILE."


class JavaSettings(msgspec.Struct, frozen=True):
    """Settings of a Java consumer; `left_out` are keys that mean nothing to one."""

    settings: dict[str, str]
    left_out: tuple[str, ...] = ()


def translated(kafka: Mapping[str, str]) -> JavaSettings:
    """Raises BadInput for a setting of security that Java's client cannot be given, and for files it cannot read."""
    settings, left_out = {}, []
    for key, value in kafka.items():
        if key in _SAME or key in _OTHER_NAME:
            settings[_OTHER_NAME.get(key, key)] = value
        elif key in _TOGETHER:
            continue
        elif key.startswith(_OF_SECURITY):
            raise BadInput(f"kafka.{key} cannot be said to Java's client, which Spark reads with.", hint=_HINT)
        else:
            left_out.append(key)
    settings |= dict(_security(kafka))
    return JavaSettings(settings, tuple(sorted(left_out)))


def read_properties(path: Path) -> dict[str, str]:
    """Java's `client.properties`: lines of `key=value`, `#` before comments, a backslash where a line goes on."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read as properties: {error}.") from error
    found = {}
    for line in text.replace("\\\n", "").splitlines():
        if (stripped := line.strip()) and not stripped.startswith(("#", "!")):
            key, equals, value = stripped.partition("=")
            if not equals:
                raise BadInput(f"{path}: {stripped.split()[0]!r} has no value.", hint="Write key=value.")
            found[key.strip()] = value.strip()
    return found


def _security(kafka: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if "security.protocol" in kafka:
        yield "security.protocol", kafka["security.protocol"].upper()
    if kafka.get("enable.ssl.certificate.verification", "true").lower() not in ("true", "1", "t"):
        raise BadInput("Java's client cannot be told to verify no certificate.", hint="Name the CA: ssl.ca.location.")
    if "ssl.endpoint.identification.algorithm" in kafka:
        algorithm = kafka["ssl.endpoint.identification.algorithm"]
        yield "ssl.endpoint.identification.algorithm", "" if algorithm.lower() == "none" else algorithm
    yield from _trusted(kafka)
    yield from _own_certificate(kafka)
    yield from _sasl(kafka)


def _trusted(kafka: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    pem = _text_of(kafka, "ssl.ca")
    if pem:
        yield "ssl.truststore.type", "PEM"
        yield "ssl.truststore.certificates", pem


def _own_certificate(kafka: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    certificate, key = _text_of(kafka, "ssl.certificate"), _text_of(kafka, "ssl.key")
    if bool(certificate) != bool(key):
        raise BadInput("A client's certificate and its key come together: ssl.certificate and ssl.key.")
    if key:
        if "PRIVATE KEY" in key and not any(f"BEGIN {kind}PRIVATE KEY" in key for kind in ("", "ENCRYPTED ")):
            raise BadInput(
                "Java's client reads a key in PKCS #8 only, and this one begins otherwise.",
                hint="Convert it: openssl pkcs8 -topk8 -in KEY -out KEY.p8",
            )
        yield "ssl.keystore.type", "PEM"
        yield "ssl.keystore.certificate.chain", certificate
        yield "ssl.keystore.key", key
    elif "ssl.keystore.location" in kafka:
        yield "ssl.keystore.type", "PKCS12"
        yield "ssl.keystore.location", kafka["ssl.keystore.location"]


def _text_of(kafka: Mapping[str, str], what: str) -> str:
    """PEM as it is given or as its file has it; one line per setting would not do for Java."""
    if f"{what}.pem" in kafka:
        return kafka[f"{what}.pem"]
    path = kafka.get(f"{what}.location", "")
    if not path or (what == "ssl.ca" and path == "probe"):
        return ""
    try:
        if Path(path).is_dir():
            return "\n".join(each.read_text() for each in sorted(Path(path).glob("*.pem")))
        return Path(path).read_text()
    except (OSError, ValueError) as error:
        raise BadInput(f"kafka.{what}.location: {path} cannot be read: {error}.") from error


def _sasl(kafka: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if not kafka.get("security.protocol", "").upper().startswith("SASL"):
        return
    mechanism = kafka.get("sasl.mechanism") or kafka.get("sasl.mechanisms") or "GSSAPI"
    yield "sasl.mechanism", mechanism
    common = "org.apache.kafka.common.security"
    if mechanism == "PLAIN" or mechanism.startswith("SCRAM-"):
        module = f"{common}.{'plain.Plain' if mechanism == 'PLAIN' else 'scram.Scram'}LoginModule"
        names = {"username": kafka.get("sasl.username", ""), "password": kafka.get("sasl.password", "")}
    elif mechanism == "GSSAPI":
        module = "com.sun.security.auth.module.Krb5LoginModule"
        names = {"useKeyTab": "true", "storeKey": "true"}
        names |= {
            "keyTab": kafka.get("sasl.kerberos.keytab", ""),
            "principal": kafka.get("sasl.kerberos.principal", ""),
        }
    else:
        raise BadInput(f"sasl.mechanism {mechanism} is not translated for Java's client.", hint=_HINT)
    yield (
        "sasl.jaas.config",
        f"{module} required {' '.join(f'{name}={_quoted(text)}' for name, text in names.items())};",
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
