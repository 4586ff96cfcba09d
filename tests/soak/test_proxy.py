"""The proxy does what its faults are called."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.soak.proxy import Network, Way


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that returns what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=_return_all, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def _return_all(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        while data := connection.recv(1 << 16):
            connection.sendall(data)


@pytest.fixture
def way_in(echo: int, unused_port: Callable[[], int]) -> Iterator[tuple[Network, int]]:
    with Network() as network:
        port = unused_port()
        network.add("c1", 1, port, echo)
        yield network, port


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def _ask(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return connection.recv(100)


def test_it_forwards_both_ways(way_in: tuple[Network, int]) -> None:
    """Undisturbed it is not there."""
    with _connect(way_in[1]) as connection:
        assert _ask(connection, b"hello") == b"hello"


def test_a_cut_drops_and_refuses_until_it_is_restored(way_in: tuple[Network, int]) -> None:
    """What is open is reset, what is new is refused; then it is as before."""
    network, port = way_in
    with _connect(port) as connection:
        assert _ask(connection, b"hello") == b"hello"
        network.cut("c1")
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(ConnectionRefusedError):
        _connect(port)
    network.restore("c1")
    with _connect(port) as connection:
        assert _ask(connection, b"again") == b"again"


@pytest.mark.parametrize("way", Way)
def test_what_is_held_arrives_late_and_in_order(way_in: tuple[Network, int], way: Way) -> None:
    """A black hole takes connections and data and gives nothing; mended, it gives all of it."""
    network, port = way_in
    network.hold("c1", way)
    with _connect(port) as connection:
        connection.sendall(b"one ")
        connection.sendall(b"two")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        network.restore("c1")
        connection.settimeout(10)
        connection.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: connection.recv(100), b"")) == b"one two"


def test_what_a_client_sent_before_it_gave_up_lands_all_the_same(echo: int, unused_port: Callable[[], int]) -> None:
    """A zombie's sends: the connection is closed while they are held, and they land when the hold ends."""
    landed = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server, Network() as network:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                if connection.recv(100) == b"late":
                    landed.set()

        threading.Thread(target=serve, daemon=True).start()
        port = unused_port()
        network.add("c1", 1, port, server.getsockname()[1])
        network.hold("c1", Way.TO_BROKER)
        with _connect(port) as connection:
            connection.sendall(b"late")
        assert not landed.wait(0.2)
        network.restore("c1")
        assert landed.wait(10)


def test_a_delay_delays(way_in: tuple[Network, int]) -> None:
    """There and back, twice the delay at least."""
    network, port = way_in
    network.delay("c1", 150)
    with _connect(port) as connection:
        connection.sendall(b"slow")
        connection.settimeout(0.25)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        connection.settimeout(10)
        assert connection.recv(100) == b"slow"
