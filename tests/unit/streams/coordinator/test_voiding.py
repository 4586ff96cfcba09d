"""The command that voids a record (K27): what it finds, what it refuses, and that one voiding comes of many at once."""

import pytest
from tests.unit.events.following import Reader
from tests.unit.scenarios.world import World
from tests.unit.streams.coordinator.test_driver import LATEST_TAKEOVER_MS

from topolog.events import metadata as md
from topolog.events import terms
from topolog.events.asked import RequestRef
from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.errors import NotFound, Poisoned, Refused, Unreachable
from topolog.events.evidence import Evidence
from topolog.events.fold import Folded, Header
from topolog.events.ids import Term, Version
from topolog.events.levels import FIRST_LEVEL, FeatureLevelRaised
from topolog.events.log import InMemoryLog, InMemoryReader
from topolog.events.stamp import HEADER_NAME, NO_CHAIN, Stamp, encode_stamp
from topolog.events.topics import Topic
from topolog.events.voiding import RecordVoided, voided_row
from topolog.streams.clock import ManualClock
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.voiding import Finding, Voider

POISON = b"\xc3\x01 a newer leader's record"


def poison(log: InMemoryLog, header: Header, value: bytes = POISON, *, opens_term: bool = False) -> None:
    """What a leader of a newer version would write next, with a true stamp."""
    assert header.log_id is not None
    place = (
        (Term(header.term + 1), 0, 0, 1, NO_CHAIN)
        if opens_term
        else (
            header.term,
            header.next_sequence,
            0,
            1,
            header.chain,
        )
    )
    stamp = Stamp(header.log_id, *place, 0, header.inputs, "requests@7 cli-4f/3", "ann", "a newer leader wrote it")
    log.put(Topic.DECISIONS, "demo", value, [(HEADER_NAME, encode_stamp(stamp))])


def poisoned_world(value: bytes = POISON, *, opens_term: bool = False) -> World:
    """A cluster with a type, whose leader is dead and whose log is poisoned at its end."""
    world = World(["c1"], ["n1"])
    world.propose("n1", md.ObjectType("Customer", {"id": "long"}))
    world.settle()
    world.kill("c1")
    poison(world.log, Reader(world.log).run().fold.header, value, opens_term=opens_term)
    return world


def voider(log: InMemoryLog, life: int = 1, reader: InMemoryReader | None = None) -> Voider:
    return Voider(reader or log.reader(), log.writer(), ManualClock(), "demo", f"void-{life}", life)


def found(voider: Voider) -> Finding:
    finding = voider.find()
    assert finding is not None
    return finding


def void(log: InMemoryLog) -> Finding:
    one = voider(log)
    finding = found(one)
    one.void(one.check(finding, finding.position, finding.chain), "nobody can read it", "ada")
    return finding


def revived(log: InMemoryLog, voided: Finding) -> World:
    """New processes on the log as it is; the world's own reader is told, for it does not look ahead."""
    world = World()
    world.log = log
    world._fold.void((voided.position, voided.chain))
    world.start("c2")
    world.run(LATEST_TAKEOVER_MS)
    return world


def judged(log: InMemoryLog) -> Header:
    """Where a log ends that cannot be folded."""
    reader = Reader(log)
    with pytest.raises(Poisoned):
        reader.run()
    assert reader.ahead.search is not None
    return reader.ahead.search.judge.header


def voidings(folded: list[Folded]) -> list[Folded]:
    return [each for each in folded if isinstance(each.event, RecordVoided)]


def test_all_readers_stop_at_poison_and_go_on_when_it_is_voided() -> None:
    """K8: a coordinator and a node, those that ran and those that start anew, fold the same behind it."""
    world = poisoned_world()
    world.nodes["n1"].step()
    failure = world.nodes["n1"].session.failure
    assert isinstance(failure, Poisoned)
    with pytest.raises(Poisoned, match=f"position {failure.position} "):
        world.start("c2")
    finding = void(world.log)
    assert (finding.position, finding.chain) == (failure.position, failure.chain)
    again = revived(world.log, finding)
    assert again.coordinators["c2"].driver.role is Role.LEADING
    again.node("n2")
    again.propose("n2", md.ObjectType("Order", {"id": "long"}))
    again.settle()
    reader = Reader(world.log).run()
    assert [row.name for _, row in reader.fold.state.rows(md.TypeRow)] == ["Customer", "Order"]
    assert again.nodes["n2"].state.hash() == reader.fold.state.hash()
    assert again.coordinators["c2"].driver.core.state.hash() == reader.fold.state.hash()


def test_a_finding_says_what_the_stamp_says() -> None:
    """K2: of bytes that nobody can read, the stamp is all there is to know."""
    finding = found(voider(poisoned_world().log))
    assert (finding.stamp.cause, finding.stamp.actor) == ("requests@7 cli-4f/3", "ann")
    assert (finding.value, finding.behind) == (POISON, 0)
    assert "no record this version knows" in finding.why


def test_a_voiding_says_who_and_why() -> None:
    """K8: the voiding is a decision of its own term, with actor and reason, and leaves no leader behind."""
    log = poisoned_world().log
    finding = void(log)
    reader = Reader(log).run()
    *_, started, voided, ended = reader.folded
    assert isinstance(started.event, terms.TermStarted)
    assert voided.event == RecordVoided(finding.position, finding.chain)
    assert (voided.stamp.actor, voided.stamp.reason) == ("ada", "nobody can read it")
    assert isinstance(ended.event, terms.TermEnded)
    assert reader.fold.header.inputs == finding.stamp.inputs
    row = voided_row(reader.fold.state, finding.position)
    assert row is not None
    assert row.voided_at == voided.place.position


def test_two_poisoned_records_are_voided_one_after_the_other() -> None:
    """K8: voiding the first may bring the next to light; a record that refers to a voided one's rows is such a next."""
    world = poisoned_world()
    dependent: Decision = md.MetadataUpdateAccepted("Order", Version(1), Evidence())
    poison(world.log, judged(world.log), CODEC.encode(dependent))
    first, second = void(world.log), void(world.log)
    assert second.position == first.position + 1
    assert len(voidings(Reader(world.log).run().folded)) == 2


def test_a_record_that_is_read_is_never_voided() -> None:
    """K8: what this version reads, an older one must be upgraded for."""
    world = World(["c1"])
    one = voider(world.log)
    assert one.find() is None
    with pytest.raises(Refused) as refused:
        one.check(None, 1, bytes(16))
    assert refused.value.code == "NOT_POISONED"
    with pytest.raises(NotFound):
        one.check(None, 1_000, bytes(16))


@pytest.mark.parametrize(
    ("distance", "chain", "code"),
    [(-1, None, "NOT_POISONED"), (1, None, "NOT_THE_FIRST"), (0, bytes(16), "OTHER_RECORD")],
)
def test_only_the_record_that_readers_stop_at_is_voided(distance: int, chain: bytes | None, code: str) -> None:
    """K8: by position and chain hash, so that no other can be meant."""
    one = voider(poisoned_world().log)
    finding = found(one)
    with pytest.raises(Refused) as refused:
        one.check(finding, finding.position + distance, finding.chain if chain is None else chain)
    assert refused.value.code == code


def test_what_opens_a_term_is_not_voided() -> None:
    """K8: readers would not know who leads."""
    one = voider(poisoned_world(opens_term=True).log)
    finding = found(one)
    with pytest.raises(Refused) as refused:
        one.check(finding, finding.position, finding.chain)
    assert refused.value.code == "OPENS_A_TERM"


def test_a_poisoned_voiding_is_voided() -> None:
    """K8: an older build, or a foreign program, has voided what this one reads; the cluster goes on behind that."""
    log = poisoned_world(CODEC.encode(RecordVoided(1, bytes(16)))).log
    finding = void(log)
    assert "voids position 1, which this reader has folded" in finding.why
    again = revived(log, finding)
    assert again.coordinators["c2"].driver.role is Role.LEADING
    assert voided_row(Reader(log).run().fold.state, 1) is None


@pytest.mark.parametrize("value", [POISON, CODEC.encode(RecordVoided(1, bytes(16)))], ids=["unknown", "voiding"])
def test_an_older_build_voids_nothing(value: bytes) -> None:
    """K8: at a level that it does not know, what stops it may be what newer builds have folded."""
    above = FIRST_LEVEL + 1
    world = poisoned_world(CODEC.encode(FeatureLevelRaised(RequestRef("t", 1, bytes(8)), above, ())))
    poison(world.log, Reader(world.log).run().fold.header, value)
    one = voider(world.log)
    finding = found(one)
    with pytest.raises(Refused, match=f"level {above} is in force") as refused:
        one.check(finding, finding.position, finding.chain)
    assert refused.value.code == "OLDER_BUILD"


def test_a_voided_record_is_not_voided_again() -> None:
    """K8: whoever repeats the command is told that it is done."""
    log = poisoned_world().log
    finding = void(log)
    one = voider(log)
    with pytest.raises(Refused, match=f"voided already, by position {finding.position + 2}") as refused:
        one.check(one.find(), finding.position, finding.chain)
    assert refused.value.code == "ALREADY_VOIDED"


def test_of_two_operators_at_once_one_voids() -> None:
    """K5: both have found the record before either acts; the first has taken the term that the second claims."""
    log = poisoned_world().log
    first, second = voider(log, 1), voider(log, 2)
    finding = found(first)
    assert found(second) == finding
    first.void(finding, "first", "ada")
    with pytest.raises(Unreachable):
        second.void(finding, "second", "bob")
    (voided,) = voidings(Reader(log).run().folded)
    assert voided.stamp.actor == "ada"


def test_of_two_claims_of_one_term_one_leads() -> None:
    """K5: the second one's first record of the term is not its own, and nothing else of it is written."""
    log = poisoned_world().log
    one = voider(log, 1)
    finding = found(one)
    header = judged(log)
    poison(
        log,
        header,
        CODEC.encode(terms.TermStarted(header.term + 1, "c9", 9)),
        opens_term=True,
    )
    length = len(log.entries(Topic.DECISIONS))
    with pytest.raises(Unreachable, match="Another coordinator began term"):
        one.void(finding, "first", "ada")
    assert len(log.entries(Topic.DECISIONS)) == length + 1, "its claim alone"
