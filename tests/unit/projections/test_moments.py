"""Moments: by which words any place in the log can be asked for."""

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.sharing import Sharing, shared_out

from topolog.events.errors import BadInput, NotFound, TopologError
from topolog.projections import exchanges, moments, views
from topolog.projections.projector import Projector
from topolog.projections.store import Reading


def at(reading: Reading, text: str, now_ms: int) -> int:
    return moments.reading_as_of(reading, text, now_ms).position


@pytest.fixture
def cluster(chronicle: Chronicle, projector: Projector) -> Sharing:
    """Groups are shared out, a server joins and loads, hand-overs end."""
    cluster = shared_out(chronicle, "n1", "n2", "n3")
    cluster.join("n4")
    cluster.renew("n4")
    cluster.rest()
    while projector.step():
        pass
    return cluster


def test_a_view_is_the_moment_when_it_came_into_force(cluster: Sharing, projector: Projector) -> None:
    """RD6: as of a topology version; of each view there ever was."""
    with projector.reading() as reading:
        listed = list(views.views(reading))
        assert len(listed) > 3
        for each in listed:
            found = moments.reading_as_of(reading, f"topology:{each.version}", 0)
            assert found.position == reading.surely_decision(each.position).set_end
            assert views.view(found, "newest").version == each.version


def test_an_exchange_is_the_moment_when_it_was_completed(cluster: Sharing, projector: Projector) -> None:
    """Named by its first view or by any that it has taken in; hand-overs too."""
    with projector.reading() as reading:
        listed = list(exchanges.exchanges(reading, 0, {}))
        assert {each.is_switch for each in listed} == {True, False}
        for each in listed:
            assert each.completed_at is not None
            end = reading.surely_decision(each.completed_at).set_end
            assert {at(reading, f"exchange:{version}", 0) for version in (each.version, each.result)} == {end}
            assert exchanges.exchange(moments.reading_as_of(reading, str(end), 0), 0, each.version).state == "COMPLETED"


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("topology:x", BadInput, "no version"),
        ("topology:", BadInput, "no version"),
        ("exchange:1", BadInput, "no version"),
        ("topologie:4.1", BadInput, "topology:4.1"),
        ("topology:99.0", NotFound, "the newest is"),
        ("topology:0.7", NotFound, "no view 0.7"),
        ("exchange:99.0", NotFound, "no exchange"),
    ],
)
def test_a_version_that_is_none_says_why(
    cluster: Sharing, projector: Projector, text: str, error: type[TopologError], says: str
) -> None:
    with projector.reading() as reading, pytest.raises(error) as raised:
        at(reading, text, 0)
    assert says in f"{raised.value.message} {raised.value.hint}"


def test_an_exchange_that_is_open_has_no_end(cluster: Sharing, projector: Projector) -> None:
    cluster.join("n5")
    cluster.settle_exchange()
    projector.step()
    with projector.reading() as reading:
        row = exchanges.open_row(reading)
        assert row is not None
        with pytest.raises(NotFound, match="not completed"):
            at(reading, f"exchange:{row.version}", 0)
