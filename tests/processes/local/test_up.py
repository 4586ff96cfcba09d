"""One supervisor, its roles and its data folder. The roles are small fakes; what `up` does with them is real."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from topolog.events.errors import BadInput, Unreachable
from topolog.settings.model import load
from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.door import Act, Question, ask
from topolog.streams.local.process import identify
from topolog.streams.local.roles import Role, coordinator, environment_of, measured, projector
from topolog.streams.local.stopping import Stopping
from topolog.streams.local.up import Plan, make_topics, plan, run_up

PATIENCE_S = 30.0

READY, STOPPED = '{"ready": true, "stopped": null}', '{"ready": false, "stopped": "It is another log."}'

FAKE_ROLE = """
import os, sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from topolog.streams.local.stopping import stopping_when_told

name, ends, port, readiness = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

class Ready(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if "true" in readiness else 503)
        self.end_headers()
        self.wfile.write(readiness.encode())
    def log_message(self, *_):
        pass

with stopping_when_told(os.environ) as stopping:
    print(name, "runs", flush=True)
    if port:
        threading.Thread(target=HTTPServer(("127.0.0.1", port), Ready).serve_forever, daemon=True).start()
    while not stopping.wait(60):
        pass
with ends.open("a") as file:
    print(name, file=file)
"""

SUPERVISOR = """
import sys
from pathlib import Path
import msgspec
from topolog.streams.local.stopping import stopping_when_told
from topolog.streams.local.up import Plan, run_up

what = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan, dec_hook=lambda kind, text: kind(text))
with stopping_when_told({}) as stopping:
    run_up(what, None, lambda text: print(text, flush=True), stopping, topics=lambda kafka, cluster: None)
"""


APPS = ("lease-health", "rendezvous")


def no_topics(_kafka: Mapping[str, str], _cluster: str) -> None:
    """These tests have no Kafka."""


@pytest.fixture
def what(tmp_path: Path, unused_port: Callable[[], int]) -> Plan:
    """Two fake coordinators, a fake projector that answers /readyz, and two fake nodes."""
    api_port = unused_port()

    def role(name: str, port: int = 0, *, restarts: bool = True) -> Role:
        command = (sys.executable, "-c", FAKE_ROLE, name, str(tmp_path / "ends"), str(port), READY)
        return Role(name, name, command, restarts)

    return Plan(
        cluster="demo",
        kafka={},
        url=f"http://127.0.0.1:{api_port}",
        data=tmp_path / "data",
        store=tmp_path / "rows",
        environment=dict(os.environ),
        coordinator=role("c1"),
        projector=role("projector", api_port),
        stand_by=role("c2"),
        lease_health=role("lease-health"),
        rendezvous=role("rendezvous"),
        nodes=(role("n1", restarts=False), role("n2", restarts=False)),
    )


class Terminal:
    """What `up` says, and what a person does on seeing it: `on[text]` is called for the first line with that text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stopping = Stopping()
        self.on: dict[str, Callable[[str], object]] = {}

    def say(self, line: str) -> None:
        self.lines.append(line)
        for text in [text for text in self.on if text in line]:
            self.on.pop(text)(line)

    def tell(self, _line: str = "") -> None:
        self.stopping.tell()

    def has(self, text: str) -> bool:
        return any(text in line for line in self.lines)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.stopping.close()


def ends(what: Plan) -> list[str]:
    return (what.data.parent / "ends").read_text().split()


def says(what: Plan, name: str) -> str:
    return (what.data / "logs" / f"{name}.log").read_text()


def pids(what: Plan) -> list[int]:
    record = msgspec.json.decode((what.data / "children.json").read_bytes())
    return [process["pid"] for process in record["processes"]]


def pid_of(what: Plan, name: str) -> int:
    return next(pid for pid in pids(what) if f"\0{name}\0" in Path(f"/proc/{pid}/cmdline").read_text())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        os.sched_yield()


def test_one_url_then_an_end_in_order(what: Plan, terminal: Terminal) -> None:
    """All roles run, one URL is said with commands that fit; nodes stop first, the projector last, none is left."""
    started: list[int] = []

    def stop(_: str) -> None:
        wait_until(lambda: all(says(what, name) == f"{name} runs\n" for name in ("n1", "n2", "c1", "c2", *APPS)))
        started.extend(pids(what))
        terminal.tell()

    terminal.on["topolog is up"] = stop
    assert run_up(what, None, terminal.say, terminal.stopping, topics=no_topics) == 0
    (page,) = [line for line in terminal.lines if "topolog is up" in line]
    assert f"topolog is up: {what.url}/\n" in page
    assert "\nn1, n2 join in a few seconds\n" in page, "until then a list shows none, or those of the last run"
    assert f"export TOPOLOG_API__URL={what.url}\n" in page
    assert re.search(rf"kill -9 {started[0]}\b", page), "the pid of the first coordinator"
    stopped = ends(what)
    assert (set(stopped[:2]), set(stopped[2:6])) == ({"n1", "n2"}, {"c1", "c2", *APPS})
    assert stopped[6:] == ["projector"]
    assert not any(identify(pid) for pid in started)


def test_it_starts_again_on_the_same_data(what: Plan, terminal: Terminal) -> None:
    """Nothing of the first run is in the way of the second."""
    for _ in range(2):
        terminal.on["topolog is up"] = terminal.tell
        run_up(what, None, terminal.say, terminal.stopping, topics=no_topics)
        terminal.stopping.close()
        terminal.stopping = Stopping()
    assert ends(what).count("projector") == 2


def test_a_dead_coordinator_comes_back_and_a_dead_node_does_not(what: Plan, terminal: Terminal) -> None:
    """Who ends unexpectedly is named with the signal and the last line of its log, and what happens next is said."""

    def kill_once_it_runs(name: str) -> Callable[[str], None]:
        def kill(_: str) -> None:
            wait_until(lambda: says(what, name) == f"{name} runs\n")
            os.kill(pid_of(what, name), signal.SIGKILL)

        return kill

    terminal.on = {
        "topolog is up": kill_once_it_runs("c1"),
        "c1 runs again": kill_once_it_runs("n2"),
        "To start it again": terminal.tell,
    }
    run_up(what, None, terminal.say, terminal.stopping, topics=no_topics)
    ended = next(line for line in terminal.lines if "SIGKILL" in line)
    assert re.fullmatch(
        r"c1 \(pid \d+\) was killed by SIGKILL; its last line: c1 runs. It starts again in 0.5 s.", ended
    )
    assert terminal.has("n2 (pid")
    assert not terminal.has("n2 runs again")
    assert "n2" not in ends(what)


def test_a_start_that_fails_says_why_and_leaves_nothing(what: Plan, terminal: Terminal) -> None:
    """A role that ends before all is ready ends the start, with its own last line in the sentence."""
    complaint = Role(
        "projector", "projector", (sys.executable, "-c", "raise SystemExit('the disk is full.\\n Hint: empty it')")
    )
    broken = msgspec.structs.replace(what, projector=complaint)
    started: list[int] = []
    terminal.on["waiting for the API"] = lambda _: started.extend(pids(what))
    with pytest.raises(Unreachable, match=r"projector \(pid \d+\) ended with exit code 1; .*: the disk is full\."):
        run_up(broken, None, terminal.say, terminal.stopping, topics=no_topics)
    assert started
    assert not any(identify(pid) for pid in started)
    assert not (what.data / "children.json").exists()


def test_a_projector_that_reads_no_further_ends_the_start(what: Plan, terminal: Terminal) -> None:
    """Its rows are of another log: nothing that comes makes that good, so nobody waits for it."""
    stopped = msgspec.structs.replace(what.projector, command=(*what.projector.command[:-1], STOPPED))
    with pytest.raises(BadInput, match="It is another log") as caught:
        run_up(
            msgspec.structs.replace(what, projector=stopped), None, terminal.say, terminal.stopping, topics=no_topics
        )
    assert str(what.store) in caught.value.hint
    assert "projector" in ends(what)
    assert set(ends(what)) <= {"c1", "projector"}, "nothing else was begun; c1 may have been too young to say its end"


def test_being_told_to_stop_while_starting_is_an_end_in_order(what: Plan, terminal: Terminal) -> None:
    """Ctrl-C before the page is there stops what has been started."""
    terminal.on["waiting for the API"] = terminal.tell
    assert run_up(what, None, terminal.say, terminal.stopping, topics=no_topics) == 0
    assert not terminal.has("topolog is up")


def test_a_second_up_on_the_same_data_is_refused(what: Plan, terminal: Terminal) -> None:
    """One data folder, one supervisor; the sentence names the process that has it."""
    refusals: list[BadInput] = []

    def try_again(_: str) -> None:
        with pytest.raises(BadInput, match=f"runs already with the data in .* .pid {os.getpid()}") as refusal:
            run_up(what, None, terminal.say, terminal.stopping, topics=no_topics)
        refusals.append(refusal.value)
        terminal.tell()

    terminal.on["topolog is up"] = try_again
    run_up(what, None, terminal.say, terminal.stopping, topics=no_topics)
    assert refusals


def test_a_port_in_use_is_found_before_anything_starts(
    what: Plan, terminal: Terminal, unused_port: Callable[[], int]
) -> None:
    """An API of somebody else must not pass for ours."""
    with subprocess.Popen(what.projector.command, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline()
            wait_until(lambda: _refuses(what, terminal))
        finally:
            other.kill()
    assert not (what.data / "logs").exists()


def _refuses(what: Plan, terminal: Terminal) -> bool:
    with pytest.raises((BadInput, SystemExit)) as refusal:
        run_up(what, None, terminal.say, terminal.stopping, topics=_no_start)
    return "listens at" in str(refusal.value)


def _no_start(_kafka: Mapping[str, str], _cluster: str) -> None:
    raise SystemExit("the port was free a moment ago")


DEAF = """
import signal, time
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("told_twice", [False, True])
def test_who_does_not_stop_is_killed(what: Plan, terminal: Terminal, told_twice: bool) -> None:
    """After its limit, or at once when the second Ctrl-C comes; the others stop in order all the same."""
    limit_s = 600.0 if told_twice else 0.1
    deaf = Role("deaf", "deaf", (sys.executable, "-c", DEAF), restarts=False, stop_limit_s=limit_s)

    def stop(_: str) -> None:
        wait_until(lambda: says(what, "deaf") == "deaf\n")
        terminal.tell()

    terminal.on["topolog is up"] = stop
    if told_twice:
        terminal.on["stopping n1, deaf"] = terminal.tell
    run_up(
        msgspec.structs.replace(what, nodes=(what.nodes[0], deaf)),
        None,
        terminal.say,
        terminal.stopping,
        topics=no_topics,
    )
    assert terminal.has("is not waited for; it is killed" if told_twice else "does not stop; it is killed")


def test_a_paused_node_stops_in_order(what: Plan, terminal: Terminal) -> None:
    """It is continued, or it would not hear that it should stop."""

    def pause(_: str) -> None:
        wait_until(lambda: says(what, "n1") == "n1 runs\n")
        os.kill(pid_of(what, "n1"), signal.SIGSTOP)
        terminal.tell()

    terminal.on["topolog is up"] = pause
    run_up(what, None, terminal.say, terminal.stopping, topics=no_topics)
    assert "n1" in ends(what)


@pytest.fixture
def supervisor(what: Plan, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """The supervisor as a process of its own, ready."""
    saved = tmp_path / "plan.json"
    saved.write_bytes(msgspec.json.encode(what, enc_hook=os.fspath))
    command = [sys.executable, "-c", SUPERVISOR, str(saved)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert any("topolog is up" in line for line in process.stdout)
        yield process
        process.kill()


def test_children_end_with_a_killed_supervisor(what: Plan, supervisor: "subprocess.Popen[str]") -> None:
    """kill -9 of the supervisor closes its end of the pipe; each child notices and stops in order."""
    children = pids(what)
    supervisor.kill()
    wait_until(lambda: not any(identify(pid) for pid in children))
    assert set(ends(what)) >= {"c1", "c2", "projector"}


def test_the_next_up_ends_what_did_not_notice(
    what: Plan, supervisor: "subprocess.Popen[str]", terminal: Terminal
) -> None:
    """A child that was paused when its supervisor died is found by its record, and by nothing less than that."""
    paused = pid_of(what, "c2")
    os.kill(paused, signal.SIGSTOP)
    supervisor.kill()
    supervisor.wait()
    wait_until(lambda: sum(identify(pid) is not None for pid in pids(what)) == 1)
    terminal.on["topolog is up"] = terminal.tell
    run_up(what, None, terminal.say, terminal.stopping, topics=no_topics)
    assert terminal.has(f"ending process {paused}")
    assert identify(paused) is None


def test_ctrl_c_reaches_only_the_supervisor(what: Plan, supervisor: "subprocess.Popen[str]") -> None:
    """A terminal signals the whole group in front; the roles are not in it and are stopped in order."""
    assert all(os.getpgid(pid) == pid for pid in pids(what))
    os.killpg(supervisor.pid, signal.SIGINT)
    assert supervisor.wait(PATIENCE_S) == 0
    assert ends(what)[-1] == "projector"


def test_an_end_that_nobody_hears_is_an_end_in_order_too(what: Plan, tmp_path: Path) -> None:
    """`topolog up 2>&1 | tee log`: Ctrl-C reaches both, and tee is gone before all is stopped."""
    saved = tmp_path / "plan.json"
    saved.write_bytes(msgspec.json.encode(what, enc_hook=os.fspath))
    program = SUPERVISOR.replace("lambda text: print(text, flush=True)", "say")
    command = [sys.executable, "-c", f"from topolog.commands.command_line import say\n{program}", str(saved)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("topolog is up" in line for line in process.stderr)
        process.stderr.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    assert ends(what)[-1] == "projector"


def test_a_second_terminal_asks_for_what_is_done_to_nodes(what: Plan, supervisor: "subprocess.Popen[str]") -> None:
    """It is answered by the supervisor, which stops all of them afterwards; behind it nobody answers."""
    wait_until(lambda: says(what, "n1") == "n1 runs\n" and says(what, "n2") == "n2 runs\n")
    assert ask(what.data, Question(Act.NAMES)) == ("n1", "n2")
    (said,) = ask(what.data, Question(Act.PAUSE, ("n1",)))
    assert said.startswith("n1 is paused")
    killed = pid_of(what, "n2")
    ask(what.data, Question(Act.KILL, ("n2",)))
    assert identify(killed) is None
    with pytest.raises(BadInput, match="Node n2 does not run"):
        ask(what.data, Question(Act.RESUME, ("n2",)))
    os.killpg(supervisor.pid, signal.SIGINT)
    assert supervisor.wait(PATIENCE_S) == 0
    assert "n1" in ends(what), "it was continued, so that it could stop in order"
    with pytest.raises(Unreachable, match="No `topolog up` runs"):
        ask(what.data, Question(Act.NAMES))


def test_a_broker_that_was_killed_is_started_again(
    what: Plan, terminal: Terminal, tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """Kafka is a role too: said, started again on its data, and stopped last."""
    broker = LocalBroker(tmp_path / "broker", port=unused_port())
    what = msgspec.structs.replace(what, kafka={"bootstrap.servers": broker.bootstrap}, nodes=())
    made: list[str] = []

    def topics(kafka: Mapping[str, str], cluster: str) -> None:
        make_topics(kafka, cluster)
        made.append(cluster)
        if len(made) == 2:
            terminal.tell()

    terminal.on["topolog is up"] = lambda _: os.kill(broker.status().pid or 0, signal.SIGKILL)
    run_up(what, broker, terminal.say, terminal.stopping, topics=topics)
    assert terminal.has("Kafka is gone: It was killed")
    assert made == ["demo", "demo"]
    assert not broker.status().is_running


def test_children_read_the_settings_of_their_supervisor(tmp_path: Path) -> None:
    """Every setting, secrets and durations too, arrives as it was; what the parent's environment says does not."""
    flags = {"lease.fence": "2s", "lease.margin": "500ms", "lease.heartbeat": "200ms", "kafka.sasl.password": "a=b c"}
    flags |= {"cluster.name": "demo", "projector.data": str(tmp_path), "log.format": "json"}
    settings = load(flags, environ={}).settings
    inherited = {"PATH": "/bin", "TOPOLOG_LEASE__FENCE": "9s", "TOPOLOG_DEBUG": "1"}
    environment = environment_of(settings, inherited)
    assert load(environ=environment).settings == settings
    ours = load({"metrics.port": "9600"}, environ={}).settings
    theirs = load(environ=environment_of(ours, {})).settings
    assert theirs.log.format == "text", "the files below logs/ are for people"
    assert theirs.metrics.port is None, "each role gets one of its own"
    commands = [role.command[-1] for role in measured([coordinator("c1"), projector()], ours.metrics.port)]
    assert commands == ["metrics.port=9600", "metrics.port=9601"]
    assert (environment["PATH"], environment["TOPOLOG_DEBUG"]) == ("/bin", "1")


def test_the_plan_names_every_role(tmp_path: Path) -> None:
    """Two coordinators and a projector; with the demo five nodes of its cluster that load the rows that were given."""
    settings = load({"cluster.name": "demo"}, environ={}).settings
    with pytest.raises(BadInput, match="There are no rows at"):
        plan(settings, tmp_path, {}, demo=True, rows=tmp_path / "rows.csv")
    (tmp_path / "rows.csv").touch()
    what = plan(settings, tmp_path, {}, demo=True, rows=tmp_path / "rows.csv")
    assert what.coordinator.command == (sys.executable, "-m", "topolog", "run", "coordinator", "--instance", "c1")
    assert [what.stand_by.name, what.projector.name] == ["c2", "projector"]
    assert [node.name for node in what.nodes] == ["n1", "n2", "n3", "n4", "n5"]
    third = ("run", "demo-node", "n3", "--may-rot", "--set", "cluster.name=demo", "--data", f"{tmp_path}/rows.csv")
    assert what.nodes[2].command[3:] == third
    assert what.nodes[2].by_hand.endswith("topolog demo add-node n3")
    assert what.node("n3") == what.nodes[2]
    assert plan(settings, tmp_path, {}).nodes == ()


def test_a_node_that_was_added_is_back_with_the_others(tmp_path: Path) -> None:
    """It has a folder beside theirs, and holds copies; the folder of who only asks is no node's."""
    for name in ("n12", "n6", "n2", "client", "n6.new"):
        (tmp_path / "nodes" / name).mkdir(parents=True)
    settings = load({"cluster.name": "demo"}, environ={}).settings
    nodes = [node.name for node in plan(settings, tmp_path, {}, demo=True).nodes]
    assert nodes == ["n1", "n2", "n3", "n4", "n5", "n6", "n12"]
    assert plan(settings, tmp_path, {}).nodes == ()
