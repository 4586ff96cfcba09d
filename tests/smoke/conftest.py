"""The main path needs what all tests on a real Kafka need: a cluster of its own with short leases."""

from tests.broker.conftest import site

__all__ = ["site"]
