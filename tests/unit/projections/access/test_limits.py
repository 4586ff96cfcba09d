"""What one principal may ask at once."""

import pytest

from topolog.projections.api.access.limits import Limits
from topolog.projections.api.access.principals import Denied, Principal

ANN, BEN = Principal("ann", "token", ()), Principal("ben", "token", ())
ANOTHER_ANN = Principal("ann", "oidc", ())


def test_changes_come_back_evenly_within_the_minute() -> None:
    now_s = [0.0]
    limits = Limits(60, 1, lambda: now_s[0])
    for _ in range(60):
        limits.change(ANN)
    with pytest.raises(Denied, match="60 changes within a minute"):
        limits.change(ANN)
    limits.change(BEN)
    now_s[0] = 1.0
    limits.change(ANN)
    with pytest.raises(Denied):
        limits.change(ANN)


def test_a_watch_that_ends_makes_room_for_the_next() -> None:
    limits = Limits(1, 2, lambda: 0.0)
    with limits.watching(ANN), limits.watching(ANN):
        with pytest.raises(Denied) as caught, limits.watching(ANN):
            pass
        assert (caught.value.status, "auth.watches" in caught.value.hint) == (429, True)
        with limits.watching(BEN):
            pass
    with limits.watching(ANN):
        pass


def test_two_of_one_name_are_two() -> None:
    """OP10: a static token `ci` and a bearer token whose `sub` is `ci` used up each other's."""
    limits = Limits(1, 1, lambda: 0.0)
    with limits.watching(ANN), limits.watching(ANOTHER_ANN):
        limits.change(ANN)
        limits.change(ANOTHER_ANN)
    with pytest.raises(Denied, match="ann has made 1 changes"):
        limits.change(ANN)
