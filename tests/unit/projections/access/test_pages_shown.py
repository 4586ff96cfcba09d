"""What the console's pages show beside what they are about: to each principal what they may list, and no more."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from tests.unit.projections.access.letting_in import Doorkeeper
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.lively import lively
from tests.unit.projections.repairing import Rounds, differing_tables, union_definition
from tests.unit.projections.serving import served, serving

from topolog.projections.api.served import Served
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Show = Callable[..., str]
MAIN = "/v1/clusters/main"


@pytest.fixture
def keeper(tmp_path: Path) -> Doorkeeper:
    return Doorkeeper(tmp_path)


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector, keeper: Doorkeeper) -> Iterator[httpx.Client]:
    requester = Requester(AnsweringWriter(chronicle, projector), "api", "broker:9092")
    with served(projector, requester, keeper.access) as client:
        yield client


@pytest.fixture
def show(client: httpx.Client, chronicle: Chronicle, projector: Projector, keeper: Doorkeeper) -> Show:
    """A page of the lively cluster, for whoever has these grants."""
    lively(chronicle)
    while projector.step():
        pass

    def shown(page: str, grants: str) -> str:
        answer = client.get(f"/clusters/main/{page}", headers=keeper.let_in("somebody", grants))
        assert answer.status_code == 200, answer.text
        return answer.text

    return shown


@pytest.mark.parametrize("page", ["help", "partitions?group=parts&as_of=40"])
def test_a_page_tells_nobody_of_decisions_that_are_denied_to_them(show: Show, page: str) -> None:
    """The slider stands on every page. Where the moments are it says to everybody, for they are those of all views."""
    narrow, wide = show(page, "viewer@main:partitions/parts/*"), show(page, "viewer@main")
    assert "group orders" in wide
    assert "group orders" not in narrow
    assert narrow.count('class="mark "') == narrow.count('class="mark ') == wide.count('class="mark ') > 0


def test_the_overview_shows_what_may_be_listed_and_no_more(show: Show) -> None:
    all_of_it = {
        "leases": 'class="label">leases',
        "exchanges": "Last exchanges",
        "decisions": "What happened last",
        "partitions": "Partitions by node",
        "nodes": 'class="label">members',
        "dead-letters": 'class="label">dead letters',
        "pending": "/clusters/main/pending/",
    }
    everything = show("", "viewer@main")
    assert [name for name, sign in all_of_it.items() if sign not in everything] == []
    for granted in ("cluster", *all_of_it):
        shown = show("", f"viewer@main:cluster,viewer@main:{granted}")
        assert [name for name, sign in all_of_it.items() if sign in shown] == [granted] * (granted in all_of_it)
        assert "Nothing is wrong, nothing is under way." not in shown


@pytest.mark.parametrize(
    ("page", "needed", "beside", "sign"),
    [
        ("baselines", "baselines", "cluster", "Auto-adjust is"),
        ("projections", "projections", "cluster", "chain hash"),
        ("projections", "projections", "decisions", "Read since this process began"),
    ],
)
def test_a_page_shows_another_list_s_part_to_whoever_may_list_it(
    show: Show, page: str, needed: str, beside: str, sign: str
) -> None:
    assert sign in show(page, f"viewer@main:{needed},viewer@main:{beside}")
    assert sign not in show(page, f"viewer@main:{needed}")


def test_the_list_of_clusters_has_the_sentence_of_each_that_may_be_read(tmp_path: Path, keeper: Doorkeeper) -> None:
    """What each cluster waits for stands there in its sentence, here an exchange that is pending."""
    with ExitStack() as stack:
        clusters = []
        for name in ("main", "other"):
            chronicle = lively(Chronicle().start())
            projector = stack.enter_context(closing(Projector(chronicle.log.reader(), tmp_path / name, name)))
            while projector.step():
                pass
            clusters.append(Served(projector, Requester(chronicle.log.writer(), "api", "broker:9092")))
        client = stack.enter_context(serving(clusters, keeper.access))
        of_all, of_both, of_one = (
            client.get("/", headers=keeper.let_in("somebody", grants)).text
            for grants in ("viewer", "viewer@main,viewer@other:cluster", "viewer@main")
        )
    worst = "Waiting: exchange/6.0"
    assert [shown.count(worst) for shown in (of_all, of_both, of_one)] == [2, 2, 1]


def test_keys_that_differ_are_shown_to_whoever_may_read_rows(
    client: httpx.Client, chronicle: Chronicle, projector: Projector, keeper: Doorkeeper
) -> None:
    """The right read-payload, which `get differences` takes: a key is somebody's data."""
    chronicle.join("n1")
    rounds = Rounds(chronicle)
    differing_tables(rounds)
    number = rounds.start(union_definition(segments=2), reason="to see")
    rounds.run(number)
    while projector.step():
        pass
    address = f"/clusters/main/sessions/{number}"
    for_operators, for_viewers, for_few = (
        client.get(address, headers=keeper.let_in("somebody", grants)).text
        for grants in ("operator@main", "viewer@main", "viewer@main:sessions")
    )
    assert ("<code>[8]</code>" in for_operators, "R1 – R2" in for_operators) == (True, True)
    assert ("<code>[8]</code>" in for_viewers, "R1 – R2" in for_viewers) == (False, True)
    assert ("<code>[8]</code>" in for_few, "R1 – R2" in for_few) == (False, False)
    assert "Who may list trees sees them here." in for_few


@pytest.mark.parametrize("address", [f"{MAIN}/groups/orderz", "/clusters/main/groups/orderz"])
def test_who_may_ask_for_one_name_is_not_told_the_nearest_others(
    show: Show, client: httpx.Client, keeper: Doorkeeper, address: str
) -> None:
    show("", "viewer@main")
    headers = {"Accept": "text/html"}
    wide = client.get(address, headers={**headers, **keeper.let_in("ann", "viewer@main:groups")})
    narrow = client.get(address, headers={**headers, **keeper.let_in("ben", "viewer@main:groups/orderz")})
    assert (wide.status_code, "Did you mean orders?" in wide.text) == (404, True)
    assert (narrow.status_code, "Did you mean" in narrow.text) == (404, False)
