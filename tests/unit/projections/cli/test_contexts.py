"""Contexts: whom the command line asks, who says so, and what a protected one wants before anything is changed."""

import json
import stat
from pathlib import Path

import pytest
from tests.unit.projections.cli.conftest import Cli, FakeApi, check_golden

from topolog.events.errors import BadInput
from topolog.projections.cli.contexts import Defaults, Said, config_file, read_contexts, stand
from topolog.projections.cli.options import Format

NODES = "/v1/clusters/demo/nodes"
DEFAULTS = Defaults(lambda: "http://settings", lambda: None)


def test_contexts_are_added_used_shown_and_removed(cli: Cli) -> None:
    assert cli("context", "add", "prod", "--api", "http://prod:8642", "--cluster", "main", "--protected").code == 0
    assert cli("context", "add", "dev", "--api", "http://dev:8642").code == 0
    assert cli("context", "use", "prod").code == 0
    found = json.loads(cli("context", "list", "-o", "json").out)["items"]
    assert [(each["name"], each["current"], each["protected"]) for each in found] == [
        ("prod", True, True),
        ("dev", False, False),
    ]
    assert json.loads(cli("context", "show", "-o", "jsonl").out)["api"] == "http://prod:8642"
    assert cli("context", "add", "prod", "--not-protected").code == 0
    assert not read_contexts().by_name["prod"].protected
    assert read_contexts().by_name["prod"].cluster == "main"
    assert cli("context", "remove", "prod").code == 0
    assert (read_contexts().current, list(read_contexts().by_name)) == ("", ["dev"])
    assert stat.S_IMODE(config_file().stat().st_mode) == 0o600


def test_a_context_says_whom_commands_ask(cli: Cli, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("context", "add", "here", "--api", api.url, "--cluster", "demo")
    cli("context", "add", "away", "--api", "http://127.0.0.1:1")
    cli("context", "use", "away")
    assert cli("get", "nodes").code == 4
    assert cli("get", "nodes", "--context", "here").code == 0
    monkeypatch.setenv("TOPOLOG_CONTEXT", "here")
    assert cli("get", "nodes").code == 0
    assert cli("get", "nodes", "--context", "").code == 0, "no context: the API of the settings"
    ended = cli("get", "nodes", "--context", "heer")
    assert ended.code == 2
    assert "Did you mean here?" in ended.err


def test_what_is_said_nearer_counts(cli: Cli) -> None:
    """Flag, --context, environment, current context, settings."""
    cli("context", "add", "prod", "--api", "http://prod")
    cli("context", "use", "prod")
    environ = {"TOPOLOG_API__URL": "http://environment"}
    origin = f"context prod ({config_file()})"
    assert stand("http://flag", None, "prod", DEFAULTS, environ).api == Said("http://flag", "flag --api")
    assert stand("http://environment", None, "prod", DEFAULTS, environ).api == Said("http://prod", origin)
    assert stand("http://environment", None, None, DEFAULTS, environ).api.origin == "environment TOPOLOG_API__URL"
    assert stand(None, None, None, DEFAULTS, {}).api == Said("http://prod", origin)
    assert stand(None, None, "", DEFAULTS, {}).api == Said("http://settings", "settings")
    assert stand(None, None, None, DEFAULTS, {"TOPOLOG_CONTEXT": ""}).api.value == "http://settings"


def test_a_protected_context_wants_a_reason_and_a_yes(
    cli: Cli, api: FakeApi, customer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("context", "add", "prod", "--api", api.url, "--cluster", "demo", "--protected")
    cli("context", "use", "prod")
    api.decide("granted")
    propose = ("propose", "--file", str(customer))
    for arguments, hint in ((propose, "--reason"), ((*propose, "--reason", "new"), "--yes")):
        ended = cli(*arguments)
        assert ended.code == 2
        assert hint in ended.err
    assert cli("replay", "dead-letter", "3").code == 2
    assert not [asked for asked in api.asked if asked.method == "POST"]
    assert cli(*propose, "--reason", "new", "--yes").code == 0
    api.decide("imagined")
    assert cli(*propose, "--dry-run").code == 0, "what changes nothing needs neither"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda question, err: not (question and err))
    ended = cli(*propose, "--reason", "new")
    assert ended.code == 1
    assert "Context prod is protected.\nNothing was changed.\n" in ended.err


def test_the_token_of_a_context_is_sent_and_never_shown(cli: Cli, api: FakeApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cr3t\n")
    token.chmod(0o600)
    cli("context", "add", "prod", "--api", api.url, "--token-file", str(token))
    cli("context", "use", "prod")
    assert cli("get", "nodes").code == 0
    assert api.asked[-1].authorization == "Bearer s3cr3t"
    api.reply(NODES, 401, {"detail": "Who are you?"})
    ended = cli("get", "nodes")
    assert ended.code == 3
    assert "s3cr3t" not in ended.out + ended.err
    token.unlink()
    assert cli("get", "nodes").code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("current = 5", "`current` is a name"),
        ("[context.prod]\napi = 'x'", "Did you mean contexts?"),
        ("[contexts.prod]\nurl = 'x'", "there is no 'url'"),
        ("[contexts.prod]\nprotected = 'yes'", "protected is no boolean"),
        ("[contexts.prod]\napi = 'http://ada:secret@prod'", "holds a secret"),
        ("[contexts.prod]\ncolour = 'mauve'", "is no colour"),
        ("[contexts.'a b']\n", "is no name of a context"),
        ("[contexts.a]\n", "config.toml, context a: It does not say where its API answers."),
        ("[contexts.a]\napi = 'x'", "config.toml, context a: 'x' is no address of an API."),
        ("[contexts.a]\napi = 'http://x'\ncluster = 'A'", "config.toml, context a: 'A' is no name of a cluster"),
        ("=", "is not TOML"),
        (f"x = {'[' * 5000}", "is not TOML"),
    ],
)
def test_a_wrong_file_is_wrong_usage(text: str, said: str, cli: Cli) -> None:
    config_file().parent.mkdir(parents=True)
    config_file().write_text(text)
    with pytest.raises(BadInput) as raised:
        read_contexts()
    assert said in str(raised.value)
    assert "secret@" not in str(raised.value)
    for asked in ("get nodes", "context list", "context remove a"):
        ended = cli(*asked.split())
        assert (ended.code, str(config_file()) in ended.err) == (2, True)


def test_a_token_file_in_the_home_folder_of_nobody_is_wrong_usage(
    cli: Cli, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever names it: a context, or the environment."""
    named = "~nobody-of-this-name/token"
    monkeypatch.setenv("TOPOLOG_API__TOKEN_FILE", named)
    ended = cli("get", "nodes", "--api", api.url, "--cluster", "demo")
    assert (ended.code, f"{named} begins with a home folder that nobody has" in ended.err) == (2, True)
    cli("context", "add", "prod", "--api", api.url, "--cluster", "demo", "--token-file", named)
    ended = cli("get", "nodes", "--context", "prod")
    assert (ended.code, f"{named} begins with a home folder that nobody has" in ended.err) == (2, True)
    with pytest.raises(BadInput, match="context prod: ~nobody"):
        assert read_contexts().by_name["prod"].token_path


GOLDEN = Path(__file__).parent / "golden-context"
FORMATS = [output.value for output in Format if output is not Format.SCHEMA]
SHOWN = {
    **{f"list.{output}": f"context list -o {output}" for output in FORMATS},
    **{f"show.{output}": f"context show -o {output}" for output in FORMATS},
    "use": "context use dev",
    "use-none": "context use ",
    "use-unknown": "context use porduction",
    "add": "context add test --api http://test:8642",
    "add-without-api": "context add test",
    "remove": "context remove dev",
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_command_about_contexts_prints_what_its_golden_file_holds(name: str, cli: Cli) -> None:
    said = ("--cluster", "main", "--token-file", "/run/secrets/topolog", "--protected", "--colour", "red")
    cli("context", "add", "production", "--api", "https://topolog.example:8642", *said)
    cli("context", "add", "dev", "--api", "http://127.0.0.1:8642")
    cli("context", "use", "production")
    shown = cli(*SHOWN[name].split(" ")).shown
    check_golden(GOLDEN / f"{name}.txt", shown.replace(str(config_file()), "config.toml"))


def test_there_is_no_golden_file_without_a_test() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{name}.txt" for name in SHOWN}


def test_what_is_no_address_is_no_context(cli: Cli) -> None:
    ended = cli("context", "add", "bad", "--api", "notaurl")
    assert ended.code == 2
    assert "'notaurl' is no address of an API." in ended.err
    assert "bad" not in cli("context", "list").out


@pytest.mark.parametrize("cluster", ["\udcff", "\U0001f600", "\x7f", "Main"])
def test_what_no_cluster_is_called_is_no_cluster_of_a_context(cluster: str, cli: Cli) -> None:
    ended = cli("context", "add", "bad", "--api", "http://h", "--cluster", cluster)
    assert (ended.code, config_file().exists()) == (2, False)


@pytest.mark.parametrize("text", ["\U0001f600", "\x7f", "\x01", "é", "a\\b", 'a"b'])
def test_what_is_kept_is_read_again(text: str, cli: Cli) -> None:
    """TOML and JSON write some characters in different ways."""
    assert cli("context", "add", "odd", "--api", f"http://h/{text}", "--token-file", text).code == 0
    found = read_contexts().by_name["odd"]
    assert (found.api, found.token_file) == (f"http://h/{text}", text)


def test_a_current_context_that_is_not_there_is_named(cli: Cli) -> None:
    config_file().parent.mkdir(parents=True)
    config_file().write_text("current = 'nope'\n[contexts.prod]\napi = 'http://h'\n")
    ended = cli("context", "list")
    assert ended.code == 0
    assert f"Warning: {config_file()}: the current context is 'nope', which is not there." in ended.err
    for asked in ("get nodes", "context show"):
        ended = cli(*asked.split())
        assert (ended.code, f"There is no context 'nope' (current in {config_file()})." in ended.err) == (2, True)
    config_file().write_text("current = 'nope'")
    assert "'nope'" in cli("context", "list").err


def test_a_context_that_stays_protected_says_so(cli: Cli) -> None:
    """To add it again without the switch leaves the switch as it is."""
    assert "protected" not in cli("context", "add", "prod", "--api", "http://h", "--protected").err
    ended = cli("context", "add", "prod", "--api", "http://other")
    assert "It stays protected; `topolog context add prod --not-protected` changes that." in ended.err
    assert read_contexts().by_name["prod"].protected
    assert "protected" not in cli("context", "add", "prod", "--not-protected").err
