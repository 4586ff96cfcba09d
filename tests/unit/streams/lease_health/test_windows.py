"""What a node's account says after some heartbeats, by figures worked out by hand; and that no repeat changes it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.lease_health.beats import LOG_ID, START_MS, TERMS, Beat, account_of, after, heartbeat, put

from topolog.events.errors import Undecodable
from topolog.events.health import MINUTE_MS, WINDOW_MINUTES, Figures, total, warning_margin_ms
from topolog.events.ids import Incarnation, Offset
from topolog.streams.lease_health import windows
from topolog.streams.lease_health.windows import Account, Heard, is_of_its_node


def test_lateness_counts_from_the_heartbeat_before() -> None:
    """900 ms is early (an acknowledgement), 1,200 ms is 200 late, 3,400 ms is 2,400 late and two periods without one;
    lateness goes 0, 200, 2,400, so jitter is 200 + 2,200. The smallest margin is what 3,400 ms leave of the fence."""
    figures = account_of(after(900, 1_200, 3_400)).health.whole
    assert figures == Figures(beats=4, gaps=3, gap_max_ms=3_400, lateness_ms=2_600, jitter_ms=2_400, missed=2, starts=1)
    assert figures.margin_ms(20_000) == 16_600
    assert (figures.lateness_mean_ms, figures.jitter_mean_ms) == (866, 800)


def test_one_heartbeat_says_nothing_about_margins() -> None:
    whole = account_of(after()).health.whole
    assert (whole.margin_ms(20_000), whole.lateness_mean_ms, whole.jitter_mean_ms) == (None, None, None)


@pytest.mark.parametrize(("gap_ms", "is_thin"), [(10_500, False), (10_501, True), (60_000, True)])
def test_the_warning_comes_when_half_of_the_slack_is_gone(gap_ms: int, is_thin: bool) -> None:
    """Slack is 20,000 - 1,000 = 19,000 ms; half of it is left, 9,500 ms, after a gap of 10,500 ms."""
    assert warning_margin_ms(20_000, 1_000) == 9_500
    assert account_of(after(1_000, gap_ms)).health.is_thin is is_thin


def test_the_warning_ends_when_the_gap_has_left_the_window() -> None:
    """The gap is of minute 0; that minute is in the window until minute 10 begins."""
    beats = after(1_000, 12_000, *[1_000] * 700)
    thin = [account_of(beats[: n + 1]).health.is_thin for n in (2, 400, len(beats) - 1)]
    assert thin == [True, True, False]
    assert account_of(beats).health.whole.gap_max_ms == 12_000, "of the incarnation it stays the smallest margin"


def test_lost_heartbeats_are_numbers_that_never_came() -> None:
    first, second = after(3_000)
    jumped = (heartbeat(4), second[1])
    assert account_of([first, jumped]).health.whole.lost == 2


def test_what_was_deleted_unread_is_neither_late_nor_lost() -> None:
    """The worker was away for longer than heartbeats are kept: offset 1 to 99 are gone, and with them 98 numbers."""
    account = account_of(after(1_000))
    beat = heartbeat(100), Heard(0, Offset(100), START_MS + 99_000, oldest=Offset(100))
    whole = account_of([beat], account).health.whole
    assert (whole.beats, whole.gaps, whole.lost, whole.gap_max_ms) == (3, 1, 0, 1_000)
    silent = heartbeat(3), Heard(0, Offset(100), START_MS + 99_000, oldest=Offset(100))
    assert account_of([silent], account).health.whole.gap_max_ms == 98_000, "but no number is missing here: silence"


def test_fencings_and_returns_are_counted_once_the_first_lease_was_held() -> None:
    """An incarnation starts without a lease, gets it, loses it, says so twice, has it back: one fencing, one return."""
    words = [True, False, False, True, True, False]
    heard = [each for _, each in after(*[1_000] * 5)]
    beats = [(heartbeat(n + 1, fenced=fenced), heard[n]) for n, fenced in enumerate(words)]
    whole = account_of(beats).health.whole
    assert (whole.fencings, whole.returns) == (1, 1)


def test_a_new_incarnation_starts_its_own_figures_and_keeps_the_window() -> None:
    """The 30 s between two process lives are no gap: nobody was there to beat."""
    old = after(1_000, 4_000)
    new = after(1_000, incarnation=2, start_ms=START_MS + 35_000, offset=3)
    health = account_of([*old, *new]).health
    assert health.whole == Figures(beats=2, gaps=1, gap_max_ms=1_000, starts=1)
    assert (health.window.starts, health.window.gap_max_ms, health.window.beats) == (2, 4_000, 5)
    assert not health.window.is_flapping
    third = account_of([*old, *new, *after(incarnation=3, start_ms=START_MS + 40_000, offset=5)])
    assert third.health.window.is_flapping


def test_a_former_incarnation_that_still_beats_is_a_stray() -> None:
    """It says nothing of the present one, and a repeat of it is none."""
    old, new = after(1_000), after(incarnation=2, start_ms=START_MS + 2_000, offset=2)
    stray = heartbeat(3, 1), Heard(0, Offset(3), START_MS + 2_500)
    account = account_of([*old, *new, stray, stray, old[0]])
    assert account.health.whole == Figures(beats=1, starts=1, strays=1)
    assert (account.health.incarnation, account.health.beat_ms) == (2, START_MS + 2_000)


def test_another_log_begins_anew() -> None:
    """The topics were made again: what the account says is of a cluster that is gone."""
    other = msgspec.structs.replace(TERMS, log_id=bytes(16))
    account = windows.count(account_of(after(1_000)), heartbeat(9), Heard(0, Offset(0), START_MS), other)
    assert account is not None
    assert (account.health.log_id, account.health.whole.beats) == (bytes(16), 1)


def test_a_topic_that_was_made_again_is_no_repeat() -> None:
    """Offsets begin at 0 again, time does not; sequences of the same incarnation go on."""
    account = account_of(after(1_000, 1_000))
    new = heartbeat(1, 2), Heard(0, Offset(0), START_MS + 4_000)
    assert account_of([new], account).health.incarnation == 2
    same = heartbeat(4), Heard(0, Offset(0), START_MS + 3_000)
    assert account_of([same, new], account).health.window.beats == 5


def test_a_broker_clock_that_was_set_back_neither_breaks_nor_keeps_minutes_to_come() -> None:
    account = account_of(after(1_000, 3_600_000))
    back = heartbeat(4), Heard(0, Offset(3), START_MS + 2_000)
    health = account_of([back], account).health
    assert (health.lateness_ms, health.window.beats) == (0, 1), (
        "the minute of an hour later is dropped, as the first was"
    )


def test_an_account_of_another_version_is_refused() -> None:
    with pytest.raises(Undecodable):
        windows.decode(b"\x93\x01\x02\x03")


gaps = st.integers(min_value=0, max_value=90_000)
lives = st.lists(st.lists(gaps, max_size=12), min_size=1, max_size=8)  # more than an account remembers


def lived(given_lives: list[list[int]]) -> list[Beat]:
    """Several incarnations one after the other on one topic."""
    beats: list[Beat] = []
    for number, life in enumerate(given_lives):
        start_ms = beats[-1][1].appended_ms + 5_000 if beats else START_MS
        beats += after(*life, incarnation=number + 1, start_ms=start_ms)
    return list(put(beats))


@given(lives, st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=6))
def test_what_is_read_again_changes_nothing(given_lives: list[list[int]], kills: list[tuple[float, float]]) -> None:
    """However often a worker is killed and reads again from an older place, the account ends as if nothing had
    happened. (`kills`: where it is killed, and how far back of that its place in the topic is.)"""
    beats = lived(given_lives)
    account: Account | None = None
    place = 0
    for killed_at, back in sorted(kills):
        reached = max(place, round(killed_at * len(beats)), 1)
        account = account_of(beats[place:reached], account)
        place = round(back * reached)
    account = account_of(beats[place:], account)
    assert account.health == account_of(beats).health


def test_incarnations_that_were_forgotten_do_not_start_again() -> None:
    """Eight process lives, more than an account remembers, and the worker begins at the first of them once more."""
    beats = lived([[1_000]] * 8)
    account = account_of(beats)
    assert account_of(beats, account) == account


@given(lives)
def test_the_minutes_add_up(given_lives: list[list[int]]) -> None:
    """The window is the sum of its minutes; they ascend, lie within ten, and together hold no more than there was."""
    beats = lived(given_lives)
    health = account_of(beats).health
    starts = [each.start_ms for each in health.minutes]
    assert starts == sorted(set(starts))
    assert health.beat_ms - starts[0] <= WINDOW_MINUTES * MINUTE_MS
    assert health.window == total(each.figures for each in health.minutes)
    inside = [beat for beat in beats if beat[1].appended_ms >= starts[0]]
    assert health.window.beats == len(inside)
    assert health.whole.gaps == health.whole.beats - 1
    assert health.whole.lateness_ms <= sum(max(0, gap_ms - 1_000) for gap_ms in given_lives[-1])


@given(lives)
def test_an_account_is_what_it_was_after_it_was_stored(given_lives: list[list[int]]) -> None:
    account = account_of(lived(given_lives))
    assert windows.decode(windows.encode(account)) == account


def test_sums_stop_before_they_leave_the_range_of_avro() -> None:
    """Whoever may write heartbeats can forge a number; the worker must not end of it."""
    first, second = after(1_000)
    forged = heartbeat((1 << 63) - 1), second[1]
    whole = account_of([first, forged]).health.whole
    assert whole.plus(whole).plus(whole).lost < 1 << 63


def test_health_is_told_at_once_when_something_happens_and_now_and_then_else() -> None:
    """Every eighth of the fence: 2,500 ms. A thin margin, a fencing, a release and a new incarnation are news."""
    beats = after(1_000, 1_000, 1_000, 1_000, 12_000, 1_000)
    beats.append((heartbeat(8, fenced=True), Heard(0, Offset(7), beats[-1][1].appended_ms + 100)))
    told: list[bool] = []
    account: Account | None = None
    for beat, heard in beats:
        before, account = account, windows.count(account, beat, heard, TERMS)
        assert account is not None
        found = windows.told(before, account)
        account = found or account
        told.append(found is not None)
    assert told == [True, False, False, True, False, True, False, True]


def test_the_log_id_is_that_of_the_terms() -> None:
    health = account_of(after()).health
    assert (health.log_id, health.incarnation) == (LOG_ID, Incarnation(1))


@pytest.mark.parametrize("node", ["", "n 1", "n1\nERROR forged", "n\u202e1", "n" * 510_000])
def test_what_cannot_be_the_id_of_a_node_is_not_counted(node: str) -> None:
    """It would forge lines of the worker's log, and end a worker whose account of it is too big to be sent."""
    assert not is_of_its_node(heartbeat(1, node=node), node.encode())


def test_a_heartbeat_counts_under_the_key_of_its_node_alone() -> None:
    """Under another it stands in another partition, whose worker has another account of the node."""
    assert is_of_its_node(heartbeat(1), b"n1")
    assert not is_of_its_node(heartbeat(1), b"n2")
    assert not is_of_its_node(heartbeat(1), None)
