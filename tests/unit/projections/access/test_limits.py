"""What one principal may ask at once."""

import pytest

from topolog.projections.api.access.limits import Limits
from topolog.projections.api.access.principals import Denied


def test_changes_come_back_evenly_within_the_minute() -> None:
    now_s = [0.0]
    limits = Limits(60, 1, lambda: now_s[0])
    for _ in range(60):
        limits.change("ann")
    with pytest.raises(Denied, match="60 changes within a minute"):
        limits.change("ann")
    limits.change("ben")
    now_s[0] = 1.0
    limits.change("ann")
    with pytest.raises(Denied):
        limits.change("ann")


def test_a_watch_that_ends_makes_room_for_the_next() -> None:
    limits = Limits(1, 2, lambda: 0.0)
    with limits.watching("ann"), limits.watching("ann"):
        with pytest.raises(Denied) as caught, limits.watching("ann"):
            pass
        assert (caught.value.status, "auth.watches" in caught.value.hint) == (429, True)
        with limits.watching("ben"):
            pass
    with limits.watching("ann"):
        pass
