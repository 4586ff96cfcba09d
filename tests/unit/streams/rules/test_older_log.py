"""An older log was put back: how its nodes are refused, for how long, and what is said of an empty folder (BA26)."""

import copy

import pytest
from tests.unit.streams.rules.cluster import join_request, joiner
from tests.unit.streams.rules.counted import hold
from tests.unit.streams.rules.exchanging import CAPABILITIES
from tests.unit.streams.rules.histories import History

from topolog.events.errors import Refused
from topolog.events.leases import NodeKind
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


def test_what_was_granted_before_the_node_was_renewed_in_both_is_no_going_on() -> None:
    """A hold makes no view, so the last common place lies before it; the node's renewal behind it is common, too."""
    newer = History(*NODES)
    newer.ask(hold())
    newer.write(*NODES)
    older = newer.goes_live_beside()
    newer.write(*NODES)
    assert refused(older, "a").code == "AHEAD"


def test_a_client_that_is_renewed_has_not_gone_on_with_it() -> None:
    """It writes nothing."""
    log = older_log()
    log.ask(join_request(joiner("web", kind=NodeKind.CLIENT, capabilities=CAPABILITIES)))
    for _ in range(40):
        log.renew_of("web")
    said = refused(log, "a")
    assert log.position > int(said.facts["theirs_position"])
    assert said.code == "AHEAD"


def test_who_was_renewed_here_before_the_present_term_has_not_gone_on_with_it() -> None:
    """The log that was put back begins with a term of its own; renewals before that may be of both."""
    newer = History(*NODES)
    newer.write("a", "b")
    older = copy.deepcopy(newer, {id(newer.nodes): newer.nodes})
    older.log(TermStarted(2, "c2", 2))
    older.leave("a")
    newer.write("a", "a")
    assert older.node("b").is_member
    assert refused(older, "a").code == "AHEAD"


def test_who_has_served_here_and_left_has_gone_on_with_it() -> None:
    original = History(*NODES)
    original.write(*NODES)
    beside = original.goes_live_beside()
    original.leave("a", "c")
    beside.join("a")
    beside.write("a")
    for _ in range(20):
        original.write("b")
    original.leave("b")
    assert refused(original, "a").code == "FORKED"
