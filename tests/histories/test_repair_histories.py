"""Sessions under random schedules: whatever happens in whatever order, each ends once and says what is so (RE1)."""

from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.streams.rules.repair_histories import History, tables
from tests.unit.streams.rules.repairing import PREVIEW, UNION

from topolog.events.repair_definition import Order, Rendezvous, SessionDefinition, SessionKind
from topolog.events.token_range import FULL, RING, TokenRange

DIFFERENCES = st.lists(
    st.tuples(st.sampled_from(("R1", "R2", "R3")), st.integers(1, 12), st.sampled_from((0, 2, 3, 4))), max_size=6
)
ASKED = st.builds(
    lambda base, order, rendezvous, segments, parallel, ranges, flags, retries: msgspec.structs.replace(
        base,
        order=order,
        rendezvous=rendezvous,
        segments=segments,
        parallel=parallel,
        ranges=ranges,
        halves=flags[0],
        recheck=flags[1],
        allow_partial=flags[2],
        retries=retries,
        queues=True,
    ),
    st.sampled_from((PREVIEW, UNION, msgspec.structs.replace(UNION, kind=SessionKind.PREVIEW))),
    st.sampled_from(list(Order)[1:]),
    st.sampled_from(list(Rendezvous)[1:]),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from(((FULL,), (TokenRange(0, RING // 2),), (TokenRange(RING // 4, RING // 4 * 3),))),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.integers(0, 2),
)
CALM = (History.serve, History.meet, History.rest)
WILD = (
    *CALM * 6,
    History.pass_one,
    History.stop,
    History.start,
    History.mute,
    History.deliver,
    History.deliver,
    History.lose_meetings,
    History.forget_meetings,
    History.die,
    History.die_between,
    History.say_again,
    History.say_something_else,
    History.abort,
    History.pause,
    History.fail,
)
MOVES = st.lists(st.tuples(st.sampled_from(WILD), st.integers(0, 99)), min_size=10, max_size=60)


@settings(max_examples=100)
@given(DIFFERENCES, st.lists(ASKED, min_size=1, max_size=3), MOVES)
def test_every_session_ends_once_and_is_what_it_says(
    differences: Sequence[tuple[str, int, int]],
    asked: Sequence[SessionDefinition],
    moves: Sequence[tuple[object, int]],
) -> None:
    """RE7, RE4, RE3, RE27, RE1."""
    history = History(tables(differences))
    later = list(asked)
    for place, (move, at) in enumerate(moves):
        if later and place % 8 == 0:
            history.ask_for(later.pop(0))
        move(history, at)  # type: ignore[operator]
        history.check()
    history.finish_all()
    history.repair_all()
    history.check_whole()


@settings(max_examples=40)
@given(DIFFERENCES, ASKED, st.lists(st.sampled_from(("R1", "R2", "R3", "meet")), min_size=0, max_size=200))
def test_all_orders_of_arrival_find_the_same(
    differences: Sequence[tuple[str, int, int]], asked: SessionDefinition, turns: Sequence[str]
) -> None:
    """RE22: who answers when is no matter of what is found."""
    seen = []
    for order in (turns, ()):
        history = History(tables(differences))
        number = history.open(asked)
        for turn in order:
            if turn == "meet":
                history.turn_of_the_rendezvous()
            else:
                history.servers[turn].step()
        history.finish_all()
        ended = history.session(number)
        seen.append((ended.status, ended.covered, ended.differing, ended.rows_found, history.contents()))
    assert seen[0] == seen[1]
