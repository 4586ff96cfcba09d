"""The table of feature levels says what the schemas say (K8)."""

import json
from importlib.resources import files

import pytest

from topolog import schemas
from topolog.events.codec import CODEC, full_name
from topolog.events.ids import Incarnation, NodeId, Position, TopologyVersion
from topolog.events.levels import DIED_LEVEL, FIRST_LEVEL, NEWEST_LEVEL, SINCE, FeatureLevelRaised
from topolog.events.membership import LeaveReason, NodeLeft
from topolog.events.terms import TermEnded
from topolog.events.voiding import RecordVoided


def test_the_table_of_levels_is_that_of_the_schemas() -> None:
    """K8: writers go by the schemas, rules and people by the table."""
    found: dict[str, int] = {}
    for path in schemas._schema_files(files(schemas)):
        stated = json.loads(path.read_text(encoding="utf-8")).get("feature_level", FIRST_LEVEL)
        if stated != FIRST_LEVEL:
            found[path.name.removesuffix(".avsc")] = stated
    assert dict(SINCE) == found
    assert max(SINCE.values()) == NEWEST_LEVEL


def test_a_death_is_said_from_the_level_on_at_which_it_can_be_written() -> None:
    """K8: the rule that asks for DIED_LEVEL writes a record of that level."""
    died = NodeLeft(NodeId("n1"), Incarnation(1), LeaveReason.DIED, 1, Position(1), TopologyVersion(1, 0))
    assert CODEC.level_of(CODEC.encode(died, DIED_LEVEL)) == DIED_LEVEL


@pytest.mark.parametrize("type_", [FeatureLevelRaised, RecordVoided, TermEnded], ids=lambda type_: type_.__name__)
def test_what_an_older_build_must_understand_never_gets_a_second_schema(type_: type) -> None:
    """K8: it reads that the level has passed its own, and who looks ahead finds voidings and ends of terms, always.

    A change to what such a record embeds (RequestRef) is a second schema too. Write a new record instead.
    """
    assert len(schemas.load()[full_name(type_)]) == 1
