"""What a second terminal may ask of a running `up`: through the door, of real processes, refused in words."""

import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from topolog.events.errors import BadInput, Unreachable
from topolog.streams.local.children import Children
from topolog.streams.local.door import NAME, Act, Door, Question, ask
from topolog.streams.local.node_folders import NodeFolders
from topolog.streams.local.nodes import Nodes
from topolog.streams.local.process import identify, is_paused
from topolog.streams.local.roles import Role, demo_node

PATIENCE_S = 30.0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        os.sched_yield()


def sleeper(name: str) -> Role:
    return Role(name, f"node {name}", ("/bin/sleep", "600"), restarts=False, again=("demo", "add-node", name))


class Up:
    """As much of `up` as its nodes need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.children = Children(folder, dict(os.environ), self.said.append)
        self.nodes = Nodes(
            (sleeper("n1"), sleeper("n2")), sleeper, self.children, NodeFolders(folder), self.said.append
        )
        self.nodes.start()

    def do(self, act: Act, *names: str, for_ms: int | None = None) -> tuple[str, ...]:
        return self.nodes.answer(Question(act, names, for_ms))

    def pid(self, name: str) -> int:
        pid = self.children[name].pid
        assert pid is not None
        return pid

    def close(self) -> None:
        self.children.stop(self.nodes.roles, lambda: False)
        self.children.close()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    up = Up(tmp_path)
    yield up
    up.close()


def test_a_node_is_added_under_the_next_number(up: Up) -> None:
    """n3 behind n1 and n2; it is a child of the supervisor, which stops it with the others."""
    (said,) = up.do(Act.ADD)
    assert said == f"node n3 starts (pid {up.pid('n3')})"
    assert [role.name for role in up.nodes.roles] == ["n1", "n2", "n3"]
    assert up.do(Act.NAMES) == ("n1", "n2", "n3")
    pid = up.pid("n3")
    up.children.stop(up.nodes.roles, lambda: False)
    assert identify(pid) is None


def test_killed_nodes_are_gone_when_that_is_said_and_can_be_added_again(up: Up) -> None:
    """All at once; `up` tells of each end, before it tells of the new life."""
    former = [up.pid("n1"), up.pid("n2")]
    said = up.do(Act.KILL, "n1", "n2")
    assert [identify(pid) for pid in former] == [None, None]
    assert said[0].startswith(f"node n1 is killed (pid {former[0]}); back with: ")
    assert said[0].endswith("topolog demo add-node n1")
    up.do(Act.ADD, "n1")
    assert up.pid("n1") not in former
    assert [line for line in up.said if f"node n1 (pid {former[0]}) was killed by SIGKILL" in line]


def test_a_paused_node_stands_still_until_it_is_resumed(up: Up) -> None:
    up.do(Act.PAUSE, "n1")
    assert is_paused(up.pid("n1"))
    with pytest.raises(BadInput, match="n1 is paused already"):
        up.do(Act.PAUSE, "n1")
    up.nodes.watch()
    assert is_paused(up.pid("n1"))
    up.do(Act.RESUME, "n1")
    wait_until(lambda: not is_paused(up.pid("n1")))


def test_a_pause_that_has_an_end_ends_by_itself_and_is_said(up: Up) -> None:
    """Not before; and a pause that was ended by hand does not end once more."""
    up.do(Act.PAUSE, "n1", "n2", for_ms=50)
    assert is_paused(up.pid("n1"))
    up.do(Act.RESUME, "n2")

    def is_over() -> bool:
        up.nodes.watch()
        return not is_paused(up.pid("n1"))

    wait_until(is_over)
    assert up.said == [f"node n1 goes on (pid {up.pid('n1')})"]


def test_a_paused_node_can_be_killed_and_its_pause_ends_with_it(up: Up) -> None:
    """Its successor is not continued in its place."""
    up.do(Act.PAUSE, "n1", for_ms=1)
    up.do(Act.KILL, "n1")
    up.do(Act.ADD, "n1")
    up.nodes.watch()
    assert not any("goes on" in line for line in up.said)


@pytest.mark.parametrize(
    ("act", "names", "refusal"),
    [
        (Act.KILL, ("n9",), "There is no node 'n9'"),
        (Act.PAUSE, ("n1", "n9"), "There is no node 'n9'"),
        (Act.RESUME, ("n1",), "Node n1 is not paused"),
        (Act.ADD, ("n1",), r"Node n1 runs \(pid \d+\)"),
        (Act.ADD, ("n3", "n1"), r"Node n1 runs \(pid \d+\)"),
        (Act.ADD, ("n17",), "'n17' is no node of the demo"),
        (Act.ADD, ("x",), "'x' is no node of the demo"),
        (Act.POWER_ON, ("n1",), r"Node n1 runs \(pid \d+\)"),
        (Act.POWER_ON, ("n9",), "There is no node 'n9'"),
        (Act.BACK_UP, ("n9",), "There is no node 'n9'"),
        (Act.BACK_UP, ("n1",), "Node n1 has no folder"),
        (Act.RESTORE, ("n9",), "There is no node 'n9'"),
        (Act.RESTORE, ("n1",), r"Node n1 runs \(pid \d+\), with its folder"),
        (Act.WIPE, ("n1",), r"Node n1 runs \(pid \d+\), with its folder"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is(up: Up, act: Act, names: tuple[str, ...], refusal: str) -> None:
    """Also of several, where only one of them cannot."""
    before = {name: up.pid(name) for name in ("n1", "n2")}
    with pytest.raises(BadInput, match=refusal) as refused:
        up.do(act, *names)
    assert refused.value.hint
    assert {name: up.pid(name) for name in up.do(Act.NAMES)} == before
    assert not any(is_paused(pid) for pid in before.values())


def test_a_node_that_ended_by_itself_is_not_signalled(up: Up) -> None:
    """Its pid may be somebody else's by now."""
    os.kill(up.pid("n1"), signal.SIGKILL)
    wait_until(lambda: not up.children.is_running(up.nodes.roles[0]))
    for act in (Act.KILL, Act.PAUSE, Act.RESUME):
        with pytest.raises(BadInput, match="n1 does not run") as refused:
            up.do(act, "n1")
        assert "demo add-node n1" in refused.value.hint


def test_a_power_cut_ends_all_that_run_and_they_stay_off(up: Up) -> None:
    """Whoever was off before is so still; nobody starts by himself."""
    up.do(Act.ADD)
    up.do(Act.KILL, "n2")
    former = [up.pid("n1"), up.pid("n3")]
    (said,) = up.do(Act.POWER_CUT)
    assert said.startswith("the power of nodes n1, n3 is cut, at one moment; back with: ")
    assert said.endswith("topolog demo power-on")
    assert [identify(pid) for pid in former] == [None, None]
    up.children.watch()
    assert not any(up.children.is_running(role) for role in up.nodes.roles)
    with pytest.raises(BadInput, match="No node runs") as refused:
        up.do(Act.POWER_CUT)
    assert "demo power-on" in refused.value.hint


def test_nodes_are_switched_on_in_any_order_and_then_the_rest(up: Up) -> None:
    up.do(Act.ADD)
    up.do(Act.POWER_CUT)
    assert up.do(Act.POWER_ON, "n3", "n1") == tuple(f"node {name} starts (pid {up.pid(name)})" for name in ("n3", "n1"))
    (said,) = up.do(Act.POWER_ON)
    assert said == f"node n2 starts (pid {up.pid('n2')})"
    with pytest.raises(BadInput, match="Node n1 runs"):
        up.do(Act.POWER_ON)


def test_a_power_cut_reaches_a_paused_node_too(up: Up) -> None:
    up.do(Act.PAUSE, "n1", for_ms=1)
    pid = up.pid("n1")
    up.do(Act.POWER_CUT)
    assert identify(pid) is None
    up.do(Act.POWER_ON)
    up.nodes.watch()
    assert not any("goes on" in line for line in up.said)


def test_a_folder_is_kept_while_its_node_runs_and_put_back_when_it_does_not(up: Up) -> None:
    """The backup stays: it can be put back once more."""
    file = up.folder / "nodes" / "n1" / "past"
    file.parent.mkdir(parents=True)
    file.write_text("old")
    assert up.do(Act.BACK_UP, "n1") == ("the folder of node n1 is kept as it is now: past",)
    file.write_text("new")
    (file.parent / "more").write_text("")
    up.do(Act.KILL, "n1")
    for _ in range(2):
        (said,) = up.do(Act.RESTORE, "n1")
        assert said.startswith("the folder of node n1 is that of its backup; start it with: ")
        assert [each.name for each in file.parent.iterdir()] == ["past"]
        assert file.read_text() == "old"
        file.write_text("newer")
    up.do(Act.WIPE, "n1")
    assert not file.exists()


def test_a_backup_that_was_never_made_cannot_be_put_back(up: Up) -> None:
    """And then no other folder is touched."""
    kept = up.folder / "nodes" / "n1" / "past"
    kept.parent.mkdir(parents=True)
    kept.write_text("old")
    up.do(Act.BACK_UP, "n1")
    kept.write_text("new")
    up.do(Act.POWER_CUT)
    with pytest.raises(BadInput, match="Node n2 has no backup"):
        up.do(Act.RESTORE, "n1", "n2")
    assert kept.read_text() == "new"


def test_up_without_a_demo_says_so(tmp_path: Path) -> None:
    nodes = Nodes((), sleeper, Children(tmp_path, {}, print), NodeFolders(tmp_path), print)
    with pytest.raises(BadInput, match="runs no demo"):
        nodes.answer(Question(Act.ADD))


def test_the_way_back_names_the_cluster_if_it_is_another() -> None:
    """A line that is printed can be typed."""
    assert demo_node("n3", "demo", None).by_hand.endswith("topolog demo add-node n3")
    assert demo_node("n3", "x", Path("/rows")).by_hand.endswith("topolog demo add-node n3 --set cluster.name=x")


# The door.


class Answering:
    """A door, and somebody behind it."""

    def __init__(self, folder: Path, answer: Callable[[Question], tuple[str, ...]]) -> None:
        self._door = Door(folder, answer)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._stopping.wait(0.001):
            self._door.look()

    def __enter__(self) -> None:
        self._door.__enter__()
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._door.__exit__(*exc)


def deep(folder: Path) -> Path:
    """Longer than an address of a socket may be."""
    path = folder / ("d" * 120)
    path.mkdir()
    return path


def test_a_question_gets_its_answer(tmp_path: Path) -> None:
    """However long the path of the folder; and nobody else of the machine may ask."""
    folder = deep(tmp_path)
    with Answering(folder, lambda question: (question.act.value, *question.nodes, str(question.for_ms))):
        assert ask(folder, Question(Act.PAUSE, ("n1", "n2"), 30_000)) == ("pause", "n1", "n2", "30000")
        assert stat.S_IMODE((folder / NAME).stat().st_mode) == 0o600
    assert not (folder / NAME).exists()


def test_a_refusal_arrives_with_its_hint(tmp_path: Path) -> None:
    def refuse(_: Question) -> tuple[str, ...]:
        raise BadInput("There is no such node.", hint="There are others.")

    with Answering(tmp_path, refuse), pytest.raises(BadInput, match="There is no such node") as refused:
        ask(tmp_path, Question(Act.KILL, ("n9",)))
    assert refused.value.hint == "There are others."


def test_nobody_behind_the_door_is_said_with_what_to_do(tmp_path: Path) -> None:
    """No folder, no socket, and the socket of a supervisor that was killed; the next one takes its place."""
    with pytest.raises(Unreachable, match="No `topolog up` runs") as refused:
        ask(tmp_path / "nothing", Question(Act.ADD))
    assert "topolog up --demo" in refused.value.hint
    with pytest.raises(Unreachable):
        ask(tmp_path, Question(Act.ADD))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(tmp_path / NAME))
    with pytest.raises(Unreachable):
        ask(tmp_path, Question(Act.ADD))
    with Answering(tmp_path, lambda _: ("here",)):
        assert ask(tmp_path, Question(Act.ADD)) == ("here",)


def test_a_folder_that_can_hold_no_socket_is_refused() -> None:
    with pytest.raises(BadInput, match="/proc can hold no socket") as refused, Door(Path("/proc"), lambda _: ()):
        pytest.fail("nobody can make a file there")
    assert "another data folder" in refused.value.hint


def test_whoever_talks_nonsense_or_goes_away_holds_nobody_up(tmp_path: Path) -> None:
    with Answering(tmp_path, lambda _: ("done",)):
        for said in (b"", b"{", b'{"act": "burn"}', b"x" * 100_000):
            with socket.socket(socket.AF_UNIX) as visitor:
                visitor.connect(os.fspath(tmp_path / NAME))
                visitor.sendall(said)
        assert ask(tmp_path, Question(Act.ADD)) == ("done",)
