"""The client and the commands against the real API: a watch, a long poll, a read after a write."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.cli.conftest import Ended
from tests.unit.projections.serving import served

from topolog.commands.tree import root
from topolog.projections.cli.app import run
from topolog.projections.cli.client import Api
from topolog.projections.cli.contexts import Defaults
from topolog.projections.cli.following import WatchEvent
from topolog.projections.cli.resources import CLUSTER, RESOURCES, UNWATCHED, Resource
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester


class Real:
    """A cluster of one node, its projector, which the test steps, and its API."""

    def __init__(self, url: str, chronicle: Chronicle, projector: Projector) -> None:
        self.url = url
        self._chronicle = chronicle
        self._projector = projector

    def join(self, node: str) -> None:
        self._chronicle.join(node)
        self._projector.step()


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    chronicle = Chronicle().start()
    chronicle.join("n1")
    with closing(Projector(chronicle.log.reader(), tmp_path / "store", "main")) as projector:
        projector.step()
        writer = AnsweringWriter(chronicle, projector)
        with served(projector, Requester(writer, "api-1", "broker:9092")) as client:
            yield Real(str(client.base_url), chronicle, projector)


def command(real: Real, capsys: pytest.CaptureFixture[str], *args: str) -> Ended:
    code = run(root, args, Defaults(lambda: real.url, lambda: None))
    written = capsys.readouterr()
    return Ended(int(code), written.out, written.err)


def test_a_watch_tells_what_is_there_and_what_comes(real: Real) -> None:
    with Api(real.url) as api, closing(api.watch(("nodes",))) as events:
        first, synced = next(events), next(events)
        assert (first.type, first.name, synced.type) == ("ADDED", "n1", "SYNCED")
        real.join("n2")
        joined = next(each for each in events if each.is_change)
        assert (joined.type, joined.name) == ("ADDED", "n2")
    with Api(real.url) as api, closing(api.watch(("nodes",), since=synced.token)) as events:
        assert next(each for each in events if each.is_change) == joined, "a resume tells what came since, once"


def test_a_wait_is_told_when_what_it_waits_for_has_come(real: Real, capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor() as pool, Api(real.url) as api:
        token = api.get(("nodes",)).token
        assert token is not None
        told = pool.submit(api.changes, ("nodes",), token, 20.0)
        real.join("n2")
        items, following = told.result(timeout=20)
        assert ([each["name"] for each in items], following != token) == (["n2"], True)
    assert command(real, capsys, "wait", "node/n2", "--timeout", "5s").code == 0


LISTED = [each for each in RESOURCES if each not in (*UNWATCHED, CLUSTER)]
"""The audit and the stores are those of one process, and are not watched."""


@pytest.mark.parametrize("kind", LISTED, ids=lambda each: each.plural)
def test_everything_can_be_listed_and_watched(kind: Resource, real: Real, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the command line calls a resource, the API has it, and a watch of it gets to SYNCED."""
    with Api(real.url) as api, closing(api.watch(kind.path())) as events:
        assert [each.type for each in events_to_synced(events)][-1] == "SYNCED"
    ended = command(real, capsys, "get", kind.plural, "-o", "csv")
    assert ended.code == 0, ended.err


def events_to_synced(events: Iterator[WatchEvent]) -> Iterator[WatchEvent]:
    for event in events:
        yield event
        if event.type == "SYNCED":
            return


def test_a_list_is_ordered_and_narrowed_to_fields(real: Real, capsys: pytest.CaptureFixture[str]) -> None:
    real.join("n2")
    ended = command(real, capsys, "get", "nodes", "--sort", "-node", "--fields", "node,standing", "-o", "csv")
    assert ended.out == "node,standing\nn2,MEMBER\nn1,MEMBER\n"
    assert command(real, capsys, "get", "nodes", "--filter", "standing=LEFT", "-o", "name").out == ""
    assert command(real, capsys, "get", "nodes", "--filter", "standign=LEFT").code == 2
    assert command(real, capsys, "get", "node", "n1", "--fields", "node", "-o", "csv").out == "node\nn1\n"


def test_two_moments_are_compared(real: Real, capsys: pytest.CaptureFixture[str]) -> None:
    with Api(real.url) as api:
        before = str(api.get(("nodes",)).as_of["position"])
    assert command(real, capsys, "diff", "nodes", "--from", before).code == 0
    real.join("n2")
    ended = command(real, capsys, "diff", "nodes", "--from", before)
    assert (ended.code, ended.out) == (8, "+ n2\n")
    assert command(real, capsys, "diff", "node/n1", "--from", before).code == 0
    shown = command(real, capsys, "diff", "cluster", "--from", before, "-o", "csv")
    assert (shown.code, "members 1 → 2" in shown.out) == (8, True), shown


@pytest.mark.parametrize("words", ["get", "describe", "history", "explain", "watch --limit 1", "wait", "diff --from 0"])
def test_a_cluster_that_is_named_is_the_one_that_is_asked(
    real: Real, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    """A mistyped name must not tell that another cluster is well."""
    verb, *rest = words.split()
    unknown = command(real, capsys, verb, "cluster", "nope", *rest)
    assert (unknown.code, unknown.out) == (1, "")
    assert "no cluster 'nope'" in unknown.err
    assert command(real, capsys, verb, "cluster", "a/b", *rest).code == 2
    assert command(real, capsys, verb, "cluster/nope", *rest, "--cluster", "main").code == 1


def test_a_name_counts_for_more_than_the_settings(
    real: Real, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOPOLOG_CLUSTER__NAME", "another")
    assert command(real, capsys, "get", "cluster").code == 1
    assert command(real, capsys, "get", "cluster", "main").code == 0
