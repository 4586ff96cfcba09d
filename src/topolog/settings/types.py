"""What settings are made of: durations with units, ports, folders, and the tables of the file."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from topolog.events import durations
from topolog.events.durations import duration_text
from topolog.events.errors import BadInput
from topolog.settings.values import HIGHEST_PORT, home_path, port_number, utf8_text

__all__ = [
    "Duration",
    "DurationOrNone",
    "Folder",
    "FolderOrNone",
    "Port",
    "Section",
    "Text",
    "duration_ms",
    "duration_text",
]


def duration_ms(text: object) -> int:
    """Whole milliseconds of a duration with its unit. Raises ValueError for anything else."""
    if not isinstance(text, str) or not durations.is_duration(text):
        raise ValueError('a duration needs a number and a unit, such as "500ms", "20s", "5m" or "1d"')
    return durations.duration_ms(text)


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
