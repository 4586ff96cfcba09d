"""What is read by the table of commands is what Typer reads; whatever is not plain is left to Typer."""

from collections.abc import Iterator, Mapping
from inspect import Parameter, signature
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topolog.commands.tree import TREE, root
from topolog.projections.cli import app, command_table, direct
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.lazy import CommandGroup, CommandPlace
from topolog.projections.cli.loading import loaded
from topolog.projections.cli.spreading import spread

NAMES = ("orders", "n1", "node/n1", "7", "-", "", "a b")
VALUES = ("3", "10s", "json", "READ_ONLY_SAFE", "decided", "-1", "x=1", "--yes", "", "none", "99999", "dies", "9" * 30)


def commands(group: CommandGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, entry in group.commands.items():
        if isinstance(entry, CommandPlace):
            yield (*path, name)
        else:
            yield from commands(entry, (*path, name))


def place(path: tuple[str, ...]) -> CommandPlace:
    at: Any = TREE
    for name in path:
        at = at.commands[name]
    assert isinstance(at, CommandPlace)
    return at


def by_typer(path: tuple[str, ...], words: list[str]) -> Mapping[str, Any]:
    """What Typer gives to the command's function; raises what it raises."""
    command = root()
    for name in path:
        command = command.commands[name]
    context = command.make_context(path[-1], list(words))
    defaults = {param.name: param.default for param in command.params}
    return {
        name: defaults[name] if isinstance(value, list | tuple) and not value else value
        for name, value in context.params.items()
    }


PATHS = [path for path in commands(TREE) if command_table.leaf(path)[0].get("target")]  # type: ignore[union-attr]


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_is_read_directly_is_what_typer_reads(data: st.DataObject) -> None:
    """Also that it is read at all: Typer takes whatever is taken here."""
    path = data.draw(st.sampled_from(PATHS))
    entry, _ = command_table.leaf(path)
    assert entry is not None
    options = [name for param in entry["params"] for name in param.get("opts", ())]
    word = (
        st.one_of(st.sampled_from((*NAMES, *VALUES)), st.sampled_from(options)) if options else st.sampled_from(NAMES)
    )
    words = data.draw(st.lists(word, max_size=5))
    given_values = direct.read(entry, words, {})
    if given_values is None:
        return
    command = spread(loaded(place(path).target))
    assert direct.converted(command, given_values) == by_typer(path, words)


@pytest.mark.parametrize(
    "words",
    [
        "get nodes --limit 3 --all -o json --filter a=b --filter c=d --no-color --api=http://h",
        "explain node n3 --if dies",
        "create group orders --partitions 7 --persistent --loss-policy READ_ONLY_SAFE --node-filter a=b",
        "baseline set n1 n2 n3 --yes",
        "repair schedule drop nightly",
        "verify orders",
        "context add prod --api http://h --not-protected",
    ],
)
def test_what_people_type_is_read_directly(words: str) -> None:
    assert direct.prepared(words.split(), {}) is not None


@pytest.mark.parametrize(
    "words",
    [
        "get",
        "get nodes n1 n2",
        "get nodes --limits 3",
        "get nodes --limit 0",
        "get nodes --limit x",
        "get nodes --limit",
        "get nodes -o xml",
        "get nodes -ojson",
        "get nodes -wo json",
        "get nodes --watch=yes",
        "get -- nodes",
        "gte nodes",
        "cluster",
        "verify",
        "verify --yes orders",
        "",
    ],
)
def test_what_is_not_plain_is_left_to_typer(words: str) -> None:
    """It knows more ways to write an option, and says what is wrong with one."""
    assert direct.prepared(words.split(), {}) is None


def test_a_variable_stands_for_an_option_that_is_not_given() -> None:
    entry, rest = command_table.leaf(["get", "nodes"])
    assert entry is not None
    variables = {"TOPOLOG_API__URL": "http://h", "TOPOLOG_CLUSTER__NAME": ""}
    assert direct.read(entry, rest, variables) == {"resource": "nodes", "api": "http://h"}
    assert direct.read(entry, [*rest, "--api", "http://flag"], variables) == {"resource": "nodes", "api": "http://flag"}


@pytest.mark.parametrize("path", list(commands(TREE)), ids=" ".join)
def test_every_command_has_a_function_and_an_entry(path: tuple[str, ...]) -> None:
    """The tree names it, so that no name leads nowhere."""
    function = spread(loaded(place(path).target))
    assert all(each.kind is not Parameter.VAR_KEYWORD for each in signature(function).parameters.values())
    assert command_table.leaf(path)[0] is not None


ROLES = {
    "coordinator": "",
    "projector": "",
    "lease-health": "",
    "rendezvous": "",
    "validator": "--replica orders@r1=parquet:/data",
    "demo-node": "n1",
}
"""Each role with the arguments that it must have."""


def test_every_role_is_started() -> None:
    run = TREE.commands["run"]
    assert isinstance(run, CommandGroup)
    assert ROLES.keys() == run.commands.keys()


@pytest.mark.parametrize("is_direct", [True, False], ids=["directly", "by Typer"])
@pytest.mark.parametrize(("role", "arguments"), ROLES.items())
def test_a_role_arms_its_failpoints_before_anything_else(
    role: str, arguments: str, is_direct: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However its words are read: --config is a path, which Typer reads, and one option of demo-node is hidden."""
    words = ["run", role, *([] if is_direct else ["--config", "x"]), *arguments.split()]
    assert (direct.prepared(words, {}) is not None) == (is_direct and role != "demo-node")
    monkeypatch.setenv("TOPOLOG_FAILPOINT", "nonsense")
    assert app.run(root, words) == ExitCode.USAGE
    assert "'nonsense' is not of the form name[:count]=action" in capsys.readouterr().err
