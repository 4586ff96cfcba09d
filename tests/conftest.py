"""What all tests share: one broker for the whole run, and a cluster name of one's own."""

import os
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import settings
from tests import kafka_container
from tests.soak.ports import free_row

from topolog.streams.local.broker import LocalBroker

# Repeatable by default; `make again` takes new examples in each run. No deadline: a busy machine is not a failure.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("exploring", deadline=None, print_blob=True)
settings.load_profile("repeatable")

pytest_plugins = ("pytester", "tests.processor_time")

BROKER_CHOICE = pytest.StashKey[str]()
ASKED: dict[str, str] = {}
"""What is asked of the tests in variables `TOPOLOG_TEST_…`; to the processes that they start it would be a setting that
does not exist."""


class Workers:
    """What the controller of several test processes hears of them; only loaded with pytest-xdist at work."""

    @pytest.hookimpl
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        choice = getattr(node, "workeroutput", {}).get("broker")
        if choice and not error:
            node.config.stash[BROKER_CHOICE] = choice


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which Kafka the tests ran on, if they needed one."""
    if choice := config.stash.get(BROKER_CHOICE, ""):
        terminalreporter.write_line(f"broker of the tests: {choice}")


def pytest_configure(config: pytest.Config) -> None:
    """A shell starts its background jobs deaf to Ctrl-C, and what they start inherits that: here all hear it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if config.getoption("dist", "no") != "no":  # the workers inherit the environment, and run the tests
        config.pluginmanager.register(Workers())
    else:
        ASKED.update({name: os.environ.pop(name) for name in [*os.environ] if name.startswith("TOPOLOG_TEST_")})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the controller, if there is one, which Kafka it was."""
    getattr(session.config, "workeroutput", {})["broker"] = session.config.stash.get(BROKER_CHOICE, "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need the broker come last: what is wrong without it is known at once."""
    items.sort(key=lambda item: "kafka" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def unused_ports() -> Callable[[int], int]:
    """The first of so many ports in a row that are free, other ones at each call."""
    taken: set[int] = set()

    def find(count: int) -> int:
        while not taken.isdisjoint(range(first := free_row(count), first + count)):
            pass
        taken.update(range(first, first + count))
        return first

    return find


@pytest.fixture(scope="session")
def unused_port(unused_ports: Callable[[int], int]) -> Callable[[], int]:
    """A port that is free together with the next one, as a broker needs them; another one at each call."""
    return lambda: unused_ports(2)


@pytest.fixture(scope="session")
def kafka(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, unused_port: Callable[[], int]
) -> Iterator[str]:
    """The address of a real Kafka that lives as long as the test run; every test brings its own cluster name."""
    choice = kafka_container.choose(ASKED)
    pytestconfig.stash[BROKER_CHOICE] = str(choice)
    if choice.image:
        with kafka_container.started(choice.image, unused_port()) as container:
            yield container.bootstrap
    else:
        with LocalBroker(tmp_path_factory.mktemp("kafka") / "data", port=unused_port()).running() as status:
            yield status.bootstrap


@pytest.fixture(scope="session")
def asked() -> Mapping[str, str]:
    """The variables TOPOLOG_TEST_…, which are no longer in the environment."""
    return ASKED


@pytest.fixture(scope="session")
def new_cluster() -> Callable[[], str]:
    """A cluster name that nobody has, at each call, so that tests can share a broker.

    Also for a cluster that a whole module shares: a worker that comes back to a module sets it up once more.
    """
    return lambda: f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def cluster(new_cluster: Callable[[], str]) -> str:
    """A cluster name that no other test has."""
    return new_cluster()
