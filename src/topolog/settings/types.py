"""What settings are made of: durations with units, ports, folders, and the tables of the file."""

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from topolog.events.errors import BadInput
from topolog.settings.values import HIGHEST_PORT, home_path, port_number, utf8_text

UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def duration_ms(text: object) -> int:
    """Whole milliseconds of "500ms", "20s", "5m" or "1h". Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d+) ?(ms|s|m|h)", text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError('a duration needs a number and a unit, such as "500ms", "20s" or "5m"')
    return int(match.group(1)) * UNITS_MS[match.group(2)]


def duration_text(ms: int) -> str:
    """The shortest form that `duration_ms` reads back as the same number."""
    unit = next(unit for unit in reversed(UNITS_MS) if ms % UNITS_MS[unit] == 0)
    return f"{ms // UNITS_MS[unit]}{unit}"


def _absolute(path: Path) -> Path:
    try:
        return home_path(path, "the path").absolute()
    except BadInput as error:
        raise ValueError(error.message.removesuffix(".")) from None


def _unless_empty(value: object) -> object:
    """None for what an environment sets to nothing."""
    return None if value == "" else value


Duration = Annotated[int, BeforeValidator(duration_ms), Field(gt=0)]
DurationOrNone = Annotated[int, BeforeValidator(duration_ms), Field(ge=0)]
Port = Annotated[int, BeforeValidator(port_number), Field(ge=1, le=HIGHEST_PORT)]
Text = Annotated[str, AfterValidator(utf8_text)]
Folder = Annotated[Path, AfterValidator(_absolute)]
FolderOrNone = Annotated[Folder | None, BeforeValidator(_unless_empty)]


class Section(BaseModel):
    """A table of the file. Field names end in their unit, the keys that people write do not."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)
