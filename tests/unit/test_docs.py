"""Every command that docs/ shows is one: the command, its options, what they take, and the settings it names.

Nothing is run, so no broker is needed. In a line of text a command may leave out what it must be given (`topolog
propose`); a word in capitals (`ID`) stands for the reader's own, and nothing is known behind `…`.
"""

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from topolog.commands.tree import root
from topolog.events.errors import BadInput
from topolog.events.topics import ACLS, Topic
from topolog.projections.api.access.reads import AUDIT
from topolog.projections.api.listing import Listing
from topolog.projections.api.listings import LISTINGS
from topolog.projections.cli.resources import JOINS, RESOURCES, find_item
from topolog.settings.model import load

LISTINGS_BY_NAME: Mapping[str, Listing[Any]] = {**LISTINGS, AUDIT.name: AUDIT}
DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```.*?\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = r"(?:[A-Z_]+=\S+\s+)*(topolog\s[^`]+?)"
IN_BLOCK = re.compile(rf"^ *(?:\$ )?{COMMAND}$", re.MULTILINE)
IN_TEXT = re.compile(rf"`{COMMAND}`")
BETWEEN, REDIRECTED = re.compile(r" \| |; | && "), re.compile(r" \d?>(&[-\d]| ?[^\s;]+)")


def commands(page: str) -> Iterator[tuple[str, bool]]:
    """Each command without its variables, and whether it must be complete: those in blocks are there to be copied."""
    for block in BLOCK.findall(page):
        parts = (part for each in IN_BLOCK.findall(block) for part in BETWEEN.split(REDIRECTED.sub("", each)))
        yield from ((part, True) for part in parts if part.startswith("topolog "))
    yield from ((" ".join(each.split()), False) for each in IN_TEXT.findall(BLOCK.sub("", page)))


def wrong(command: str, *, is_complete: bool = True) -> str:
    """What is wrong with a command, nothing if it can be given."""
    words = list(takewhile(lambda word: word != "…", shlex.split(command, comments=True)))
    try:
        _check(words[1:])
    except (typer.Exit, SystemExit):
        return ""  # it asks for help
    except (BadInput, TyperException) as error:
        is_unfinished = not is_complete and str(error).startswith("Missing ")
        return "" if is_unfinished else f"{command}: {error}"
    return ""


def _check(words: list[str]) -> None:
    """Raise what the command line would, short of doing anything."""
    at: Any = root()
    while hasattr(at, "commands"):
        if not words:
            return  # a group alone shows its help
        context = at.make_context(at.name, list(words))
        _, at, words = at.resolve_command(context, words)
    given = at.make_context(at.name, words).params
    if "resource" in given:
        name = given["name"] or ""
        kind, _ = find_item(given["resource"], None if name.isupper() else name or None, (*RESOURCES, JOINS))
        if at.name != "diff":  # whose items are differences
            _check_narrowing(LISTINGS_BY_NAME.get(kind.plural), given)
    load(dict(pair.split("=", 1) for pair in given.get("pairs") or ()), environ={})


def _check_narrowing(listing: Listing[Any] | None, given: dict[str, Any]) -> None:
    """Fields and filters are those of the list, as the API would say."""
    named = [name.strip().lstrip("-") for option in ("fields", "sort") for name in (given.get(option) or "").split(",")]
    filters = [text.partition("=")[0].replace("-", "_") for text in given.get("others") or ()]
    if listing is None or "…" in (*named, *filters):
        return
    for name in filter(None, named):
        if name not in listing.item.__struct_fields__:
            raise BadInput(f"There is no field {name!r} of {listing.name}.")
    for name in filters:
        if name not in listing.filters.model_fields:
            raise BadInput(f"There is no filter {name!r} of {listing.name}.")


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_every_command_of_a_page_can_be_given(page: Path) -> None:
    found = [wrong(command, is_complete=is_complete) for command, is_complete in commands(page.read_text())]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize(
    "command",
    [
        "topolog gte nodes",
        "topolog get nodez",
        "topolog get nodes --limits 5",
        "topolog get nodes -o xml",
        "topolog get decisions event=SnapshotTaken",
        "topolog cluster inti",
        "topolog raise-level",
        "topolog get nodes --fields node,lease.state",
        "topolog get nodes --sort -joined",
        "topolog get nodes --filter foo=bar",
        "topolog get audit --filter whom=ann",
        "topolog up --set lease.fense=5s",
    ],
)
def test_a_command_that_cannot_be_given_would_be_noticed(command: str) -> None:
    assert wrong(command)


def test_commands_are_found_in_blocks_and_in_text() -> None:
    shown = "$ topolog get types -o name 2>&- > found; topolog status | head -1; echo x"
    page = f"Say `topolog get\nnodes`.\n```sh\nX=1 topolog up  # all\n{shown}\n```\n"
    assert list(commands(page)) == [
        ("topolog up  # all", True),
        ("topolog get types -o name", True),
        ("topolog status", True),
        ("topolog get nodes", False),
    ]
    assert len([command for page in DOCS.rglob("*.md") for command in commands(page.read_text())]) > 30


def _steps(page: str) -> list[set[str]]:
    """The roles that each numbered step names in bold."""
    roles = "|".join({access.role for access in ACLS})
    steps = re.findall(r"^\d\. .*(?:\n   .*)*", page, re.MULTILINE)
    return [set(re.findall(rf"\*\*({roles})s?\*\*", each)) for each in steps]


def _who(does: str) -> set[tuple[str, Topic]]:
    """Which role does it with which topic, of those that nobody writes at the level in force."""
    as_they_are = {Topic.DECISIONS, Topic.REQUESTS, Topic.SNAPSHOTS, Topic.DEAD}
    return {(each.role, each.topic) for each in ACLS if each.topic and does in each.operations} - {
        (role, topic) for role in (access.role for access in ACLS) for topic in as_they_are
    }


def test_an_upgrade_replaces_whoever_reads_a_topic_before_those_who_write_it() -> None:
    """The log and what members ask are written at the level in force, snapshots are each version's own, and letters are
    as they were; all else is in the newest schemas of who writes it, which a reader of before could not read."""
    steps = enumerate(_steps((DOCS / "upgrading.md").read_text()))
    order = {role: number for number, step in steps for role in step}
    assert order.keys() == {access.role for access in ACLS if access.topic}
    writes = _who("Write") - {("coordinator", Topic.HEARTBEATS)}  # its certificate is for coordinators alone
    early = [
        f"{writer} before {reader}: {topic.short_name}"
        for reader, topic in sorted(_who("Read"), key=str)
        for writer, written in sorted(writes, key=str)
        if written is topic and order[writer] < order[reader]
    ]
    assert early == []


def _in_code(path: Path) -> Iterator[str]:
    """The commands that a source file names in its texts, each up to what is filled in."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Constant(value=str(text)):
                pass
            case ast.JoinedStr(values=values):
                text = "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in values)
            case _:
                continue
        yield from (" ".join(re.split(r"\S*[…{]|2>", each)[0].split()) for each in IN_TEXT.findall(text))


@pytest.mark.parametrize("package", ["events", "streams", "projections", "src"])
def test_every_command_that_a_hint_names_can_be_given(package: str) -> None:
    found = {command for path in (DOCS.parent / package).rglob("*.py") for command in _in_code(path)}
    refused = [wrong(command, is_complete=False) for command in sorted(found)]
    assert [each for each in refused if each and not each.endswith("requires an argument.")] == []
