"""The Tab key: commands, options and fixed values from the table, names from the API, the rest from Typer."""

import pytest
from tests.unit.projections.cli.conftest import FakeApi

from topolog.commands.tree import root
from topolog.projections.cli import tab


@pytest.mark.parametrize(
    ("words", "incomplete", "proposed"),
    [
        ("", "ver", ["verify", "version"]),
        ("baseline", "dr", ["drain"]),
        ("repair schedule", "", ["set", "drop", "list"]),
        ("get nodes", "--ou", ["--output"]),
        ("get nodes", "--he", ["--help"]),
        ("get nodes -o", "js", ["json", "jsonl"]),
        ("get nodes", "--output=y", ["yaml"]),
        ("get nodes --limit", "", []),
        ("get nodes", "--ver", []),
        ("get sessions", "--ver", ["--verdict"]),
        ("get grants", "--pri", ["--principal"]),
        ("get partitions", "--pri", ["--primary"]),
        ("watch nodes", "--pri", []),
        ("get", "node", ["nodes"]),
        ("help", "x", []),
        ("help", "ve", ["verify", "version"]),
        ("help", "ex", ["explain", "exit-codes"]),
        ("help repair", "sc", ["schedule"]),
        ("help get", "", []),
        ("get nodes n1", "", []),
    ],
)
def test_what_stands_in_the_table(words: str, incomplete: str, proposed: list[str]) -> None:
    found = tab.proposals(words.split(), incomplete)
    assert found is not None
    assert [each.word for each in found] == proposed


def test_names_are_those_of_the_api(api: FakeApi) -> None:
    target = ["--api", api.url, "--cluster", "demo"]
    assert [each.word for each in tab.proposals(["get", "nodes", *target], "n") or ()] == ["n1", "n2"]
    assert [each.word for each in tab.proposals(["get", *target], "type/Cu") or ()] == ["type/Customer"]


def test_what_only_a_command_knows_is_left_to_typer() -> None:
    assert tab.proposals(["wait", "node/n3", "--for"], "") is None


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    "typed", ["topolog baseline ", "topolog get nodes -o ", "topolog get nodes --al", "topolog ve"]
)
def test_shells_are_told_the_same_words_as_by_typer(
    shell: str, typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the same form; what is said of a command may differ."""
    words = typed.split(" ")
    variables = {
        "_TOPOLOG_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": typed,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        root()(prog_name="topolog", complete_var="_TOPOLOG_COMPLETE")
    by_typer = capsys.readouterr().out.rstrip("\n")
    shown = tab.answer(variables["_TOPOLOG_COMPLETE"], variables)
    assert shown is not None
    assert words_of(shown, shell) == words_of(by_typer, shell)


def words_of(shown: str, shell: str) -> set[str]:
    if shell == "zsh":
        assert shown.startswith("_arguments '*: :((")
        return {line.split('"')[1] for line in shown.removeprefix("_arguments '*: :((").splitlines()}
    return {line.split("\t")[0] for line in shown.splitlines()}
