"""docs/partitions.md says what the code says: its tables and its picture are made here, and compared.

`TOPOLOG_WRITE_PARTITIONS=1 pytest tests/unit/events/test_partitions_page.py` writes them anew. The times in it are
measured: `python tests/benchmarks/maps.py --write`.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tests.benchmarks.maps import PAGE, in_page, sizes, table, whole_maps

from topolog.events.partitions import TRANSITIONS, PartitionState, Why, state_name
from topolog.streams.rules.single_maps import MapVerdict

UNIT = Path(__file__).parents[1]
WITH_ITS_OWNER = (Why.NODE_LEFT, Why.GROUP_DROPPED)
"""What ends a copy of any state: too many arrows for a picture."""


def yes(value: bool) -> str:
    return "yes" if value else "no"


def states() -> str:
    head = (
        "| state | ordinal | meaning | serves reads and writes | counts as owner | is written to |\n" + 6 * "|---" + "|"
    )
    rows = (
        f"| {each.name} | {each.ordinal} | {each.meaning} | {yes(each.serves)} | {yes(each.is_owner)} "
        f"| {yes(each.is_written)} |"
        for each in PartitionState
    )
    return "\n".join((head, *rows))


def transitions() -> str:
    rows = (
        f"| {state_name(each.source)} | {state_name(each.target)} | {each.why.name} | {each.when.value} |"
        for each in TRANSITIONS
        if each.why not in WITH_ITS_OWNER
    )
    return "\n".join(("| from | to | why | legal |\n|---|---|---|---|", *rows))


def whys() -> str:
    return "\n".join(("| why | in words |\n|---|---|", *(f"| {each.name} | {each.value} |" for each in Why)))


def picture() -> str:
    """A state diagram, one arrow for each pair of states."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for each in TRANSITIONS:
        if each.why not in WITH_ITS_OWNER:
            ends = tuple("[*]" if state is None else state.name for state in (each.source, each.target))
            arrows.setdefault((ends[0], ends[1]), []).append(each.why.name)
    lines = [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in arrows.items()]
    return "\n".join(("```mermaid", "stateDiagram-v2", *lines, "```"))


def verdicts() -> str:
    rows = (f"| {each.name} | {each.sentence} | {yes(each.is_fault)} |" for each in MapVerdict)
    return "\n".join(("| verdict | meaning | is a mistake |\n|---|---|---|", *rows))


def blocks() -> Mapping[str, str]:
    return {
        "states": states(),
        "picture": picture(),
        "transitions": transitions(),
        "why": whys(),
        "verdicts": verdicts(),
        "sizes": table(sizes()),
        "whole maps": table(whole_maps()),
    }


def test_the_page_says_what_the_code_says() -> None:
    """One table for code, picture and tests; and the sizes are what comes of it."""
    text = written = PAGE.read_text(encoding="utf-8")
    for name, block in blocks().items():
        written = in_page(written, name, block)
    if os.environ.get("TOPOLOG_WRITE_PARTITIONS") == "1":
        PAGE.write_text(written, encoding="utf-8")
    else:
        assert text == written


def test_the_picture_has_every_state_and_every_way() -> None:
    """Nothing is lost on the way from the table to the picture."""
    drawn = picture()
    assert all(f"--> {each.name}:" in drawn and f" {each.name} -->" in drawn for each in PartitionState)
    named = {name for line in drawn.splitlines() if ": " in line for name in line.split(": ")[1].split(", ")}
    assert named == {each.name for each in Why} - {each.name for each in WITH_ITS_OWNER}


def test_every_rule_is_accounted_for_and_shown_by_a_test_that_exists() -> None:
    """T1 to T11: what became of each, and where that is proved."""
    rows = re.findall(r"^\| T(\d+) [^|]+\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, 12))
    there = set()
    for path in (UNIT / "events" / "test_partitions.py", UNIT / "streams" / "rules" / "test_single_maps.py"):
        there |= set(re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    named = {name for *_, shown in rows for name in re.findall(r"`(\w+)`", shown)}
    assert named <= there
    of_a_rule = {name for name in there if re.match(r"test_t\d+_", name)}
    assert of_a_rule <= named
