"""JSON and YAML of what the API has said, whole and unchanged for a program.

On a terminal, `is_seen`, what cannot be seen is spelt out: a stranger's C1 codes would drive it, and marks of direction
turn round what stands beside them. Both are read back as the same document.
"""

import json
from typing import Any


def as_json(document: Any, *, indent: int | None = None, is_seen: bool) -> str:
    """Ends with a line's end."""
    text = json.dumps(document, indent=indent, ensure_ascii=False) + "\n"
    return escaped(text) if is_seen else text


def as_yaml(document: Any, *, is_seen: bool) -> str:
    """YAML has no way to spell out a character in a plain text, so then all but ASCII is spelt out."""
    import yaml

    text = str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    if is_seen and not _can_be_seen(text):
        return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=False))
    return text


def escaped(text: str) -> str:
    """The same JSON, in which what cannot be seen stands as JSON spells it; outside of texts there is no such."""
    return "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _can_be_seen(text: str) -> bool:
    return all(char == "\n" or char.isprintable() for char in text)
