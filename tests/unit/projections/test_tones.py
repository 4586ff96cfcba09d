"""A state has one colour, in a table as on a page."""

import pytest

from topolog.projections.cli.rows import cell
from topolog.projections.tones import TONES
from topolog.projections.web import values

COLOURS = {"ok": "green", "busy": "yellow", "bad": "red", "quiet": "dim"}


@pytest.mark.parametrize("state", TONES)
def test_a_state_has_the_colour_of_its_tone_everywhere(state: str) -> None:
    assert values.state(state).tone == TONES[state]
    assert str(cell(state).style) == COLOURS[TONES[state]]


def test_text_that_is_no_state_has_no_colour() -> None:
    assert str(cell("orders").style) == ""
    assert values.state("orders").tone == "quiet"
