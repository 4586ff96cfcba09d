"""Rows, their journal and their hash: neither the order of changes nor their batches may show."""

import random
from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from topolog.events.state import Row, State


class Colour(Row, frozen=True):
    KIND: ClassVar[str] = "colour"

    name: str


class Size(Row, frozen=True):
    KIND: ClassVar[str] = "size"

    number: int


class Beat(Row, frozen=True):
    KIND: ClassVar[str] = "beat"
    VOLATILE: ClassVar[bool] = True

    number: int


Change = tuple[str, Row | type[Row]]
"""A row to put under a key, or the kind to drop there."""

keys = st.sampled_from("abc")
rows = st.one_of(st.builds(Colour, st.sampled_from(["red", "blue"])), st.builds(Size, st.integers(0, 3)))
changes = st.lists(st.tuples(keys, st.one_of(rows, st.sampled_from([Colour, Size]))), max_size=30)


def change(state: State, made: list[Change]) -> None:
    for key, row in made:
        if isinstance(row, Row):
            state.put(key, row)
        else:
            state.drop(row, key)


@given(changes, st.sets(st.integers(0, 30)))
def test_the_hash_does_not_show_batches(made: list[Change], asked_after: set[int]) -> None:
    """Whether the hash is asked for after each change, now and then or once at the end, it is the same."""
    often, once = State(), State()
    for number, each in enumerate(made):
        change(often, [each])
        if number in asked_after:
            often.hash()
    change(once, made)
    assert often.hash() == once.hash()


@given(changes, st.randoms())
def test_the_hash_does_not_show_the_order_in_which_rows_came(made: list[Change], chance: random.Random) -> None:
    """Two states with the same rows have one hash, whatever way led there."""
    state, shuffled = State(), State()
    change(state, made)
    left = [(key, row) for kind in (Colour, Size) for key, row in state.rows(kind)]
    chance.shuffle(left)
    for key, row in left:
        shuffled.put(key, row)
    assert state.hash() == shuffled.hash()


@given(changes)
def test_an_empty_state_has_the_hash_of_a_new_one(made: list[Change]) -> None:
    """What is taken away leaves nothing behind."""
    state = State()
    change(state, made)
    for kind in (Colour, Size):
        for key in "abc":
            state.drop(kind, key)
    assert state.hash() == State().hash() == bytes(16)


def test_one_row_more_or_another_value_is_another_hash() -> None:
    """The hash tells states apart by kind, key and value."""
    hashes = set()
    for key, row in (("a", Colour("red")), ("a", Colour("blue")), ("b", Colour("red")), ("a", Size(1))):
        state = State()
        state.put(key, row)
        hashes.add(state.hash())
    assert len(hashes | {bytes(16)}) == 5


def test_volatile_rows_have_no_part_in_the_hash() -> None:
    """Lease renewals, several a second, are in the journal and not in the hash."""
    state = State()
    state.put("a", Beat(1))
    assert state.hash() == bytes(16)
    assert state.drain() == [("beat", "a")]


@given(changes)
def test_the_journal_names_every_key_that_changed(made: list[Change]) -> None:
    """Whoever repeats what the journal names has the same rows."""
    state, copy = State(), State()
    for number, each in enumerate(made):
        change(state, [each])
        if number % 3 == 0:
            follow(state, copy)
    follow(state, copy)
    assert copy.hash() == state.hash()


def follow(state: State, copy: State) -> None:
    for kind, key in state.drain():
        row = state.lookup((kind, key))
        if row is None:
            copy.drop(Colour if kind == Colour.KIND else Size, key)
        else:
            copy.put(key, row)


def test_the_journal_keeps_the_order_of_first_touch() -> None:
    """A key touched twice is named once, where it was touched first; a drained journal is empty."""
    state = State()
    change(state, [("b", Colour("red")), ("a", Size(1)), ("b", Colour("blue")), ("a", Size)])
    assert state.drain() == [("colour", "b"), ("size", "a")]
    assert state.drain() == []


def test_dropping_what_is_not_there_leaves_no_trace() -> None:
    """Nothing changed, so nothing is to be stored."""
    state = State()
    state.drop(Colour, "a")
    assert state.drain() == []


def test_rows_are_listed_and_counted_by_kind() -> None:
    """Keys of two kinds do not meet."""
    state = State()
    change(state, [("a", Colour("red")), ("a", Size(1)), ("b", Size(2))])
    assert list(state.rows(Size)) == [("a", Size(1)), ("b", Size(2))]
    assert (state.count(Size), state.count(Beat)) == (2, 0)
    assert state.get(Colour, "b") is None
