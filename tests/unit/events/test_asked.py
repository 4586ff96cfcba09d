"""`Request`, the parent of all that can be asked, and what each protocol can be asked."""

from collections import Counter

import pytest
from tests.unit.events.declared import declared
from tests.unit.events.examples import EXAMPLES

from topolog.events.asked import Request
from topolog.events.codec import REQUESTS, full_name

ASKED = [each for each in EXAMPLES if isinstance(each, Request)]


def test_every_request_is_asked_of_exactly_one_protocol() -> None:
    """One that is asked of none could not be sent."""
    assert Counter(REQUESTS) == Counter(declared(Request))


@pytest.mark.parametrize("request_", ASKED, ids=lambda each: type(each).__name__)
def test_every_request_says_what_it_is_about(request_: Request) -> None:
    """Its outcome says so, and an operator finds it by that."""
    assert request_.subject
    assert "{" not in request_.subject


@pytest.mark.parametrize("type_", REQUESTS, ids=lambda each: each.__name__)
def test_a_request_has_the_same_name_on_the_wire_wherever_it_stands(type_: type[Request]) -> None:
    """Its schema's namespace is that of all requests: bytes that are written are read for ever."""
    assert full_name(type_) == f"topolog.requests.{type_.__name__}"
