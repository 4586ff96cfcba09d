"""Rules of drains: a server hands over all it holds while it goes on serving, and then counts no more (BA21)."""

from collections.abc import Sequence

from tests.unit.streams.rules.counted import Counted, activation, add, deactivation, drain, hold, remove

from topolog.events import baseline as b
from topolog.events import exchange as x
from topolog.events.cluster_state import ClusterState

THREE: tuple[str, ...] = ("n1", "n2", "n3")


def kinds(decided: Sequence[object]) -> list[str]:
    return [type(each).__name__ for each in decided]


def counted(*servers: str, partitions: int = 16) -> Counted:
    found = Counted(*servers)
    found.create(partitions=partitions)
    found.rest()
    return found


def whole_copies(found: Counted) -> int:
    """The fewest whole copies that any partition has."""
    return min(sum(state == "OWNING" for _, state in copies) for copies in found.placed().values())


def step(found: Counted) -> bool:
    """One more thing that nodes do by themselves."""
    nodes = ("n1", "n2", "n3", "n4")
    here = [node for node in nodes if node in b.online(found.state)]
    return bool(found.exchange() or found.load(*here) or found.hand_over(*here) or found.rent() or found.clear(*here))


def test_a_drained_server_serves_until_others_have_all_it_holds_and_counts_no_more() -> None:
    """BA21: at no moment is there a copy less than before."""
    found = counted(*THREE)
    assert kinds(found.ask(drain("n3"))) == ["DrainStarted"]
    while step(found):
        assert whole_copies(found) == 2
    assert found.holders() == {"n1", "n2"}
    assert found.baseline.nodes == ("n1", "n2")
    assert found.baseline.cause is b.Cause.DRAINED
    row = found.drain_of("n3")
    assert row is not None
    assert row.finished_at is not None


def test_the_log_lists_no_copy_of_it_when_it_is_dropped() -> None:
    """The invariant of `events/drains.py`; both stand in one set."""
    found = counted(*THREE)
    found.ask(drain("n3"))
    nodes = list(THREE)
    while "n3" in found.baseline.nodes:
        assert found.drain_of("n3")
        assert step(found), nodes
    assert "n3" not in found.holders()
    assert found.baseline.set_at == found.drain_of("n3").finished_at + 1  # type: ignore[union-attr,operator]


def test_who_holds_nothing_is_drained_at_once() -> None:
    """An outsider, or a cluster without groups; who does not count is not dropped."""
    found = counted(*THREE)
    found.join("n4")
    found.rest()
    found.ask(drain("n4"))
    found.settle()
    row = found.drain_of("n4")
    assert row is None or row.finished_at is not None
    found.rest()
    assert found.baseline.number == 0
    bare = Counted(*THREE)
    bare.ask(drain("n3"))
    assert kinds(bare.settle()) == ["DrainFinished", "BaselineChanged"]


def test_groups_in_memory_are_drained_too_and_without_a_baseline() -> None:
    found = Counted(*THREE, active=False)
    found.create(persistent=False)
    found.rest()
    found.ask(drain("n1"))
    found.rest()
    assert found.holders() == {"n2", "n3"}
    assert b.baseline(found.state) is None


def test_a_drain_that_is_taken_back_ends_and_all_is_placed_as_before() -> None:
    found = counted(*THREE)
    before = {partition: set(copies) for partition, copies in found.placed().items()}
    found.ask(drain("n3"))
    found.exchange()
    found.load(*THREE)
    assert kinds(found.ask(drain("n3", cancelled=True))) == ["DrainCancelled"]
    found.rest()
    assert {partition: set(copies) for partition, copies in found.placed().items()} == before
    assert found.baseline.number == 0


def test_who_has_been_drained_gets_nothing_until_it_is_taken_in_again() -> None:
    """One that counts and never holds a copy would be a member that nobody can rely on."""
    found = counted(*THREE)
    found.ask(drain("n3"))
    found.rest()
    assert found.holders() == {"n1", "n2"}
    refused = found.refusal(drain("n3", cancelled=True))
    assert (refused.code, refused.facts) == ("DRAIN_FINISHED", {"node": "n3"})
    assert "topolog baseline add n3" in refused.hint
    found.ask(add("n3"))
    found.rest()
    assert found.drain_of("n3") is None
    assert found.holders() == set(THREE)


def test_who_is_drained_before_there_is_a_baseline_is_taken_in_by_the_first_one_if_that_is_over() -> None:
    """What is under way goes on, and ends outside."""
    found = Counted(*THREE, active=False)
    found.create()
    found.rest()
    found.ask(drain("n3"))
    found.rest()
    found.ask(drain("n2"))
    found.ask(activation())
    assert found.drain_of("n3") is None
    assert found.drain_of("n2") is not None
    found.rest()
    assert found.baseline.nodes == ("n1", "n3")


def test_a_drain_is_over_when_its_server_leaves() -> None:
    """What it held is where it was: it is a member that is away, like others."""
    found = counted(*THREE)
    found.ask(drain("n3"))
    found.exchange()
    found.leave("n3")
    found.rest()
    assert found.drain_of("n3") is None
    assert found.baseline.nodes == THREE


def test_a_drain_that_is_asked_for_twice_changes_nothing_the_second_time() -> None:
    found = counted(*THREE)
    assert kinds(found.decide(drain("n3", cancelled=True))) == ["RequestUnchanged"]
    found.ask(drain("n3"))
    assert kinds(found.decide(drain("n3"))) == ["RequestUnchanged"]
    found.rest()
    assert kinds(found.decide(drain("n3"))) == ["RequestUnchanged"]


def test_what_is_lost_on_it_keeps_it() -> None:
    """BA21: the log lists a copy that may be chosen when the loss is given up; until then it is not let go."""
    found = counted("n1", "n2", "n3", "n4", "n5", partitions=64)
    found.leave("n4", "n5")
    found.disks["n4"] = found.disks["n5"] = {}
    found.exchange()
    assert any(found.one(partition).is_lost for partition in range(64))
    found.join("n4", "n5")
    found.rest()
    found.ask(drain("n4"))
    found.rest()
    assert found.drain_of("n4") is not None


def test_nothing_is_dropped_while_the_state_changes_or_nothing_is_served() -> None:
    """BA3: the baseline of an INACTIVE cluster does not change; nor does any while the state is on its way."""
    found = Counted(*THREE)
    found.silent = {"n1"}
    found.ask(deactivation())
    assert found.refusal(drain("n2")).code == "STATE_CHANGING"
    found.silent = set()
    found.settle()
    assert found.refusal(drain("n2")).code == "NOT_ACTIVE"
    found = Counted(*THREE)
    found.ask(drain("n3"))
    found.ask(deactivation())
    assert "DrainFinished" not in kinds(found.settle())
    found.ask(activation())
    found.silent = {"n1"}
    assert found.settle() == []
    found.silent = set()
    assert "DrainFinished" in kinds(found.settle())


def test_nothing_is_dropped_while_an_active_cluster_is_made_read_only() -> None:
    """BA3: it serves, and yet who counts does not change before everybody knows of the state."""
    found = Counted(*THREE)
    found.silent = {"n1"}
    found.ask(drain("n3"))
    found.ask(activation(ClusterState.ACTIVE_READ_ONLY))
    assert found.settle() == []
    found.silent = set()
    assert kinds(found.settle()) == ["StateChangeFinished", "DrainFinished", "BaselineChanged"]


def test_a_hold_does_not_keep_what_an_operator_has_asked_for() -> None:
    found = counted(*THREE)
    found.ask(hold())
    found.ask(drain("n3"))
    found.rest()
    assert found.baseline.nodes == ("n1", "n2")


def test_read_only_is_kept_over_a_drain() -> None:
    found = counted(*THREE)
    found.ask(activation(ClusterState.ACTIVE_READ_ONLY))
    found.settle()
    found.ask(drain("n3"))
    found.rest()
    assert found.baseline.nodes == ("n1", "n2")
    assert found.state_row.allowed is ClusterState.ACTIVE_READ_ONLY


def test_a_drain_is_an_exchange_of_its_own_and_a_view() -> None:
    """EX22, EX21."""
    found = counted(*THREE)
    before = found.view
    found.ask(drain("n3"))
    assert found.view > before
    assert [trigger.type for trigger in x.queued(found.state)] == [x.TriggerType.DRAIN]


def test_only_a_server_that_is_online_hands_anything_over() -> None:
    found = counted(*THREE)
    found.leave("n3")
    for node, hint in (("n3", "`topolog baseline remove n3`"), ("n9", "`topolog get nodes`")):
        refused = found.refusal(drain(node))
        assert (refused.code, refused.rule, refused.facts) == ("NOT_ONLINE", "BA21", {"node": node})
        assert hint in refused.hint


def test_somebody_else_must_be_able_to_take_it() -> None:
    """The last member of the baseline that is online, and is not drained itself; outsiders take nothing."""
    found = counted(*THREE)
    found.join("n4")
    found.rest()
    found.leave("n3")
    found.settle()
    found.ask(drain("n2"))
    refused = found.refusal(drain("n1"))
    assert (refused.code, refused.rule, refused.facts) == ("NOBODY_ELSE", "BA21", {"node": "n1"})
    assert "baseline add" in refused.hint
    found.ask(add("n4"))
    assert kinds(found.decide(drain("n1"))) == ["DrainStarted"]


def test_the_last_member_of_a_baseline_is_not_dropped() -> None:
    """A baseline has members: the other one was dropped while this one was drained."""
    found = Counted("n1", "n2")
    found.ask(drain("n1"))
    found.leave("n2")
    found.ask(remove("n2"))
    assert kinds(found.settle()) == ["DrainFinished"]
    assert found.baseline.nodes == ("n1",)
