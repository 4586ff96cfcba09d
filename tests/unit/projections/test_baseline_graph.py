"""The graph of baselines: rows for text and picture, from the same places."""

import itertools
from collections.abc import Sequence

from topolog.projections import baseline_graph
from topolog.projections.baseline_resources import Baseline, Branch, Branching, Place
from topolog.projections.web.branch_picture import drawn


def chain(position: int) -> str:
    return f"{position % 256:02x}" * 16


def point(position: int, why: str, *online: str) -> Branching:
    return Branching(position, "2026-11-21T01:20:00.000Z", chain(position), why, online, "ada", "")


def baseline(number: int, members: Sequence[str], added: str, dropped: str, *points: Branching) -> Baseline:
    is_current = number == 2
    return Baseline(
        number=number,
        state="CURRENT" if is_current else "FORMER",
        members=tuple(members),
        online=None,
        away=None,
        quorum=2,
        added=tuple(added.split()),
        dropped=tuple(dropped.split()),
        attributes={},
        cause="REQUESTED",
        actor="ada",
        reason="",
        version="1.0",
        set_at=points[0].position,
        set_time="",
        replaced_at=None,
        replaced_time=None,
        points=points,
    )


BASELINES = (
    baseline(
        2, ("n1", "n2", "n4"), "n4", "n3", point(310, "SET", "n1", "n2", "n4"), point(350, "ACTIVATED", "n1", "n2")
    ),
    baseline(
        1, ("n1", "n2", "n3"), "n3", "", point(200, "SET", "n1", "n2", "n3"), point(250, "WARMED", "n1", "n2", "n3")
    ),
    baseline(0, ("n1", "n2"), "n1 n2", "", point(12, "SET", "n1", "n2")),
)


def branch(node: str, kinship: str, common: int | None, *positions: int, in_all: int | None = None) -> Branch:
    places = tuple(Place(position, chain(position), None, None) for position in positions)
    return Branch(node, kinship, common, places, in_all or len(places), None, None, None)


FORKED = branch("n3", "FORKED", 250, 280, 300, 420)
AHEAD = branch("n9", "AHEAD", 100, 500, in_all=5)


def text(*beside: Branch) -> str:
    return "\n".join(baseline_graph.as_text(baseline_graph.rows(BASELINES, beside)))


def test_one_line_for_each_branching_point() -> None:
    assert text() == (
        "◉  350  5e5e5e5e5e5e  baseline 2 activated, 2 of 3 online: n1, n2  <- current\n"
        "●  310  363636363636  baseline 2: n1, n2, n4 (+n4 -n3), 3 of 3 online\n"
        "●  250  fafafafafafa  baseline 1 goes on after a cold time, 3 of 3 online\n"
        "●  200  c8c8c8c8c8c8  baseline 1: n1, n2, n3 (+n3), 3 of 3 online\n"
        "●   12  0c0c0c0c0c0c  baseline 0: n1, n2 (+n1 +n2), 2 of 2 online"
    )


def test_branches_part_where_both_histories_had_been_one() -> None:
    """Each has a lane down to its last common place, also where that is no branching point."""
    assert text(FORKED, AHEAD) == (
        "    ○  500  f4f4f4f4f4f4  n9 has written here, and at 4 more views since, in another history (AHEAD)\n"
        "  ○ │  420  a4a4a4a4a4a4  n3 has written here\n"
        "◉ │ │  350  5e5e5e5e5e5e  baseline 2 activated, 2 of 3 online: n1, n2  <- current\n"
        "● │ │  310  363636363636  baseline 2: n1, n2, n4 (+n4 -n3), 3 of 3 online\n"
        "│ ○ │  300  2c2c2c2c2c2c  n3 has written here\n"
        "│ ○ │  280  181818181818  n3 has written here, in another history (FORKED)\n"
        "●─┘ │  250  fafafafafafa  baseline 1 goes on after a cold time, 3 of 3 online; "
        "the last place that n3 has too\n"
        "●   │  200  c8c8c8c8c8c8  baseline 1: n1, n2, n3 (+n3), 3 of 3 online\n"
        "●───┘  100  -             the last place that n9 has too\n"
        "●       12  0c0c0c0c0c0c  baseline 0: n1, n2 (+n1 +n2), 2 of 2 online"
    )


def test_two_branches_may_part_at_one_place() -> None:
    shown = text(FORKED, branch("n5", "FORKED", 250, 260))
    assert "●─┴─┘  250" in shown
    assert shown.count("the last place that") == 1


def test_without_a_common_place_a_branch_goes_on_to_the_bottom() -> None:
    assert text(branch("n7", "FORKED", None, 400)).splitlines()[-1].startswith("● │   12")


def test_more_branches_than_lanes_are_not_drawn() -> None:
    many = [branch(f"n{number}", "FORKED", 250, 300 + number) for number in range(9)]
    assert len(baseline_graph.rows(BASELINES, many)) == 5 + baseline_graph.LANES_MAX


def test_strips_of_the_picture_join() -> None:
    """Every line that leaves a strip at its foot enters the next one at its head."""
    strips = drawn(BASELINES, [FORKED, AHEAD])
    for upper, lower in itertools.pairwise(strips):
        leaving = {lane for lane, line in upper.lines if line.endswith("V30")}
        entering = {lane for lane, line in lower.lines if " 0" in line}
        assert leaving == entering
    assert not any(line.endswith("V30") for _, line in strips[-1].lines)


def test_nothing_is_drawn_of_nothing() -> None:
    assert baseline_graph.rows([], []) == []
    assert list(baseline_graph.as_text([])) == []
    assert drawn([], []) == ()
