"""An older log was put back: how its nodes are refused, for how long, and what is said of an empty folder (N1, W4)."""

import pytest
from tests.unit.streams.rules.histories import History

from topolog.events.errors import Refused
from topolog.events.terms import TermStarted

NODES = ("a", "b", "c")


def older_log() -> History:
    """All have written in the newer log; the older one has nobody, and a persistent group whose copies they have."""
    newer = History(*NODES)
    newer.create(partitions=2, backups=1)
    newer.rest()
    newer.write(*NODES)
    older = newer.goes_live_beside()
    for _ in range(5):
        newer.write(*NODES)
    return older


def refused(log: History, node: str) -> Refused:
    with pytest.raises(Refused) as raised:
        log.join(node)
    return raised.value


def test_all_are_ahead_of_it_as_long_as_nobody_goes_on_with_it() -> None:
    """Terms, and who has left in silence, are nobody's work, however many there are."""
    log = older_log()
    for term in range(2, 100):
        log.log(TermStarted(term, "c2", term))
        assert {node: refused(log, node).code for node in NODES} == dict.fromkeys(NODES, "AHEAD")
    said = refused(log, "a")
    assert int(said.facts["theirs_position"]) < int(said.facts["end"])
    assert "it was cut short, or is an older copy" in said.message


def test_behind_what_an_operator_was_granted_it_is_another_history() -> None:
    log = older_log()
    log.create("items", partitions=2)
    said = refused(log, "a")
    assert said.code == "FORKED"
    assert int(said.facts["ours_granted_position"]) > int(said.facts["common_position"])


def test_an_empty_folder_is_advised_only_where_others_have_what_the_log_lists() -> None:
    """Who followed it on all nodes would have lost everything."""
    log = older_log()
    hint = refused(log, "a").hint
    assert hint.startswith("Start it with the log that it comes from")
    assert "Do not start it with an empty folder: nobody who is online has a whole copy" in hint
    assert refused(log, "a").facts["last_copies_online"].endswith("of orders")


def test_whoever_alone_has_a_copy_is_never_to_start_empty() -> None:
    newer = History("a")
    newer.create(partitions=2, backups=0)
    newer.rest()
    newer.write("a")
    older = newer.goes_live_beside()
    newer.write("a")
    said = refused(older, "a")
    assert "Never start it with an empty folder: nobody else has a whole copy of 2 partitions of orders." in said.hint
    assert said.facts["last_copies"] == "2 partitions of orders"


def test_where_the_others_serve_it_all_an_empty_folder_loses_what_it_alone_wrote() -> None:
    """FORKED as a rule: they have gone on."""
    newer = History(*NODES)
    newer.create(partitions=2, backups=2)
    newer.rest()
    newer.write(*NODES)
    beside = newer.goes_live_beside()
    beside.join("a")
    beside.write("a")
    newer.leave("a")
    newer.write("b", "c")
    said = refused(newer, "a")
    assert said.code == "FORKED"
    assert "Or start it with an empty folder: who is online has a whole copy of its " in said.hint
    assert "last_copies_online" not in said.facts


def test_a_log_whose_members_serve_is_no_older_one_though_nothing_is_granted_in_it() -> None:
    """They write under renewals alone. A copy went live beside it, with one of them."""
    original = History(*NODES)
    original.write(*NODES)
    beside = original.goes_live_beside()
    original.leave("a")
    beside.join("a")
    beside.write("a")
    original.write("b")
    assert refused(original, "a").code == "FORKED"
