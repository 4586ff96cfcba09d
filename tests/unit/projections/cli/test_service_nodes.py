"""Whom the commands of the demo go to."""

import pytest
from tests.unit.projections.cli.conftest import FakeApi

from topolog.events.errors import NotFound
from topolog.projections.cli.client import Api
from topolog.projections.cli.service_nodes import endpoints


def test_only_members_with_the_attributes_of_the_service_are_asked(api: FakeApi) -> None:
    """One that has left still stands in the list, with its endpoint."""
    with Api(api.url, "demo") as asked:
        assert endpoints(asked, {"zone": "a"}) == ["127.0.0.1:9001"]
        with pytest.raises(NotFound, match="no member with zone=b"):
            endpoints(asked, {"zone": "b"})
