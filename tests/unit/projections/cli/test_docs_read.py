"""What docs/ says to read is asked of a real API: it knows each field, filter, order and moment that is named there.

Names are those of the reader's own cluster, so «there is no such thing» is an answer here; «that is wrong» is none.
"""

import shlex
from collections.abc import Iterator
from contextlib import closing
from itertools import takewhile
from pathlib import Path

import pytest
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served
from tests.unit.test_docs import DOCS, commands

from topolog.commands.tree import root
from topolog.projections.cli.app import run
from topolog.projections.cli.contexts import Defaults
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

READING = frozenset({"get", "describe", "explain", "history", "diff"})
ELSEWHERE = frozenset({"-w", "--watch", "--api", "--context", "--cluster"})
"""What goes on, or asks another API than that of the test."""


def reads(page: Path) -> list[list[str]]:
    """The commands of a page that read once, but for those with a word in capitals, which is for the reader to fill in,
    and those that a line of text leaves unfinished (`topolog explain decision`)."""
    found = list[list[str]]()
    for command, is_complete in commands(page.read_text()):
        _, *words = takewhile(lambda word: word != "…", shlex.split(command, comments=True))
        is_read = len(words) > (1 if is_complete or words[:1] == ["get"] else 2) and words[0] in READING
        if is_read and not ELSEWHERE.intersection(words) and not any(map(str.isupper, words)):
            found.append(words)
    return found


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if reads(page)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    chronicle = Chronicle().start()
    chronicle.join("n1")
    with closing(Projector(chronicle.log.reader(), tmp_path_factory.mktemp("docs") / "store", "main")) as projector:
        projector.step()
        with served(projector, Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")) as client:
            yield str(client.base_url)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_reads_is_no_mistake(page: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in reads(page):
        code = run(root, words, Defaults(lambda: url, lambda: None))
        assert code != ExitCode.USAGE, f"{shlex.join(words)}: {capsys.readouterr().err}"


def test_a_mistake_would_be_noticed(url: str) -> None:
    for words in (["get", "nodes", "--fields", "lease.state"], ["get", "nodes", "--filter", "foo=bar"]):
        assert run(root, words, Defaults(lambda: url, lambda: None)) == ExitCode.USAGE
