"""The causes of stamps are read at one place: what kind they are, whom they name, how people say them."""

from pathlib import Path

import pytest
from tests.unit.projections.simulated import reading_of

from topolog.events.log import InMemoryLog
from topolog.projections.cause_words import Kind, StampCause, in_words, read_cause


@pytest.mark.parametrize("log", range(6), indirect=True)
def test_every_cause_that_a_coordinator_writes_is_known(log: InMemoryLog, tmp_path: Path) -> None:
    with reading_of(log, tmp_path) as reading:
        decided = [reading.surely_decision(position) for position in range(reading.position + 1)]
    causes = {each.cause for each in decided if each.cause}
    assert len({read_cause(cause).kind for cause in causes}) > 3
    assert not [cause for cause in causes if read_cause(cause).kind is Kind.UNKNOWN]


@pytest.mark.parametrize(
    ("cause", "kind", "request_id", "node"),
    [
        ("requests@17 cli-4f2a/3", Kind.REQUEST, "cli-4f2a/3", ""),
        ("requests@17 a node of ours/3", Kind.REQUEST, "a node of ours/3", ""),
        ("heartbeats/2@88 n3", Kind.HEARTBEAT, "", "n3"),
        ("maps/1@9 rack 1/n3", Kind.MAP, "", "rack 1/n3"),
        ("deadline lease/rack 1/n3/7/411/2", Kind.DEADLINE, "", "rack 1/n3"),
        ("deadline lease/n3/7/411/", Kind.DEADLINE, "", "n3"),
        ("deadline session/40/deadline", Kind.DEADLINE, "", ""),
        ("deadline of a newer kind", Kind.DEADLINE, "", ""),
        ("deadline: of a newer kind", Kind.DEADLINE, "", ""),
        ("claimed by c1 to void position 9", Kind.OPERATOR, "", ""),
        ("claimed by c1", Kind.COORDINATOR, "", ""),
        ("view 3.1: JOIN n3", Kind.DECISION, "", ""),
        ("what nobody has written", Kind.UNKNOWN, "", ""),
    ],
)
def test_a_cause_names_what_made_the_decision_due(cause: str, kind: Kind, request_id: str, node: str) -> None:
    found = read_cause(cause)
    assert (found.kind, found.request, found.node) == (kind, request_id, node)


def test_what_is_not_known_is_said_as_it_is() -> None:
    assert read_cause("") == StampCause(Kind.UNKNOWN, "the log does not say why")
    assert in_words("of a newer kind") == "of a newer kind"
    assert in_words("deadline of a newer kind") == "of a newer kind"


def test_of_a_request_people_are_told_who_asked_and_why() -> None:
    assert in_words("requests@17 cli-4f2a/3", "ada", "why") == "ada asked for it with request cli-4f2a/3: «why»"
    assert in_words("requests@17 cli-4f2a/3") == "somebody asked for it with request cli-4f2a/3"
    assert in_words("heartbeats/2@88 n3").startswith("a heartbeat of n3 came")
