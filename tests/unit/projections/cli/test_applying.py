"""`topolog apply` of all that can be declared: the plan is shown, exactly that is asked for, nothing else."""

import json
from pathlib import Path

import pytest
from tests.unit.projections.cli.conftest import ANSWERS, Asked, Cli, FakeApi, Json, check_golden

from topolog.events.errors import BadInput
from topolog.projections.cli.declared_file import Declared, read_declared
from topolog.projections.cli.declared_plan import There, overtaken, steps
from topolog.projections.cli.options import Format

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
    group, order, extended, reduced = steps(declared(tmp_path, text), ALL).planned
    assert group.request == {"kind": "alter-group", "name": "orders", "backups": 3}
    assert group.details == ("~ backups 2 → 3",)
    assert order.request["based_on"] == 2
    assert order.details == ("+ note String", "~ id long → int")
    assert extended.request == {"kind": "baseline", "verb": "ADD", "nodes": ["n4"]}
    assert reduced.request == {"kind": "baseline", "verb": "REMOVE", "nodes": ["n3", "n2"]}
    assert (extended.details, reduced.details) == (("+ n4",), ("- n3", "- n2"))


def test_no_node_leaves_the_baseline_that_the_plan_does_not_name(tmp_path: Path) -> None:
    """Who has begun to count since the plan is named by no request, and goes on counting."""
    (step,) = steps(declared(tmp_path, "baseline: [n1, n2, n3]"), There({}, {}, {}, ("n1", "n2"))).planned
    assert (step.details, step.request["verb"], step.request["nodes"]) == (("+ n3",), "ADD", ["n3"])


def test_what_the_file_does_not_say_of_a_schedule_stays(tmp_path: Path) -> None:
    """The request replaces all of a schedule, so it says again what stands."""
    text = "schedules: {nightly: {table: orders, every: 12h}}"
    held = {**NIGHTLY, "definition": {**NIGHTLY["definition"], "kind": "REPAIR", "segments": 4}}
    (step,) = steps(declared(tmp_path, text), There({}, {}, {"nightly": held}, ())).planned
    assert step.details == ("~ every_ms 86400000 → 43200000",)
    assert step.request["definition"] == {
        "table": "orders",
        "session": "REPAIR",
        "policy": "PULL",
        "source": "R1",
        "segments": 4,
    }


@pytest.mark.parametrize(
    ("text", "now", "said"),
    [
        ("groups: {orders: {backups: 3}}", {**GROUP, "backups": 2, "partitions": 9}, ""),
        ("groups: {orders: {backups: 3}}", {**GROUP, "backups": 1}, "backups was 2 and is 1"),
        ("groups: {orders: {backups: 3}}", None, "it is gone"),
        ("schedules: {nightly: {table: orders, every: 2d}}", NIGHTLY, ""),
        ("schedules: {nightly: {table: orders, every: 2d}}", {**NIGHTLY, "paused": True}, "paused was no and is yes"),
        ("schedules: {weekly: {table: orders, every: 7d}}", None, ""),
        ("schedules: {weekly: {table: orders, every: 7d}}", NIGHTLY, "it is there by now"),
        ("types: {New: {fields: {id: long}}}", ORDER, ""),
        ("baseline: [n1, n2]", {"members": ["n9"]}, ""),
    ],
)
def test_what_is_written_over_is_what_was_planned_from(text: str, now: Json | None, said: str, tmp_path: Path) -> None:
    """Only what the request replaces counts; what the rules refuse by themselves is left to them."""
    (step,) = steps(declared(tmp_path, text), ALL).planned
    assert overtaken(step, now) == said


def test_the_first_baseline_is_not_set_over_another(tmp_path: Path) -> None:
    (step,) = steps(declared(tmp_path, "baseline: [n1, n2]"), NOTHING).planned
    assert (step.request["verb"], overtaken(step, None)) == ("SET", "")
    assert overtaken(step, {"members": ["n1", "n2", "n3"]}) == "it is there by now"


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
    api.reply(f"{DEMO}/groups/orders", 200, {"kind": "Group", "asOf": {"position": 5}, "item": GROUP})
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


def test_what_has_changed_since_the_plan_is_not_written_over(cli: Cli, cluster: FakeApi, tmp_path: Path) -> None:
    """Somebody else gives the group its backups between the plan and the request."""
    file = tmp_path / "groups.yaml"
    file.write_text("groups: {orders: {backups: 2}}\nschedules: {nightly: {table: orders, every: 1d}}")
    cluster.reply(f"{DEMO}/groups/orders", 200, {"kind": "Group", "asOf": {}, "item": {**GROUP, "backups": 3}})
    ended = cli("apply", "-f", str(file), "--yes", "-o", "json")
    assert [each["status"] for each in json.loads(ended.out)["items"]] == ["REFUSED", "LEFT OUT"]
    assert (ended.code, asked_for(cluster)) == (5, [])
    assert "group orders: backups was 1 and is 3. [CONFLICT]" in ended.err


def test_a_dry_run_asks_for_nothing_to_be_made(cli: Cli, cluster: FakeApi, tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    file.write_text('{"groups": {"orders": {"backups": 2}}}')
    cluster.replies[f"{DEMO}/requests"] = lambda _: (200, ANSWERS["imagined"])
    ended = cli("apply", "-f", str(file), "--dry-run", "-o", "csv")
    assert (ended.code, ended.out.splitlines()[1].split(",")[3]) == (0, "PLANNED")
    assert [asked.params for asked in cluster.asked if asked.method == "POST"] == [{"dry_run": "true"}]


def test_one_id_is_not_the_id_of_several_requests(cli: Cli, cluster: FakeApi, whole: Path) -> None:
    """The second one would be taken for the first, and never be made."""
    ended = cli("apply", "-f", str(whole), "--yes", "--request-id", "ci/7")
    assert ended.code == 2
    assert "--request-id names one request, and the plan has 5." in ended.err
    assert not [each for each in cluster.asked if each.method == "POST"]


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


GOLDEN = Path(__file__).parent / "golden-apply"
FORMATS = [output.value for output in Format if output is not Format.SCHEMA]
APPLIED: dict[str, tuple[str, dict[str, str]]] = {
    "granted": ("--yes --reason tidy", {}),
    "refused": ("--yes", {"baseline": "member-online"}),
    "imagined": ("--dry-run", {}),
    "nobody-to-ask": ("", {}),
}


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("name", APPLIED)
def test_an_application_prints_what_its_golden_file_holds(
    name: str, output: str, cli: Cli, cluster: FakeApi, whole: Path
) -> None:
    """Of several documents, with the plan on stderr."""
    options, refused = APPLIED[name]

    def decided(asked: Asked) -> tuple[int, Json]:
        assert asked.body is not None
        if "dry_run" in asked.params:
            return 200, ANSWERS["imagined"]
        refusal = refused.get(asked.body["kind"])
        return (409, ANSWERS[refusal]) if refusal else (200, ANSWERS["granted"])

    cluster.replies[f"{DEMO}/requests"] = decided
    ended = cli("apply", "-f", str(whole), *options.split(), "-o", output)
    check_golden(GOLDEN / f"{name}.{output}.txt", ended.shown)


def test_there_is_no_golden_file_without_a_test() -> None:
    expected = {f"{name}.{output}.txt" for name in APPLIED for output in FORMATS}
    assert {file.name for file in GOLDEN.iterdir()} == expected
