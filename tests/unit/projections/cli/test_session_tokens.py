"""A read after a write sees it, in this command and in the next, whichever server answers."""

import stat
from pathlib import Path
from threading import Thread

import pytest
from tests.unit.projections.cli.conftest import ANSWERS, Asked, Cli, FakeApi, Json

from topolog.projections.cli import connecting, session_tokens
from topolog.projections.cli.client import Api
from topolog.projections.cli.contexts import state_folder
from topolog.projections.cli.session_tokens import FileTokens, newer

NODES = "/v1/clusters/demo/nodes"
GRANTED: Json = {**ANSWERS["granted"], "item": {**ANSWERS["granted"]["item"], "token": "9c.500"}}


@pytest.fixture(autouse=True)
def _real_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "FileTokens", session_tokens.FileTokens)


def demanded(api: FakeApi) -> str | None:
    return api.asked[-1].params.get("at_least")


def test_a_command_demands_what_an_earlier_one_was_given(cli: Cli, api: FakeApi, customer: Path) -> None:
    api.reply("/v1/clusters/demo/requests", 200, GRANTED)
    assert cli("propose", "--file", str(customer)).code == 0
    assert cli("get", "nodes").code == 0
    assert demanded(api) == "9c.500"
    file = state_folder() / "sessions.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    cli("get", "nodes", "--no-session")
    assert demanded(api) is None
    cli("get", "nodes", "--at-least", "9c.7")
    assert demanded(api) == "9c.7"
    cli("get", "nodes", "--as-of", "3")
    assert demanded(api) is None


def test_a_token_of_a_log_that_is_gone_is_forgotten(cli: Cli, api: FakeApi) -> None:
    """The cluster was made anew under the same name: nobody has to know that a file remembers the old one."""
    FileTokens(state_folder() / "sessions.json", api.url).keep("demo", "old.900")

    def foreign(asked: Asked) -> tuple[int, Json]:
        if asked.params.get("at_least") == "old.900":
            return 409, {"code": "token_foreign", "detail": "Of another log."}
        return 200, ANSWERS[NODES]

    api.replies[NODES] = foreign
    assert cli("get", "nodes").code == 0
    assert FileTokens(state_folder() / "sessions.json", api.url).newest("demo") == "412.9c"


def test_a_server_that_is_behind_ends_with_7_and_says_why(cli: Cli, api: FakeApi) -> None:
    FileTokens(state_folder() / "sessions.json", api.url).keep("demo", "9c.900")
    api.reply(NODES, 503, {"code": "not_caught_up", "detail": "This reader is at position 412, 900 was asked for."})
    ended = cli("get", "nodes")
    assert ended.code == 7
    assert "--no-session" in ended.err


def test_a_client_remembers_for_itself(api: FakeApi) -> None:
    api.reply("/v1/clusters/demo/requests", 200, GRANTED)
    with Api(api.url) as asked:
        asked.submit({"kind": "hold", "on": True})
        assert asked.get(("nodes",)).items
        assert demanded(api) == "9c.500"
        assert [each["node"] for each in asked.list(("nodes",))] == ["n1", "n2"]


def test_what_differs_until_now_is_of_what_was_seen_too(api: FakeApi) -> None:
    """A diff is a read as any other: it demands the newest token, and its answer's is remembered."""
    diff: Json = {"kind": "Diff", "asOf": {"position": 600, "token": "9c.600"}, "items": [], "next": None}
    api.reply("/v1/clusters/demo/requests", 200, GRANTED)
    api.reply("/v1/clusters/demo/diff/nodes", 200, diff)
    with Api(api.url) as asked:
        asked.submit({"kind": "hold", "on": True})
        asked.diff(("nodes",), "15m")
        assert demanded(api) == "9c.500"
        asked.diff(("nodes",), "15m", "400")
        assert demanded(api) is None, "both moments are named"
        asked.get(("nodes",))
        assert demanded(api) == "9c.600"


def test_tokens_are_kept_by_api_and_cluster_and_only_grow(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "sessions.json"
    east, west = FileTokens(file, "http://east/"), FileTokens(file, "http://west")
    east.keep("main", "a.5")
    east.keep("main", "a.4")
    west.keep("main", "b.1")
    east.keep("other", "c.1")
    assert (east.newest("main"), west.newest("main"), east.newest("other")) == ("a.5", "b.1", "c.1")
    east.keep("main", "new.1")
    assert FileTokens(file, "http://east").newest("main") == "new.1"
    file.write_text("{")
    assert east.newest("main") is None
    assert newer("a.10", "a.9") == "a.10"


def test_two_commands_at_once_keep_the_newest_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another command is told something while this one is about to write, having read: it waits for its turn."""
    file = tmp_path / "sessions.json"
    mine, theirs = FileTokens(file, "http://a"), FileTokens(file, "http://a")
    write = mine._write

    def keep_theirs() -> None:
        theirs.keep("main", "log.10")
        theirs.keep("other", "log2.3")

    other = Thread(target=keep_theirs)

    def late(held: dict[str, str]) -> None:
        other.start()
        other.join(0.2)  # long enough for it to have written, if nothing held it back
        write(held)

    monkeypatch.setattr(mine, "_write", late)
    mine.keep("main", "log.7")
    other.join()
    assert (theirs.newest("main"), theirs.newest("other")) == ("log.10", "log2.3")
    assert stat.S_IMODE(file.with_name("sessions.json.lock").stat().st_mode) == 0o600


def test_a_token_that_another_command_keeps_meanwhile_is_not_forgotten(tmp_path: Path) -> None:
    """The answer 409 is about the token that was sent, of a log that has been made anew since."""
    tokens, others = (FileTokens(tmp_path / "sessions.json", "http://a") for _ in range(2))
    tokens.keep("main", "old.7")
    others.keep("main", "new.2")
    tokens.forget("main", "old.7")
    assert others.newest("main") == "new.2"
    others.forget("main", "new.2")
    assert tokens.newest("main") is None


def test_where_nothing_can_be_locked_or_written_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    tokens = FileTokens(tmp_path / "state" / "sessions.json", "http://a")
    tokens.keep("main", "log.7")
    tokens.forget("main", "log.7")
    assert tokens.newest("main") is None


def test_the_token_of_a_partition_is_none_of_a_session(cli: Cli, api: FakeApi) -> None:
    """It is a number, by which writers are fenced."""
    about = {"name": "rows/17", "group": "rows", "partition": 17, "token": 64}
    as_of = {"position": 412, "token": "9c.412"}
    path = "/v1/clusters/demo/partitions/rows/17"
    api.reply(path, 200, {"kind": "Partition", "item": about, "asOf": as_of})
    for _ in range(2):
        assert cli("get", "partition", "rows/17", "-o", "name").out == "partition/rows/17\n"
    assert api.asked[-1].params["at_least"] == "9c.412"
