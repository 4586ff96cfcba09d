"""Whatever is done to the bytes of a store: exactly that is found, and mended until the store is the rebuild again."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import contents, flipped, project
from tests.unit.projections.sharing import shared_out
from tests.unit.projections.test_projector import eventful

from topolog.events.ids import Position
from topolog.projections import layout
from topolog.projections.self_check import checking
from topolog.projections.self_check.findings import What, finding, place_of
from topolog.projections.self_check.opened import Holding, beside, store_path
from topolog.projections.self_check.rebuild import Rebuild
from topolog.projections.self_check.verdict import State
from topolog.projections.store import Store

Damage = Mapping[bytes, bytes | None]


class Bench:
    """One store for all examples, put back after each."""

    def __init__(self, folder: Path) -> None:
        chronicle = Chronicle().start()
        shared_out(chronicle, "s1", "s2", "s3")
        eventful(chronicle)
        self.chronicle = chronicle
        self.folder = project(chronicle, folder / "store")
        self.whole = contents(self.folder)
        self.keys = sorted(self.whole)
        self.rebuild = Rebuild(chronicle.log.reader(), "main", folder / "scratch", count().__next__, lambda _: None)
        self.holding = Holding(store_path(self.folder))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("bench"))
    yield bench
    bench.holding.close()
    bench.rebuild.close()


changes = st.one_of(
    st.none(),
    st.integers(0, 4_000),  # which bit is flipped
    st.binary(max_size=40),  # other bytes altogether
)
extra_keys = st.one_of(
    st.binary(max_size=24),
    st.builds(
        lambda first, rest: first + rest,
        st.sampled_from([b"rnode\0", b"hnode\0", b"d", b"s", b"m"]),
        st.binary(max_size=20),
    ),
).filter(lambda key: key[:1] not in (b"x", b"y"))


def damage_of(bench: Bench, picked: Mapping[int, object], extras: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
    """Changes by number of row, and rows that are not there; what changes nothing is left out."""
    damage: dict[bytes, bytes | None] = {key: value for key, value in extras.items() if key not in bench.whole}
    for number, change in picked.items():
        key = bench.keys[number % len(bench.keys)]
        value = bench.whole[key]
        if isinstance(change, int):
            damage[key] = flipped(value, change) if value else b"?"
        else:
            damage[key] = change if isinstance(change, bytes) else None
    return {key: value for key, value in damage.items() if bench.whole.get(key) != value}


@pytest.mark.parametrize("extras_max", [0, 1, 4])
@settings(max_examples=40)
@given(data=st.data())
def test_any_corruption_is_found_exactly_and_mended(bench: Bench, extras_max: int, data: st.DataObject) -> None:
    """Flipped bits, other bytes, lost rows, extra rows, of any family, the header too."""
    picked = data.draw(st.dictionaries(st.integers(0, 2_000), changes, max_size=12))
    extras = data.draw(st.dictionaries(extra_keys, st.binary(max_size=30), max_size=extras_max))
    damage = damage_of(bench, picked, extras)
    assume(not {layout.META_KEY, layout.decision_key(bench.chronicle.position)} <= damage.keys())  # is cut back instead
    bench.holding.write(damage)
    found = checking.check(bench.rebuild, bench.folder)
    assert (found.state, found.position) == (State.DIFFERENT if damage else State.EQUAL, bench.chronicle.position)
    assert [str(each.place) for each in found.findings] == [str(place_of(key)) for key in sorted(damage)]
    for key, each in zip(sorted(damage), found.findings, strict=True):
        is_there = key in bench.whole, damage[key] is not None
        expected = {(True, False): What.LOST, (False, True): What.EXTRA, (True, True): What.CHANGED}[is_there]
        assert each.what in (expected, *([What.UNDECODABLE] if is_there[1] else []))
    bench.holding.close()
    mended = checking.mend(bench.rebuild, bench.folder, lambda _: None)
    assert mended.state is (State.MENDED if damage else State.EQUAL)
    bench.holding = Holding(store_path(bench.folder))
    with beside(store_path(bench.folder)) as view:
        assert dict(view.scan(b"", b"")) == bench.whole


def test_a_mended_store_has_the_hash_of_the_fold(bench: Bench) -> None:
    """Hash for hash: what a projector checks when it starts."""
    bench.holding.close()
    with closing(Store(bench.folder, "main")) as store:
        assert store.load().hash() == bench.chronicle.fold.state.hash()
    bench.holding = Holding(store_path(bench.folder))


@given(key=st.binary(max_size=40), expected=st.none() | st.binary(max_size=60), found=st.binary(max_size=60))
def test_whatever_stands_in_a_store_can_be_told(key: bytes, expected: bytes | None, found: bytes) -> None:
    """No key and no value is too strange to be a finding."""
    told = finding(key, None, found)
    assert told.what in (What.EXTRA, What.UNDECODABLE)
    assert str(told.place)


@given(name=st.text(max_size=12), position=st.integers(0, 1 << 62))
def test_places_are_what_the_layout_says(name: str, position: int) -> None:
    """Each key of the layout is told by the names that it was made of."""
    at = layout.inverted(Position(position))
    assert place_of(layout.row_key(("node", name))).key == name
    version = place_of(layout.history_stem(("node", name)) + at)
    assert (version.kind, version.key, version.position) == ("node", name, position)
    subject = place_of(layout.subject_stem(name) + at)
    assert (subject.key, subject.position) == (name, position)
