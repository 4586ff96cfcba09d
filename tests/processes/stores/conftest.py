"""A projector that is killed is the same one that the unit tests look after: theirs are its parts."""

from tests.unit.projections.upkeep.conftest import chronicle, kept, make_kept, workshop

__all__ = ["chronicle", "kept", "make_kept", "workshop"]
