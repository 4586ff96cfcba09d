"""What is lost, whom it awaits, and who gives it up: by return, by policy, by an operator (DS2, EX18, EX19)."""

from tests.unit.streams.rules.exchanging import Shared, kinds, shared

from topolog.events import exchange as x
from topolog.events import ownership
from topolog.events.groups import LossPolicy
from topolog.events.ids import Position
from topolog.events.partitions import PartitionState
from topolog.streams.rules.outcome import Ask, Present, outcome


def test_a_partition_without_an_owner_is_lost_and_awaits_it() -> None:
    """DS2: nobody begins it empty; the return of the owner with its disk ends the loss."""
    found = shared("n1", "n2", "n3", backups=0)
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    found.leave("n1")
    decided = found.exchange()
    lost = [each for each in decided if isinstance(each, x.PartitionsLost)]
    assert [(each.partitions, each.awaited) for each in lost] == [(tuple(gone), ("n1",))]
    assert all(found.one(partition).is_lost and found.acting(partition) is None for partition in gone)
    found.join("n1")
    found.exchange()
    assert all(found.acting(partition) == "n1" and not found.one(partition).is_lost for partition in gone)


def test_an_owner_that_comes_back_without_its_disk_ends_no_loss() -> None:
    """DS2: what it held is gone, and only an operator may give that up."""
    found = shared("n1", "n2", backups=0)
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    found.leave("n1")
    found.exchange()
    found.disks["n1"] = {}
    found.join("n1")
    found.rest()
    assert all(found.one(partition).is_lost for partition in gone)


def test_a_loss_outlasts_the_exchanges_that_follow() -> None:
    """DS2: its owner is back without its disk, so the row names nobody; that is no partition that never was owned."""
    found = shared("n1", backups=0)
    found.leave("n1")
    found.disks["n1"] = {}
    found.join("n1")
    found.rest()
    found.join("n2")
    found.rest()
    assert all(found.one(partition).is_lost for partition in range(16))


def test_who_is_not_asked_is_not_doubted() -> None:
    """EX25, DS2: both were away while nobody acted, and own since before they joined; n2 owns when n1 leaves, too."""
    found = shared("n1", "n2")
    found.leave("n1", "n2")
    found.exchange()
    found.join("n1", "n2")
    found.rest()
    found.leave("n1")
    (started,) = found.settle_exchange()
    assert isinstance(started, x.ExchangeStarted)
    assert not any(each.needs_map for each in started.awaited)
    found.apply("n2")
    found.settle_exchange()
    assert all(found.acting(partition) == "n2" for partition in range(16))


def test_an_owner_that_came_back_behind_the_question_is_awaited_not_forgotten() -> None:
    """DS2: the open exchange takes its joining not in, so nobody has asked what it brings; the next one does."""
    found = shared("n1", "n2", backups=0)
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    found.create("items", 4, 0)
    found.settle_exchange()
    found.leave("n1")
    found.join("n1")
    found.answer("n2")
    found.settle_exchange()
    assert all(found.states(partition) == {"n1": "OWNING"} for partition in gone)
    found.rest()
    assert all(found.acting(partition) == "n1" for partition in gone)


def test_who_is_awaited_has_not_answered_by_being_there() -> None:
    """DS2: an outcome that leaves a partition lost confirms nothing; back without its disk, its owner owns nothing."""
    found = shared("n1", "n2", backups=0)
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    for name in ("items", "carts"):
        found.create(name, 4, 0)
    found.settle_exchange()
    found.leave("n1")
    found.disks["n1"] = {}
    found.join("n1")
    found.answer("n2")
    found.settle_exchange()
    found.answer("n1", "n2")
    found.settle_exchange()
    found.rest()
    assert all(found.one(partition).is_lost and found.acting(partition) is None for partition in gone)


def test_a_reset_is_of_one_group() -> None:
    """EX19: what another group has lost awaits its owner still."""
    found = shared("n1", "n2", backups=0)
    found.create("items", 16, 0)
    found.rest()
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    found.leave("n1")
    found.exchange()
    found.reset("items")
    found.exchange()
    assert all(found.acting(partition, "items") == "n2" for partition in gone)
    assert all(found.one(partition).is_lost for partition in gone)


def test_by_the_policy_ignore_what_is_lost_begins_empty() -> None:
    """EX18: of a group that lives in memory, and has said so."""
    found = Shared()
    found.join("n1", "n2")
    found.create("orders", 16, 0, loss_policy=LossPolicy.IGNORE)
    found.rest()
    found.leave("n1")
    decided = found.exchange()
    assert not [each for each in decided if isinstance(each, x.PartitionsLost)]
    assert all(found.acting(partition) == "n2" for partition in range(16))


def test_an_operator_gives_up_what_is_lost() -> None:
    """EX19, DS2: the lost partitions begin anew, in an exchange of their own; where nothing is lost nothing changes."""
    found = shared("n1", "n2", "n3", backups=0)
    kept = [partition for partition in range(16) if found.acting(partition) != "n1"]
    acting = {partition: found.acting(partition) for partition in kept}
    assert kinds(found.reset("orders")) == ["RequestUnchanged"]
    found.leave("n1")
    found.exchange()
    assert kinds(found.reset("orders")) == ["ExchangeQueued"]
    found.exchange()
    assert all(found.acting(partition) in ("n2", "n3") for partition in range(16))
    assert {partition: found.acting(partition) for partition in kept} == acting
    found.join("n1")
    found.rest()
    assert {state for partition in range(16) for state in found.states(partition).values()} == {"OWNING"}


def test_a_reset_gives_up_what_is_lost_and_nothing_else() -> None:
    """DS2, EX19: whose owner goes while the reset is under way is lost only then, and awaits that one."""
    found = shared("n1", "n2", "n3", backups=0)
    given_up = [partition for partition in range(16) if found.acting(partition) == "n1"]
    still_owned = [partition for partition in range(16) if found.acting(partition) == "n2"]
    found.leave("n1")
    found.exchange()
    found.reset("orders")
    found.settle_exchange()
    found.leave("n2")
    found.exchange()
    assert all(found.acting(partition) == "n3" for partition in given_up)
    assert all(
        found.one(partition).is_lost and found.states(partition) == {"n2": "OWNING"} for partition in still_owned
    )


def test_an_owner_that_is_back_during_a_reset_is_asked_before_it_is_given_up() -> None:
    """DS2, DS12: the exchange of the reset has not asked it, the next one does. It was primary when it left: of what
    its backup went on with it brings nothing."""
    found = shared("n1", "n2", "n3")
    gone = [each for each in range(16) if set(found.states(each)) == {"n1", "n2"} and found.acting(each) == "n1"]
    assert gone
    found.leave("n1", "n2")
    found.exchange()
    assert all(found.one(partition).is_lost for partition in gone)
    found.reset("orders")
    found.settle_exchange()
    found.join("n1")
    found.exchange()
    assert all(found.acting(partition) == "n1" for partition in gone)


def copy(node: int, state: PartitionState) -> ownership.Copy:
    return ownership.Copy(node, state, wanted=False, since=Position(5))


def unserved(*copies: ownership.Copy, is_lost: bool = True) -> ownership.Ownership:
    """A partition for which nobody acts."""
    return ownership.Ownership(0, copies, None, Position(6), is_lost)


def outcome_of(
    before: ownership.Ownership, *wanted: int, ask: Ask, **counters: int
) -> tuple[int | None, dict[int, str]]:
    """Who acts and what copies there are when all nodes are here, with whole copies."""
    present = {number: Present(1, has_whole_copy=True, counter=counters.get(f"n{number}", 0)) for number in range(5)}
    after = outcome(before, wanted, present, ask)
    return after.acting, {each.node: each.state.name for each in after.copies}


def test_of_owners_the_wanted_primary_acts_else_who_counts_highest() -> None:
    """EX26."""
    owners = unserved(copy(1, PartitionState.OWNING), copy(2, PartitionState.OWNING), is_lost=False)
    assert outcome_of(owners, 3, 1, ask=Ask(), n1=4, n2=7)[0] == 2
    assert outcome_of(owners, 1, 3, ask=Ask(), n1=4, n2=7)[0] == 1
    assert outcome_of(owners, 3, 2, ask=Ask(), n1=4, n2=4)[0] == 2


def test_counters_are_those_that_nodes_have_told() -> None:
    """EX26: both owners were away, and neither is wanted first any more."""
    found = shared("n1", "n2")
    found.leave("n1", "n2")
    found.exchange()
    found.disks["n2"] = dict.fromkeys(found.disks["n2"], 9)
    found.join("n3", "n4", "n1", "n2")
    found.exchange()
    names = ownership.names(found.state)
    neither = [each for _, each in found.all() if names[each.wanted[0]] in ("n3", "n4")]
    assert neither
    assert {names[each.acting or 0] for each in neither} == {"n2"}


def test_a_reset_chooses_one_copy_and_none_that_is_being_cleared() -> None:
    """DS2, EX19: the others load from the one; what is being cleared is wanted again, and loads too."""
    lost = unserved(copy(1, PartitionState.LOST), copy(2, PartitionState.LOST))
    assert outcome_of(lost, 1, 2, ask=Ask(reset_at=Position(1_000))) == (1, {1: "OWNING", 2: "MOVING"})
    cleared = unserved(copy(1, PartitionState.RENTING))
    assert outcome_of(cleared, 1, 2, ask=Ask(reset_at=Position(1_000))) == (2, {1: "MOVING", 2: "OWNING"})
    assert outcome_of(cleared, 1, ask=Ask(reset_at=Position(1_000))) == (None, {1: "RENTING"})


def test_what_was_loading_is_lost_with_its_last_owner() -> None:
    """DS2, EX18: also of a server that was not asked; an absent node's copy that did not own is nothing to wait for."""
    found = shared("n1", backups=1)
    found.join("n2")
    found.exchange()
    found.leave("n1")
    found.exchange()
    assert all(found.states(partition) == {"n1": "OWNING", "n2": "LOST"} for partition in range(16))
    before = unserved(copy(1, PartitionState.MOVING), copy(2, PartitionState.OWNING), copy(3, PartitionState.MOVING))
    after = outcome(before, (1,), {1: Present(1, is_heard=False)})
    assert {each.node: each.state.name for each in after.copies} == {1: "LOST", 2: "OWNING"}


def test_a_reset_is_of_what_was_lost_when_it_was_asked() -> None:
    """EX19: what loses its last owner while the reset waits for its turn is not given up with the rest."""
    found = shared("n1", "n2", "n3", backups=0)
    given_up = [partition for partition in range(16) if found.acting(partition) == "n1"]
    later = [partition for partition in range(16) if found.acting(partition) == "n2"]
    assert given_up
    assert later
    found.leave("n1")
    found.exchange()
    found.join("n4")
    found.settle_exchange()
    found.reset("orders")
    found.leave("n2")
    found.answer("n3", "n4")
    found.settle_exchange()
    found.exchange()
    assert all(found.one(partition).is_lost for partition in later)
    assert not any(found.one(partition).is_lost for partition in given_up)
