"""A broker that knows who asks and lets nobody do more than is listed: SASL_SSL with SCRAM-SHA-512, StandardAuthorizer.

The certificate is of an authority of the test's own. The access is what `topolog cluster init --plan` prints, read from
its output. The test itself comes through a second door without a password, as the only super user.
"""

import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import trustme
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.data_folder import Owner
from topolog.streams.local.jars import Say
from topolog.streams.local.kafka_config import Seat, properties
from topolog.streams.local.launch import KafkaFolder, Launch

DOOR = "SECURED"
_TIMEOUT_S = 30


class SecuredFolder(KafkaFolder):
    """As Kafka is told by us, and a door with TLS and SASL besides."""

    def __init__(self, folder: Path, seat: Seat, say: Say, port: int, certificate: Path) -> None:
        super().__init__(folder, seat, say)
        self._port = port
        self._certificate = certificate

    def prepare(self, launch: Launch, owner: Owner) -> None:
        super().prepare(launch, owner)
        door = f"listener.name.{DOOR.lower()}"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        listens = f"PLAINTEXT://{self.seat.address},{DOOR}://127.0.0.1:{self._port}"
        more = {
            "listeners": f"{listens},CONTROLLER://127.0.0.1:{self.seat.controller_port}",
            "advertised.listeners": listens,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{DOOR}:SASL_SSL",
            f"{door}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{door}.scram-sha-512.sasl.jaas.config": scram,
            f"{door}.ssl.keystore.type": "PEM",
            f"{door}.ssl.keystore.location": self._certificate,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "false",
        }
        with self._server.open("a", encoding="ascii") as file:
            file.write(properties(more))


class SecuredBroker:
    """Where it is, and what each principal comes with."""

    def __init__(self, folder: Path, bootstrap: str, secured: str, authority: Path) -> None:
        self.bootstrap = bootstrap
        self.secured = secured
        self.passwords: dict[str, str] = {}
        self._folder = folder
        self._authority = authority
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def add(self, *names: str) -> None:
        """Let these principals in; what they may do is another matter."""
        for name in names:
            self.passwords[name] = secrets.token_hex(12)
            file = self._folder / f"{name}.password"
            file.touch(0o600)
            file.write_text(f"{self.passwords[name]}\n")
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        asked: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(name, info, self.passwords[name].encode()) for name in names
        ]
        for future in self._admin.alter_user_scram_credentials(asked).values():
            future.result(_TIMEOUT_S)

    def environment(self, name: str, cluster: str) -> Mapping[str, str]:
        """What a process of this principal is told; its password stands in a file."""
        return {
            "TOPOLOG_CLUSTER__NAME": cluster,
            "TOPOLOG_KAFKA__BOOTSTRAP_SERVERS": self.secured,
            "TOPOLOG_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
            "TOPOLOG_KAFKA__SSL_CA_LOCATION": str(self._authority),
            "TOPOLOG_KAFKA__SASL_MECHANISM": "SCRAM-SHA-512",
            "TOPOLOG_KAFKA__SASL_USERNAME": name,
            "TOPOLOG_KAFKA__SASL_PASSWORD_FILE": str(self._folder / f"{name}.password"),
        }

    def settings(self, name: str) -> Mapping[str, str]:
        """The same for a client in this process."""
        return {
            "bootstrap.servers": self.secured,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._authority),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": name,
            "sasl.password": self.passwords[name],
        }

    def grant_as_printed(self, cluster: str) -> set[str]:
        """Make every access of the printed plan, and no other; the roles it names."""
        command = [sys.executable, "-m", "topolog", "cluster", "init", "--plan", "--set", f"cluster.name={cluster}"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = re.findall(r"^ *(\S+) +(Topic|Group) +(prefixed|literal) +(\S+) +(\S.*)$", printed, re.MULTILINE)
        bindings = [
            AclBinding(
                ResourceType[kind.upper()],
                name,
                ResourcePatternType[pattern.upper()],
                f"User:{role}",
                "*",
                AclOperation[operation.upper()],
                AclPermissionType.ALLOW,
            )
            for role, kind, pattern, name, operations in rows
            for operation in operations.strip().split(", ")
        ]
        for future in self._admin.create_acls(bindings).values():
            future.result(_TIMEOUT_S)
        return {role for role, *_ in rows}


@contextmanager
def secured_broker(folder: Path, port: int, secured_port: int) -> Iterator[SecuredBroker]:
    """A broker that runs as long as the block does; `port` and the one after it are Kafka's own."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(folder / "authority.pem")
    certificate = folder / "broker.pem"
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    as_java_reads_it = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    certificate.write_bytes(as_java_reads_it + b"".join(each.bytes() for each in issued.cert_chain_pems))
    broker = LocalBroker(folder / "kafka", port=port)
    broker._files = SecuredFolder(broker.folder, broker.seat, lambda _: None, secured_port, certificate)
    with broker.running() as status:
        yield SecuredBroker(folder, status.bootstrap, f"127.0.0.1:{secured_port}", folder / "authority.pem")
