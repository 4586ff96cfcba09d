"""The browser looks at the story that the tests of the console look at."""

from tests.unit.projections.web.conftest import story

__all__ = ["story"]
