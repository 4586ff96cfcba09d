"""Silence as the log's own renewals show it: who is silent, since when, what is left; and who is not to be blamed."""

import json
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from tests.unit.projections.chronicle import FENCE_MS, Chronicle
from tests.unit.projections.serving import served
from tests.unit.projections.sharing import shared_out
from tests.unit.projections.test_lease_health import alive
from tests.unit.projections.test_lease_health import health as measured

from topolog.events.codec import CODEC
from topolog.events.ids import NodeId
from topolog.events.leases import LeaveReason
from topolog.events.requests import RequestRefused
from topolog.events.topics import Topic
from topolog.projections import explain_cluster, health, pending, situation, status
from topolog.projections.api.filters import Leases
from topolog.projections.pending_resources import Pending
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.resources import Cluster, Lease, Node
from topolog.projections.silence import NOT_RENEWED
from topolog.projections.status_resources import Status

ECHO_MS = FENCE_MS // 4
"""What lies between two regular echoes of a leader."""

NODES = ("n1", "n2", "n3")


class Watched:
    """A cluster of three whose log goes on with the time, and a reader of it."""

    def __init__(self, chronicle: Chronicle, folder: Path) -> None:
        self.chronicle = chronicle
        chronicle.pace_ms = 0
        chronicle.join(NODES[0])
        chronicle.join(NODES[1])
        chronicle.join(NODES[2])
        chronicle.renew(*NODES)
        self.projector = Projector(
            chronicle.log.reader(),
            folder,
            "main",
            now_s=lambda: chronicle.now_ms / 1000,
            wall_ms=lambda: chronicle.now_ms,
        )
        self.read()

    def echo(self, *nodes: str) -> None:
        """The leader's next regular echo, of these."""
        self.chronicle.now_ms += ECHO_MS
        self.chronicle.renew(*nodes)
        self.read()

    def read(self) -> None:
        while self.projector.step():
            pass

    def passes(self, ms: int) -> None:
        """Time passes in which nothing is decided."""
        self.chronicle.now_ms += ms
        self.read()

    @property
    def cluster(self) -> Cluster:
        self.read()
        with self.projector.reading() as reading:
            return situation.cluster(reading, self.projector.age_ms)

    @property
    def pending(self) -> list[Pending]:
        self.read()
        with self.projector.reading() as reading:
            return pending.pending(reading, self.projector.age_ms)

    @property
    def nodes(self) -> dict[str, Node]:
        self.read()
        with self.projector.reading() as reading:
            return {each.node: each for each in health.nodes(reading, self.projector.age_ms)}

    def lease(self, node: str) -> Lease:
        lease = self.nodes[node].lease
        assert lease is not None
        return lease

    @property
    def facts(self) -> dict[str, str]:
        with self.projector.reading() as reading:
            return dict(explain_cluster.explain_cluster(reading, self.projector.age_ms).facts)


@pytest.fixture
def watched(chronicle: Chronicle, tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(chronicle, tmp_path / "watched")
    yield watched
    watched.projector.close()


def test_every_lease_but_a_valid_one_goes_on_to_its_end() -> None:
    """What waits for its holder ends with it, and whoever looks is sent to that one, in each place alike: `NONE` too,
    of a member that was never heard."""
    words = get_args(get_args(get_type_hints(Leases)["state"])[0])
    assert {"VALID", *NOT_RENEWED} == set(words)


def test_who_is_left_out_of_an_echo_is_silent_everywhere(watched: Watched) -> None:
    """RD22: nobody measures heartbeats here, and 8 s after a node hangs everything said that all is well."""
    assert watched.cluster.sentence.startswith("3 members, all leases valid")
    watched.echo("n1", "n2")
    watched.passes(3_000)
    cluster, lease = watched.cluster, watched.lease("n3")
    said = "Member n3 is silent: none of its heartbeats was confirmed for 8 s, it stops serving in 12 s."
    assert cluster.sentence.startswith(f"{said} 3 members, not renewed any more: n3;")
    assert (cluster.news, cluster.silent) == ((said,), ("n3",))
    assert (lease.state, lease.age_ms, lease.fenced_in_ms, lease.out_in_ms) == ("SILENT", 8_000, 12_000, 17_000)
    assert cluster.least_heard == lease
    (found,) = watched.pending
    assert (found.name, found.sentence, found.at_most_ms) == ("silent/n3", said, 17_000)
    assert [(held.node, held.heard_ms, held.lease) for held in found.waits_for] == [("n3", 8_000, "SILENT")]
    assert (
        watched.facts["silent: n3"] == "8 s ago; unless it is heard again it stops serving in 12 s, and is out in 17 s"
    )


def test_who_is_heard_and_not_renewed_is_not_called_silent(watched: Watched) -> None:
    """RD22: a process that hangs in a hook beats; whoever reads that it is silent looks at its network."""
    watched.echo("n1", "n2")
    watched.passes(3_000)
    hung = watched.lease("n3").incarnation
    for record in (measured(watched.chronicle, node=NodeId("n3"), incarnation=hung), alive()):
        watched.chronicle.log.put(Topic.LEASE_HEALTH, getattr(record, "node", ""), CODEC.encode(record))
    (found,) = watched.pending
    assert found.sentence == (
        "Member n3 is heard (0 ms ago), and has not applied what it must: "
        "none of its heartbeats was confirmed for 8 s, it stops serving in 12 s."
    )
    assert [(held.node, held.heard_ms) for held in found.waits_for] == [("n3", 0)]
    watched.chronicle.now_ms += 2_001
    (later,) = watched.pending
    assert later.sentence.startswith("Member n3 is silent: none of its heartbeats was confirmed for 10 s")


def test_who_is_heard_again_is_not_silent(watched: Watched) -> None:
    watched.echo("n1", "n2")
    watched.echo(*NODES)
    assert watched.cluster.news == ()
    assert watched.pending == []
    assert {each.lease.state for each in watched.nodes.values() if each.lease} == {"VALID"}


def test_between_two_echoes_nobody_is_silent(watched: Watched) -> None:
    """A leader renews every quarter of a fence, and heartbeats come every second: the log cannot know earlier."""
    watched.passes(ECHO_MS)
    assert watched.cluster.news == ()
    assert [watched.lease(node).age_ms for node in NODES] == [ECHO_MS] * 3


def test_after_its_lease_a_silent_member_serves_nothing(watched: Watched) -> None:
    for _ in range(4):
        watched.echo("n1", "n2")
    lease = watched.lease("n3")
    assert (lease.state, lease.fenced_in_ms, lease.out_in_ms) == ("OVERDUE", 0, 5_000)
    assert watched.cluster.news == (
        "Member n3 is silent: none of its heartbeats was confirmed for 20 s, it serves nothing.",
    )


def test_a_coordinator_that_puts_nobody_out_is_said(watched: Watched) -> None:
    """After an outage it waits once more; later it is the one that does not hear, and says so in its log."""
    while (watched.lease("n3").age_ms or 0) <= 2 * 25_000 + FENCE_MS // 4:
        assert "put it out" not in watched.cluster.sentence
        watched.echo("n1", "n2")
    assert watched.lease("n3").out_in_ms == 0
    assert watched.cluster.news[0].endswith("Coordinator c1 does not put it out: it may hear nobody's silence.")


def test_a_silent_coordinator_is_said_and_nobody_else_is_blamed(watched: Watched) -> None:
    """Without echoes nothing is known of members: it is the leader that is silent, or this reader is cut off."""
    watched.passes(12_000)
    cluster = watched.cluster
    said = "Nothing has been decided for 12 s: coordinator c1 is silent, or this reader is cut off."
    assert cluster.news == (f"{said} No lease is renewed, and none can be judged.",)
    assert cluster.silent == ()
    assert "no lease is renewed" in cluster.sentence
    assert "all leases valid" not in cluster.sentence
    assert [each.name for each in watched.pending] == ["coordinator/c1"]
    assert {watched.lease(node).out_in_ms for node in NODES} == {None}, "who leads next counts anew"


def test_who_was_silent_before_the_coordinator_is_still_named(watched: Watched) -> None:
    watched.echo("n1", "n2")
    watched.passes(12_000)
    assert [each.name for each in watched.pending] == ["coordinator/c1", "silent/n3"]


def test_the_first_echo_of_a_new_leader_blames_nobody(watched: Watched) -> None:
    """It has heard nobody yet, and members have to apply the start of its term first."""
    watched.passes(12_000)
    watched.chronicle.lead("c2")
    watched.chronicle.renew()
    first = watched.cluster
    assert first.news == ()
    assert {watched.lease(node).out_in_ms for node in NODES} == {FENCE_MS + 5_000}
    watched.echo("n1")
    assert watched.cluster.silent == ("n2", "n3")
    assert watched.cluster.news == ("2 members are not renewed any more: n2 (heard 17 s ago), n3 (heard 17 s ago).",)


def test_a_reader_that_is_behind_says_as_of_when(watched: Watched) -> None:
    """It judges by what it has read, and is no surer than that."""
    watched.echo("n1", "n2")
    with watched.projector.reading() as reading:
        cluster = situation.cluster(reading, 3_000)
    assert cluster.sentence.startswith(
        "As of 3 s ago: Member n3 is silent: none of its heartbeats was confirmed for 8 s"
    )


def test_a_reader_that_has_stopped_blames_nobody_but_itself(watched: Watched) -> None:
    """An older log was put back, and the headline called the coordinator silent that led in it."""
    watched.echo("n1", "n2")
    watched.chronicle.append_accepted(b"poison")
    watched.passes(60_000)
    cluster, found = watched.cluster, status_of(watched.projector)
    assert watched.projector.stopped
    said = f"This reader has stopped, and nobody's silence can be judged: {watched.projector.stopped}"
    assert (cluster.news, cluster.silent, cluster.least_heard) == ((said,), (), None)
    assert cluster.sentence.startswith(f"As of 1 min ago: {said} 3 members; ")
    assert watched.pending == []
    assert watched.lease("n3").state is None
    assert (said in found.why, found.is_well, found.leader.silent, found.silent) == (True, False, None, ())
    assert found.next[0] == "topolog doctor"


def test_nodes_that_are_refused_are_named_with_a_reason_of_the_first(
    chronicle: Chronicle, projector: Projector
) -> None:
    """All are AHEAD of a log that is older than they are: that is no other history."""
    for node in ("n8", "n9"):
        chronicle.decide(RequestRefused(chronicle.ref(node), f"node {node}", "AHEAD", "BA23", "It is on.", {}))
    chronicle.renew()
    (news,) = status_of(projector).why
    assert news.startswith("2 nodes are refused: n8, n9. Node n8 was refused ")
    assert news.endswith("ago: its disk has written behind the end of this log (AHEAD).")


def test_as_of_the_past_nobody_is_called_silent(watched: Watched) -> None:
    """Renewals are not kept: what is not known is not said."""
    watched.echo("n1", "n2")
    with watched.projector.reading() as reading:
        cluster = situation.cluster(reading.as_of(reading.position - 1), 0)
    assert (cluster.news, cluster.silent, cluster.least_heard) == ((), (), None)


def test_the_worst_news_come_first(chronicle: Chronicle, projector: Projector) -> None:
    """All partitions are lost, a node is refused, one is silent: in that order, and before what is well (OP20)."""
    cluster = shared_out(chronicle, "n1", "n2", "n3", partitions=8, backups=0)
    cluster.leave("n1")
    cluster.rest()
    facts = {"common_position": "3", "theirs_position": "9"}
    refused = RequestRefused(chronicle.ref("n9"), "node n9", "AHEAD", "BA23", "It has written on.", facts)
    chronicle.decide(refused)
    chronicle.now_ms += ECHO_MS
    chronicle.renew("n2")
    while projector.step():
        pass
    with projector.reading() as reading:
        found, kinds = situation.cluster(reading, 0), [each.kind for each in pending.pending(reading, 0)]
    lost, join, silent = found.news
    assert lost.endswith("partitions of group orders are lost: no copy that is whole is present.")
    assert join.startswith("Node n9 was refused")
    assert join.endswith("ago: its disk has written behind the end of this log (AHEAD).")
    assert silent.startswith("Member n3 is silent:")
    assert found.sentence.startswith(f"{lost} {join} {silent} ")
    assert kinds[:3] == ["LOST", "REFUSED-JOIN", "SILENT"]


# At a glance.


def status_of(projector: Projector) -> Status:
    while projector.step():
        pass
    with projector.reading() as reading:
        return status.status(reading, projector.age_ms)


def test_a_cluster_in_peace_is_well(watched: Watched) -> None:
    found = status_of(watched.projector)
    assert (found.is_well, found.why, found.silent, found.waits, found.bad_events) == (True, (), (), (), ())
    assert (found.leader.name, found.leader.silent, found.leases) == ("c1", False, {"VALID": 3})
    assert found.next == ("topolog explain cluster",)


def test_the_status_names_who_is_silent_and_what_hangs_on_it(chronicle: Chronicle, projector: Projector) -> None:
    """Since when, how long it may stay so, of how many partitions it is primary, and what waits for it."""
    cluster = shared_out(chronicle, "n1", "n2", "n3", partitions=8, backups=1)
    chronicle.propose("Customer", {"id": "long"})
    chronicle.now_ms += ECHO_MS
    chronicle.renew("n1", "n2")
    found = status_of(projector)
    (silent,) = found.silent
    assert not found.is_well
    assert found.why[0].startswith("Member n3 is silent:")
    assert (silent.node, silent.lease, [*found.leases]) == ("n3", "SILENT", ["SILENT", "VALID"])
    assert silent.primary_of == {"orders": sum(cluster.acting(number) == "n3" for number in range(8))}
    assert silent.awaited_by == ("proposal/Customer/1",)
    assert [each.name for each in found.waits] == ["proposal/Customer/1"]
    assert found.next == ("topolog explain node n3", "topolog explain type Customer", "topolog get pending")


def test_the_status_tells_the_last_five_things_that_went_wrong(chronicle: Chronicle, projector: Projector) -> None:
    """Who left in silence, not who said so; a coordinator that took over from one that had said nothing."""
    for number in range(6):
        chronicle.join(f"n{number}")
        chronicle.leave(f"n{number}")
    chronicle.join("n7")
    chronicle.leave("n7", LeaveReason.LEFT)
    chronicle.lead("c2")
    found = status_of(projector).bad_events
    assert [each.sentence for each in found] == [
        "c2 took over, and the coordinator before had not ended its term.",
        *(f"n{number} is out: its lease ran out in silence." for number in (5, 4, 3, 2)),
    ]
    assert [each.position for each in found] == sorted((each.position for each in found), reverse=True)


def test_a_lost_partition_and_a_refused_join_are_in_the_status(chronicle: Chronicle, projector: Projector) -> None:
    cluster = shared_out(chronicle, "n1", "n2", partitions=8, backups=0)
    cluster.leave("n1")
    cluster.rest()
    chronicle.decide(RequestRefused(chronicle.ref("n9"), "node n9", "FORKED", "BA23", "It has parted.", {}))
    chronicle.renew("n2")
    found = status_of(projector)
    (lost,) = found.stopped
    assert (lost.group, lost.state, lost.partitions > 0) == ("orders", "LOST", True)
    assert found.refused_joins == ("n9",)
    assert {each.event for each in found.bad_events} >= {"RequestRefused", "PartitionsLost"}


def test_the_same_sentence_everywhere(watched: Watched) -> None:
    """API, console, `explain` and the list of clusters say the same, for it is made in one place."""
    watched.echo("n1", "n2")
    with served(watched.projector, Requester(watched.chronicle.log.writer(), "api", "memory")) as client:
        said = client.get("/v1/clusters/main/cluster").json()["item"]["sentence"]
        assert said.startswith("Member n3 is silent: none of its heartbeats was confirmed for 5 s")
        assert client.get("/v1/clusters/main/cluster/explain").json()["item"]["sentence"] == said
        found = client.get("/v1/clusters/main/status").json()
        assert (found["kind"], found["item"]["sentence"], found["item"]["is_well"]) == ("Status", said, False)
        assert f"<h1>{said}</h1>" in client.get("/clusters/main/").text
        assert said in client.get("/").text
        past = client.get("/v1/clusters/main/status?as_of=3").json()["item"]
    assert (past["leader"]["silent"], past["silent"], past["leases"]) == (None, [], {})


def test_a_watch_of_nodes_tells_of_their_leases(watched: Watched) -> None:
    """RD22: `get nodes -w` had no lease. A renewal is no news; that there is none any more is, and then each second."""
    requester = Requester(watched.chronicle.log.writer(), "api", "memory")
    lines = {"Accept": "application/jsonl"}
    with (
        served(watched.projector, requester) as client,
        client.stream("GET", "/v1/clusters/main/nodes", params={"watch": "present"}, headers=lines) as stream,
    ):
        told = (json.loads(line) for line in stream.iter_lines() if line)
        there = list(takewhile(lambda event: event["type"] != "SYNCED", told))
        assert {event["item"]["lease"]["state"] for event in there} == {"VALID"}
        assert not any("token" in event for event in there)
        watched.echo(*NODES)
        watched.echo("n1", "n2")
        event = next(event for event in told if event["type"] == "MODIFIED")
    assert (event["name"], event["item"]["lease"]["state"]) == ("n3", "SILENT")
