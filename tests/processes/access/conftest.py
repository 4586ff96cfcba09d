"""A server that is a process of its own serves the same log as the one within the tests."""

from tests.unit.projections.conftest import chronicle

__all__ = ["chronicle"]
