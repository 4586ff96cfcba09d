"""Who only connects takes the API from nobody: a server as a process, with few files, over http and https."""

import contextlib
import os
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
import trustme

from topolog.commands.open_files import open_files_max, raise_open_files_max

ROOT = Path(__file__).parents[3]
IDLE = 1_500
FILES = 1_024
"""How many files the server may have open, with no right to more: fewer than there are connections."""


@pytest.fixture(autouse=True)
def _enough_files() -> Iterator[None]:
    """This process holds the other ends."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_open_files_max()
    if open_files_max() < 2 * IDLE:
        pytest.skip("this system lets nobody open so many files")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def certificate(authority: trustme.CA, folder: Path) -> Mapping[str, str]:
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    return {"TOPOLOG_API__TLS_CERT": str(folder / "cert.pem"), "TOPOLOG_API__TLS_KEY": str(folder / "key.pem")}


@contextlib.contextmanager
def server(folder: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Where it answers, and what it says to stderr."""
    code = (
        f"import resource, runpy; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES})); "
        "runpy.run_module('tests.processes.access.test_serving', run_name='__main__')"
    )
    env = {**os.environ, "TOPOLOG_AUDIT__DATA": str(folder / "audit"), **environ}
    said = folder / "stderr"
    with (
        said.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder / "store")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=env,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), said
        finally:
            process.terminate()
            process.communicate(timeout=20)
    assert process.returncode == 0


@pytest.mark.parametrize("is_tls", [False, True])
def test_idle_connections_do_not_take_the_api_away(tmp_path: Path, authority: trustme.CA, is_tls: bool) -> None:
    """OP12: 1,500 of them, without a token, stopped every request for as long as they stayed, and nothing was said."""
    environ = certificate(authority, tmp_path) if is_tls else {}
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with server(tmp_path, environ) as (url, said), contextlib.ExitStack() as stack:
        address = ("127.0.0.1", httpx.URL(url).port or 0)
        for _ in range(IDLE):
            stack.enter_context(socket.create_connection(address, timeout=20))
        client = stack.enter_context(httpx.Client(base_url=url, verify=context, timeout=20, trust_env=False))
        for _ in range(5):
            assert client.get("/v1/clusters/main/nodes", headers={"Connection": "close"}).status_code == 200
        told = client.get("/metrics").text
        assert 'connections_refused_total{reason="too_many_of_peer"}' in told
        assert "topolog_api_connections " in told
        assert said.read_text().count("api.connections_per_peer") == 1


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_handshake_ends_in_time_too(tmp_path: Path, authority: trustme.CA, sent: bytes) -> None:
    """Before TLS is agreed upon no byte of a request can come; what speaks http to an https port is ended."""
    environ = {**certificate(authority, tmp_path), "TOPOLOG_API__REQUEST_TIMEOUT": "300ms"}
    with (
        server(tmp_path, environ) as (url, _),
        socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0), timeout=20) as sock,
    ):
        sock.sendall(sent)
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(4_096):
                pass


def test_a_role_opens_as_many_files_as_it_may() -> None:
    """The soft limit is what a shell gives, 1,024 as a rule; the hard one is what the system lets a process take."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512)); "
        "from topolog.commands.open_files import raise_open_files_max, open_files_max; "
        "raise_open_files_max(); print(open_files_max())"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "512\n"
