"""Dashboards and alerts against what the roles really export; alerts and runbooks against each other (OP26)."""

import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser as promql
import pytest
import yaml
from tests.exported import exported
from tests.unit.test_docs import wrong

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docker" / "prometheus" / "rules.yml"
RULES_TEST = RULES.with_name("rules_test.yml")
GRAFANA = ROOT / "docker" / "grafana"
RUNBOOKS = ROOT / "docs" / "runbooks"

AUDIENCES = {"overview", "exchange", "leases", "repair", "lag", "node-client", "spark-jobs"}
"""OP26."""

EVERYWHERE = {"instance", "job", "le"}
"""Labels that Prometheus, or a histogram, adds."""

ALERTS = {"ALERTS": {"alertname", "alertstate", "severity", "cluster"}}
"""What Prometheus itself makes of the rules."""

VALUES_OF_GRAFANA = {"$__rate_interval": "5m", "$cluster": ".*"}


class Used(NamedTuple):
    """What an expression asks for: the metric, and the labels that it is narrowed by."""

    metric: str
    labels: frozenset[str]


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Labels by the name of a series."""
    return {series: {*each.labels, *EVERYWHERE} for each in exported() for series in each.series} | ALERTS


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    return found


def alert(name: str) -> dict[str, Any]:
    return next(rule for rule in rules() if rule["alert"] == name)


ALERT_NAMES = [rule["alert"] for rule in rules()]
BOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))


def nodes(expression: Any) -> Iterator[Any]:
    """The expression and all that it is made of."""
    yield expression
    for name in ("expr", "lhs", "rhs", "param", "selector", "vector_selector"):
        inner = getattr(expression, name, None)
        if inner is not None and not isinstance(inner, str | int | float):
            yield from nodes(inner)
    for inner in getattr(expression, "args", None) or ():
        yield from nodes(inner)


def wrong_in(text: str, known: dict[str, set[str]]) -> list[str]:
    """What is wrong with an expression: what cannot be parsed, metrics and labels that nobody exports."""
    for variable, value in VALUES_OF_GRAFANA.items():
        text = text.replace(variable, value)
    try:
        found = list(nodes(promql.parse(text)))
    except ValueError as error:
        return [f"{text}: {error}"]
    used = [
        Used(each.name or "", frozenset(matcher.name for matcher in each.matchers.matchers))
        for each in found
        if isinstance(each, promql.VectorSelector)
    ]
    complaints = [] if used else [f"{text} asks for nothing"]
    complaints += [f"{each.metric} is not exported" for each in used if each.metric not in known]
    complaints += [
        f"{each.metric} has no label {label}"
        for each in used
        for label in each.labels - known.get(each.metric, each.labels)
    ]
    of_all = {label for each in used for label in known.get(each.metric, set())}
    for each in found:
        if isinstance(each, promql.AggregateExpr) and each.modifier is not None:
            complaints += [f"{text}: no metric has the label {name}" for name in {*each.modifier.labels} - of_all]
    return complaints


# Alerts.


def test_there_are_at_most_fifteen_alerts() -> None:
    """OP26: who is woken by more looks at none."""
    assert len(ALERT_NAMES) == len(set(ALERT_NAMES)) <= 15


@pytest.mark.parametrize("name", ALERT_NAMES)
def test_an_alert_asks_for_what_is_exported(name: str, known: dict[str, set[str]]) -> None:
    assert wrong_in(alert(name)["expr"], known) == []


@pytest.mark.parametrize("name", ALERT_NAMES)
def test_an_alert_says_how_bad_whom_what_to_read_and_what_to_ask(name: str) -> None:
    """Severity, cluster, a runbook that is there and names the alert, and a `topolog` line that can be given."""
    rule = alert(name)
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert "for" in rule or "increase(" in rule["expr"], "or one bad scrape wakes somebody"
    said = rule["annotations"]
    assert set(said) == {"summary", "command", "runbook_url"}
    assert "{{ $labels.cluster }}" in said["summary"]
    runbook = ROOT / said["runbook_url"]
    assert runbook.parent == RUNBOOKS
    assert f"`{name}`" in runbook.read_text()
    assert said["command"].startswith("topolog ")
    command = re.sub(r"{{.*?}}", "orders", said["command"])
    assert wrong(command) == ""
    assert command.split(" orders")[0].split("--")[0].strip() in runbook.read_text()


def test_runbooks_of_a_rule_file_for_elsewhere_can_be_clicked() -> None:
    """A path within this repository leads nowhere from where an alert arrives; nothing else of the rules changes."""
    command = ["make", "--silent", "alert-rules"]
    at = "https://wiki.example/runbooks"
    made = subprocess.run([*command, f"RUNBOOKS={at}/"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = yaml.safe_load(made.stdout)["groups"][0]["rules"]
    for rule, ours in zip(found, rules(), strict=True):
        said = rule["annotations"]
        assert said["runbook_url"] == f"{at}/{Path(ours['annotations']['runbook_url']).name}"
        said["runbook_url"] = ours["annotations"]["runbook_url"]
    assert found == rules()
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 2


def test_each_runbook_is_of_an_alert_or_of_another_runbook() -> None:
    """None is left behind when an alert goes; each says what it means, where to look, what to do and what not."""
    named = {Path(alert(name)["annotations"]["runbook_url"]).name for name in ALERT_NAMES}
    others = {path.name for path in RUNBOOKS.glob("*.md")} - named
    texts = {path.name: path.read_text() for path in RUNBOOKS.glob("*.md")}
    for other in others:
        assert any(f"({other})" in texts[name] for name in named), other
    for name in named - {"exchange-hangs.md"}:
        assert "**You are here because**" in texts[name]
        assert "**What it means.**" in texts[name]
        assert "## Look here" in texts[name]
        assert "## Do this" in texts[name] or "what to do" in texts[name]
        assert "## Don't do that" in texts[name]


@pytest.mark.parametrize("path", sorted(RUNBOOKS.glob("*.md")), ids=lambda path: path.name)
def test_status_is_the_first_command_of_each_runbook(path: Path) -> None:
    """Whoever is woken asks it before anything else, whichever page the alert leads to."""
    before, found, _ = path.read_text().partition("`topolog status`")
    assert found
    assert "`topolog" not in before
    assert "```" not in before


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not on this machine")
@pytest.mark.parametrize("what", [("check", "rules", RULES), ("test", "rules", RULES_TEST)], ids=["syntax", "data"])
def test_the_alerts_do_what_they_say_on_data(what: tuple[str, str, Path]) -> None:
    """Prometheus' own judgement: each alert is raised by what it is about, and by nothing beside it."""
    done = subprocess.run(["promtool", *map(str, what)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tested_on_data() -> None:
    tests = yaml.safe_load(RULES_TEST.read_text())["tests"]
    raised = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each["exp_alerts"]}
    assert raised == set(ALERT_NAMES)


# Dashboards.


def test_there_is_a_dashboard_for_each_audience_and_it_is_what_the_boards_say() -> None:
    """If this fails: .venv/bin/python docker/grafana/make_dashboards.py"""
    spec = importlib.util.spec_from_file_location("make_dashboards", GRAFANA / "make_dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert {path.name: path.read_text() for path in BOARDS} == maker.dashboards()
    assert {path.stem for path in BOARDS} == AUDIENCES


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_what_is_exported(path: Path, known: dict[str, set[str]]) -> None:
    board = json.loads(path.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert [complaint for text in asked for complaint in wrong_in(text, known)] == []
    (variable,) = re.findall(r"label_values\((\w+), cluster\)", board["templating"]["list"][1]["query"])
    assert "cluster" in known[variable]
    for panel in board["panels"]:
        for target in panel["targets"]:
            lines = re.findall(r"{{(\w+)}}", target["legendFormat"])
            kept = re.findall(r"by \(([^)]*)\)", target["expr"])
            assert not kept or set(lines) <= {name.strip() for each in kept for name in each.split(",")}, panel["title"]


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_panels_lie_side_by_side(path: Path) -> None:
    """Nothing lies on something else, nothing sticks out."""
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(path.read_text())["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        mine = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not mine & taken, panel["title"]
        taken |= mine


def test_what_is_exported_is_looked_at_somewhere(known: dict[str, set[str]]) -> None:
    """A metric that no dashboard and no alert asks for says so here."""
    texts = "".join(path.read_text() for path in [*BOARDS, RULES])
    ours = {each.name for each in exported() if each.role != "process"}
    unseen = {name for name in ours if not re.search(rf"\b{name}(_bucket|_count|_sum)?\b", texts)}
    assert unseen == set()


@pytest.mark.parametrize(
    "text",
    [
        "sum(topolog_coordinator_leadin)",
        'topolog_coordinator_leading{node="n1"}',
        "sum by (shard) (topolog_coordinator_leading)",
        "sum(topolog_coordinator_leading",
        "rate(topolog_coordinator_verdict_seconds[5m])",
    ],
)
def test_an_expression_that_asks_for_nothing_would_be_noticed(text: str, known: dict[str, set[str]]) -> None:
    assert wrong_in(text, known)


# Files that others read.


def test_prometheus_and_grafana_find_each_other_in_the_compose_file() -> None:
    """Targets are services with metrics at that port; rules and dashboards are mounted where they are looked for."""
    compose = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
    services = compose["services"]
    scraped = yaml.safe_load(RULES.with_name("prometheus.yml").read_text())
    assert scraped["rule_files"] == [RULES.name]
    for job in scraped["scrape_configs"]:
        for target in job["static_configs"][0]["targets"]:
            service, _, port = target.partition(":")
            settings = services[service]["environment"]
            assert (settings["TOPOLOG_METRICS__PORT"], settings["TOPOLOG_METRICS__HOST"]) == (int(port), "0.0.0.0")
    for name in ("prometheus", "grafana"):
        assert services[name]["profiles"] == ["observe"]
        assert all(published.startswith("127.0.0.1:") for published in services[name]["ports"])
        for volume in services[name]["volumes"]:
            here = volume.split(":")[0]
            assert not here.startswith(".") or (ROOT / "docker" / here).exists()
    source = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text())
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    place = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "topolog.yml").read_text())
    assert any(f":{place['providers'][0]['options']['path']}" in each for each in services["grafana"]["volumes"])
