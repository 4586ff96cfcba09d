"""How a process is told to stop: by a signal, twice to hurry, or by the end of its supervisor."""

import os
import signal
from collections.abc import Iterator

import pytest

from topolog.events.errors import BadInput
from topolog.streams.local.stopping import PIPE_VARIABLE, Stopping, Told, end_with_supervisor, stopping_when_told


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """What a supervisor makes: the end that its child inherits, and the end that it keeps."""
    theirs, ours = os.pipe()
    yield theirs, ours
    os.close(theirs)


def test_a_signal_is_heard_and_counted() -> None:
    """It stays told, for whoever asks and however often; the former handlers come back afterwards."""
    former = signal.getsignal(signal.SIGTERM)
    with stopping_when_told({}) as stopping:
        assert not stopping.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
        assert (stopping.is_set(), stopping.times) == (True, 2)
    assert signal.getsignal(signal.SIGTERM) is former


def test_the_end_of_the_supervisor_is_heard(pipe: tuple[int, int]) -> None:
    """The kernel closes its end of the pipe, whatever it died of."""
    theirs, ours = pipe
    os.set_inheritable(theirs, True)
    with stopping_when_told({PIPE_VARIABLE: str(theirs)}) as stopping:
        assert not stopping.is_set()
        assert not os.get_inheritable(theirs), "it is not handed on to grandchildren"
        os.close(ours)
        assert stopping.wait(30)


def test_a_program_with_its_own_handler_is_signalled(pipe: tuple[int, int]) -> None:
    """A web server that knows SIGTERM alone ends with its supervisor too."""
    theirs, ours = pipe
    with stopping_when_told({}) as stopping:
        end_with_supervisor({})
        end_with_supervisor({PIPE_VARIABLE: str(theirs)})
        assert not stopping.is_set()
        os.close(ours)
        assert stopping.wait(30)


def test_a_long_call_is_interrupted() -> None:
    """Only inside the block; being told before it counts as well."""
    stopping = Stopping()
    with stopping.interrupting():
        assert not stopping.is_set()
    with pytest.raises(Told), stopping.interrupting():
        stopping.tell()
    with pytest.raises(Told), stopping.interrupting():
        pytest.fail("it was told before")
    stopping.tell()
    stopping.close()


@pytest.mark.parametrize("text", ["", "seven", "987654"])
def test_a_pipe_that_is_none_is_refused(text: str) -> None:
    """Nobody should set the variable by hand."""
    with pytest.raises(BadInput, match=PIPE_VARIABLE), stopping_when_told({PIPE_VARIABLE: text}):
        pytest.fail("there is no such descriptor")
