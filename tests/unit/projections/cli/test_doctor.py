"""`topolog doctor`: each thing that can be wrong is found and has a fix, also while other things are down."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from tests.unit.projections.cli.conftest import ANSWERS, Ended, FakeApi, Json, check_golden

from topolog.events.errors import NotFound, Unreachable
from topolog.events.kafka_admin import topic_config
from topolog.events.topics import PLANS, Topic, topic_name
from topolog.projections.cli import diagnosis
from topolog.projections.cli.client import Api
from topolog.projections.cli.clusters_meant import Meant
from topolog.projections.cli.contexts import Said, Standing
from topolog.projections.cli.doctor import examine, show, worst_first
from topolog.projections.cli.options import Format, Shape, Target
from topolog.projections.cli.output_schema import Finding
from topolog.projections.cli.session_tokens import FileTokens
from topolog.projections.cli.terminal import Screen

REMOTE = {"bootstrap.servers": "kafka:9092", "security.protocol": "SASL_SSL"}
NOW = datetime(2026, 11, 21, 2, 0, 1, tzinfo=UTC)
DEMO = "/v1/clusters/demo"
DEMO_IS_MEANT = Meant("demo", "the API")


class FakeBroker:
    """A broker on which all is well, unless a test changes that."""

    def __init__(self) -> None:
        self.names = {topic_name("demo", plan.topic): plan for plan in PLANS}
        self.settings = {name: topic_config(plan, 3) for name, plan in self.names.items()}
        self.copies = 3
        self.granted: frozenset[str] | None = frozenset({"topolog.demo.*", "topolog.demo.decisions"})
        self.clock_ahead_ms = 0.0
        self.appends = True
        self.calls = 0

    def topics(self) -> frozenset[str]:
        return frozenset(self.names)

    def configs(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        return {name: self.settings[name] for name in names if name in self.settings}

    def replicas(self, _: str, __: Topic) -> int:
        return self.copies

    def newest_ms(self, _: Collection[diagnosis.Place]) -> int:
        self.calls += self.appends
        return round(datetime.now(UTC).timestamp() * 1000 + self.clock_ahead_ms) if self.appends else 5

    def rights(self) -> frozenset[str] | None:
        return self.granted


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "_APPENDED_WITHIN_S", 0.5)


def wrong(found: list[Finding]) -> list[Finding]:
    return [each for each in found if each.state != diagnosis.OK]


def test_a_healthy_broker_has_nothing_to_mend() -> None:
    assert wrong(list(diagnosis.of_broker(FakeBroker(), DEMO_IS_MEANT, REMOTE))) == []


def without_requests(broker: FakeBroker) -> None:
    del broker.names["topolog.demo.requests"]


def with_retention(broker: FakeBroker) -> None:
    broker.settings["topolog.demo.decisions"]["retention.ms"] = "604800000"


def unseen(broker: FakeBroker) -> None:
    del broker.settings["topolog.demo.decisions"]


def single(broker: FakeBroker) -> None:
    broker.copies = 1


def unguarded(broker: FakeBroker) -> None:
    broker.granted = None


def too_wide(broker: FakeBroker) -> None:
    broker.granted = frozenset({"topolog.*"})


def no_access(broker: FakeBroker) -> None:
    broker.granted = frozenset({"others.*"})


def skewed(broker: FakeBroker) -> None:
    broker.clock_ahead_ms = 90_000


def silent(broker: FakeBroker) -> None:
    broker.appends = False


@pytest.mark.parametrize(
    ("harm", "state", "said", "fix"),
    [
        (without_requests, "PROBLEM", "there is no topolog.demo.requests", "topolog cluster init"),
        (with_retention, "PROBLEM", "topolog.demo.decisions: retention.ms is 604800000, not -1", "--add-config"),
        (unseen, "UNKNOWN", "the settings of topolog.demo.decisions may not be seen", "DescribeConfigs"),
        (single, "WARNING", "not durable against loss of the disk", "three copies"),
        (unguarded, "WARNING", "whoever reaches it may write decisions", "authorizer"),
        (too_wide, "WARNING", "ACLs reach beyond this cluster: topolog.*", "Narrow them to topolog.demo.*"),
        (no_access, "WARNING", "no ACL that this account may see is about this cluster", "--plan"),
        (skewed, "WARNING", "the broker's clock is 1 min ahead", "NTP"),
        (silent, "UNKNOWN", "nothing was appended", "Start a coordinator"),
    ],
)
def test_each_harm_is_found_and_has_a_fix(harm: Callable[[FakeBroker], None], state: str, said: str, fix: str) -> None:
    broker = FakeBroker()
    harm(broker)
    found = wrong(list(diagnosis.of_broker(broker, DEMO_IS_MEANT, REMOTE)))
    assert [(each.state, said in each.about, fix in each.fix) for each in found if said in each.about] == [
        (state, True, True)
    ]
    if harm is not single:
        assert len(found) == 1


def test_a_broker_of_this_machine_needs_no_rights() -> None:
    """What `topolog up` has started is well, and `doctor` ends with 0."""
    broker = FakeBroker()
    no_access(broker)
    assert wrong(list(diagnosis.of_broker(broker, DEMO_IS_MEANT, {"bootstrap.servers": "127.0.0.1:9092"}))) == []


def test_what_cannot_be_encrypted_or_seen_is_said() -> None:
    plain = {"bootstrap.servers": "kafka:9092"}
    assert [each.check for each in wrong(list(diagnosis.of_broker(FakeBroker(), DEMO_IS_MEANT, plain)))] == [
        "encryption"
    ]
    broker = FakeBroker()

    def unseen_acls() -> frozenset[str]:
        raise NotFound("This account may not see ACLs: no.")

    broker.rights = unseen_acls  # type: ignore[method-assign]
    [found] = wrong(list(diagnosis.of_broker(broker, DEMO_IS_MEANT, REMOTE)))
    assert (found.check, found.state) == ("access", "UNKNOWN")


def test_on_loopback_one_copy_and_no_authorizer_are_as_it_should_be() -> None:
    broker = FakeBroker()
    broker.copies, broker.granted = 1, None
    broker.settings = {name: topic_config(plan, 1) for name, plan in broker.names.items()}
    found = list(diagnosis.of_broker(broker, DEMO_IS_MEANT, {"bootstrap.servers": "127.0.0.1:19092"}))
    assert wrong(found) == []
    assert any("not durable" in each.about for each in found)


def test_a_broker_that_is_down_is_a_finding() -> None:
    broker = FakeBroker()

    def down() -> frozenset[str]:
        raise Unreachable("No Kafka broker answers at kafka:9092.")

    broker.topics = down  # type: ignore[method-assign]
    [found] = diagnosis.of_broker(broker, DEMO_IS_MEANT, REMOTE)
    assert (found.state, bool(found.fix)) == ("PROBLEM", True)


def test_without_the_api_no_other_cluster_is_looked_at_than_those_there_are() -> None:
    """The default name is nobody's word: the topics of a cluster that nobody wants are not to be made."""
    found = list(diagnosis.of_broker(FakeBroker(), Meant(default="main"), REMOTE))
    assert wrong(found) == []
    assert [each.about for each in found if each.check == "cluster"] == ["demo: it is the only one on the broker"]


def test_a_cluster_that_is_not_there_is_not_to_be_made_beside_others() -> None:
    [found] = [
        each
        for each in wrong(list(diagnosis.of_broker(FakeBroker(), Meant("kv", "flag"), REMOTE)))
        if each.check == "topic"
    ]
    assert "there are: demo" in found.about
    assert "init" not in found.fix


@pytest.mark.parametrize(
    ("meant", "names", "clusters"),
    [
        (Meant("kv", "flag --cluster", ("demo",), "main"), ("demo",), ["kv"]),
        (Meant(heard=("kv", "gone"), default="main"), ("demo", "kv"), ["kv"]),
        (Meant(heard=("gone",), default="main"), ("demo",), ["demo"]),
        (Meant(default="main"), ("demo", "kv"), ["demo", "kv"]),
        (Meant(default="main"), (), ["main"]),
    ],
)
def test_who_has_been_named_counts_before_who_is_there(
    meant: Meant, names: tuple[str, ...], clusters: list[str]
) -> None:
    found, why = meant.among(topic_name(name, Topic.DECISIONS) for name in names)
    assert list(found) == clusters
    assert why


def test_the_clusters_of_earlier_commands_are_those_of_that_api(tmp_path: Path) -> None:
    tokens = FileTokens(tmp_path / "sessions.json", "http://api")
    for cluster in ("demo", "kv", "demo"):
        tokens.keep(cluster, f"ab.{len(cluster)}")
    FileTokens(tmp_path / "sessions.json", "http://api-2").keep("other", "ab.1")
    assert set(tokens.clusters()) == {"demo", "kv"}


@pytest.fixture
def well(api: FakeApi) -> FakeApi:
    ready = {"cluster": "demo", "ready": True, "reasons": [], "stopped": None, "position": 412, "age_ms": 350}
    api.reply("/readyz", 200, {"ready": True, "clusters": [ready]})
    cluster = ANSWERS[f"{DEMO}/cluster"]
    api.reply(f"{DEMO}/cluster", 200, {**cluster, "item": {**cluster["item"], "news": []}})
    api.reply(f"{DEMO}/decisions", 200, {**ANSWERS[f"{DEMO}/decisions"], "items": [{"time": "2026-11-21T02:00:00Z"}]})
    return api


def of_api(api: FakeApi) -> list[Finding]:
    with Api(api.url) as asked:
        return list(diagnosis.of_api(asked, lambda: NOW))


def test_a_healthy_api_has_nothing_to_mend(well: FakeApi) -> None:
    assert wrong(of_api(well)) == []


@pytest.mark.parametrize(
    ("path", "status", "body", "check", "said"),
    [
        ("/readyz", 503, {"reasons": ["It is cut off."], "position": 7}, "projection", "It is cut off."),
        (f"{DEMO}/cluster", 503, {"code": "poisoned", "detail": "It reads no further."}, "API", "reads no further"),
        (f"{DEMO}/decisions", 200, {"kind": "DecisionList", "items": []}, "coordinator", "nothing has been decided"),
        (
            f"{DEMO}/decisions",
            200,
            {"kind": "DecisionList", "items": [{"time": "2026-11-21T01:00:00Z"}]},
            "coordinator",
            "has written nothing for 1 h",
        ),
    ],
)
def test_each_harm_of_the_api_is_found(
    path: str, status: int, body: Json, check: str, said: str, well: FakeApi
) -> None:
    well.reply(path, status, body)
    [found] = wrong(of_api(well))
    assert (found.check, found.state, said in found.about, bool(found.fix)) == (check, "PROBLEM", True, True)


def test_of_a_reader_that_has_stopped_nobody_is_told_to_start_a_coordinator(well: FakeApi) -> None:
    """It leads, and is not read: a second one would help nobody."""
    well.reply("/readyz", 503, {"stopped": "record 8", "position": 7, "age_ms": 9})
    well.reply(f"{DEMO}/decisions", 200, {"kind": "DecisionList", "items": [{"time": "2026-11-21T01:00:00Z"}]})
    found, coordinator = wrong(of_api(well))
    assert (found.check, found.state, "stopped at position 7" in found.about) == ("projection", "PROBLEM", True)
    assert "reader-stopped.md" in found.fix
    assert (coordinator.check, coordinator.state) == ("coordinator", "UNKNOWN")


def test_what_is_wrong_in_the_cluster_is_found(well: FakeApi) -> None:
    """A refused join, a silent member, a lost partition: each as the headline of the cluster has it (OP20)."""
    refused = "Node n9 was refused 3 min ago: its disk has written behind the end of this log (AHEAD)."
    answer = ANSWERS[f"{DEMO}/cluster"]
    well.reply(f"{DEMO}/cluster", 200, {**answer, "item": {**answer["item"], "news": [refused]}})
    [found] = wrong(of_api(well))
    assert (found.check, found.state, found.about) == ("cluster", "PROBLEM", refused)
    assert "`topolog status`" in found.fix


def test_with_everything_down_all_is_said_at_once() -> None:
    found = examine(Target(api="http://127.0.0.1:1"), None, "lease.fense is not a setting.")
    assert [(each.check, each.state) for each in found[:2]] == [("settings", "PROBLEM"), ("API", "PROBLEM")]


def test_a_token_that_others_can_read_is_found(tmp_path: Path) -> None:
    token = tmp_path / "token"
    nobody = Said("", "default")
    standing = Standing(Said("http://api", "flag"), nobody, Said(str(token), "context"))
    assert [each.state for each in diagnosis.of_standing(standing)] == ["OK", "PROBLEM"]
    token.write_text("s3cr3t")
    token.chmod(0o644)
    assert [each.state for each in diagnosis.of_standing(standing)] == ["OK", "WARNING"]
    token.chmod(0o600)
    assert [each.state for each in diagnosis.of_standing(standing)] == ["OK", "OK"]


GOLDEN = Path(__file__).parent / "golden-doctor"
FORMATS = [output.value for output in Format if output is not Format.SCHEMA]
HARMS: dict[str, tuple[Callable[[FakeBroker], None], ...]] = {
    "well": (),
    "harmed": (without_requests, with_retention, single, unguarded, skewed),
    "unseen": (unseen, silent),
}


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("name", HARMS)
def test_findings_are_printed_as_their_golden_file_holds(
    name: str, output: str, well: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """All checks of API and broker, in the order in which `doctor` shows them; the worst comes first."""
    broker = FakeBroker()
    for harm in HARMS[name]:
        harm(broker)
    standing = Standing(Said("http://api", "flag --api"), Said("demo", "settings"), Said("", "default"))
    found = [*diagnosis.of_standing(standing), *of_api(well), *diagnosis.of_broker(broker, DEMO_IS_MEANT, REMOTE)]
    code = 0
    try:
        show(Screen(), Shape(chosen=Format(output)), worst_first(found))
    except typer.Exit as ended:
        code = ended.exit_code
    written = capsys.readouterr()
    check_golden(
        GOLDEN / f"{name}.{output}.txt", Ended(code, written.out.replace(well.url, "http://api"), written.err).shown
    )


def test_there_is_no_golden_file_without_a_test() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{name}.{output}.txt" for name in HARMS for output in FORMATS}
