"""What `pip install topolog` gives, with each of its extras: in environments outside of the repository."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.install.conftest import Distributions, Installed
from tests.install.environments import ROOT, Environment

from topolog.projections.cli.exit_codes import ExitCode

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
NOBODY = "http://127.0.0.1:9"  # the port of `discard`, which nothing listens at

LOADED = """
import json, sys
before = set(sys.modules)
import topolog
print(json.dumps(sorted(set(sys.modules) - before)))
"""

NAMES = """
import inspect, json, topolog
from topolog import *
inspect.getmembers(topolog)
found = {}
for name in {*topolog.__all__, *topolog._OBJECTS}:
    try:
        getattr(topolog, name)
    except topolog.errors.MissingExtra as error:
        found[name] = str(error)
print(json.dumps(found))
"""

SERVICE = """
from topolog import Client, Group, Node, ObjectType, errors
from topolog.testing import LocalCluster


def propose(node: Node) -> int:
    return node.propose(ObjectType("Customer", {"id": "long"})).version


with LocalCluster() as cluster, cluster.node("n1") as node:
    print(propose(node), node.create_group(Group("customers", partitions=8)).number)
try:
    with Client("http://127.0.0.1:9", "demo") as client:
        client.get(("nodes",))
except errors.Unreachable as error:
    print(error.message)
"""


def assert_is_a_sentence(done: "subprocess.CompletedProcess[str]", code: ExitCode) -> None:
    """What somebody reads who did something wrong: what it is, and nothing of how the code came there."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert 0 < len(done.stderr.splitlines()) <= 3


# The base: the node client and the client of the query API.


@pytest.fixture(scope="module")
def base(installed: Installed) -> Environment:
    return installed()


def test_the_import_loads_nothing(base: Environment) -> None:
    """A name loads its module when it is used first, so the import itself costs next to nothing."""
    assert json.loads(base.run("python", "-c", LOADED).stdout) == ["topolog"]


def test_every_public_name_is_there_or_says_which_extra_it_is_of(base: Environment) -> None:
    found = json.loads(base.run("python", "-c", NAMES).stdout)
    assert found == {
        "NodeMetrics": "topolog.NodeMetrics needs prometheus_client, which is not installed. "
        "Install it with: pip install 'topolog[metrics]'"
    }


def test_a_service_runs_with_the_base_alone(base: Environment, tmp_path: Path) -> None:
    """Node, coordinator and log in memory, and the client that asks an API."""
    (tmp_path / "service.py").write_text(SERVICE)
    done = base.run("python", "service.py", cwd=tmp_path)
    assert done.stdout.splitlines() == ["1 1", f"No API answers at {NOBODY}."], done.stderr


def test_type_checkers_see_the_types_of_the_public_names(base: Environment, tmp_path: Path) -> None:
    """py.typed is there, and what a name is can be read without running `__getattr__`."""
    (tmp_path / "service.py").write_text(f"{SERVICE}\nreveal_type(node)\nreveal_type(Group)\nfrom topolog import Nod\n")
    command = ["-m", "mypy", "--strict", "--python-executable", str(base.bin / "python"), "service.py"]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    said = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    assert said[0] == 'note: Revealed type is "topolog.streams.node.client.Node"'
    assert said[1].startswith('note: Revealed type is "def (name: str, partitions: int =')
    assert said[2].startswith('error: Module "topolog" has no attribute "Nod"')
    assert "Found 1 error" in done.stdout


def test_the_command_names_the_extra_that_it_needs(base: Environment) -> None:
    done = base.run("topolog", "get", "nodes")
    assert_is_a_sentence(done, ExitCode.MISSING_EXTRA)
    assert "pip install 'topolog[cli]'" in done.stderr


# The command line.


@pytest.fixture(scope="module")
def cli(installed: Installed) -> Environment:
    return installed("cli")


@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("get", "--help"), ("config", "show")])
def test_the_command_line_starts(cli: Environment, arguments: tuple[str, ...]) -> None:
    done = cli.run("topolog", *arguments)
    assert (done.returncode, done.stderr.strip()) == (ExitCode.OK, "")
    assert done.stdout


def test_a_question_that_nobody_answers_is_a_sentence(cli: Environment) -> None:
    done = cli.run("topolog", "get", "nodes", "--api", NOBODY)
    assert_is_a_sentence(done, ExitCode.UNREACHABLE)
    assert done.stderr.startswith(f"Error: No API answers at {NOBODY}.")


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("server", "run projector"),
        ("server", "verify projections"),
        ("health", "run lease-health"),
        ("health", "run rendezvous"),
        ("local", "up --set api.port={} --set broker.port={}"),
        ("local", "broker start --set broker.port={}"),
        ("spark", "spark report --from archive"),
        ("spark", "spark archive --to archive"),
    ],
)
def test_a_role_whose_extra_is_missing_names_it(
    cli: Environment, extra: str, command: str, unused_port: Callable[[], int]
) -> None:
    done = cli.run("topolog", *command.format(unused_port(), unused_port()).split())
    assert_is_a_sentence(done, ExitCode.MISSING_EXTRA)
    assert f"pip install 'topolog[{extra}]'" in done.stderr


# The other extras.


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"cli"}))
def test_every_extra_can_be_resolved(base: Environment, built: Distributions, extra: str) -> None:
    base.resolve(f"{built.wheel}[{extra}]")


def test_a_service_keeps_its_own_versions_of_what_it_shares_with_topolog(
    base: Environment, built: Distributions
) -> None:
    """A library that pins what it needs cannot be embedded by anybody who needs another version."""
    base.resolve(str(built.wheel), "fastavro==1.12.1", "confluent-kafka<2.14")
