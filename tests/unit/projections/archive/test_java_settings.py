"""Settings of librdkafka as Java's clients take them: translated, named as without meaning, or refused (RD30)."""

from pathlib import Path

import pytest

from topolog.events.errors import BadInput
from topolog.projections.archive.java_settings import read_properties, translated

KEY = "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"
ENCRYPTED = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nx\n-----END ENCRYPTED PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\ny\n-----END CERTIFICATE-----\n"
OTHER = "-----BEGIN CERTIFICATE-----\nz\n-----END CERTIFICATE-----\n"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule"


def test_the_address_keeps_its_name_and_what_tunes_librdkafka_is_named() -> None:
    found = translated(
        {"bootstrap.servers": "a:1,b:2", "client.id": "x", "debug": "all", "queue.buffering.max.ms": "5"}
    )
    assert found.settings == {"bootstrap.servers": "a:1,b:2", "client.id": "x"}
    assert found.left_out == ("debug", "queue.buffering.max.ms")


def test_what_has_another_name_or_another_word_for_ever_is_said_so() -> None:
    found = translated({"socket.timeout.ms": "7", "fetch.wait.max.ms": "8", "connections.max.idle.ms": "0"})
    assert found.settings == {"request.timeout.ms": "7", "fetch.max.wait.ms": "8", "connections.max.idle.ms": "-1"}
    assert translated({"connections.max.idle.ms": "9"}).settings == {"connections.max.idle.ms": "9"}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
def test_a_password_becomes_a_line_of_jaas(mechanism: str, module: str) -> None:
    """Quotes, backslashes and a line's end are a part of it."""
    found = translated(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": mechanism,
            "sasl.username": "me",
            "sasl.password": "a\"b\\c=;\n'd",
        }
    )
    assert found.settings == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        'username="me" password="a\\"b\\\\c=;\\n\'d";',
    }


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (
            {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "me@HERE"},
            'useKeyTab="true" storeKey="true" keyTab="/k" principal="me@HERE"',
        ),
        ({"sasl.kerberos.keytab": "/k"}, 'useKeyTab="true" storeKey="true" keyTab="/k" principal="kafkaclient"'),
        ({"sasl.kerberos.principal": "me@HERE"}, 'useTicketCache="true" principal="me@HERE"'),
        ({}, 'useTicketCache="true"'),
    ],
)
def test_kerberos_is_what_librdkafka_takes_for_granted(given: dict[str, str], options: str) -> None:
    """It is the mechanism where none is named, and the service is `kafka`: Java's client has no default for it."""
    found = translated({"security.protocol": "SASL_PLAINTEXT", **given})
    assert found.settings == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f"{KRB5} required {options};",
    }
    named = translated({"security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "stream"})
    assert named.settings["sasl.kerberos.service.name"] == "stream"


def test_a_password_without_sasl_says_nothing() -> None:
    found = translated({"security.protocol": "plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "me"})
    assert found.settings == {"security.protocol": "PLAINTEXT"}


def test_certificates_are_given_as_text(tmp_path: Path) -> None:
    ca, own, key = (tmp_path / name for name in ("ca.pem", "own.pem", "key.pem"))
    for path, text in ((ca, CERTIFICATE), (own, CERTIFICATE), (key, ENCRYPTED)):
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
        "ssl.keystore.key": ENCRYPTED,
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_a_password_is_not_given_with_a_key_that_needs_none() -> None:
    """Java's client would take the key for an encrypted one, and fail."""
    found = translated({"ssl.certificate.pem": CERTIFICATE, "ssl.key.pem": KEY, "ssl.key.password": "secret"})
    assert found.settings.keys() == {"ssl.keystore.type", "ssl.keystore.certificate.chain", "ssl.keystore.key"}


@pytest.mark.parametrize(("given", "password"), [({"ssl.keystore.password": "p"}, "p"), ({}, "")])
def test_a_keystore_stays_a_file_and_has_its_own_password(given: dict[str, str], password: str) -> None:
    """Java's client would try another one on the key in it, and refuses a store without any."""
    assert translated({"ssl.keystore.location": "/a.p12", "ssl.key.password": "other", **given}).settings == {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "/a.p12",
        "ssl.keystore.password": password,
    }


def test_a_folder_of_certificates_is_read_as_openssl_reads_it(tmp_path: Path) -> None:
    """By names that are hashes; what is said besides is trusted too."""
    (tmp_path / "ca.crt").write_text(CERTIFICATE)
    with pytest.raises(BadInput, match="openssl rehash"):
        translated({"ssl.ca.location": str(tmp_path)})
    (tmp_path / "0a1b2c3d.0").symlink_to(tmp_path / "ca.crt")
    (tmp_path / "0a1b2c3d.r0").write_text("a list of what is revoked")
    found = translated({"ssl.ca.location": str(tmp_path), "ssl.ca.pem": OTHER})
    assert found.settings["ssl.truststore.certificates"] == f"{CERTIFICATE}\n{OTHER}"


def test_where_the_system_has_its_certificates_is_javas_own_business() -> None:
    assert translated({"security.protocol": "ssl", "ssl.ca.location": "probe"}).settings == {"security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "no certificate"),
        ({"ssl.cipher.suites": "x"}, "kafka.ssl.cipher.suites cannot be said"),
        ({"ssl.crl.location": "x"}, "kafka.ssl.crl.location cannot be said"),
        ({"sasl.kerberos.kinit.cmd": "x"}, "kafka.sasl.kerberos.kinit.cmd cannot be said"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER is not translated"),
        ({"ssl.key.pem": KEY}, "come together"),
        (
            {"ssl.certificate.pem": CERTIFICATE, "ssl.key.pem": KEY, "ssl.keystore.location": "/a.p12"},
            "one certificate",
        ),
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


def test_properties_of_javas_clients_are_read_as_java_reads_them(tmp_path: Path) -> None:
    """Separators, lines that go on, escapes: a password with a backslash stands there with two."""
    file = tmp_path / "client.properties"
    file.write_bytes(
        b"# mine\r\n! mine too\n\nsecurity.protocol = SASL_SSL\nclient.id:me \n ssl.protocol TLSv1.3\n"
        b'sasl.jaas.config=a.Module required \\\n    user\\u006eame="x" \\\n  password="a\\\\\\\\b\\\\"\\xe4";\n'
        b"ssl.truststore.location=C\\:\\\\t\\=x\nssl.key.password=\n".replace(b"\\xe4", b"\xe4")
    )
    assert read_properties(file) == {
        "security.protocol": "SASL_SSL",
        "client.id": "me ",
        "ssl.protocol": "TLSv1.3",
        "sasl.jaas.config": 'a.Module required username="x" password="a\\\\b\\"ä";',
        "ssl.truststore.location": "C:\\t=x",
        "ssl.key.password": "",
    }
    file.write_text("security.protocol")
    with pytest.raises(BadInput, match="has no value"):
        read_properties(file)
    file.write_text("client.id=me\nauto.offset.reset=earliest\n")
    with pytest.raises(BadInput, match=r"auto\.offset\.reset is for Spark"):
        read_properties(file)
    with pytest.raises(BadInput, match="cannot be read"):
        read_properties(tmp_path / "none")
