"""What the Tab key proposes: names of things as the API has them, from a cache of a few seconds, and never an error."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.projections.cli.conftest import ANSWERS, Cli, FakeApi

from topolog.commands.tree import root
from topolog.projections.cli import completion
from topolog.projections.cli.resources import NODES, TYPES


def context(**params: Any) -> Any:
    return SimpleNamespace(params=params)


def test_names_come_from_the_api_and_then_from_the_cache(api: FakeApi) -> None:
    given = context(resource="nodes", api=api.url, cluster="demo")
    assert completion.names(given, "n") == ["n1", "n2"]
    asked = len(api.asked)
    assert completion.names(given, "n2") == ["n2"]
    assert len(api.asked) == asked, "a person presses Tab twice"


@pytest.mark.parametrize("name", ["n$(reboot)", "n;reboot", "n`reboot`", "n\x1b[2J", "n n2", "n'2", "n>f", "n*", "n!1"])
def test_no_name_is_proposed_that_a_shell_takes_for_more(name: str, api: FakeApi) -> None:
    """What is proposed stands in the line as it is, and the next key may be Enter."""
    nodes = "/v1/clusters/demo/nodes"
    item = ANSWERS[nodes]["items"][0]
    api.reply(nodes, 200, {**ANSWERS[nodes], "items": [{**item, "node": name}, {**item, "node": "nœud-1.eu:9"}]})
    assert completion.names(context(resource="nodes", api=api.url, cluster="demo"), "n") == ["nœud-1.eu:9"]


def test_resources_and_names_behind_a_slash(api: FakeApi) -> None:
    complete: Any = completion.one_of((NODES, TYPES))
    given = context(api=api.url, cluster="demo")
    assert complete(given, "no") == ["nodes"]
    assert complete(given, "type/C") == ["type/Customer", "type/Colour"]


def test_what_cannot_be_asked_proposes_nothing(cli: Cli) -> None:
    assert completion.names(context(resource="nodes", api="http://127.0.0.1:1", cluster="demo"), "") == []
    assert completion.names(context(resource="nodse", api="http://127.0.0.1:1"), "") == []
    cli("context", "add", "prod", "--api", "http://prod")
    assert completion.contexts("p") == ["prod"]
    assert completion.contexts("x") == []


def test_conditions_of_what_is_awaited(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Click parses nothing behind an option whose value is yet to come."""
    words = "topolog wait node/n3 --for "
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", "4")
    monkeypatch.setenv("_TOPOLOG_COMPLETE", "complete_bash")
    with pytest.raises(SystemExit):
        root()(prog_name="topolog", complete_var="_TOPOLOG_COMPLETE")
    assert "Drained" in capsys.readouterr().out.split()
