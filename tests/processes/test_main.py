"""The program as it is started: what it needs settings for, what it prints of a cluster, how its roles end early."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from topolog.commands.tree import root
from topolog.events.errors import BadInput
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import ACLS, Topic
from topolog.projections.cli import app as cli
from topolog.projections.cli.exit_codes import ExitCode
from topolog.streams.simulation import seeds as seeds_of
from topolog.streams.simulation.seeds import outcome_of

NOWHERE = "127.0.0.1:1"
LIMIT_S = 10.0


def program(*args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`topolog ARGS` in a process of its own."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TOPOLOG_")}
    return subprocess.run(
        [sys.executable, "-m", "topolog", *args],
        env={**environment, "NO_COLOR": "1", **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def program_in_time(*args: str) -> subprocess.CompletedProcess[str]:
    """`topolog run ROLE ...`, which ends within LIMIT_S and what a busy machine takes to load the role."""
    start = time.monotonic()
    assert program(*args[:2], "--set", "nobody.reads=this").returncode == ExitCode.USAGE
    half_way = time.monotonic()
    ended = program(*args)
    assert time.monotonic() - half_way < LIMIT_S + 2 * (half_way - start)
    return ended


@pytest.mark.parametrize("command", ["--version", "--help", "help exit-codes", "get --help"])
def test_help_needs_no_settings(command: str) -> None:
    assert program(*command.split(), TOPOLOG_FOO="1").returncode == 0


def test_a_command_that_needs_settings_says_what_is_wrong_with_them(tmp_path: Path) -> None:
    """Also one that only wants to know where the API is, or is told: the token to show may be a setting."""
    stray = program("get", "nodes", TOPOLOG_FOO="1")
    assert stray.returncode == 2
    assert "TOPOLOG_FOO is not a setting" in stray.stderr
    (tmp_path / "bad.toml").write_text("[lease")
    assert program("config", "show", "--config", str(tmp_path / "bad.toml")).returncode == 2
    named = ("get", "nodes", "--api", f"http://{NOWHERE}", "--cluster", "demo")
    assert (program(*named, TOPOLOG_FOO="1").returncode, program(*named).returncode) == (2, 4)


def test_the_plan_of_a_cluster_has_its_topics_and_the_access_of_each_role() -> None:
    shown = program("cluster", "init", "--plan", "--set", "cluster.name=east").stdout
    rows = [line.split() for line in shown.splitlines()]
    assert ["node", "Topic", "literal", "topolog.east.decisions", "Read"] in rows
    assert ["operator", "Topic", "prefixed", "topolog.east.", "Create,", "Describe"] in rows
    assert sum(f"topolog.east.{topic.short_name}" in shown for topic in Topic) == len(Topic)


def test_only_the_coordinator_may_write_decisions() -> None:
    """Whoever else could, could decide."""
    everywhere = [each for each in ACLS if "Write" in each.operations and not each.begins]
    writers = {each.role for each in everywhere if each.topic in (None, Topic.DECISIONS)}
    assert writers == {"coordinator"}
    assert not any("decisions".startswith(each.begins) for each in ACLS if each.begins)


@pytest.mark.parametrize("role", ["coordinator", "projector"])
def test_a_role_without_a_broker_says_so_in_time(role: str) -> None:
    ended = program_in_time("run", role, "--set", f"kafka.bootstrap.servers={NOWHERE}")
    assert ended.returncode == 4
    assert NOWHERE in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_coordinator_needs_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = ["--set", f"kafka.bootstrap.servers={NOWHERE}"]
    assert cli.run(root, ["run", "coordinator", "--instance", " ", *nowhere]) == ExitCode.USAGE
    assert "--instance is empty" in capsys.readouterr().err


@pytest.mark.parametrize("make", [KafkaAdmin, lambda s: KafkaReader(s, "east"), lambda s: KafkaWriter(s, "east")])
def test_settings_without_a_broker_say_so_at_once(make: type[KafkaAdmin]) -> None:
    with pytest.raises(BadInput, match=r"bootstrap\.servers is missing"):
        make({})


@pytest.mark.parametrize("role", ["coordinator", "projector"])
def test_a_role_of_a_cluster_without_topics_says_so_in_time(role: str, kafka: str, cluster: str) -> None:
    sets = ("--set", f"kafka.bootstrap.servers={kafka}", "--set", f"cluster.name={cluster}")
    ended = program_in_time("run", role, *sets)
    assert ended.returncode == 1
    assert kafka in ended.stderr
    assert "topolog cluster init" in ended.stderr


@pytest.mark.parametrize("make", [KafkaAdmin, lambda s: KafkaReader(s, "east"), lambda s: KafkaWriter(s, "east")])
@pytest.mark.parametrize(("key", "value"), [("foo.bar", "1"), ("socket.timeout.ms", "soon"), ("stats_cb", "x")])
def test_what_librdkafka_does_not_take_is_named_in_its_own_words(make: type[KafkaAdmin], key: str, value: str) -> None:
    with pytest.raises(BadInput, match=key) as caught:
        make({"bootstrap.servers": NOWHERE, key: value})
    assert "librdkafka" in caught.value.hint


def test_an_outage_is_said_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    """librdkafka says it again with every attempt."""
    reader = KafkaReader({"bootstrap.servers": NOWHERE}, "east")
    reader.assign({(Topic.DECISIONS, 0): None})
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        assert reader.poll(0.1) == []
    reader.close()
    assert caplog.messages == [f"No Kafka broker answers at {NOWHERE}; trying again until one does."]


SEEDS_OF_SIGNALS = 200
SEEDS = ("simulate", "--seeds", "3", "--span", "1s")


def test_the_simulation_runs_over_seeds() -> None:
    ended = program(*SEEDS)
    assert (ended.returncode, ended.stdout) == (0, "No rule is broken.\n")
    assert "3 seeds from 0, 1s with faults each" in ended.stderr


def test_a_broken_rule_is_told_in_short_with_the_commands_that_show_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one ends the run: exit code 8. What it prints for the part that is enough breaks the same rule."""
    monkeypatch.setattr(seeds_of, "outcomes", lambda seeds, span_ms: (outcome_of(seed, span_ms) for seed in seeds))
    monkeypatch.setattr("topolog.streams.rules.metadata.settle", lambda *_: [])
    assert cli.run(root, ["simulate", "--seeds", "3", "--first", "5", "--span", "4s"]) == ExitCode.FOUND
    *story, whole, part = capsys.readouterr().out.splitlines()
    assert "CONVERGES" in story[0]
    assert whole.endswith("topolog simulate --seeds 1 --first 5 --span 4s")
    _, _, command = part.partition(": topolog ")
    assert cli.run(root, shlex.split(command)) == ExitCode.FOUND
    assert capsys.readouterr().out.splitlines() == story[:-1]
    monkeypatch.undo()
    assert cli.run(root, shlex.split(command)) == ExitCode.OK


def test_a_simulation_that_keeps_going_lists_every_seed_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One open seed does not hide a night. Each is a line at once; the exit code says that there are some."""
    stories = {5: "seed 5, after 9 ms: ECHOES, «...»\nits history", 7: "seed 7, after 1 ms: READS, «...»\nits history"}
    seen: list[int] = []

    def outcomes(seeds: range, span_ms: int) -> Iterator[seeds_of.Outcome]:
        for seed in seeds:
            seen.append(seed)
            yield seeds_of.Outcome(seed, stories.get(seed, ""))

    monkeypatch.setattr(seeds_of, "outcomes", outcomes)
    ended = cli.run(root, ["simulate", "--seeds", "4", "--first", "5", "--span", "4s", "--keep-going"])
    said = capsys.readouterr()
    assert (ended, seen) == (ExitCode.FOUND, [5, 6, 7, 8])
    assert said.out.splitlines() == [
        "seed 5, after 9 ms: ECHOES, «...»",
        "seed 7, after 1 ms: READS, «...»",
        "2 seeds broke a rule: 5, 7.",
    ]
    assert "topolog simulate --seeds 1 --first 5 --span 4s\n" in said.err


def test_a_simulation_that_keeps_going_and_finds_nothing_ends_well() -> None:
    ended = program(*SEEDS, "--keep-going")
    assert (ended.returncode, ended.stdout) == (0, "No rule is broken.\n")


def test_a_simulation_that_keeps_going_says_what_failed_until_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def outcomes(seeds: range, span_ms: int) -> Iterator[seeds_of.Outcome]:
        yield seeds_of.Outcome(seeds[0], "seed 0, after 9 ms: ECHOES")
        raise KeyboardInterrupt

    monkeypatch.setattr(seeds_of, "outcomes", outcomes)
    assert cli.run(root, ["simulate", "--seeds", "9", "--keep-going"]) == ExitCode.INTERRUPTED
    assert "Interrupted: 1 of 9 seeds done. 1 seed broke a rule: 0.\n" in capsys.readouterr().err


def test_stalls_begin_with_the_world_that_is_named() -> None:
    """So that the worlds of one night are not those of the night before, and a world is seen again by itself."""
    first, other = (program("simulate", "--stalls", "1", "--first", world) for world in ("0", "7"))
    assert (first.returncode, other.returncode) == (0, 0)
    assert "stalls in 1 world from 7 and" in other.stderr
    assert first.stderr.splitlines()[1:] != other.stderr.splitlines()[1:]


def test_the_simulation_counts_false_removals() -> None:
    """In worlds of a hundred stalls each."""
    ended = program("simulate", "--stalls", "1")
    assert (ended.returncode, ended.stdout) == (0, "False removals: 0.\n")
    assert "stalls in 1 world from 0 and" in ended.stderr
    assert "1 of 1 world\n" in ended.stderr


def test_a_seed_that_fails_only_once_is_told_as_it_was(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its story is all there is."""
    told = [seeds_of.Outcome(6, "seed 6, after 9 ms: the whole story")]
    monkeypatch.setattr(seeds_of, "outcomes", lambda *_: (each for each in told))
    assert cli.run(root, ["simulate", "--seeds", "1", "--first", "6", "--span", "100ms"]) == ExitCode.FOUND
    assert capsys.readouterr().out.startswith("seed 6, after 9 ms: the whole story\n")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--span", "fast"], "a duration needs a number and a unit"),
        (["--span", "0s"], "no time at all"),
        (["--span", "10000h"], "more than 1h"),
        (["--replay", "{}"], "no case of the simulation"),
        (["--replay", "[]"], "no case of the simulation"),
        (["--replay", '{"seed":-1,"span_ms":9,"acts":[]}'], "are 0 or more"),
        (["--replay", '{"seed":1,"span_ms":-4,"acts":[]}'], "are 0 or more"),
        (["--replay", "/nowhere"], "'/nowhere' cannot be read: No such file"),
        (["--replay", ""], "'' cannot be read"),
        (["--stalls", "0"], "--stalls"),
        (["--stalls", "1", "--seeds", "1"], "takes no --seeds"),
        (["--replay", "{}", "--span", "1s", "--stalls", "1"], "takes no --span, --stalls"),
        (["--keep-going", "--shrink", "1s"], "--keep-going takes no --shrink"),
        (["--stalls", "1", "--keep-going"], "--stalls takes no --keep-going"),
    ],
)
def test_a_simulation_that_cannot_be_says_why(wrong: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(root, ["simulate", *wrong]) == ExitCode.USAGE
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.fixture
def starting() -> Iterator[subprocess.Popen[str]]:
    """A simulation that would take long, in a process group of its own as on a terminal."""
    process = subprocess.Popen(
        [sys.executable, "-m", "topolog", "simulate", "--seeds", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("after_s", [0.3, 0.9, 1.5, 3.0])
def test_ctrl_c_ends_the_program_without_a_trace_however_far_it_is(
    after_s: float, starting: subprocess.Popen[str]
) -> None:
    """130, or the signal itself where Python has not even begun to load what it needs."""
    time.sleep(after_s)
    os.killpg(starting.pid, signal.SIGINT)
    said, _ = starting.communicate(timeout=20)
    assert "Traceback" not in said
    assert starting.returncode in (130, -signal.SIGINT)


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    """A simulation whose processes are at work: a tenth is done, it has said, and the rest takes long."""
    process = subprocess.Popen(
        [sys.executable, "-m", "topolog", "simulate", "--seeds", str(SEEDS_OF_SIGNALS), "--span", "1s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"{SEEDS_OF_SIGNALS // 10} of {SEEDS_OF_SIGNALS} seeds\n"
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("tell", [os.kill, os.killpg])
def test_a_signal_ends_a_simulation_in_order_and_it_says_how_far_it_is(
    tell: Callable[[int, int], None], number: int, running: subprocess.Popen[str]
) -> None:
    """Whether one process hears it or the whole group; nothing else is said, and what holds the output has ended."""
    tell(running.pid, number)
    said, _ = running.communicate(timeout=20)
    of = f"of {SEEDS_OF_SIGNALS} seeds"
    done = re.fullmatch(rf"(?:\d+ {of}\n)*\nInterrupted: (\d+) {of} done, none of which .*\n", said)
    assert done, said
    assert int(done[1]) >= SEEDS_OF_SIGNALS // 10 - 1
    assert running.returncode == ExitCode.INTERRUPTED


def test_the_processes_of_a_simulation_that_was_killed_end_quietly(running: subprocess.Popen[str]) -> None:
    running.kill()
    said, _ = running.communicate(timeout=20)
    assert "Traceback" not in said
