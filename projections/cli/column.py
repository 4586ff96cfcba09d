"""One column of a table, and how it reads what it shows."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from topolog.projections.cli.problems import Json
from topolog.projections.durations import ago


@dataclass(frozen=True)
class Column:
    """`wide`: shown by -o wide and -o csv only. `folds`: long text, broken into lines when the terminal is narrow.
    `brief`: the value as people want it in a table."""

    title: str
    of: Callable[[Json], object]
    wide: bool = False
    folds: bool = False
    brief: Callable[[object], object] = lambda value: value


def to_the_second(time: object) -> object:
    return re.sub(r"(\d)T(\d{2}:\d{2}:\d{2})(\.\d+)?", r"\1 \2", str(time or ""))


def ago_of(milliseconds: object) -> object:
    """A span in its largest unit; None where there is none."""
    return ago(milliseconds) if isinstance(milliseconds, int) else None


def field(title: str, path: str, *, wide: bool = False, folds: bool = False) -> Column:
    """A column with the value at a dotted path."""

    def value(item: Json) -> object:
        at: Any = item
        for key in path.split("."):
            at = at.get(key) if isinstance(at, Mapping) else None
        return at

    return Column(title, value, wide, folds)


def names(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def listed(item: Json, field: str) -> list[Mapping[str, object]]:
    held = item.get(field)
    return [each for each in held if isinstance(each, Mapping)] if isinstance(held, list | tuple) else []


def size(count: int) -> str:
    """Bytes in their largest unit: `81.6 MB`."""
    for unit, length in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count} B"
