"""Any bytes on every topic a projector reads: it says why it stops or goes on, stores what counts and opens again."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.streams.test_any_bytes import anything, damaged, inputs, records
from tests.unit.streams.test_forged_records import forge

from topolog.events.codec import CODEC
from topolog.events.errors import TopologError, Undecodable
from topolog.events.fold import Fold, Ignored
from topolog.events.health import Figures, HealthHeard, LeaseHealth
from topolog.events.ids import Incarnation, NodeId, Offset, Position
from topolog.events.log import Headers
from topolog.events.repair_tasks import TaskId
from topolog.events.stamp import HEADER_NAME
from topolog.events.topics import PARTITIONS, Topic
from topolog.events.tree_pages import PageKind, TreePage
from topolog.projections.projector import Projector
from topolog.projections.sides import FindingsBodyRow, FindingsRow, HealthRow, LetterBodyRow, LetterRow, WatchRow

SIDES = (Topic.LEASE_HEALTH, Topic.DEAD, Topic.TREES)
Noise = tuple[Topic, str, bytes, Headers]
Held = tuple[Position, bytes, list[bytes], list[str]]
"""What a store holds: position, hash of the rows, values of the letters, the nodes whose health is known."""

numbers = st.integers(-(1 << 63), (1 << 63) - 1)
figures = st.builds(Figures, *[numbers] * len(Figures.__struct_fields__))
healths = st.builds(
    LeaseHealth,
    node=st.text(max_size=9).map(NodeId),
    incarnation=numbers.map(Incarnation),
    log_id=st.just(LOG_ID) | st.binary(min_size=16, max_size=16),
    partition=st.integers(-9, 9),
    offset=numbers.map(Offset),
    sequence=numbers,
    beat_ms=numbers,
    lateness_ms=numbers,
    fence_ms=numbers,
    heartbeat_ms=numbers,
    fenced=st.booleans(),
    released=st.booleans(),
    minutes=st.just(()),
    whole=figures,
)
heard = st.builds(
    HealthHeard, st.text(max_size=9), st.just(LOG_ID), st.integers(-9, 9), numbers.map(Offset), st.booleans(), numbers
)
small = st.integers(-2, 9)
pages = st.builds(
    TreePage,
    task=st.builds(
        TaskId,
        session=small.map(Position),
        segment=small,
        step=small,
        replica=st.text(max_size=3),
        attempt=small,
    ),
    life=numbers,
    spec_id=st.binary(max_size=3),
    kind=st.sampled_from(PageKind),
    page=small | numbers,
    is_last=st.booleans(),
    payload=st.binary(max_size=9)
    | st.lists(st.tuples(st.text(max_size=3), small, st.just(()), st.just(()))).map(msgspec.msgpack.encode),
)
told = (healths | heard | pages).map(CODEC.encode)
headers = st.lists(
    st.tuples(
        st.sampled_from(
            ("__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset", "topolog-replays", "x")
        ),
        st.binary(max_size=20) | st.integers(-9, 9).map(lambda number: str(number).encode()),
    ),
    max_size=4,
)
beside: st.SearchStrategy[Noise] = st.tuples(
    st.sampled_from(SIDES), st.text(max_size=5), told | told.flatmap(damaged) | anything | inputs, headers
)
on_the_log: st.SearchStrategy[Noise] = records.map(
    lambda raw: (Topic.DECISIONS, "k", raw[1], [] if raw[0] is None else [(HEADER_NAME, raw[0])])
)


def history() -> Chronicle:
    chronicle = Chronicle().start()
    chronicle.join("n1")
    chronicle.propose("Customer", {"id": "long"})
    return chronicle


def held(projector: Projector) -> Held:
    with projector.reading() as reading:
        assert [key for key, _ in reading.sides(LetterRow)] == [key for key, _ in reading.sides(LetterBodyRow)]
        assert all(row.heard.partition == int(key) for key, row in reading.sides(WatchRow))
        kept = {key: len(row.differences) for key, row in reading.sides(FindingsBodyRow)}
        assert kept == {key: row.kept for key, row in reading.sides(FindingsRow)}
        letters = [row.value for _, row in reading.sides(LetterBodyRow)]
        nodes = [row.health.node for _, row in reading.sides(HealthRow)]
        return reading.position, reading.state().hash(), letters, sorted(nodes)


def due(chronicle: Chronicle) -> tuple[Held, bool]:
    """What a store of this log must hold, and whether the log ends its readers."""
    fold, is_over = Fold(), False
    position, state_hash = fold.header.position, fold.state.hash()
    for entry in chronicle.entries:
        try:
            found = fold.read(entry.stamp, entry.value)
        except TopologError:
            is_over = True
            break
        if not isinstance(found, Ignored) and found:
            position, state_hash = fold.header.position, fold.state.hash()
    letters = [entry.value for entry in reversed(chronicle.log.entries(Topic.DEAD))]
    return (position, state_hash, letters, sorted(nodes_told(chronicle))), is_over


def nodes_told(chronicle: Chronicle) -> set[str]:
    nodes = set[str]()
    for number in range(PARTITIONS[Topic.LEASE_HEALTH]):
        for entry in chronicle.log.entries(Topic.LEASE_HEALTH, number):
            try:
                record = CODEC.decode(entry.value)
            except Undecodable:
                continue
            if isinstance(record, LeaseHealth):
                nodes.add(record.node)
    return nodes


def check(chronicle: Chronicle, folder: Path) -> bool:
    """One life of a projector, which ends where the log allows it to; returns whether it has stopped."""
    projector = Projector(chronicle.log.reader(), folder, "main", wall_ms=lambda: chronicle.now_ms)
    try:
        for _ in range(4):
            projector.step()
        expected, is_over = due(chronicle)
        assert held(projector) == expected
        assert (projector.stopped is not None) == is_over
        assert not (projector.stopped or "").startswith("The projector failed")
        assert not list(folder.glob("*.damaged"))
    finally:
        projector.close()
    return is_over


@settings(max_examples=15)
@given(st.data(), st.lists(beside | on_the_log, max_size=6), st.integers(0, 3))
def test_a_projector_stores_what_counts_and_opens_again(
    data: st.DataObject, noise: Sequence[Noise], forged: int
) -> None:
    """K3, K8: what it holds is what the plain fold holds; so does the next process, before and behind the noise."""
    chronicle = history()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        assert not check(chronicle, folder)
        for topic, key, value, said in noise:
            chronicle.log.put(topic, key, value, said)
        judge = chronicle.fold.judge()
        for _ in range(forged):
            chronicle.append_raw(*forge(data, judge))
        is_over = check(chronicle, folder)
        assert check(chronicle, folder) == is_over
