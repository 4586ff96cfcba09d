"""Settings, server and command line together: what is refused at the start, https, tokens, `topolog auth`."""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import trustme
from tests.unit.projections.chronicle import Chronicle

from topolog.commands.access import access_of, bounds_of, tls_of
from topolog.events.errors import BadInput
from topolog.projections.api.server import Front, Source, serve
from topolog.settings.model import load

ROOT = Path(__file__).parents[3]


def topolog(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environ}
    return subprocess.run(
        [sys.executable, "-m", "topolog", *words], env=env, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_open_api_is_not_served_to_others(chronicle: Chronicle, tmp_path: Path, host: str) -> None:
    """Part 6: deny by default outside loopback; the settings that would change it are named."""
    source = Source("main", chronicle.log.reader(), chronicle.log.writer(), tmp_path)
    with pytest.raises(BadInput, match="ask nobody who they are") as caught:
        serve([source], host, 0, address="broker:9092")
    assert "auth.tokens_file" in caught.value.hint


@contextmanager
def server(folder: Path, **environ: str) -> Iterator[str]:
    """A server as `topolog run projector` makes it, over a log in memory; where it answers."""
    env = {**os.environ, "TOPOLOG_AUDIT__DATA": str(folder / "audit"), **environ}
    command = [sys.executable, "-m", "tests.processes.access.test_serving", str(folder / "store")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
    assert process.returncode == 0


def main(folder: Path) -> None:
    chronicle = Chronicle().start()
    chronicle.join("n1")
    settings = load().settings
    source = Source("main", chronicle.log.reader(), chronicle.log.writer(), folder)
    serve(
        [source],
        settings.api.host,
        0,
        address="broker:9092",
        front=Front(access_of(settings), tls_of(settings), bounds=bounds_of(settings)),
        on_ready=lambda url: print(url, flush=True),  # noqa: T201  # it is what the test reads
    )


@pytest.fixture
def certificate(tmp_path: Path) -> Mapping[str, str]:
    """The settings of an API with a certificate, and of a command line that believes it."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    return {
        "TOPOLOG_API__TLS_CERT": str(tmp_path / "cert.pem"),
        "TOPOLOG_API__TLS_KEY": str(tmp_path / "key.pem"),
        "TOPOLOG_API__CA_FILE": str(tmp_path / "ca.pem"),
    }


def token_of(file: Path, into: Path, name: str, grants: str) -> str:
    made = topolog("auth", "token", "new", name, "--grants", grants, "--into", str(into))
    assert made.returncode == 0, made.stderr
    assert re.fullmatch(r"topolog_[\w-]{43}\n", made.stdout)
    file.touch(0o600)
    file.write_text(made.stdout)
    return made.stdout.strip()


def test_scripts_come_with_tokens_over_https(tmp_path: Path, certificate: Mapping[str, str]) -> None:
    """From `auth token new` to an answer; in between nobody but the holder has the token."""
    lines = tmp_path / "tokens"
    token = token_of(tmp_path / "ci.token", lines, "ci", "viewer@main,operator@main:groups/orders*")
    token_of(tmp_path / "root.token", lines, "root", "admin")
    assert token not in lines.read_text()
    shown = {**certificate, "TOPOLOG_API__TOKEN_FILE": str(tmp_path / "ci.token")}
    with server(tmp_path, TOPOLOG_AUTH__TOKENS_FILE=str(lines), TOPOLOG_API__HOST="0.0.0.0", **certificate) as url:
        assert url.startswith("https://")
        api = ("--api", url.replace("0.0.0.0", "127.0.0.1"))
        who = topolog("auth", "whoami", "-o", "json", *api, **shown)
        assert json.loads(who.stdout)["item"]["grants"] == ["viewer@main", "operator@main:groups/orders*"]
        assert "n1" in topolog("get", "nodes", *api, **shown).stdout
        may = topolog("auth", "can-i", "change", "groups/orders", *api, **shown)
        assert (may.returncode, "operator@main:groups/orders*" in may.stdout) == (0, True)
        may_not = topolog("auth", "explain", "administer", "groups/orders", *api, **shown)
        assert may_not.returncode == 3
        assert (
            "You may not administer groups/orders. It takes a grant such as admin@main:groups/orders." in may_not.stdout
        )
        assert "viewer has not the right administer" in may_not.stdout
        denied = topolog("drop", "group", "invoices", "--yes", "--reason", "x", *api, **shown)
        assert (denied.returncode, "may not administer groups/invoices" in denied.stderr) == (3, True)
        nobody = topolog("get", "nodes", *api, **certificate)
        assert (nobody.returncode, "TOPOLOG_API__TOKEN_FILE" in nobody.stderr) == (3, True)
        distrusted = topolog("get", "nodes", *api, TOPOLOG_API__TOKEN_FILE=shown["TOPOLOG_API__TOKEN_FILE"])
        assert distrusted.returncode == 4
        audit = httpx.get(
            f"{api[1]}/v1/clusters/main/audit",
            headers={"Authorization": f"Bearer {(tmp_path / 'root.token').read_text().strip()}"},
            verify=ssl.create_default_context(cafile=certificate["TOPOLOG_API__CA_FILE"]),
        )
        kept = [(each["principal"], each["what"], each["code"]) for each in audit.json()["items"]]
        assert ("ci", "drop-group groups/invoices", "forbidden") in kept


def test_a_token_is_shown_to_nobody_in_the_clear(tmp_path: Path) -> None:
    """Neither over http to another machine, nor from a file that others may read."""
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("topolog_hunter2")
    clear = topolog("get", "nodes", "--api", "http://192.0.2.1:8642", TOPOLOG_API__TOKEN_FILE=str(file))
    assert (clear.returncode, "everybody on the way" in clear.stderr) == (2, True)
    file.chmod(0o644)
    loose = topolog("get", "nodes", "--api", "http://127.0.0.1:9", TOPOLOG_API__TOKEN_FILE=str(file))
    assert (loose.returncode, f"chmod 600 {file}" in loose.stderr) == (2, True)
    assert "hunter2" not in clear.stderr + loose.stderr


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"auth.tokens_file": "nowhere"}, "cannot be read"),
        ({"auth.anonymous": "root"}, "no role 'root'"),
        ({"auth.proxy_from": "here", "auth.roles": "a = viewer"}, "auth.proxy_from: 'here' is no address"),
        ({"auth.proxy_from": "10.0.0.1", "auth.roles": "viewer"}, "no mapping"),
        ({"auth.proxy_from": "10.0.0.1", "auth.roles": "a = viewr"}, "no role 'viewr'"),
    ],
)
def test_what_cannot_be_used_is_refused_at_the_start(tmp_path: Path, flags: dict[str, object], complaint: str) -> None:
    settings = load({"audit.data": str(tmp_path), **flags}, environ={}).settings
    with pytest.raises(BadInput, match=complaint):
        access_of(settings)


def test_a_certificate_that_is_none_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("nothing")
    flags = {"api.tls_cert": str(tmp_path / "x.pem"), "api.tls_key": str(tmp_path / "x.pem")}
    with pytest.raises(BadInput, match="tls_key cannot be used"):
        tls_of(load(flags, environ={}).settings)


def test_a_secret_is_no_word_of_a_command(tmp_path: Path) -> None:
    """Part 6: never in arguments, which every process of the machine can list; and the way out is named."""
    for key in ("kafka.sasl.password", "kafka.ssl.key.password"):
        ended = topolog("config", "show", "--set", f"{key}=hunter2")
        assert (ended.returncode, f"{key}_file" in ended.stderr) == (2, True)
        assert "hunter2" not in ended.stdout + ended.stderr


def test_planted_secrets_show_up_nowhere(tmp_path: Path) -> None:
    """Part 6: `config show`, errors with their traces, logs, the audit, what a process is called with."""
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("hunter2-planted")
    environ = {
        "TOPOLOG_KAFKA__SASL_PASSWORD_FILE": str(secret),
        "TOPOLOG_KAFKA__SSL_KEY_PASSWORD": "hunter2-planted",
        "TOPOLOG_KAFKA__SASL_OAUTHBEARER_CLIENT_SECRET": "hunter2-planted",
        "TOPOLOG_KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "TOPOLOG_KAFKA__SASL_MECHANISM": "PLAIN",
        "TOPOLOG_KAFKA__SASL_USERNAME": "ada",
        "TOPOLOG_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:9",
        "TOPOLOG_DEBUG": "1",
        "TOPOLOG_AUDIT__DATA": str(tmp_path / "audit"),
    }
    shown = topolog("config", "show", **environ)
    assert shown.stdout.count("******") == 3
    said = [shown.stdout + shown.stderr]
    for words in (
        ("run", "projector"),
        ("config", "show", "--set", "kafka.sasl.nonsense=1", "--set", "lease.fence=soon"),
        ("run", "coordinator", "--set", "kafka.sasl.mechanism=NONSENSE"),
    ):
        ended = topolog(*words, **environ)
        assert words[0] == "config" or ended.returncode != 0
        said.append(ended.stdout + ended.stderr)
    assert "hunter2-planted" not in "".join(said)
    assert "Traceback" in "".join(said), "errors were shown with all that is known of them"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
