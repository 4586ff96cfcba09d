"""The heat map: its figures are those of the fold, its page is readable with few nodes and with hundreds."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from httpx import Client
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served
from tests.unit.projections.sharing import Sharing, shared_out

from topolog.events import ownership as o
from topolog.events.changes import pack_changes
from topolog.events.exchange import ExchangeCompleted, ExchangeStarted, FullPartitionMap, queued
from topolog.events.group_definition import GroupDefinition
from topolog.events.groups import GroupCreated
from topolog.events.ids import Offset, TopologyVersion
from topolog.events.ownership import Change, Copy
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.events.terms import cluster as cluster_row
from topolog.projections import packed
from topolog.projections.packed import CONDITIONS, KINDS, Kind
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.web.heat import Gallery


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        yield client


def kind_of(each: o.Ownership, copy: Copy) -> Kind:
    """What a copy is, said partition by partition."""
    if each.is_lost:
        return Kind.LOST
    if copy.state is PartitionState.MOVING:
        return Kind.MOVING
    if copy.state is not PartitionState.OWNING:
        return Kind.RENTING
    return Kind.PAUSED if each.acting is None else Kind.PRIMARY if each.acting == copy.node else Kind.BACKUP


def turmoil(chronicle: Chronicle) -> Iterator[Sharing]:
    """A cluster in one condition after the other; no group is a multiple of 256 or of the spans."""
    cluster = shared_out(chronicle, "n1", "n2", "n3", partitions=300, backups=1)
    yield cluster
    cluster.join("n4")
    cluster.exchange()
    yield cluster
    cluster.load("n4")
    yield cluster
    cluster.hand_over()
    cluster.hand_over("n1", "n2", "n3")
    cluster.rent()
    cluster.leave("n1")
    yield cluster
    cluster.leave("n2")
    cluster.exchange()
    yield cluster


def test_figures_are_those_of_the_partitions(chronicle: Chronicle) -> None:
    """Columns counted at once say what partitions say one by one, whatever is going on."""
    seen: set[str] = set()
    for cluster in turmoil(chronicle):
        rows = list(o.rows_of(cluster.state, "orders", 300))
        span = packed.span_of(300, 7)
        by_node, by_condition = packed.copy_spans(rows, span), packed.condition_spans(rows, span)
        assert (span, len(by_condition)) == (43, 7)
        copies: Counter[tuple[int, int, Kind]] = Counter()
        conditions: Counter[tuple[int, str]] = Counter()
        for row in rows:
            told = packed.conditions(row, range(row.first, row.first + row.count))
            for each in o.ownerships(row, range(row.first, row.first + row.count)):
                condition = told[each.partition - row.first]
                assert condition is condition_of(each)
                conditions[each.partition // 43, condition.name] += 1
                for copy in each.copies:
                    copies[copy.node, each.partition // 43, kind_of(each, copy)] += 1
            assert packed.condition_counts(row) == Counter(told)
        assert copies == Counter(
            {
                (node, span, KINDS[at]): count
                for node, spans in by_node.items()
                for span, kinds in enumerate(spans)
                for at, count in enumerate(kinds)
                if count
            }
        )
        assert conditions == Counter(
            {
                (span, CONDITIONS[at].name): count
                for span, counts in enumerate(by_condition)
                for at, count in enumerate(counts)
                if count
            }
        )
        seen |= {name for _, name in conditions}
    assert seen >= {"OWNING", "MOVING", "SWITCHING", "PAUSED", "LOST"}


def condition_of(each: o.Ownership) -> packed.Condition:
    if each.is_lost:
        return packed.Condition.LOST
    if each.acting is None:
        return packed.Condition.PAUSED
    if any(copy.wanted and copy.state is not PartitionState.OWNING for copy in each.copies):
        return packed.Condition.MOVING
    if each.acting != each.wanted[0]:
        return packed.Condition.SWITCHING
    is_whole = all(copy.wanted for copy in each.copies)
    return packed.Condition.OWNING if is_whole else packed.Condition.RENTING


def test_the_page_of_five_nodes_shows_strips_and_figures(
    chronicle: Chronicle, client: Client, projector: Projector
) -> None:
    """OP21: colour, and the same in figures; a span of eight partitions to a cell."""
    cluster = shared_out(chronicle, "n1", "n2", "n3", "n4", "n5", partitions=1024, backups=1)
    projector.step()
    page = client.get("/").text
    assert "1024 partitions: all partitions are as wanted" in page
    assert page.count('<svg class="heat" viewBox="0 0 1024 16"') == 6
    acting = Counter(cluster.acting(number) for number in range(1024))
    for node, count in acting.items():
        line = re.search(rf'>{node}</a></td>\s*<td><svg class="heat".*?</tr>', page, re.DOTALL)
        assert line is not None
        assert f'<td class="number">{count}</td>' in line[0]
    assert "style=" not in page, "the page's own policy forbids styles in elements"
    assert len(page) < 120_000
    cluster.leave("n3")
    while projector.step():
        pass
    page = client.get("/").text
    assert f"{acting['n3']} paused" in page
    assert "lost:" not in page
    cluster.leave("n1", "n2")
    cluster.exchange()
    while projector.step():
        pass
    assert 'class="sentence bad"' in page
    page = client.get("/").text
    assert re.search(r'state=LOST">\d+ partitions are lost.</a> <code>topolog get partitions --state LOST</code>', page)
    assert client.get("/", params={"as_of": 3}).status_code == 200


def test_the_page_of_three_hundred_nodes_shows_tiles(
    chronicle: Chronicle, client: Client, projector: Projector
) -> None:
    """One tile a node, its figure in it and its words beside; not three hundred strips."""
    nodes = [f"n{number:03d}" for number in range(300)]
    for node in nodes:
        chronicle.join(node, renewed=False)
    laid_out(chronicle, nodes, 1024)
    projector.step()
    page = client.get("/").text
    assert page.count('title="n') == 300
    assert 'title="n007: ' in page
    assert page.count('<svg class="heat"') == 1, "of the group, not of each node"
    tiles = re.search(r'<ul class="heat-tiles">.*?</ul>', page, re.DOTALL)
    assert tiles is not None
    assert sum(int(figure) for figure in re.findall(r">(\d+)</a>", tiles[0])) == 1024
    assert len(tiles[0]) < 60_000


def laid_out(chronicle: Chronicle, nodes: list[str], partitions: int) -> None:
    """A group shared out in turn, by decisions that no rule has made."""
    view = cluster_row(chronicle.fold.state).topology_version
    view = TopologyVersion(view.major, view.minor + 1)
    chronicle.decide(GroupCreated(chronicle.ref(), 1, GroupDefinition("orders", partitions, 1), view))
    triggers = queued(chronicle.fold.state)
    changes = []
    for number in range(partitions):
        holders = [(number + each) % len(nodes) for each in range(2)]
        copies = tuple(Copy(each, PartitionState.OWNING, wanted=True) for each in holders)
        changes.append(Change(number, copies, holders[0]))
    chronicle.decide(
        ExchangeStarted(triggers, (), Offset(0), 0),
        FullPartitionMap("orders", tuple(nodes), pack_changes(changes)),
        ExchangeCompleted(triggers[-1].version, (), ()),
    )


def test_what_was_drawn_is_not_drawn_again(
    chronicle: Chronicle, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that asks every few seconds costs nothing while only leases are renewed."""
    cluster = shared_out(chronicle, "n1", "n2")
    gallery, drawn = Gallery(), 0
    condition_spans = packed.condition_spans

    def counted(rows: list[OwnershipRow], span: int) -> list[list[int]]:
        nonlocal drawn
        drawn += 1
        return condition_spans(rows, span)

    monkeypatch.setattr(packed, "condition_spans", counted)

    def look() -> None:
        projector.step()
        with projector.reading() as reading:
            gallery.of(reading)

    look()
    cluster.renew("n1", "n2")
    look()
    assert drawn == 1
    cluster.leave("n2")
    look()
    assert drawn == 2
