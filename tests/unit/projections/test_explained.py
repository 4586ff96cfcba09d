"""Everything that has a name can be explained, and every command that an explanation suggests can be given."""

import re
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from httpx import Client
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.repairing import Rounds, definition, differing_tables, union_definition
from tests.unit.projections.serving import served
from tests.unit.projections.sharing import shared_out
from tests.unit.projections.standing import ACTIVATE, staged
from tests.unit.projections.test_dead_letters import READABLE, bury
from tests.unit.projections.test_objects import ADA, NOTE, ORDERS, PRICES, SHOP
from tests.unit.test_docs import wrong

from topolog.events.log import InMemoryLog, InMemoryWriter
from topolog.events.repair_definition import SessionKind
from topolog.projections import refusals
from topolog.projections.api.listings import LISTINGS
from topolog.projections.cli.resources import (
    AUDIT,
    BRANCHES,
    CLUSTER,
    EXPLAINED,
    JOINS,
    PENDING,
    PROJECTIONS,
    RESOURCES,
    TOPICS,
    Resource,
)
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
EACH_MAX = 4


def explain_all(client: Client, **parameters: str) -> set[str]:
    """The explanation of the first few items of each list, and of the cluster; of what there was something."""
    check(client, "/cluster/explain", parameters)
    seen = set()
    for kind in EXPLAINED:
        if kind in (CLUSTER, JOINS) or (parameters and LISTINGS[kind.plural].no_past):
            continue
        answer = client.get(f"{MAIN}/{kind.plural}", params={**parameters, "limit": EACH_MAX})
        assert answer.status_code == 200, answer.text
        for item in answer.json()["items"]:
            check(client, f"/{address(kind, item)}/explain", parameters)
            seen.add(kind.plural)
    return seen


def address(kind: Resource, item: Json) -> str:
    return "/".join(quote(segment, safe="") for segment in kind.path(kind.name_of(item)))


def check(client: Client, path: str, parameters: Json) -> None:
    answer = client.get(MAIN + path, params=parameters)
    assert answer.status_code == 200, f"{path}: {answer.text}"
    item = answer.json()["item"]
    assert item["sentence"].endswith((".", ")")), f"{path}: {item['sentence']}"
    assert all(isinstance(text, str) for text in item["facts"].values())
    assert 1 <= len(item["next"]) <= 3, f"{path}: {item['next']}"
    for command in item["next"]:
        assert not wrong_form(re.sub(r"\d+", "1", command)), f"{path}: {command}"
    positions = [each["position"] for each in item["causes"]]
    assert positions == sorted(positions)


@cache
def wrong_form(command: str) -> str:
    """What is wrong with a command, whatever numbers it names."""
    return wrong(command)


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    with served(projector, Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")) as client:
        yield client


def read(projector: Projector) -> None:
    while projector.step():
        pass


def test_groups_and_their_partitions(chronicle: Chronicle, projector: Projector, client: Client) -> None:
    """Also of the past."""
    shared_out(chronicle, "s1", "s2", "s3")
    read(projector)
    assert explain_all(client) >= OF_GROUPS
    assert explain_all(client, as_of=str(chronicle.position - 3)) >= {"nodes", "groups", "partitions", "leases"}


def test_replicas_sessions_and_what_they_find(chronicle: Chronicle, projector: Projector, client: Client) -> None:
    """One session is over, one is under way, one repairs; a schedule is due."""
    chronicle.join("n1")
    rounds = Rounds(chronicle)
    differing_tables(rounds)
    rounds.schedule("nightly", definition(), 3_600_000)
    rounds.run(rounds.start(union_definition()))
    rounds.due("nightly")
    rounds.start(union_definition(SessionKind.REPAIR))
    read(projector)
    assert explain_all(client) >= OF_SESSIONS


def test_letters_and_refusals(chronicle: Chronicle, projector: Projector, client: Client) -> None:
    chronicle.join("n1")
    bury(chronicle, READABLE)
    bury(chronicle, b"an egg")
    chronicle.propose("Customer", {"id": "long"})
    read(projector)
    assert explain_all(client) >= OF_LETTERS


def test_baselines_and_views(chronicle: Chronicle, projector: Projector) -> None:
    with staged(chronicle, projector) as stage:
        stage.join("n1", "n2", "n3")
        stage.granted(ACTIVATE)
        stage.finish()
        stage.leave("n3")
        assert explain_all(stage.client) >= OF_BASELINES


def test_objects_and_their_changes(chronicle: Chronicle, projector: Projector, client: Client) -> None:
    """Changes that are over."""
    chronicle.join("n1")
    read(projector)
    assert post(client, SHOP, ORDERS, PRICES, ADA) == 200
    assert post(client, NOTE) == 200
    read(projector)
    assert explain_all(client) >= OF_OBJECTS


def post(client: Client, *statements: Json) -> int:
    body = {"kind": "schema-change", "statements": statements}
    return client.post(f"{MAIN}/requests", json=body, params={"wait": "decided"}).status_code


@pytest.mark.parametrize("log", [2, 5, 6], indirect=True)
def test_whatever_a_simulated_cluster_went_through(log: InMemoryLog, tmp_path: Path) -> None:
    """Definitions, baselines, crashes; now and in the middle of it."""
    with closing(Projector(log.reader(), tmp_path, "main")) as projector:
        read(projector)
        requester = Requester(InMemoryWriter(log, prompt=True), "api-1", "broker:9092")
        with served(projector, requester) as client:
            assert "decisions" in explain_all(client)
            assert "nodes" in explain_all(client, as_of=str(projector.meta.position * 2 // 3))


OF_GROUPS = frozenset(
    {"nodes", "leases", "lease-health", "groups", "partitions", "maps", "single-maps", "exchanges", "views"}
    | {"decisions", "requests"}
)
OF_SESSIONS = frozenset({"sessions", "trees", "differences", "repairs", "replicas", "schedules"})
OF_LETTERS = frozenset({"dead-letters", "types"})
OF_BASELINES = frozenset({"baselines", "views"})
OF_OBJECTS = frozenset({"databases", "tables", "table-views", "grants", "changes"})


def test_nothing_that_has_a_name_is_left_out() -> None:
    """The tests above explain something of each resource; what waits and what was done point to what they are about."""
    assert set(RESOURCES) - set(EXPLAINED) == {AUDIT, BRANCHES, PENDING, PROJECTIONS, TOPICS}
    explained = {kind.plural for kind in EXPLAINED} - {CLUSTER.plural, JOINS.plural}
    assert explained == OF_GROUPS | OF_SESSIONS | OF_LETTERS | OF_BASELINES | OF_OBJECTS


def test_what_helps_against_a_refusal_can_be_given() -> None:
    """Every command in the remedies is one; none is left with a place to be filled that nobody sees."""
    problems = [
        wrong(command, is_complete=False)
        for text in refusals.REMEDIES.values()
        for command in text.split("`")[1::2]
        if command.startswith("topolog ")
    ]
    assert not any(problems), problems
