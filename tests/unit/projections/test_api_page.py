"""docs/api.md: every command on it is run, in order, and answers what stands below it (RD12)."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx import Client
from tests.unit.projections.asking import asked, curl, shown

PAGE = Path(__file__).parents[3] / "docs" / "api.md"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def examples(page: str) -> list[tuple[str, str]]:
    """Each command and what it is said to answer."""
    parts = (part for block in BLOCK.findall(page) for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part)
    return [(command, answer.rstrip()) for command, _, answer in (part.partition("\n") for part in parts)]


def is_as_said(answer: str, said: str) -> bool:
    """Whether the answer is what was said; `…` stands for any text, alone in a line for any lines."""
    lines = (r"(?:.*\n)*" if line == "…" else f"{re.escape(line).replace('…', '.*')}\n" for line in said.splitlines())
    pattern = "".join(lines)
    return re.fullmatch(pattern, f"{answer}\n") is not None


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with asked(tmp_path) as client:
        yield client


def test_every_command_answers_what_stands_below_it(client: Client) -> None:
    found = examples(PAGE.read_text(encoding="utf-8"))
    assert len(found) > 10
    following = ""
    for command, said in found:
        response = curl(client, command.replace("$next", following))
        answer = shown(response)
        assert is_as_said(answer, said), f"{command}\n{answer}"
        following = response.json().get("next") or "" if "json" in response.headers["Content-Type"] else ""


@pytest.mark.parametrize(
    ("answer", "said", "is_so"),
    [
        ("a\nb\nc", "a\nb\nc", True),
        ("a\nb\nc", "a\n…\nc", True),
        ("a\nb\nc", "…\nc", True),
        ("a\nb\nc", "a\n…", True),
        ("a\nb\nc", "…\nb\n…", True),
        ("a\nb\nc", "a\nc", False),
        ('"next": "xyz"', '"next": "…"', True),
        ('"next": "xyz"', '"last": "…"', False),
        ("a\nb\nc", "a\n…\nd", False),
        ("a\nb\nc", "…\nb", False),
        ("a\nb\nc", "b\n…", False),
    ],
)
def test_another_answer_would_be_noticed(answer: str, said: str, is_so: bool) -> None:
    assert is_as_said(answer, said) is is_so
