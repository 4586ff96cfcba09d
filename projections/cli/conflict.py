"""A refused proposal, both sides side by side: what stands, what was proposed, and where they contradict each other."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from topolog.projections.cli.problems import Json
from topolog.projections.cli.rows import cell
from topolog.projections.refusals import remedy

CONTRADICTS = "contradicts"
NEW = "new"


def advice(rule: str, type_name: str) -> str:
    """What somebody can do who broke this rule of the merge."""
    return remedy("METADATA_CONFLICT", rule, f"type {type_name}")


def sides_table(current: Json, proposed: Json) -> Table:
    """One row for everything that either side says; contradictions are marked by a word, not by colour alone."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("FIELD", "CURRENT", "PROPOSED", ""):
        table.add_column(title, overflow="fold")
    for what, now, then, verdict in _compare(current, proposed):
        style = "bold red" if verdict == CONTRADICTS else ""
        table.add_row(*(Text(part.plain, style=style) for part in (cell(what), cell(now), cell(then), Text(verdict))))
    return table


def _compare(current: Json, proposed: Json) -> Iterator[tuple[str, object, object, str]]:
    for key, title in (("name", "(name)"), ("affinity_key", "(affinity key)"), ("is_enum", "(is an enum)")):
        now, then = current.get(key), proposed.get(key)
        if key == "affinity_key" or now != then:
            yield title, now, then, CONTRADICTS if now != then else ""
    yield from _united(current.get("fields") or {}, proposed.get("fields") or {}, {})
    ordinals = {ordinal: name for name, ordinal in (current.get("enum") or {}).items()}
    yield from _united(current.get("enum") or {}, proposed.get("enum") or {}, ordinals)


def _united(
    current: Mapping[str, Any], proposed: Mapping[str, Any], owners: Mapping[Any, str]
) -> Iterator[tuple[str, object, object, str]]:
    """Entries of both mappings; `owners` says which name a value belongs to already, where values are unique too."""
    for name in dict.fromkeys([*current, *proposed]):
        now, then = current.get(name), proposed.get(name)
        if now is not None and then is not None and now != then:
            yield name, now, then, CONTRADICTS
        elif now is None and owners.get(then, name) != name:
            yield name, f"{owners[then]} = {then}", then, CONTRADICTS
        else:
            yield name, now, then, NEW if now is None else ""
