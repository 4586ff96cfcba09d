"""Schema change on a real broker, with a fence of one second."""

import contextlib
from pathlib import Path

from tests.broker.conftest import Site
from tests.broker.schema_operator import Operator
from tests.broker.schema_rounds import FENCE_MS, Rounds
from tests.unit.streams.rules.changing import INT, add, alter, database, drop, table

from topolog.events.objects import ChangeStatus, object_row


def test_a_change_is_committed_when_all_members_have_applied_it(site: Site) -> None:
    """TA15: one round trip, with the evidence that all three have applied it."""
    site.coordinator("c1")
    for name in ("n1", "n2", "n3"):
        site.member(name)
    with Operator(site.kafka, site.cluster) as operator:
        made = operator.change(database(), table(note=INT))
        assert made.status is ChangeStatus.COMMITTED
        assert set(made.evidence.applied) == {"n1", "n2", "n3"}
        assert operator.change(alter("shop.orders", add("more"))).status is ChangeStatus.COMMITTED
        with operator.looking() as state:
            row = object_row(state, "shop.orders")
            assert row is not None
            assert row.definition is not None
            assert [each.name for each in row.definition.columns] == ["id", "note", "more"]
        assert operator.change(drop()).status is ChangeStatus.COMMITTED


ROUNDS = 5


def test_nobody_answers_from_a_definition_that_a_commit_has_ended(site: Site, tmp_path: Path) -> None:
    """TA18: whoever is stopped and goes on while tables change refuses, or answers by what they are now."""
    site.coordinator("c1", fence_ms=FENCE_MS)
    with contextlib.closing(Rounds(site, tmp_path)) as rounds:
        played = [rounds.play(seed) for seed in range(ROUNDS)]
    assert [each.stale for each in played] == [[]] * ROUNDS
    assert min(each.answers for each in played) > 100
    assert sum(each.missed for each in played) > 0


def test_a_member_that_answers_without_a_lease_is_found(site: Site, tmp_path: Path) -> None:
    """The rounds above have teeth: somebody who goes on with what it knows gives answers that nothing justifies."""
    site.coordinator("c1", fence_ms=FENCE_MS)
    with contextlib.closing(Rounds(site, tmp_path)) as rounds:
        rounds.break_one("n2")
        found = next(stale for seed in range(10) if (stale := rounds.play(seed).stale))
    assert {answer.node for answer, _ in found} == {"n2"}
