"""Chains of causes: each goes back to an input, a deadline or the coordinator; what followed is what says so."""

import random
from pathlib import Path

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.simulated import reading_of

from topolog.events.errors import NotFound
from topolog.events.log import InMemoryLog
from topolog.events.metadata import TypeRow
from topolog.projections import causes, explain_decision
from topolog.projections.antecedents import antecedents
from topolog.projections.cause_words import Kind
from topolog.projections.projector import Projector
from topolog.projections.resources import Explanation
from topolog.projections.store import Reading

FIRST = frozenset({Kind.REQUEST, Kind.HEARTBEAT, Kind.MAP, Kind.DEADLINE, Kind.COORDINATOR, Kind.OPERATOR})
SAMPLE = 100


def explained(chronicle: Chronicle, projector: Projector, position: int) -> Explanation:
    while projector.step():
        pass
    with projector.reading() as reading:
        return explain_decision.explain_decision(reading, 0, position)


@pytest.mark.parametrize("log", range(12), indirect=True)
def test_every_chain_ends_in_an_input_or_a_deadline(log: InMemoryLog, tmp_path: Path) -> None:
    """RD20: 100 decisions of each simulated history, drawn at random; a chain goes back, so it has no cycle."""
    with reading_of(log, tmp_path) as reading:
        chance = random.Random(int(reading.position))
        for position in chance.sample(range(reading.position + 1), min(SAMPLE, reading.position + 1)):
            chain = causes.chain(reading, position)
            positions = [each.decided.position for each in chain]
            assert positions == sorted(set(positions))
            assert positions[-1] == position
            assert chain[0].follows is None
            assert chain[0].kind in FIRST, (
                f"{chain[0].decided.event_name} at {positions[0]}: {chain[0].decided.cause!r}"
            )
            assert [each.follows for each in chain[1:]] == positions[:-1]
            assert causes.chain(reading, position) == chain


@pytest.mark.parametrize("log", range(4), indirect=True)
def test_what_followed_is_all_that_names_it_as_its_cause(log: InMemoryLog, tmp_path: Path) -> None:
    """Against a search through the whole log: nothing is missed, nothing is made up."""
    with reading_of(log, tmp_path) as reading:
        follows: dict[int, list[int]] = {}
        for position in range(reading.position + 1):
            for cause in antecedents(reading, reading.surely_decision(position)):
                follows.setdefault(cause, []).append(position)
        for position in range(reading.position + 1):
            decided = reading.surely_decision(position)
            found = [each.position for each in causes.effects(reading, decided, at_most=1_000)]
            assert found == follows.get(position, []), f"{decided.event_name} at {position}"


@pytest.mark.parametrize("log", range(4), indirect=True)
def test_every_decision_can_be_explained(log: InMemoryLog, tmp_path: Path) -> None:
    """Of each kind of event that the history has, the newest; as of the past too."""
    with reading_of(log, tmp_path) as reading:
        newest = {reading.surely_decision(position).event_name: position for position in range(reading.position + 1)}
        for name, position in newest.items():
            for then in (reading, reading.as_of(position)):
                found = explain_decision.explain_decision(then, 0, position)
                assert name in found.sentence
                assert found.causes[-1].position == position
                assert 1 <= len(found.next) <= 3
                assert all(command.startswith("topolog ") for command in found.next)


def test_a_verdict_goes_back_to_who_proposed(chronicle: Chronicle, projector: Projector) -> None:
    """The stamp of an acceptance names the last heartbeat; the chain also says what it accepts, and who asked."""
    chronicle.join("n1")
    proposed = chronicle.propose("Customer", {"id": "long"}, actor="ann", reason="mail campaign")
    accepted = chronicle.accept("Customer", "n1")
    found = explained(chronicle, projector, accepted)
    assert [(each.event, each.kind, each.follows) for each in found.causes] == [
        ("MetadataUpdateProposed", "REQUEST", None),
        ("MetadataUpdateAccepted", "HEARTBEAT", proposed),
    ]
    assert "a heartbeat of n1 came" in found.sentence
    assert "ann asked for it" in found.sentence
    assert found.facts["asked by"] == "ann"
    assert found.facts["asked for"] == "mail campaign"
    assert found.facts["evidence"] == "applied by n1"


def test_of_a_proposal_the_verdict_is_told_or_whom_it_waits_for(chronicle: Chronicle, projector: Projector) -> None:
    """Before the verdict who was asked; behind it what ended it, and when."""
    chronicle.join("n1")
    proposed = chronicle.propose("Customer", {"id": "long"})
    waits = explained(chronicle, projector, proposed)
    assert [each.node for each in waits.waiting_for] == ["n1"]
    assert "pending: proposal/Customer/1" in waits.facts
    accepted = chronicle.accept("Customer", "n1")
    over = explained(chronicle, projector, proposed)
    assert not over.waiting_for
    assert over.facts["verdict"] == f"MetadataUpdateAccepted at position {accepted}, 1000 ms later: applied by n1"
    assert [(each.event, each.follows) for each in over.followed] == [("MetadataUpdateAccepted", proposed)]


def test_a_refusal_says_rule_evidence_and_remedy(chronicle: Chronicle, projector: Projector) -> None:
    """RD20: 100 % of rejected decisions carry actor, reason, rule, correlation and causation."""
    chronicle.join("n1")
    chronicle.propose("Customer", {"id": "long"})
    current = next(row.pending for _, row in chronicle.fold.state.rows(TypeRow))
    rejected = chronicle.reject("Customer", current, current)
    found = explained(chronicle, projector, rejected)
    assert found.facts["refused"].startswith("METADATA_CONFLICT (ME8)")
    assert found.facts["evidence: proposed"] == "String"
    assert found.facts["what helps"].startswith("A field keeps its type")
    assert found.facts["asked by"] == "bob"


def test_a_position_that_is_not_reached_is_not_found(chronicle: Chronicle, projector: Projector) -> None:

    with pytest.raises(NotFound, match="no decision at position 99"):
        explained(chronicle, projector, 99)


def test_a_chain_costs_a_few_reads_however_long_the_log_is(
    chronicle: Chronicle, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No scan: the same decision in a log ten times as long is explained by as many reads."""
    chronicle.join("n1")
    chronicle.propose("Customer", {"id": "long"})
    accepted = chronicle.accept("Customer", "n1")
    counts = []
    read: list[int] = []
    decision = Reading.decision

    def noted(self: Reading, position: int) -> object:
        read.append(position)
        return decision(self, position)

    monkeypatch.setattr(Reading, "decision", noted)
    for more in (30, 300):
        for number in range(more):
            chronicle.propose(f"T{more}x{number}", {"id": "long"})
        while projector.step():
            pass
        read.clear()
        with projector.reading() as reading:
            causes.chain(reading, accepted)
        counts.append(len(read))
    assert counts[0] == counts[1] < 20
