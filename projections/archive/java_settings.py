"""`[kafka]` for Java's clients: librdkafka's settings as Spark's Kafka source takes them.

Why: a cluster's access is written down once, in librdkafka's words, and Spark reads with the Java client, whose words
for security are others. What decides whether and as whom a client gets in is translated or refused, never left out: a
reader that verifies no certificate because its setting meant nothing to Java would tell nobody. What only tunes
librdkafka means nothing to Java, and is named.

Two clients differ in more than names: what librdkafka takes for granted (the service `kafka`, a key that needs no
password) is said, and what one takes beside another (a password beside a PEM that is not encrypted) is left out where
Java's client would refuse both.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from topolog.events.errors import BadInput

_SAME = frozenset(
    {
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
    }
)
_OTHER_NAME = {
    "bootstrap.servers": "bootstrap.servers",
    "metadata.broker.list": "bootstrap.servers",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.partition.fetch.bytes": "max.partition.fetch.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
}
_OF_SECURITY = ("ssl.", "sasl.", "security.", "enable.ssl.", "enable.sasl.", "https.")
_PEM = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem")
_TOGETHER = frozenset(
    {
        *_PEM,
        "connections.max.idle.ms",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.kerberos.service.name",
        "sasl.kerberos.principal",
        "sasl.kerberos.keytab",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
_OF_SPARK = frozenset(
    {"auto.offset.reset", "enable.auto.commit", "interceptor.classes", "key.deserializer", "value.deserializer"}
)
"""What Spark's Kafka source decides itself and refuses to be told."""

_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")
"""What OpenSSL calls the certificates of a folder; it looks at no others."""

_PROPERTY = re.compile(r"((?:[^\\=: \t\f]|\\.)+)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+)(.*)", re.DOTALL)
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
    """Java's `client.properties`, as `java.util.Properties` reads it: in Latin-1, with a backslash as its escape."""
    try:
        text = path.read_text(encoding="latin-1")
    except OSError as error:
        raise BadInput(f"{path} cannot be read as properties: {error}.") from error
    found = {}
    for line in _logical_lines(text):
        match = _PROPERTY.fullmatch(line)
        if match is None:
            raise BadInput(f"{path}: {re.split('[=:]', line)[0]!r} has no value.", hint="Write key=value.")
        if (key := _unescaped(match[1])) in _OF_SPARK:
            raise BadInput(f"{path}: {key} is for Spark to decide.", hint="Leave it out: the file says how to get in.")
        found[key] = _unescaped(match[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Without comments and empty lines; one that ends with an odd number of backslashes goes on in the next."""
    whole = ""
    for line in re.split(r"\r\n|\r|\n", text):
        begun = line.lstrip(" \t\f")
        if not whole and (not begun or begun.startswith(("#", "!"))):
            continue
        whole += begun
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1]
        else:
            yield whole
            whole = ""
    if whole:
        yield whole


def _unescaped(text: str) -> str:
    letters = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
    return re.sub(
        r"\\(?:u([0-9a-fA-F]{4})|(.))",
        lambda found: chr(int(found[1], 16)) if found[1] else letters.get(found[2], found[2]),
        text,
        flags=re.DOTALL,
    )


def _security(kafka: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if "connections.max.idle.ms" in kafka:
        idle_ms = kafka["connections.max.idle.ms"]
        yield "connections.max.idle.ms", "-1" if idle_ms == "0" else idle_ms  # for ever
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
    """Both what is at the place and what is said: librdkafka trusts them together. "probe" is for a place unknown."""
    path, said = kafka.get("ssl.ca.location", ""), kafka.get("ssl.ca.pem", "")
    placed = _read("ssl.ca.location", Path(path)) if path and path != "probe" else ""
    if pem := "\n".join(filter(None, (placed, said))):
        yield "ssl.truststore.type", "PEM"
        yield "ssl.truststore.certificates", pem


def _own_certificate(kafka: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    certificate, key = _text_of(kafka, "ssl.certificate"), _text_of(kafka, "ssl.key")
    if bool(certificate) != bool(key):
        raise BadInput("A client's certificate and its key come together: ssl.certificate and ssl.key.")
    if key and "ssl.keystore.location" in kafka:
        raise BadInput("A client has one certificate: ssl.certificate with ssl.key, or ssl.keystore.location.")
    if key:
        if "PRIVATE KEY" in key and not any(f"BEGIN {kind}PRIVATE KEY" in key for kind in ("", "ENCRYPTED ")):
            raise BadInput(
                "Java's client reads a key in PKCS #8 only, and this one begins otherwise.",
                hint="Convert it: openssl pkcs8 -topk8 -in KEY -out KEY.p8",
            )
        yield "ssl.keystore.type", "PEM"
        yield "ssl.keystore.certificate.chain", certificate
        yield "ssl.keystore.key", key
        if "BEGIN ENCRYPTED PRIVATE KEY" in key:  # one that is not is refused with a password
            yield "ssl.key.password", kafka.get("ssl.key.password", "")
    elif "ssl.keystore.location" in kafka:
        yield "ssl.keystore.type", "PKCS12"
        yield "ssl.keystore.location", kafka["ssl.keystore.location"]
        yield "ssl.keystore.password", kafka.get("ssl.keystore.password", "")


def _text_of(kafka: Mapping[str, str], what: str) -> str:
    """PEM as it is given or as its file has it: executors have no files of the driver's."""
    if f"{what}.pem" in kafka:
        return kafka[f"{what}.pem"]
    path = kafka.get(f"{what}.location", "")
    return _read(f"{what}.location", Path(path)) if path else ""


def _read(setting: str, path: Path) -> str:
    """A file, or the certificates of a folder as OpenSSL finds them there."""
    try:
        if not path.is_dir():
            return path.read_text()
        found = [each.read_text() for each in sorted(path.iterdir()) if _HASHED.fullmatch(each.name)]
    except (OSError, ValueError) as error:
        raise BadInput(f"kafka.{setting}: {path} cannot be read: {error}.") from error
    if not found:
        raise BadInput(
            f"kafka.{setting}: {path} has no certificates under the names that OpenSSL looks for.",
            hint=f"Make them: openssl rehash {path}",
        )
    return "\n".join(found)


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
        names = _kerberos(kafka)
        yield "sasl.kerberos.service.name", kafka.get("sasl.kerberos.service.name", "kafka")
    else:
        raise BadInput(f"sasl.mechanism {mechanism} is not translated for Java's client.", hint=_HINT)
    yield (
        "sasl.jaas.config",
        f"{module} required {' '.join(f'{name}={_quoted(text)}' for name, text in names.items())};",
    )


def _kerberos(kafka: Mapping[str, str]) -> dict[str, str]:
    """Tickets by the keytab; without one those that somebody has got (`kinit`)."""
    principal, keytab = kafka.get("sasl.kerberos.principal"), kafka.get("sasl.kerberos.keytab")
    if not keytab:
        return {"useTicketCache": "true", **({"principal": principal} if principal else {})}
    return {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab, "principal": principal or "kafkaclient"}


def _quoted(text: str) -> str:
    """As Java's StreamTokenizer reads it, for which a line's end is the end of a text."""
    for character, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, written)
    return f'"{text}"'
