"""A query API that knows its callers."""

from collections.abc import Iterator

import httpx
import pytest
from tests.unit.projections.access.letting_in import Doorkeeper
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served

from topolog.projections.projector import Projector
from topolog.projections.requester import Requester


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector, keeper: Doorkeeper) -> Iterator[httpx.Client]:
    """Of one node, whose requests are `api-1`'s."""
    chronicle.join("n1")
    projector.step()
    requester = Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")
    with served(projector, requester, keeper.access) as client:
        yield client
