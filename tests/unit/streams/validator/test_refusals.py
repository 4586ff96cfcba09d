"""What a validator refuses, and says so: another schema or key, foreign ranges, spoilt pages, a replica that fails."""

from collections.abc import Callable

import msgspec
import pytest
from tests.unit.streams.validator.observed import (
    are_equal,
    completed,
    differing_site,
    failed,
    once,
    reported,
    sends,
    serving,
    started,
)
from tests.unit.streams.validator.site import COLUMNS, Site, Spoil

from topolog.events import repair_tasks as t
from topolog.events import tree_answers
from topolog.events.errors import ReplicaFailed
from topolog.events.replicas import replica
from topolog.events.sessions import SessionStatus
from topolog.events.token_range import RING, TokenRange
from topolog.events.tree_pages import PageKind, TreePage
from topolog.events.tree_spec import Column


def opened_for_what_was(site: Site, change: Callable[[], object], **definition: object) -> tuple[str, str]:
    """A session that is opened while the second validator does not listen, and before this changes; code and message
    of its end."""
    _, second = serving(site)
    second.paused = True
    request = site.open(**definition)
    site.settle()
    change()
    second.paused = False
    site.settle()
    row = site.session(request)
    return row.code, row.message


def with_column(site: Site, name: str = "r2") -> None:
    held = site.replicas[f"orders@{name}"]
    held.redefine(msgspec.structs.replace(held.describe(), columns=(*COLUMNS, Column("added", "string"))))


def test_a_replica_that_has_another_schema_by_now_says_so_before_it_scans() -> None:
    """RE14: both schemas are named, and it is declared anew, so that the next session knows."""
    site = differing_site()
    code, message = opened_for_what_was(site, lambda: with_column(site))
    assert code == "SCHEMA_MISMATCH"
    assert "added string" in message
    declared = replica(site.world.state, "orders", "r2")
    assert declared is not None
    assert [each.name for each in declared.definition.columns] == ["id", "name", "changed", "added"]
    assert not any(each.task.step == 2 for each in completed(site))


def test_a_replica_that_has_another_key_by_now_says_so_before_it_scans() -> None:
    """RE14: with the same columns; its rows would have other tokens and other names."""
    site = differing_site()
    held = site.replicas["orders@r2"]
    changed = msgspec.structs.replace(held.describe(), key=("id", "name"))
    opened_for_what_was(site, lambda: held.redefine(changed))
    assert [(each.task.replica, each.code) for each in reported(site) if each.code] == [("r2", "SCHEMA")]
    assert not any(each.task.step == 2 for each in completed(site))


def test_columns_that_both_have_are_compared_all_the_same() -> None:
    """RE14, with an explicit list of columns."""
    site = differing_site()
    code, _ = opened_for_what_was(site, lambda: with_column(site), columns=("name",))
    assert code == ""


def test_a_schema_that_changes_while_the_read_point_is_fixed_is_found_out() -> None:
    """RE14: what was fixed is given back, and the next attempt tells why."""
    site = differing_site()
    serving(site)

    def change() -> None:
        with_column(site, "r1")
        with_column(site, "r2")

    site.hook = once(change, "cut")
    request = site.open()
    site.settle()
    assert failed(site)[0][1] == "INTERRUPTED"
    assert site.session(request).code == "SCHEMA_MISMATCH"
    assert [each.cuts_held for each in site.replicas.values()] == [frozenset(), frozenset()]


def test_a_range_that_a_replica_does_not_hold_is_refused() -> None:
    """RE10, wrong scope: whoever holds half answers for half."""
    site = differing_site()
    held = site.replicas["orders@r2"]
    half = msgspec.structs.replace(held.describe(), ranges=(TokenRange(0, RING // 2),))
    code, message = opened_for_what_was(site, lambda: held.redefine(half))
    assert code == "RANGE"
    assert "00000000..80000000" in message


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda page: msgspec.structs.replace(page, payload=b"\xdd" + bytes(4)), "PAGES_DAMAGED"),
        (lambda page: msgspec.structs.replace(page, spec_id=bytes(16)), "PAGES_MISSING"),
        (lambda page: page if page.page else None, "PAGES_MISSING"),
        (lambda page: msgspec.structs.replace(page, life=page.page), "PAGES_MISSING"),
    ],
    ids=["other content", "other spec", "a page is missing", "pages of several lives"],
)
def test_pages_that_are_not_those_of_the_log_fail_the_task(
    spoil: Spoil, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RE8: nobody waits for ever, and nothing is sent by what nobody has found."""
    site = differing_site()
    serving(site)
    site.rendezvous.spoil = spoil
    monkeypatch.setattr(tree_answers.Packer.__init__, "__defaults__", (150,))
    request = site.repair()
    site.settle()
    assert {each for _, each in failed(site)} == {code}
    assert site.session(request).code == code
    assert not any(page.kind is PageKind.ROWS for page in site.pages())


def test_pages_of_a_process_that_was_never_asked_do_not_matter() -> None:
    """Somebody else sends rows under a task's name: the digest in the log is not theirs."""
    site = differing_site()
    serving(site)
    seen: list[TreePage] = []

    def forge() -> None:
        for page in site.pages():
            if page.kind is PageKind.ROWS:
                seen.append(page)
                site.put(msgspec.structs.replace(page, life=4711, payload=b"\xdd" + bytes(4)))

    first = site.validators["v1"]
    request = site.repair()
    while not any(each.step.kind is t.TaskKind.WRITE for each in started(site)):
        site.turn()
        first.paused = len(sends(site)) == 2
    forge()
    first.paused = False
    site.settle()
    assert seen
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert are_equal(site)


def test_whatever_a_replica_raises_is_an_answer() -> None:
    """RE7: nobody waits."""
    site = differing_site()
    serving(site)

    def fail() -> None:
        raise ReplicaFailed("CORRUPT", "part-0001.parquet has no footer.")

    site.hook = once(fail, "leaves")
    request = site.open()
    site.settle()
    assert site.session(request).code == "CORRUPT"
    assert "part-0001" in site.session(request).message


def test_a_defect_of_a_replica_is_an_answer_too() -> None:
    """RE7."""
    site = differing_site()
    serving(site)
    site.hook = once(lambda: 1 // 0, "leaves")
    request = site.open()
    site.settle()
    assert site.session(request).code == "FAILED"
    assert "ZeroDivisionError" in site.session(request).message
