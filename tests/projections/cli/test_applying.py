"""`topolog apply` of all that can be declared: the plan is shown, exactly that is asked for, nothing else."""

import json
from pathlib import Path

import pytest
from tests.projections.cli.conftest import ANSWERS, Asked, Cli, FakeApi, Json

from topolog.events.errors import BadInput
from topolog.projections.cli.declared_file import Declared, read_declared
from topolog.projections.cli.declared_plan import There, steps

DEMO = "/v1/clusters/demo"
WHOLE = """\
types:
  Order: {fields: {id: long}, affinity_key: id}
---
groups:
  parts: {partitions: 8, backups: 1}
  orders: {partitions: 64, backups: 2}
baseline: [n1, n2, n3]
---
schedules:
  nightly: {table: orders, every: 1d, session: REPAIR, policy: PULL, source: R1}
"""
GROUP: Json = {"name": "orders", "partitions": 64, "backups": 1, "persistent": False}
NIGHTLY: Json = {
    "name": "nightly",
    "kind": "REPAIR",
    "every_ms": 86_400_000,
    "paused": False,
    "definition": {"table": "orders", "policy": "PULL", "source": "R1", "segments": 1},
}
ORDER: Json = {"name": "Order", "accepted_version": 2, "fields": {"id": "long"}, "affinity_key": "id"}
NOTHING = There({}, {}, {}, ())
ALL = There({"Order": ORDER}, {"orders": {**GROUP, "backups": 2}}, {"nightly": NIGHTLY}, ("n3", "n2", "n1"))


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.yaml"
    file.write_text(WHOLE)
    return file


def declared(tmp_path: Path, text: str) -> Declared:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    return read_declared(str(file))


def test_what_is_missing_is_made(whole: Path) -> None:
    planned = steps(read_declared(str(whole)), NOTHING).planned
    assert [(each.does, each.about) for each in planned] == [
        ("create group", "parts"),
        ("create group", "orders"),
        ("propose type", "Order"),
        ("set baseline", "baseline"),
        ("set schedule", "nightly"),
    ]
    assert planned[0].request == {"kind": "create-group", "name": "parts", "partitions": 8, "backups": 1}
    assert planned[3].request == {"kind": "baseline", "verb": "SET", "nodes": ["n1", "n2", "n3"]}
    assert planned[4].request == {
        "kind": "set-schedule",
        "name": "nightly",
        "every_ms": 86_400_000,
        "paused": False,
        "definition": {"table": "orders", "session": "REPAIR", "policy": "PULL", "source": "R1"},
    }


def test_what_is_so_already_is_left_alone(whole: Path) -> None:
    planned = steps(read_declared(str(whole)), ALL).planned
    assert [each.about for each in planned] == ["parts"]


def test_only_what_differs_is_asked_for(tmp_path: Path) -> None:
    text = "groups: {orders: {backups: 3}}\ntypes: {Order: {fields: {id: int, note: String}}}\nbaseline: [n1, n4]\n"
    group, order, baseline = steps(declared(tmp_path, text), ALL).planned
    assert group.request == {"kind": "alter-group", "name": "orders", "backups": 3}
    assert group.details == ("~ backups 2 → 3",)
    assert order.request["based_on"] == 2
    assert order.details == ("+ note String", "~ id long → int")
    assert baseline.details == ("+ n4", "- n3", "- n2")


def test_what_never_changes_is_a_problem(tmp_path: Path) -> None:
    found = steps(declared(tmp_path, "groups: {orders: {partitions: 128}}"), ALL)
    assert found.problems == ("group orders has partitions 64, which never changes",)


@pytest.fixture
def cluster(api: FakeApi) -> FakeApi:
    """Group orders as it was; requests are granted but for a baseline, which is refused."""

    def decided(asked: Asked) -> tuple[int, Json]:
        assert asked.body is not None
        return (409, ANSWERS["member-online"]) if asked.body["kind"] == "baseline" else (200, ANSWERS["granted"])

    for name, items in (("groups", [GROUP]), ("types", []), ("schedules", []), ("baselines", [])):
        api.reply(f"{DEMO}/{name}", 200, {"kind": "List", "asOf": {"position": 5}, "items": items})
    api.replies[f"{DEMO}/requests"] = decided
    return api


def asked_for(api: FakeApi) -> list[str]:
    return [str(asked.body["kind"]) for asked in api.asked if asked.method == "POST" and asked.body]


def test_the_first_refusal_ends_it_and_what_was_done_is_said(cli: Cli, cluster: FakeApi, whole: Path) -> None:
    ended = cli("apply", "-f", str(whole), "--yes", "-o", "json")
    assert ended.code == 5
    assert [each["status"] for each in json.loads(ended.out)["items"]] == [
        "GRANTED",
        "GRANTED",
        "GRANTED",
        "REFUSED",
        "LEFT OUT",
    ]
    assert asked_for(cluster) == ["create-group", "alter-group", "propose", "baseline"]
    assert "+ group parts\n    + partitions 8\n    + backups 1\n~ group orders\n    ~ backups 1 → 2\n" in ended.err


def test_a_dry_run_asks_for_nothing_to_be_made(cli: Cli, cluster: FakeApi, tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    file.write_text('{"groups": {"orders": {"backups": 2}}}')
    cluster.replies[f"{DEMO}/requests"] = lambda _: (200, ANSWERS["imagined"])
    ended = cli("apply", "-f", str(file), "--dry-run", "-o", "csv")
    assert (ended.code, ended.out.splitlines()[1].split(",")[3]) == (0, "PLANNED")
    assert [asked.params for asked in cluster.asked if asked.method == "POST"] == [{"dry_run": "true"}]


def test_nobody_to_ask_means_no(cli: Cli, cluster: FakeApi, whole: Path) -> None:
    ended = cli("apply", "-f", str(whole))
    assert (ended.code, asked_for(cluster)) == (2, [])
    assert "--yes" in ended.err


def test_the_schema_of_what_apply_prints_follows_the_file(cli: Cli, whole: Path) -> None:
    assert json.loads(cli("apply", "-f", str(whole), "-o", "schema").out)["title"] == "Applied"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("groups: {orders: {partitoins: 3}}", "orders"),
        ("groups: [orders]", "groups are names with what belongs to them"),
        ("gruops: {}", "Did you mean 'groups'?"),
        ("groups: {a: {}}\n---\ngroups: {a: {}}", "a stands there twice"),
        ("baseline: n1", "a baseline is a list of nodes"),
        ("schedules: {nightly: {table: orders}}", "says how often"),
        ("schedules: {nightly: {table: orders, every: soon}}", "no duration"),
        ("types: {Order: {fields: 3}}", "no definition of a type"),
        ("groups: {}", "wants nothing"),
    ],
)
def test_a_slip_is_wrong_usage_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as raised:
        declared(tmp_path, text)
    assert said in str(raised.value)
