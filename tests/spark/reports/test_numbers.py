"""The numbers of reports: those of the live projections where these say them, else reckoned in plain Python."""

from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from tests.spark.frames import came, lander_of
from tests.spark.reports.conftest import MakeLanded
from tests.spark.reports.history import DAY_MS, FENCE_MS, History, day
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.sharing import shared_out

from topolog.events import ownership
from topolog.events.exchange import HandOverRow
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.membership import NodeJoined, NodeLeft
from topolog.events.metadata import MetadataUpdateAccepted, MetadataUpdateProposed
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.repair import SessionEnded, SessionOpened
from topolog.events.repair_definition import SessionKind
from topolog.events.requests import OutcomeRow
from topolog.events.token_range import RING
from topolog.projections import changes as live_changes
from topolog.projections import exchanges as live
from topolog.projections.archive.landings import Archive, opened
from topolog.projections.spark.reports import agreements, changes, exchanges, leases, primaries, repairs
from topolog.projections.spark.reports.forms import Report
from topolog.projections.spark.reports.landed import Days, landed_in
from topolog.projections.store import Reading

ALL = Days()


def facts_of(landed: MakeLanded, report: Report, days: Days = ALL) -> list[Row]:
    return report.facts(landed(days)).collect()


def summary_of(landed: MakeLanded, report: Report, days: Days = ALL) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in report.summary(report.facts(landed(days))).collect()]


def ms(at: datetime) -> int:
    """Spark gives times in the time zone of this machine."""
    return round(at.timestamp() * 1000)


def folded(history: History) -> list[tuple[int, list[Folded]]]:
    """The sets that count, and when each was logged."""
    fold, found, now_ms = Fold(), [], 0
    for entry in history.chronicle.entries:
        now_ms = max(now_ms, entry.appended_at_ms)
        read = fold.read(entry.stamp, entry.value)
        if not isinstance(read, Ignored) and read:
            found.append((now_ms, read))
    return found


# Exchanges.


def test_exchanges_and_their_durations_are_those_of_the_query_api(landed: MakeLanded, reading: Reading) -> None:
    """`topolog get exchanges`: version, types, beginning, end, duration; hand-overs too."""
    expected = {
        (each.version, each.types, each.started_at, each.started_time, each.duration_ms)
        for each in live.exchanges(reading, 0, {})
        if each.state == "COMPLETED"
    }
    rows = [row for row in facts_of(landed, exchanges.REPORT) if row.completed_at is not None]
    found = {(row.version, tuple(row.types), row.started, iso(row.started_at), row.duration_ms) for row in rows}
    assert found == expected
    assert {row.kind for row in rows} == {"EXCHANGE", "HAND_OVER"}
    assert len(rows) == len(expected) > 5


def test_an_open_exchange_has_lasted_until_the_end(landed: MakeLanded, reading: Reading, history: History) -> None:
    (row,) = [row for row in facts_of(landed, exchanges.REPORT) if row.completed_at is None]
    opened = live.open_row(reading)
    assert opened is not None
    assert (row.version, row.started) == (str(opened.version), opened.started_at)
    assert row.duration_ms == history.chronicle.entries[-1].appended_at_ms - ms(row.started_at)
    assert row.answers_ms is None


def test_who_left_while_it_was_waited_for_is_the_culprit(landed: MakeLanded) -> None:
    """EX33: n2 answered never, was named overdue, and left; the others had answered after 7 ms."""
    (row,) = [row for row in facts_of(landed, exchanges.REPORT) if row.was_overdue]
    assert row.culprit == "n2"
    assert row.culprit_ms >= 11_000
    assert row.queued_ms + row.answers_ms + row.outcome_ms == row.duration_ms + row.queued_ms


def test_who_left_unanswered_while_a_group_was_made_is_the_culprit(spark: SparkSession, tmp_path: Path) -> None:
    """Only exchanges of comings and goings take up that a server has left; the others were waited for as long."""
    for number, others in enumerate((("n1", "n3"), ())):
        chronicle = Chronicle(pace_ms=250).start()
        cluster = shared_out(chronicle, *others, "n2", partitions=8, backups=0)
        cluster.create("carts", 5, 0)
        cluster.settle_exchange()
        cluster.answer(*others)
        cluster.settle_exchange()
        chronicle.now_ms += 12_000
        cluster.leave("n2")
        cluster.settle_exchange()
        cluster.exchange()
        with opened(tmp_path / f"archive-{number}", "main") as archive:
            lander_of(spark, archive).land(came(spark, "main", chronicle.entries), "test")
        facts = exchanges.REPORT.facts(landed_in(spark, Archive(archive.folder)))
        row = facts.where(F.array_contains("types", "GROUP_CREATED")).orderBy(F.desc("started")).first()
        assert row is not None
        assert (row.culprit, row.outcome_ms < 1_000) == ("n2", True)
        assert row.answers_ms >= 12_000


def test_stages_add_up(landed: MakeLanded) -> None:
    facts = [row for row in facts_of(landed, exchanges.REPORT) if row.completed_at is not None]
    summary = summary_of(landed, exchanges.REPORT)
    by_stage: Counter[str] = Counter()
    for row in summary:
        by_stage[row["stage"]] += row["total_ms"]
    assert by_stage["ANSWERS"] + by_stage["OUTCOME"] == sum(row.duration_ms for row in facts if row.kind == "EXCHANGE")
    assert by_stage["HAND_OVER"] == sum(row.duration_ms for row in facts if row.kind == "HAND_OVER")
    assert summary == sorted(summary, key=lambda row: (-row["total_ms"], row["stage"], row["culprit"] or ""))
    waits = next(row for row in summary if (row["stage"], row["culprit"]) == ("ANSWERS", "n2"))
    assert waits["overdue"] == 1
    assert "n2" in exchanges.sentence(summary)


# Agreements.


def test_latencies_are_from_the_proposal_to_the_acceptance(landed: MakeLanded, history: History) -> None:
    """Cumulative: an acceptance counts for every pending version up to its own."""
    open_since: dict[tuple[str, int], int] = {}
    expected = {}
    for now_ms, decisions in folded(history):
        for each in decisions:
            match each.event:
                case MetadataUpdateProposed(type_name=name, version=version):
                    open_since[name, version] = now_ms
                case MetadataUpdateAccepted(type_name=name, version=version):
                    for key in [key for key in open_since if key[0] == name and key[1] <= version]:
                        expected[key] = now_ms - open_since.pop(key)
    rows = [row for row in facts_of(landed, agreements.REPORT) if row.kind == "TYPE"]
    assert {(row.subject, row.version): row.latency_ms for row in rows if row.outcome == "ACCEPTED"} == expected
    assert {(row.subject, row.version) for row in rows if row.outcome == "OPEN"} == set(open_since) == {("Open", 1)}
    assert {tuple(row.presumed) for row in rows} == {(), ("n3",)}


def test_a_schema_change_takes_as_long_as_the_query_api_says(landed: MakeLanded, reading: Reading) -> None:
    (row,) = [row for row in facts_of(landed, agreements.REPORT) if row.kind == "SCHEMA"]
    (expected,) = live_changes.changes(reading, 0, {})
    assert (row.proposed, row.subject, row.outcome, row.latency_ms) == (
        expected.number,
        "shop",
        expected.state,
        expected.age_ms,
    )
    assert (row.actor, row.reason) == ("ada", "why not")


def test_agreements_are_told_by_day_and_kind(landed: MakeLanded) -> None:
    rows = {(row["date"].isoformat(), row["kind"]): row for row in summary_of(landed, agreements.REPORT)}
    assert rows.keys() == {(day(0), "TYPE"), (day(2), "TYPE"), (day(2), "REMOVAL"), (day(2), "SCHEMA")}
    first = rows[day(0), "TYPE"]
    assert (first["count"], first["open"], first["waited_out"], first["slowest"]) == (3, 0, 2, "Customer v2")
    assert first["max_ms"] >= 25_000
    assert "waited" not in agreements.sentence([rows[day(2), "REMOVAL"]])
    assert "2 had to wait out the fence" in agreements.sentence([first])


# Time without a primary.


def without_by_day(history: History) -> dict[tuple[str, int, date], dict[str, int]]:
    """Milliseconds by why, of each partition and day, by the state of a fold."""
    fold, before_ms = Fold(), 0
    state_of: dict[tuple[str, int], str] = {}
    found: dict[tuple[str, int, date], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for entry in history.chronicle.entries:
        for key, why in state_of.items():
            for when, part_ms in days_between(before_ms, entry.appended_at_ms):
                found[(*key, when)][why] += part_ms
        before_ms = entry.appended_at_ms
        if isinstance(read := fold.read(entry.stamp, entry.value), Ignored) or not read:
            continue
        stopped = {
            (move.group, partition)
            for _, row in fold.state.rows(HandOverRow)
            for move in row.moves
            for partition in move.partitions
        }
        state_of = {}
        for _, row in fold.state.rows(OwnershipRow):
            for each in ownership.ownerships(row, range(row.first, row.first + row.count)):
                key = (row.group, each.partition)
                if each.is_lost:
                    state_of[key] = "lost_ms"
                elif each.acting is None:
                    state_of[key] = "nobody_ms"
                elif key in stopped:
                    state_of[key] = "hand_over_ms"
    return found


def days_between(start_ms: int, end_ms: int) -> list[tuple[date, int]]:
    found, at_ms = [], start_ms
    while at_ms < end_ms:
        next_ms = min(end_ms, at_ms - at_ms % DAY_MS + DAY_MS)
        found.append((datetime.fromtimestamp(at_ms / 1000, UTC).date(), next_ms - at_ms))
        at_ms = next_ms
    return found


def test_time_without_a_primary_is_that_of_the_fold(landed: MakeLanded, history: History) -> None:
    """Each partition, each day, each reason."""
    expected = {key: dict(by_why) for key, by_why in without_by_day(history).items()}
    found = {
        (row.group, row.partition, row.date): {
            name: row[name] for name in ("nobody_ms", "hand_over_ms", "lost_ms") if row[name]
        }
        for row in facts_of(landed, primaries.REPORT)
    }
    assert found == expected
    assert {why for by_why in found.values() for why in by_why} >= {"nobody_ms", "hand_over_ms"}


def test_a_wait_that_crosses_midnight_is_told_of_both_days(landed: MakeLanded, history: History) -> None:
    """And a day counts as long as it is known: the group was made on the first, the log ends on the last."""
    first = landed(ALL).tenures().agg(F.min("logged_at")).first()
    assert first is not None
    known = dict(days_between(ms(first[0]), history.chronicle.entries[-1].appended_at_ms))
    rows = facts_of(landed, primaries.REPORT)
    for row in rows:
        assert row.without_ms == row.nobody_ms + row.hand_over_ms + row.lost_ms
        assert row.times >= 1
        assert row.longest_ms > 0
        assert row.partitions == 24
    summary = summary_of(landed, primaries.REPORT)
    assert sum(row["without_ms"] for row in summary) == sum(row.without_ms for row in rows)
    for each in summary:
        assert each["served"] == pytest.approx(100 * (1 - each["without_ms"] / (24 * known[each["date"]])), abs=1e-6)
    assert len({row["date"] for row in summary}) >= 2
    assert max(row.without_ms for row in rows) == max(row["worst_ms"] for row in summary)
    worst = max(summary, key=lambda row: row["worst_ms"])
    assert f"{worst['group']}/{worst['worst']} had no primary" in primaries.sentence(summary)


def test_a_report_knows_no_tenures_behind_its_own_positions(spark: SparkSession, tmp_path: Path) -> None:
    """Another report has judged and folded further meanwhile."""
    chronicle = Chronicle(pace_ms=250).start()
    cluster = shared_out(chronicle, "n1", "n2", partitions=4, backups=1)
    known = len(chronicle.entries)
    chronicle.now_ms += 2 * DAY_MS
    cluster.leave("n1")
    cluster.settle_exchange()
    cluster.exchange()
    landed = []
    for entries in (chronicle.entries[:known], chronicle.entries[known:]):
        with opened(tmp_path / "archive", "main") as archive:
            lander_of(spark, archive).land(came(spark, "main", entries), "test")
        landed.append(landed_in(spark, Archive(archive.folder)))
    before, after = landed
    assert len(after.folded) == 1, "it has folded all"
    last = before.tenures().agg(F.max("position")).first()
    assert last is not None
    assert last[0] <= before.judged.verified_at < after.judged.verified_at
    assert all(row.longest_ms < DAY_MS for row in primaries.REPORT.facts(before).collect())


# Leases.


def test_comings_and_goings_are_those_of_the_log(landed: MakeLanded, history: History, reading: Reading) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    silent: dict[str, int] = {}
    for now_ms, decisions in folded(history):
        for each in decisions:
            match each.event:
                case NodeJoined(joiner=joiner):
                    expected[joiner.node, "joined"] += 1
                case NodeLeft(node=node, reason=reason, renewed_at=heard):
                    expected[node, reason.value.lower()] += 1
                    heard_ms = reading.surely_decision(heard).logged_at_ms
                    silent[node] = max(silent.get(node, 0), now_ms - heard_ms)
    found: Counter[tuple[str, str]] = Counter()
    rows = facts_of(landed, leases.REPORT)
    for row in rows:
        for name in ("joined", *(reason.lower() for reason in leases.REASONS)):
            found[row.node, name] += row[name]
    assert +found == expected
    assert {row.node: row.silent_ms for row in rows if row.silent_ms is not None} == silent


def test_margins_and_flapping_are_what_lease_health_has_told(landed: MakeLanded) -> None:
    """A minute counts once, by its fullest telling; four returns within ten minutes are flapping from the third on."""
    rows = {(row.node, row.date.isoformat()): row for row in facts_of(landed, leases.REPORT)}
    calm, late, lost = rows["n1", day(0)], rows["n2", day(0)], rows["n2", day(1)]
    assert (calm.margin_ms, calm.thin_minutes, calm.lost) == (FENCE_MS - 1_200, 0, 1)
    assert (late.margin_ms, late.thin_minutes, late.fencings) == (FENCE_MS - 12_000, 1, 0)
    assert (lost.margin_ms, lost.fencings, lost.returns, lost.flapping_minutes) == (-1_000, 4, 4, 2)
    assert rows["n3", day(1)].margin_ms is None, "of n3 nothing was measured"
    summary = summary_of(landed, leases.REPORT)
    said = leases.sentence(summary)
    assert "n2 was behind its fence of 20.0 s: 21.0 s between two heartbeats" in said
    assert "flapping: n2" in said


# Changes and refusals.


def test_outcomes_are_those_that_the_fold_has_kept(landed: MakeLanded, history: History) -> None:
    """K7: one outcome per request, whoever asked."""
    kept = [row for _, row in history.chronicle.fold.state.rows(OutcomeRow)]
    found = {(row.requester, row.position): row.outcome for row in facts_of(landed, changes.REPORT)}
    assert {(row.requester, row.position) for row in kept} <= found.keys()
    assert all(found[row.requester, row.position] == row.status.value for row in kept)
    assert set(found.values()) == {"GRANTED", "UNCHANGED", "REFUSED"}


def test_refusals_are_told_by_actor_reason_and_code(landed: MakeLanded) -> None:
    rows = summary_of(landed, changes.REPORT)
    refused = {
        (row["actor"], row["reason"], row["what"], row["code"]): row["count"]
        for row in rows
        if row["outcome"] == "REFUSED"
    }
    assert refused == {
        ("ann", "", "node", "UNKNOWN_NODE"): 2,
        ("ann", "more copies", "group", "TOO_MANY_BACKUPS"): 1,
        ("bob", "try", "MetadataUpdateRejected", "METADATA_CONFLICT"): 1,
    }
    assert "UNKNOWN_NODE of ann: 2." in changes.sentence(rows)


def test_what_programs_tell_of_their_work_drowns_nobody(landed: MakeLanded) -> None:
    rows = summary_of(landed, changes.REPORT)
    reports = [row for row in rows if row["is_report"]]
    assert {row["what"] for row in reports} == {"TaskCompleted", "PairCompared", "RowsCompared"}
    assert rows[-len(reports) :] == reports
    assert changes.sentence(rows) == changes.sentence(rows[: -len(reports)])
    assert changes.sentence(reports).startswith("Nobody asked for anything")
    assert changes.pictures(reports) == ()


# Repairs.


def test_coverage_is_that_of_the_newest_session_of_each_token(landed: MakeLanded, history: History) -> None:
    """Token by token, by what the ends of sessions say of themselves; what a repair could not resolve is no part."""
    ended = [
        (now_ms, sessions[each.event.session], each.event.covered)
        for sessions in [kinds_of_sessions(history)]
        for now_ms, decisions in folded(history)
        for each in decisions
        if isinstance(each.event, SessionEnded)
    ]
    rows = sorted(facts_of(landed, repairs.REPORT), key=lambda row: (row.table, row.start))
    orders = [row for row in rows if row.table == "orders"]
    assert [row.start for row in orders] == [0, *(row.end for row in orders[:-1])]
    assert orders[-1].end == RING
    end_ms = history.chronicle.entries[-1].appended_at_ms
    for row in orders:
        for token in (row.start, (row.start + row.end) // 2, row.end - 1):
            covers = [
                (now_ms, kind) for now_ms, kind, some in ended if any(each.start <= token < each.end for each in some)
            ]
            assert row.compared_age_ms == min((end_ms - now_ms for now_ms, _ in covers), default=None)
            repaired = (end_ms - now_ms for now_ms, kind in covers if kind is SessionKind.REPAIR)
            assert row.repaired_age_ms == min(repaired, default=None)
        assert (row.compared_at is None) == (row.compared_age_ms is None)
    assert len({row.compared_age_ms for row in orders}) == 3, "by a repair, by a comparison, never"
    assert [(row.start, row.end, row.compared_at) for row in rows if row.table == "never"] == [(0, RING, None)]


def kinds_of_sessions(history: History) -> dict[int, SessionKind]:
    opened = (each for _, decisions in folded(history) for each in decisions if isinstance(each.event, SessionOpened))
    return {each.place.position: each.event.definition.kind for each in opened if isinstance(each.event, SessionOpened)}


def test_shares_of_a_table_add_up_to_all_of_it(landed: MakeLanded) -> None:
    rows = summary_of(landed, repairs.REPORT)
    names = ("day", "week", "month", "older", "never")
    for row in rows:
        for kind in ("compared", "repaired"):
            assert sum(row[f"{kind}_{name}"] for name in names) == pytest.approx(100)
    assert [(row["table"], row["compared_day"], row["compared_never"]) for row in rows] == [
        ("never", 0, 100),
        ("orders", 50, 50),
    ]
    assert rows[1]["repaired_day"] == pytest.approx(25, abs=0.001)
    assert "never compared: never" in repairs.sentence(rows)


# Parts of the history.


@pytest.mark.parametrize(
    "report", [primaries.REPORT, exchanges.REPORT, agreements.REPORT, leases.REPORT, changes.REPORT]
)
def test_days_that_are_asked_about_are_those_of_the_whole(landed: MakeLanded, report: Report) -> None:
    """What is told of a day does not depend on which other days are asked about, but for what is open at its end."""
    whole, some = facts_of(landed, report), 0
    for one in (date.fromisoformat(day(0)), date.fromisoformat(day(1))):
        expected = sorted(repr(row) for row in whole if row.date == one)
        assert sorted(map(repr, facts_of(landed, report, Days(one, one)))) == expected
        some += len(expected)
    assert some


def test_a_coverage_as_of_an_earlier_day_knows_nothing_of_later_ones(landed: MakeLanded) -> None:
    first = date.fromisoformat(day(0))
    assert facts_of(landed, repairs.REPORT, Days(None, first)) == []
    last = facts_of(landed, repairs.REPORT, Days(None, first + timedelta(days=2)))
    assert {row.table for row in last} == {"orders", "never"}


def iso(at: datetime) -> str:
    return datetime.fromtimestamp(at.timestamp(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
