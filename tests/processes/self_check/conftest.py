"""A store that another process writes is checked like one that nobody does."""

from tests.unit.projections.self_check.conftest import chronicle, folder

__all__ = ["chronicle", "folder"]
