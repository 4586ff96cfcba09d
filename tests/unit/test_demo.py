"""`topolog demo` as it is typed: what reaches a running `up`, what is printed, how it ends where nothing can be."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from topolog.commands.tree import root
from topolog.events.errors import BadInput
from topolog.projections.cli import app as cli
from topolog.projections.cli.exit_codes import ExitCode
from topolog.settings.model import cluster_folder
from topolog.streams.local.demo import clients
from topolog.streams.local.demo.ledger import Ledger, Row
from topolog.streams.local.door import Act, Door, Question
from topolog.streams.node.folder import FolderLock

Answer = Callable[[Question], tuple[str, ...]]


class Behind:
    """Who answers behind the door of the demo's folder."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.answer: Answer = lambda question: tuple(f"node {name} is done" for name in question.nodes or ("n6",))

    def __call__(self, question: Question) -> tuple[str, ...]:
        self.asked.append(question)
        return self.answer(question)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def behind() -> Iterator[Behind]:
    """A running `up --demo`, as far as its door goes."""
    folder = cluster_folder("demo")
    folder.mkdir(parents=True)
    found, stopping = Behind(), threading.Event()

    def look() -> None:
        while not stopping.wait(0.001):
            door.look()

    with Door(folder, found) as door:
        thread = threading.Thread(target=look)
        thread.start()
        yield found
        stopping.set()
        thread.join()


def _refuse(_: Question) -> tuple[str, ...]:
    raise BadInput("There is no node 'n9'.", hint="There are n1, n2.")


def demo(*args: str) -> int:
    return cli.run(root, ["demo", *args])


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("add-node", Question(Act.ADD)),
        ("add-node n3", Question(Act.ADD, ("n3",))),
        ("kill n2 n4", Question(Act.KILL, ("n2", "n4"))),
        ("pause n5", Question(Act.PAUSE, ("n5",))),
        ("pause n5 --for 30s", Question(Act.PAUSE, ("n5",), 30_000)),
        ("resume n5", Question(Act.RESUME, ("n5",))),
        ("power-cut", Question(Act.POWER_CUT)),
        ("power-on", Question(Act.POWER_ON)),
        ("power-on n3 n1", Question(Act.POWER_ON, ("n3", "n1"))),
        ("backup n3", Question(Act.BACK_UP, ("n3",))),
        ("restore n3", Question(Act.RESTORE, ("n3",))),
        ("wipe n2 n4", Question(Act.WIPE, ("n2", "n4"))),
    ],
)
def test_a_command_is_one_question(
    command: str, question: Question, behind: Behind, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what is answered is printed, a sentence for each node."""
    assert demo(*command.split()) == ExitCode.OK
    assert behind.asked == [question]
    assert capsys.readouterr().err.splitlines() == [f"Node {name} is done." for name in question.nodes or ("n6",)]


def test_a_refusal_is_an_error_of_whoever_asked(behind: Behind, capsys: pytest.CaptureFixture[str]) -> None:
    behind.answer = _refuse
    assert demo("kill", "n9") == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "There is no node 'n9'." in said
    assert "There are n1, n2." in said


@pytest.mark.parametrize(
    "command", ["add-node", "kill n1", "pause n1", "resume n1", "power-cut", "wipe n1", "stranger", "stranger --hangs"]
)
def test_without_a_running_demo_it_says_how_to_start_one(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(*command.split()) == ExitCode.UNREACHABLE
    assert "topolog up --demo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("pause n1 --for soon", "--for 'soon'"),
        ("pause n1 --for 0s", "no time at all"),
        ("load --for 0s", "no time at all"),
        ("load --clients 0", "--clients"),
        ("kill", "Missing argument"),
        ("corrupt", "Missing argument"),
        ("corrupt shop.orders --rows 0", "--rows"),
    ],
)
def test_what_makes_no_sense_asks_nobody(
    command: str, said: str, behind: Behind, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo(*command.split()) == ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert behind.asked == []


@pytest.mark.parametrize("command", ["corrupt shop.orders", "validator shop.orders"])
def test_who_needs_the_nodes_of_the_demo_says_that_the_api_is_not_there(
    command: str, unused_port: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    """At once: neither Spark nor anything else is started for it."""
    assert demo(*command.split(), "--set", f"api.port={unused_port()}") == ExitCode.UNREACHABLE
    assert "No API answers" in capsys.readouterr().err


def test_another_cluster_is_named_as_for_up(behind: Behind) -> None:
    """Its `up` is another one."""
    assert demo("add-node", "--set", "cluster.name=other") == ExitCode.UNREACHABLE
    assert demo("add-node", "--set", "cluster.name=demo") == ExitCode.OK


def test_names_are_completed_with_those_of_the_running_demo(behind: Behind) -> None:
    """If none runs there is nothing to propose, and no complaint."""
    behind.answer = lambda _: ("n1", "n2", "n16")
    kill = root().commands["demo"].commands["kill"]
    context = kill.make_context("kill", [], resilient_parsing=True)
    (names,) = [each for each in kill.params if each.name == "names"]
    assert [item.value for item in names.shell_complete(context, "n1")] == ["n1", "n16"]
    behind.answer = _refuse
    assert names.shell_complete(context, "n1") == []


def test_a_second_load_is_told_of_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    """They are one client node; nobody chooses its folder."""
    held = FolderLock(cluster_folder("demo") / "nodes" / "load", "load")
    held.acquire()
    assert demo("load") == ExitCode.USAGE
    assert "A load of cluster 'demo' runs already." in capsys.readouterr().err
    held.let_go()


def test_a_second_stranger_is_told_of_the_first(behind: Behind, capsys: pytest.CaptureFixture[str]) -> None:
    """Two processes of one node id would put each other out."""
    held = FolderLock(cluster_folder("demo") / "nodes" / "stranger", "stranger")
    held.acquire()
    assert demo("stranger", "--hangs") == ExitCode.USAGE
    assert "A stranger of cluster 'demo' runs already." in capsys.readouterr().err
    held.let_go()


def test_a_stranger_beside_an_empty_cluster_is_refused(behind: Behind, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing beside which it would be a stranger; `up` says so."""
    behind.answer = _refuse
    assert demo("stranger") == ExitCode.USAGE
    assert "There is no node 'n9'." in capsys.readouterr().err
    assert behind.asked == [Question(Act.NAMES)]


@pytest.mark.parametrize(("lost", "unread", "code"), [(0, 0, 0), (1, 0, 8), (1, 1, 8), (0, 1, 7)])
def test_the_clients_end_with_what_they_found(
    lost: int, unread: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """8 if a write is lost, 7 if nobody knows; the report goes to where a pipe reads it."""

    def found(*_: object, **__: object) -> Ledger:
        ledger = Ledger(writes=5, unread=unread)
        if lost:
            ledger.judged(Row("a", 1, acknowledged=2, sent=2), 1, 0)
        return ledger

    monkeypatch.setattr(clients, "run_clients", found)
    assert demo("load") == code
    said = capsys.readouterr().out
    assert "writes         5 acknowledged" in said
    assert ("2 was acknowledged, 1 is there" in said) is bool(lost)
