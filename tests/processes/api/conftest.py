"""The log and the projector of the unit tests, behind a real server."""

from tests.unit.projections.conftest import chronicle, make_projector, projector

__all__ = ["chronicle", "make_projector", "projector"]
