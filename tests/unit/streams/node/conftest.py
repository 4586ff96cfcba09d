"""What tests of the node side share."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.unit.streams.node.shop import Shop

from topolog.streams.node.testing import LocalCluster


@pytest.fixture
def shop() -> Iterator[Shop]:
    with LocalCluster() as cluster, ExitStack() as stack:
        yield Shop(cluster, stack)
