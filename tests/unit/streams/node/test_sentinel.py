"""The service's side of the sentinel: what keeps one from starting costs the lease and fails nothing."""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest

from topolog.streams.node.sentinel import Sentinel

NOWHERE = "127.0.0.1:1"
"""No broker listens there."""

MakeSentinel = Callable[[Mapping[str, str]], Sentinel]


@pytest.fixture
def make_sentinel() -> Iterator[MakeSentinel]:
    """A sentinel with these settings of Kafka besides the broker's address; it has ended when the test has."""
    made: list[Sentinel] = []

    def make(kafka: Mapping[str, str]) -> Sentinel:
        made.append(Sentinel({"bootstrap.servers": NOWHERE, **kafka}, "main"))
        return made[-1]

    yield make
    for sentinel in made:
        sentinel.end(said_goodbye=True)


@pytest.mark.parametrize("executable", [None, "", "/bin/sh", "/somewhere/else/python3"])
def test_a_service_without_an_interpreter_goes_on_without_a_sentinel(
    executable: str | None,
    make_sentinel: MakeSentinel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An embedded Python has no `sys.executable`, or a program that would take our arguments for its own; said once."""
    monkeypatch.setattr(sys, "executable", executable)
    with caplog.at_level(logging.WARNING):
        assert_none_starts(make_sentinel({}))
    assert len([each for each in caplog.messages if "a crash costs the lease" in each]) == 1


def test_a_frozen_service_does_not_start_itself_again(
    make_sentinel: MakeSentinel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sys.executable` is the service itself there, whatever its name."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert_none_starts(make_sentinel({}))


def test_an_interpreter_by_another_name_is_followed_to_its_own(
    make_sentinel: MakeSentinel, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Some run Python by a link, so that `ps` shows the name of their service."""
    link = tmp_path_factory.mktemp("bin") / "billing"
    link.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(link))
    sentinel = make_sentinel({})
    sentinel.look_after()
    assert sentinel.pid is not None


def assert_none_starts(sentinel: Sentinel) -> None:
    sentinel.look_after()
    sentinel.speak_for("n1", b"certificate")
    sentinel.look_after()
    assert sentinel.pid is None


def test_settings_may_be_larger_than_a_pipe(make_sentinel: MakeSentinel) -> None:
    """A bundle of certificates: the sentinel has them, and lives until it is told that nothing is left to say."""
    sentinel = make_sentinel({"client.id": "x" * 200_000})
    sentinel.look_after()
    assert isinstance(process := sentinel._process, subprocess.Popen)
    sentinel._tell({"done": True})
    assert process.wait(60) == 0


def test_a_sentinel_loads_nothing_that_only_a_service_needs() -> None:
    """Each node has one, and one that is still starting has not heard for whom it speaks."""
    heavy = ("numpy", "fastavro", "topolog.events.codec")
    script = f"import sys, topolog.streams.node.sentinel; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
