"""A support bundle: nothing secret in it, and what it holds answers like the cluster it was taken of."""

import json
import zipfile
from pathlib import Path

import httpx
import pytest
import typer
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.cli.conftest import ANSWERS, FakeApi
from tests.unit.projections.serving import served

from topolog.commands import support
from topolog.events import kafka_admin
from topolog.events.errors import BadInput, NotAllowed
from topolog.events.ids import Offset
from topolog.events.log import Entry
from topolog.events.topics import Topic
from topolog.projections.api.access.reads import AUDIT
from topolog.projections.api.listings import LISTINGS
from topolog.projections.cli import bundle
from topolog.projections.cli.bundle import (
    Bundle,
    about,
    gather_api,
    gather_log,
    gather_processes,
    known_secrets,
    log_entry,
    read_bundle,
)
from topolog.projections.cli.client import Api
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.options import Target
from topolog.projections.cli.resources import PAST_MISSING
from topolog.projections.projector import Projector
from topolog.projections.recorded_log import RecordedReader, RefusingWriter, decode, encode
from topolog.projections.requester import Requester

LOG = log_entry("main")
SECRET = "hunter2-äß"
PLANTED = "abcdefgh12345"
TOLD = (
    "Bearer {}",
    "Authorization: Basic {}",
    "client_secret={}",
    "access_token={}",
    "GET /v1?token={}",
    "sasl.password={}",
    '{{"password": "{}"}}',
    "https://ann:{}@registry",
)


def test_a_bundle_replays_the_cluster_it_was_taken_of(tmp_path: Path) -> None:
    """All questions get the same answers, of the past too, and nothing can be asked for."""
    chronicle = Chronicle().start()
    chronicle.join("n1")
    chronicle.join("n2")
    made = Bundle(())
    gather_log(made, "main", chronicle.log.reader(), 1 << 20)
    made.write(tmp_path / "b.zip", about(["main"], "http://api"))
    manifest, logs = read_bundle(tmp_path / "b.zip")
    assert manifest["clusters"] == ["main"] == list(logs)
    answers = list[list[object]]()
    for reader, name in ((chronicle.log.reader(), "live"), (RecordedReader(decode(logs["main"])), "opened")):
        projector = Projector(reader, tmp_path / name, "main", wall_ms=lambda: chronicle.now_ms)
        projector.step()
        with served(projector, Requester(RefusingWriter(), "api", "the file")) as client:
            answers.append([read(client, path) for path in ("nodes", "nodes?as_of=2", "decisions", "cluster")])
            refused = client.post("/v1/clusters/main/requests", json={"kind": "hold", "on": True})
            assert name == "live" or refused.status_code == 403
        projector.close()
    assert lasting(answers[0]) == lasting(answers[1])


TICKING = {"age_ms", "fenced_in_ms", "out_in_ms"}
"""What changes while nothing happens."""


def lasting(value: object) -> object:
    """The same without what ticks."""
    if isinstance(value, dict):
        return {key: lasting(item) for key, item in value.items() if key not in TICKING}
    return [lasting(item) for item in value] if isinstance(value, list) else value


def read(client: httpx.Client, path: str) -> object:
    body = client.get(f"/v1/clusters/main/{path}").json()
    return body.get("items") or body.get("item")


def test_offsets_with_gaps_are_kept() -> None:
    """Transactions leave gaps; positions do not depend on them, resuming does."""
    entries = [Entry(Topic.DECISIONS, 0, Offset(each), "k", b"v", (("h", b"x"),), 7) for each in (3, 9)]
    reader = RecordedReader(decode(encode(entries)))
    assert reader.bounds((Topic.DECISIONS, 0)) == (3, 10)
    reader.assign({(Topic.DECISIONS, 0): Offset(4)})
    assert not reader.at_end(Topic.DECISIONS)
    assert reader.poll(0) == entries[1:]
    assert reader.at_end(Topic.DECISIONS)
    assert reader.poll(0) == []
    with pytest.raises(NotAllowed):
        RefusingWriter().append(Topic.REQUESTS, "k", b"v")
    with pytest.raises(BadInput):
        decode(b"nonsense")


def test_no_secret_gets_into_a_bundle(api: FakeApi, tmp_path: Path) -> None:
    """Whatever answers, errors and records say: what is known to be secret here, and what looks like it, is masked."""
    token = tmp_path / "token"
    token.write_text("t0ken-of-ada\n")
    item = {
        "node": "n1",
        "endpoint": f"http://ada:{SECRET}@n1",
        "attributes": {f"note {number}": told.format(PLANTED) for number, told in enumerate(TOLD)},
        "password": PLANTED,
    }
    api.reply("/v1/clusters/demo/nodes", 200, {"kind": "NodeList", "items": [item], "note": SECRET})
    api.reply("/v1/clusters/demo/types", 503, {"code": "x", "detail": f"t0ken-of-ada, password={PLANTED}: not known."})
    made = Bundle(known_secrets({"sasl.password": SECRET}, [token, tmp_path / "missing"]))
    with Api(api.url) as asked:
        gather_api(made, asked)
    made.add_bytes(LOG, encode([Entry(Topic.DECISIONS, 0, Offset(0), "k", SECRET.encode(), (), 7)]))
    made.add_text("metrics.txt", "\n".join(told.format(PLANTED) for told in TOLD))
    made.write(tmp_path / "b.zip", about(["demo"], api.url))
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    for secret in (SECRET, json.dumps(SECRET)[1:-1], "t0ken-of-ada", PLANTED):
        assert [name for name, data in contents.items() if secret.encode() in data] == []
    assert LOG not in contents
    (node,) = json.loads(contents["resources/nodes.json"])["items"]
    assert (node["node"], node["password"], len(node["attributes"])) == ("n1", "******", len(TOLD))
    assert contents["metrics.txt"].count(b"******") == len(TOLD)
    manifest = json.loads(contents["manifest.json"])
    assert manifest["missing"][LOG] == "it holds a secret of the settings"
    assert json.loads(contents["resources/groups.json"]) == ANSWERS["/v1/clusters/demo/groups"]
    assert (tmp_path / "b.zip").stat().st_mode & 0o077 == 0


def test_all_that_has_a_past_is_gathered_at_one_position(api: FakeApi) -> None:
    """Lists of different moments would contradict each other; leases as of the past say nothing."""
    with Api(api.url) as asked:
        gather_api(Bundle(()), asked)
    asked_for = {each.path.rpartition("/")[2]: each.params for each in api.asked if each.path.count("/") == 4}
    of_now = {name for name, params in asked_for.items() if "as_of" not in params}
    assert of_now == {kind.plural for kind in PAST_MISSING} | {"cluster", "leases"}
    position = str(ANSWERS["/v1/clusters/demo/cluster"]["asOf"]["position"])
    assert {params["as_of"] for name, params in asked_for.items() if name not in of_now} == {position}
    assert {"pending", "maps", "trees", "repairs", "decisions", "requests"} <= asked_for.keys()


def test_what_has_no_past_is_what_the_api_says() -> None:
    """A list that is taken for one with a past would be refused, and missing in every bundle."""
    without = {name for name, each in {**LISTINGS, AUDIT.name: AUDIT}.items() if each.no_past}
    assert {kind.plural for kind in PAST_MISSING} == without | {"projections"}, "which is none of its lists"


def test_a_log_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    chronicle = Chronicle().start()
    made = Bundle(())
    gather_log(made, "main", chronicle.log.reader(), 1)
    assert "more than 1 bytes" in made.missing[LOG]
    made.write(tmp_path / "b.zip", about(["main"], "http://api"))
    with pytest.raises(BadInput, match="cannot be written"):
        made.write(tmp_path / "b.zip", about(["main"], "http://api"))
    assert read_bundle(tmp_path / "b.zip")[1] == {}


@pytest.mark.parametrize("content", [b"", b"no zip"])
def test_what_is_no_bundle_is_said_to_be_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_bytes(content)
    for path in (tmp_path / "b.zip", tmp_path / "missing.zip"):
        with pytest.raises(BadInput):
            read_bundle(path)


@pytest.mark.parametrize(("entries", "size"), [(1, 200 << 20), (4, 50 << 20), (20_000, 0)])
def test_a_bundle_is_measured_before_it_is_unpacked(
    entries: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OP18: 2.9 MB became 3 GB in the memory of whoever opened what somebody else had sent."""
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(bundle.MANIFEST, json.dumps({"format": bundle.FORMAT}))
        for number in range(entries):
            archive.writestr(f"log/c{number}.msgpack", bytes(size))
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(BadInput, match="would unpack to"):
        read_bundle(path)


def test_a_manifest_nested_without_end_is_none(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr(bundle.MANIFEST, "[" * 50_000)
    with pytest.raises(BadInput, match="is no bundle"):
        read_bundle(tmp_path / "b.zip")


def test_projections_are_asked_for_as_their_list_takes_it(api: FakeApi) -> None:
    """It has no pages: the API would refuse a limit, and every bundle would go without it."""
    with Api(api.url) as asked:
        gather_api(Bundle(()), asked)
    (params,) = (each.params for each in api.asked if each.path.endswith("/projections"))
    assert "limit" not in params


def test_what_processes_have_said_is_in_a_bundle_without_secrets(tmp_path: Path) -> None:
    """Whoever helps reads why a process has died, not only that it is gone."""
    folder = tmp_path / "demo" / "logs"
    folder.mkdir(parents=True)
    (folder / "coordinator-1.log").write_text(f"ready\nkafka says {SECRET}\n")
    (folder / "projector.log.1").write_text("older\n")
    made = Bundle((SECRET,))
    gather_processes(made, [folder, tmp_path / "nowhere"])
    assert set(made.entries) == {"processes/demo/coordinator-1.log", "processes/demo/projector.log.1"}
    assert b"ready" in made.entries["processes/demo/coordinator-1.log"]
    assert SECRET.encode() not in made.entries["processes/demo/coordinator-1.log"]


def test_of_a_long_file_no_half_of_a_secret_is_in_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it is not masked: where the newest end begins within a line, that line is left out."""
    monkeypatch.setattr(bundle, "_SAID_BYTES_MAX", len(SECRET) + 3)
    folder = tmp_path / "demo" / "logs"
    folder.mkdir(parents=True)
    (folder / "api.log").write_text(f"older\nkafka says {SECRET}\n{'y' * (len(SECRET) // 2)}\n")
    made = Bundle((SECRET,))
    gather_processes(made, [folder])
    assert made.entries["processes/demo/api.log"] == b"y" * (len(SECRET) // 2) + b"\n"


def test_a_bundle_without_the_log_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither API nor broker answers: what there is is written, and a script sees that it is a part."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kafka_admin, "REACH_TIMEOUT_S", 0.2)
    nobody = ["kafka.bootstrap.servers=127.0.0.1:1"]
    with pytest.raises(typer.Exit) as ended:
        support.bundle(Path("b.zip"), 1, None, None, nobody, target=Target(api="http://127.0.0.1:1"))
    assert ended.value.exit_code == ExitCode.PARTIAL
    manifest, logs = read_bundle(tmp_path / "b.zip")
    assert logs == {}
    assert {"log", "resources"} <= manifest["missing"].keys()
    assert "Left out: log: " in capsys.readouterr().err
    support.bundle(Path("c.zip"), 0, None, None, nobody, target=Target(api="http://127.0.0.1:1"))
