"""What processes say: text or JSON, what each line is looked for by, what is masked, levels that change at run time."""

import io
import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from topolog.commands.logs import log_as, set_up
from topolog.settings.model import Log, load

LOGGER = logging.getLogger("topolog.test")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """The process's logging as it was: other tests have their own."""
    root = logging.getLogger()
    handlers, level, hook = list(root.handlers), root.level, threading.excepthook
    signals = {each: signal.getsignal(each) for each in (signal.SIGUSR1, signal.SIGUSR2)}
    library = logging.getLogger("topolog.kafka.librdkafka").level
    yield
    root.handlers[:], threading.excepthook = handlers, hook
    root.setLevel(level)
    logging.getLogger("topolog.kafka.librdkafka").setLevel(library)
    logging.captureWarnings(False)
    for number, handler in signals.items():
        signal.signal(number, handler)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def begun(stream: io.StringIO | None = None, **said: Any) -> io.StringIO:
    stream = stream or io.StringIO()
    log = said.pop("log", Log())
    set_up(log, role="coordinator", cluster="demo", stream=stream, **said)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_file_gets_json_lines_with_cluster_role_and_what_the_process_is_now() -> None:
    """OP28: fields by which a line is found; those of one record go before those of the process."""
    term = {"term": 1, "position": 7}
    stream = begun(facts=lambda: term)
    LOGGER.info("%s leads", "c1")
    term["term"] = 2
    LOGGER.warning("refused", extra={"request": "cli-1/3", "position": 9, "secretive": "x"})
    first, second = lines(stream)
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": "topolog.test",
        "message": "c1 leads",
        "cluster": "demo",
        "role": "coordinator",
        "term": 1,
        "position": 7,
    }
    assert (second["term"], second["position"], second["request"]) == (2, 9, "cli-1/3")
    assert "secretive" not in second


def test_a_terminal_gets_text() -> None:
    stream = Terminal()
    begun(stream)
    LOGGER.warning("%s is deposed", "c1", extra={"request": "cli-1/3"})
    assert stream.getvalue().partition(" ")[2] == "WARNING topolog.test c1 is deposed request=cli-1/3\n"


@pytest.mark.parametrize(("form", "stream"), [("json", Terminal()), ("text", io.StringIO())])
def test_the_settings_can_say_which(form: str, stream: io.StringIO) -> None:
    begun(stream, log=Log.model_validate({"format": form}))
    LOGGER.warning("here")
    assert stream.getvalue().startswith("{") == (form == "json")


def test_an_error_is_one_line_with_its_trace() -> None:
    """JSON lines stay lines whatever is in them, also where a thread dies."""
    stream = begun()
    try:
        raise ValueError("two\nlines")
    except ValueError:
        LOGGER.exception("It failed.")
    thread = threading.Thread(target=[].pop, name="beats")
    thread.start()
    thread.join()
    first, second = lines(stream)
    assert "ValueError: two\nlines" in first["exception"]
    assert second["message"] == "The thread beats has failed."
    assert "IndexError" in second["exception"]


@pytest.mark.parametrize(
    "said",
    [
        "sasl.password=hunter22 was refused",
        "Authorization: Bearer hunter22",
        '{"password": "hunter22"}',
        "http://ann:hunter22@registry:8080/",
        "GET /v1/clusters?token=hunter22&limit=5",
        "client_secret: 'hunter22'",
        "librdkafka says hunter22 is wrong",
    ],
)
def test_secrets_are_masked_whoever_says_them(said: str) -> None:
    """OP28: never in logs; nor in what an error repeats."""
    stream = begun(secrets=["hunter22"] if "librdkafka" in said else [])
    LOGGER.warning("%s", said)
    LOGGER.error("failed", exc_info=ValueError(said))
    assert "hunter22" not in stream.getvalue()
    assert "******" in stream.getvalue()


@pytest.mark.parametrize(
    "said",
    [
        "The API answers at http://127.0.0.1:8642",
        "No Kafka broker answers at broker-1:9092,broker-2:9092; trying again until one does.",
        "the primary acts under token 17: n1@127.0.0.1:7001",
        "the bearer of this lease",
    ],
)
def test_what_is_no_secret_can_be_read(said: str) -> None:
    stream = begun()
    LOGGER.info("%s", said)
    assert lines(stream)[0]["message"] == said


def test_secrets_of_the_settings_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    settings = load({"kafka.sasl.password": "correct horse", "log.level": "warning"}, environ={}).settings
    log_as("projector", settings)
    LOGGER.warning("SASL: correct horse")
    LOGGER.info("not said")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "SASL: ******"


def test_the_level_changes_while_the_process_runs() -> None:
    """SIGUSR1: from debug on, librdkafka too; SIGUSR2: as the settings say."""
    stream = begun(log=Log(level="warning"))
    library = logging.getLogger("topolog.kafka.librdkafka")
    LOGGER.info("one")
    library.error("broker away")
    os.kill(os.getpid(), signal.SIGUSR1)
    LOGGER.debug("two")
    library.error("three")
    os.kill(os.getpid(), signal.SIGUSR2)
    LOGGER.info("four")
    library.error("five")
    assert [line["message"] for line in lines(stream)] == ["two", "three"]


def test_what_libraries_and_warnings_say_goes_the_same_way() -> None:
    """uvicorn's errors come by its own logger, warnings by Python's."""
    stream = begun()
    logging.getLogger("uvicorn.error").error("[Errno 98] address already in use")
    logging.getLogger("py.warnings").warning("deprecated")
    assert [line["logger"] for line in lines(stream)] == ["uvicorn.error", "py.warnings"]
