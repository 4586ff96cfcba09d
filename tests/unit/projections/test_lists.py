"""Lists of the API: filters, order, fields, pages, and that the past is what a fresh fold makes of it."""

import asyncio
import csv
import io
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from httpx import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect
from starlette.types import Message
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.lively import Rereading, lively
from tests.unit.projections.serving import served

from topolog.events.rows import ROWS
from topolog.projections import ordering, patience
from topolog.projections.api import export
from topolog.projections.api.listing import Listing, ListQuery
from topolog.projections.api.listings import LISTINGS
from topolog.projections.cursors import Cursor
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.store import Reading

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
EQUALITIES = {
    "nodes": ("standing", "kind", "health"),
    "leases": ("state", "node"),
    "types": ("name",),
    "groups": ("loss_policy", "persistent"),
    "partitions": ("group", "state", "primary"),
    "maps": ("group", "node", "is_member"),
    "exchanges": ("state",),
    "views": ("event", "actor"),
    "decisions": ("event", "subject", "actor", "term"),
    "requests": ("status", "requester", "subject"),
}
"""Lists, and filters of theirs that are a field of the item."""


KEYS = {"nodes": "node", "leases": "node", "views": "position", "decisions": "position", "requests": "id"}


class Site(NamedTuple):
    chronicle: Chronicle
    projector: Projector
    client: Client

    def get(self, path: str, expected: int = 200, /, **parameters: str | int) -> Json:
        answer = self.client.get(f"{MAIN}{path}", params=parameters)
        assert answer.status_code == expected, answer.text
        body: Json = answer.json()
        return body

    def whole(self, name: str, /, **parameters: str | int) -> list[Json]:
        """All pages of a list."""
        limit = parameters.pop("limit", 1_000)
        page = self.get(f"/{name}", limit=limit, **parameters)
        found = list(page["items"])
        while page["next"] is not None:
            page = self.get(f"/{name}", cursor=page["next"], limit=limit)
            found += page["items"]
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    chronicle = lively(Chronicle().start())
    projector = Projector(
        chronicle.log.reader(),
        tmp_path_factory.mktemp("lists"),
        "main",
        now_s=lambda: 0.0,
        wall_ms=lambda: chronicle.now_ms,
    )
    while projector.step():
        pass
    with (
        pytest.MonkeyPatch.context() as patch,
        served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client,
    ):
        patch.setattr(patience, "wall_ms", lambda: chronicle.now_ms)
        yield Site(chronicle, projector, client)
    projector.close()


def key_of(name: str, item: Json) -> Any:
    if name == "exchanges":
        return item["completed_at"] if item["types"] == ["SWITCH"] else item["started_at"]
    return item[KEYS.get(name, "name")]


def in_order(name: str, items: list[Json], sort: list[str]) -> list[Json]:
    """The oracle: sorted by each field in turn, by the key what is equal."""
    found = sorted(items, key=lambda item: ordering.natural(str(key_of(name, item))))
    for field in reversed(sort):
        found.sort(key=lambda item: ordering.natural(item[field.lstrip("-")]), reverse=field.startswith("-"))
    return found


def json_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@settings(max_examples=15)
@given(data=st.data())
def test_pages_of_any_question_are_the_whole_list_filtered_and_sorted(site: Site, data: st.DataObject) -> None:
    """RD15: whatever is asked for, all pages together are the list, filtered and sorted in memory."""
    name = data.draw(st.sampled_from(sorted(EQUALITIES)), "list")
    whole = site.whole(name)
    filters = data.draw(st.lists(st.sampled_from(EQUALITIES[name]), unique=True, max_size=2), "filters")
    example = data.draw(st.sampled_from(whole), "example")
    wanted = {each: example[each] for each in filters if example[each] not in (None, "")}
    sortable = ordering.sortable_fields(LISTINGS[name].item)
    fields = data.draw(st.lists(st.sampled_from(sortable), unique=True, max_size=3), "sort")
    sort = [data.draw(st.sampled_from(("", "-"))) + each for each in fields]
    limit = data.draw(st.integers(1, 40), "limit")

    asked: dict[str, str | int] = {each: json_text(value) for each, value in wanted.items()}
    asked |= {"limit": limit} | ({"sort": ",".join(sort)} if sort else {})
    found = site.whole(name, **asked)

    expected = [item for item in whole if all(item[each] == value for each, value in wanted.items())]
    assert found == (in_order(name, expected, sort) if sort else expected)


LASTING = [each for name, each in LISTINGS.items() if not each.no_past and name not in ("nodes", "leases", "pending")]
"""Lists of which everything is kept. Of leases the renewals of the past are not, and what is pending goes by them."""


def content(each: Listing[Any], reading: Reading) -> Any:
    return msgspec.json.encode(list(each.items(reading, ListQuery())))


def test_the_past_is_what_a_fresh_fold_makes_of_the_log_up_to_there(site: Site, tmp_path: Path) -> None:
    """RD6: as-of answers equal a fresh fold, for 100 random positions: all rows, and all lists made of them."""
    chooser = random.Random(10)
    positions = sorted(chooser.choices(range(1, site.chronicle.position + 1), k=100))
    fresh = Rereading(site.chronicle.entries, tmp_path / "fresh")
    kinds = [kind for kind in ROWS if not kind.VOLATILE]
    for position in positions:
        with site.projector.reading() as newest:
            then = newest.as_of(position)
            fresh.go_to(then.position)
            with fresh.projector.reading() as now:
                assert now.position == then.position
                assert then.state(*kinds).hash() == now.state(*kinds).hash()
                for each in LASTING:
                    assert content(each, then) == content(each, now), (position, each.name)
    fresh.projector.close()


def test_a_list_is_sorted_by_fields_and_numbers_in_names_count(site: Site) -> None:
    names = [item["node"] for item in site.whole("nodes", sort="node", limit=2)]
    assert names == ["n1", "n2", "n3", "n4", "n10", "watcher"]
    assert [item["node"] for item in site.whole("nodes", sort="-kind,-node", limit=3)][:3] == ["n10", "n4", "n3"]
    left = [item["left_at"] for item in site.whole("nodes", sort="-left_at")]
    assert left[0] is not None
    assert left[-1] is None, "what has no value is the least"


def test_only_some_fields_of_each_item(site: Site) -> None:
    page = site.get("/partitions", fields="state,name", limit=2, sort="-partition")
    assert page["items"] == [{"state": "OWNING", "name": "orders/15"}, {"state": "OWNING", "name": "orders/14"}]
    assert site.get("/partitions", cursor=page["next"], limit=1)["items"] == [{"state": "OWNING", "name": "orders/13"}]


@pytest.mark.parametrize(
    ("path", "parameters", "says"),
    [
        ("/nodes", {"sort": "-nmae"}, "There are: node, order"),
        ("/nodes", {"sort": "joined"}, "Did you mean joined_at?"),
        ("/nodes", {"sort": "attributes"}, "no field 'attributes'"),
        ("/nodes", {"sort": "node,"}, "no field ''"),
        ("/decisions", {"sort": "event,-event" + ",event" * 3_000}, "named twice"),
        ("/nodes", {"fields": "node,kin"}, "Did you mean kind?"),
        ("/nodes", {"stanidng": "LEFT"}, "did you mean standing?"),
        ("/nodes", {"xyz": "LEFT"}, "there are as_of, at_least"),
        ("/nodes/n1", {"aso_f": "1"}, "did you mean as_of?"),
        ("/export/nodes", {"formt": "csv"}, "did you mean format?"),
        ("/decisions", {"event": "NodeJoind"}, "did you mean NodeJoined?"),
        ("/decisions", {"after": "2999-01-01T00:00Z"}, "future"),
        ("/export/nodes", {"fields": "nod"}, "Did you mean node?"),
        ("/nodes/n1/history", {"sort": "changes"}, "no field 'changes'"),
        ("/projections", {"dry_run": "true"}, "there is none"),
    ],
)
def test_what_is_not_known_is_told_what_is(site: Site, path: str, parameters: dict[str, str], says: str) -> None:
    """A typo is 400, with the nearest name or all of them."""
    problem = site.get(path, 400, **parameters)
    assert says in f"{problem['detail']} {problem['hint']}"
    assert problem["invalid_params"][0]["name"] == next(iter(parameters))


def test_a_cursor_holds_to_its_order_and_filters(site: Site) -> None:
    """What is given beside it may not say otherwise."""
    cursor = site.get("/nodes", sort="-node", standing="MEMBER", limit=1)["next"]
    assert site.get("/nodes", cursor=cursor, sort="-node", standing="MEMBER", limit=1)["items"]
    for other in ({"sort": "node"}, {"standing": "LEFT"}, {"fields": "node"}):
        problem = site.get("/nodes", 400, cursor=cursor, **other)
        assert "belongs to other" in problem["detail"]


@pytest.mark.parametrize(
    ("path", "filters"),
    [
        ("decisions", {"after": "abc"}),
        ("decisions", {"until": "9" * 5_000}),
        ("decisions", {"term": " 3"}),
        ("diff/exchanges", {"after": "-2"}),
        ("diff/exchanges", {"until": "9" * 5_000}),
        ("trees", {"segment": "5.0"}),
    ],
)
def test_a_cursor_whose_filters_are_none_of_ours_is_refused(site: Site, path: str, filters: dict[str, str]) -> None:
    """Whoever writes a cursor writes what he likes: what was never given out is bad input, not a defect."""
    cursor = str(Cursor(f"{MAIN}/{path}", 20, "19", filters, since=3))
    begin = {"from": "3"} if path.startswith("diff") else {}
    assert site.get(f"/{path}", 400, cursor=cursor, **begin)["invalid_params"][0]["name"] == "cursor"


def test_a_list_that_is_too_long_to_be_sorted_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "SORTED_MAX", 10)
    problem = site.get("/partitions", 400, sort="-state")
    assert (problem["invalid_params"][0]["name"], "More than 10" in problem["detail"]) == ("sort", True)
    assert site.get("/partitions", sort="-state", primary="n10")["items"]


@pytest.mark.parametrize("name", ["decisions", "exchanges", "views", "requests", "nodes/n1/history"])
def test_a_part_of_the_log_is_what_lies_between_two_moments(site: Site, name: str) -> None:
    """`after` is not included, `until` is: what a diff of the two moments rests on. By position and by time."""
    whole = site.whole(name)
    later, until = key_of_place(name, whole[-1]), key_of_place(name, whole[len(whole) // 3])
    expected = [item for item in whole if later < key_of_place(name, item) <= until]
    assert site.whole(name, after=later, until=until, limit=2) == expected
    times = {each["position"]: each["time"] for each in site.whole("decisions", renewals="true")}
    if name != "exchanges":
        assert site.whole(name, after=times[later], until=times[until]) == expected
    assert site.whole(name, after="2001-09-10T00:00Z", until=site.chronicle.position + 7) == whole
    assert site.whole(name, until="2001-09-10T00:00Z") == []


def key_of_place(name: str, item: Json) -> int:
    place: int = key_of(name, item) if name == "exchanges" else item["position"]
    return place


@pytest.mark.parametrize("name", sorted(LISTINGS))
@pytest.mark.parametrize("portion", [3, 1_000])
def test_an_export_is_the_whole_list(site: Site, name: str, portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows, as lines of JSON and as CSV, whatever the size of the portions in which they are read."""
    monkeypatch.setattr(export, "PORTION_ROWS", portion)
    past: dict[str, str | int] = {} if LISTINGS[name].no_past else {"as_of": site.chronicle.position}
    whole = site.whole(name, **past)
    lines = site.client.get(f"{MAIN}/export/{name}", params=past)
    assert [msgspec.json.decode(line) for line in lines.content.splitlines()] == whole
    position = site.chronicle.position
    assert lines.headers["Content-Disposition"] == f'attachment; filename="main-{name}-{position}.jsonl"'
    assert lines.headers["X-Topolog-Token"].endswith(f".{position}")
    table = site.client.get(f"{MAIN}/export/{name}", params={"format": "csv", **past})
    head, *rows = csv.reader(io.StringIO(table.text))
    assert tuple(head) == LISTINGS[name].item.__struct_fields__
    assert len(rows) == len(whole)
    for row, item in zip(rows, whole, strict=True):
        assert row == [cell(item[field]) for field in head]


def cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def test_no_cell_of_an_export_is_a_formula(chronicle: Chronicle, projector: Projector) -> None:
    """OP14: a node may call itself so, and a spreadsheet runs it. JSON lines say what is."""
    names = ["=cmd|'/c'!A1", "+1+cmd", "-1+cmd", "@SUM(A1)", "\t=1", "\r=1", "\n=1"]
    for name in names:
        chronicle.join(name)
    projector.step()
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        params = {"fields": "node,incarnation"}
        table = client.get(f"{MAIN}/export/nodes", params={**params, "format": "csv"}).text
        lines = client.get(f"{MAIN}/export/nodes", params=params).text
    _, *rows = csv.reader(io.StringIO(table, newline=""))
    assert sorted(node for node, _ in rows) == sorted(f"'{name}" for name in names)
    assert [number for _, number in rows] == ["1"] * len(names)
    assert sorted(msgspec.json.decode(line)["node"] for line in lines.splitlines()) == sorted(names)


def test_an_export_is_of_one_moment_and_of_what_is_asked_for(
    site: Site, chronicle: Chronicle, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Portions are read as of the position of the first, whatever is decided meanwhile."""
    lively(chronicle)
    projector.step()
    monkeypatch.setattr(export, "PORTION_ROWS", 5)
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        whole = client.get(f"{MAIN}/export/decisions").text.splitlines()
        with client.stream("GET", f"{MAIN}/export/decisions", params={"fields": "position"}) as answer:
            lines = answer.iter_lines()
            first = next(lines)
            chronicle.renew("n1")
            chronicle.propose("Late", {"id": "long"})
            projector.step()
            found = [first, *lines]
    assert [msgspec.json.decode(line)["position"] for line in found] == [
        msgspec.json.decode(line)["position"] for line in whole
    ]
    assert site.get("/export/nope", 404)["code"] == "not_found"
    assert site.get("/export/lease-health", 400, as_of=3)["detail"].startswith("Lease health has no past")


def test_who_takes_nothing_is_cut_off_and_read_for_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow client holds one portion, for a while; the end of a whole answer is not sent."""
    monkeypatch.setattr(export, "STALL_S", 0.01)
    made, sent = [], []

    async def portions() -> AsyncIterator[bytes]:
        for number in range(1_000):
            made.append(number)
            yield b"row\n"

    async def send(message: Message) -> None:
        sent.append(message)
        if len(sent) == 3:
            await asyncio.Event().wait()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def serve() -> None:
        scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
        await export.Streamed(portions())(scope, receive, send)

    with pytest.raises(ClientDisconnect):
        asyncio.run(serve())
    assert made == [0, 1]
    assert not any(message["type"] == "http.response.body" and not message["more_body"] for message in sent)


def test_a_word_that_is_none_of_several_is_answered_with_all_of_them(site: Site) -> None:
    [wrong] = site.get("/leases", 400, state="NOPE")["invalid_params"]
    assert wrong == {"name": "state", "reason": "'NOPE' is none of VALID, SILENT, NONE or OVERDUE"}
