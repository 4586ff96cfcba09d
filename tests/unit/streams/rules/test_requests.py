"""Every request that there is has a rule: one without would end whoever leads, as soon as somebody asks."""

from typing import get_args

from topolog.events.codec import REQUESTS
from topolog.events.levels import LevelRaiseRequested
from topolog.events.membership import MembershipRequest
from topolog.events.repair_requests import RepairRequest
from topolog.streams.rules.requests import _RULES


def test_every_request_has_a_rule() -> None:
    """K7: each request gets an outcome, and one that nobody decides would get none."""
    ruled = {*_RULES, *get_args(MembershipRequest), *get_args(RepairRequest), LevelRaiseRequested}
    assert ruled == set(REQUESTS)
