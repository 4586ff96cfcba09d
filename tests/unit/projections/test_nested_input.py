"""What is nested without end is refused in a sentence, wherever somebody else's text is decoded."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from topolog.events.errors import BadInput
from topolog.projections.api import forms, projection_routes, replays
from topolog.projections.cli.definition_file import read_documents
from topolog.projections.cli.past_of_node import read_past
from topolog.projections.cursors import Cursor
from topolog.projections.ordering import SortOrder
from topolog.projections.resources import Outcome

DEPTH = 50_000
LISTS = "[" * DEPTH + "]" * DEPTH
SPREAD = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
)
"""A kilobyte that means a billion values."""


def in_file(read: Callable[[str], object], name: str, text: str) -> Callable[[Path], object]:
    def reads(folder: Path) -> object:
        (folder / name).write_text(text)
        return read(str(folder / name))

    return reads


def cursor(_: Path) -> object:
    packed = b"\x82\xa1b" + b"\x91" * DEPTH + b"\x90\xa1c\x01"
    return Cursor.parse(base64.urlsafe_b64encode(packed).decode(), "/")


CASES: dict[str, Callable[[Path], object]] = {
    "form": lambda _: forms.read_form(b'{"kind": "propose", "definition": {"a": ' + LISTS.encode() + b"}}"),
    "replay": lambda _: replays._read_form(b'{"a": ' + LISTS.encode() + b"}"),
    "action": lambda _: projection_routes._read_form(b'{"a": ' + LISTS.encode() + b"}"),
    "cursor": cursor,
    "place": lambda _: SortOrder.parse("id", Outcome)._parsed_place(LISTS),
    "yaml": in_file(lambda path: read_documents(path, "a thing", ""), "a.yaml", f"a: {LISTS[: 2 * DEPTH]}"),
    "alias of itself": in_file(lambda path: read_documents(path, "a thing", ""), "a.yaml", "a: &a {b: *a}"),
    "aliases of aliases": in_file(lambda path: read_documents(path, "a thing", ""), "a.yaml", SPREAD),
    "json": in_file(lambda path: read_documents(path, "a thing", ""), "a.json", f'{{"a": {LISTS}}}'),
    "past": in_file(read_past, "a.json", f'{{"format": {LISTS}}}'),
}


@pytest.mark.parametrize("case", CASES)
def test_nesting_without_end_is_bad_input(tmp_path: Path, case: str) -> None:
    """OP5: a 500 by any viewer before rights were looked at, and a traceback of the command line."""
    with pytest.raises(BadInput):
        CASES[case](tmp_path)
