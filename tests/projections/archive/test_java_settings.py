"""Settings of librdkafka as Java's clients take them: translated, named as without meaning, or refused (issue 9.1)."""

from pathlib import Path

import pytest

from topolog.events.errors import BadInput
from topolog.projections.archive.java_settings import read_properties, translated

KEY = "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\ny\n-----END CERTIFICATE-----\n"


def test_the_address_keeps_its_name_and_what_tunes_librdkafka_is_named() -> None:
    found = translated(
        {"bootstrap.servers": "a:1,b:2", "client.id": "x", "debug": "all", "queue.buffering.max.ms": "5"}
    )
    assert found.settings == {"bootstrap.servers": "a:1,b:2", "client.id": "x"}
    assert found.left_out == ("debug", "queue.buffering.max.ms")


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")]
)
def test_a_password_becomes_a_line_of_jaas(mechanism: str, module: str) -> None:
    """Quotes and backslashes are a part of it."""
    found = translated(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": mechanism,
            "sasl.username": "me",
            "sasl.password": 'a"b\\c',
        }
    )
    assert found.settings == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'org.apache.kafka.common.security.{module} required username="me" password="a\\"b\\\\c";',
    }


def test_certificates_are_given_as_text(tmp_path: Path) -> None:
    ca, own, key = (tmp_path / name for name in ("ca.pem", "own.pem", "key.pem"))
    for path, text in ((ca, CERTIFICATE), (own, CERTIFICATE), (key, KEY)):
        path.write_text(text)
    found = translated(
        {
            "security.protocol": "ssl",
            "ssl.ca.location": str(ca),
            "ssl.certificate.location": str(own),
            "ssl.key.location": str(key),
            "ssl.key.password": "secret",
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert found.settings == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATE,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.keystore.key": KEY,
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "no certificate"),
        ({"ssl.cipher.suites": "x"}, "kafka.ssl.cipher.suites cannot be said"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER is not translated"),
        ({"ssl.key.pem": KEY}, "come together"),
        ({"ssl.ca.location": "/nowhere.pem"}, "cannot be read"),
        (
            {"ssl.certificate.pem": CERTIFICATE, "ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----"},
            "openssl pkcs8",
        ),
    ],
)
def test_what_cannot_be_said_to_java_is_refused(settings: dict[str, str], said: str) -> None:
    """Nothing that decides who gets in is left out."""
    with pytest.raises(BadInput, match=said):
        translated(settings)


def test_properties_of_javas_clients_are_read(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text('# mine\nsecurity.protocol = SASL_SSL\nsasl.jaas.config=a.Module required \\\n  username="x";\n\n')
    assert read_properties(file) == {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": 'a.Module required   username="x";',
    }
    file.write_text("security.protocol")
    with pytest.raises(BadInput, match="has no value"):
        read_properties(file)
    with pytest.raises(BadInput, match="cannot be read"):
        read_properties(tmp_path / "none")
