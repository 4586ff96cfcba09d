"""What a build knows of feature levels follows from its schemas (K28)."""

import pytest
from tests import second_level

from topolog import schemas
from topolog.events.codec import CODEC, full_name
from topolog.events.levels import FIRST_LEVEL, FeatureLevelRaised
from topolog.events.terms import TermEnded
from topolog.events.voiding import RecordVoided


def test_what_a_build_knows_is_the_newest_level_that_its_schemas_state() -> None:
    """K28: a schema of the next level is all that it takes."""
    assert CODEC.newest_level == FIRST_LEVEL
    assert second_level.CODEC.newest_level == second_level.LEVEL == FIRST_LEVEL + 1


@pytest.mark.parametrize("type_", [FeatureLevelRaised, RecordVoided, TermEnded], ids=lambda type_: type_.__name__)
@pytest.mark.parametrize("contract", [schemas.load(), second_level.CONTRACT], ids=["today", "made up"])
def test_what_an_older_build_must_understand_never_gets_a_second_schema(
    contract: dict[str, tuple[schemas.Schema, ...]], type_: type
) -> None:
    """K28: it reads that the level has passed its own, and who looks ahead finds voidings and ends of terms, always.

    A change to what such a record embeds (RequestRef) is a second schema too. Write a new record instead.
    """
    (only,) = contract[full_name(type_)]
    assert schemas.feature_level(only) == FIRST_LEVEL
