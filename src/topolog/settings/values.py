"""What a value must look like, for the model of all settings and for whoever reads a few of them without it."""

import re
from pathlib import Path
from typing import Final

from topolog.events.errors import BadInput

HIGHEST_PORT: Final = 65_535
_PORT_DIGITS: Final = len(str(HIGHEST_PORT))


def cluster_name(text: str) -> str:
    """The text, if topics can be called by it; raises ValueError for anything else."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", text):
        raise ValueError("a name has 1 to 63 characters of a-z, 0-9 and -, and does not begin with -")
    return text


def port_number(value: object) -> int:
    """The number, which an environment has as digits; raises ValueError for anything else, and for one too long."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(rf"[0-9]{{1,{_PORT_DIGITS}}}", value):
        return int(value)
    raise ValueError(f"a port is a whole number from 1 to {HIGHEST_PORT}")


def utf8_text(text: str) -> str:
    """The text; raises ValueError if it holds bytes of the environment that are not UTF-8."""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("it is not UTF-8")
    return text


def api_url(text: str) -> str:
    """The address of an API without a slash at its end, '' if it is not said; raises ValueError for what is none."""
    if text and not re.match(r"https?://[^/]", utf8_text(text)):
        raise ValueError("an API's address begins with http:// or https://")
    return text.rstrip("/")


def home_path(path: Path, place: str) -> Path:
    """The path with the home folder for its `~`; raises BadInput that names the place if there is no such home."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise BadInput(f"{place}: {path} begins with a home folder that nobody has.", hint="Write it out.") from None
