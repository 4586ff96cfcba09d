"""What may be a name that anybody can give to a thing: a node, a group, a type, a replica, a schedule.

Threat: a name ends a line, so that a list has a thing more than there are; it holds a blank, so that whoever passes the
list on to a shell passes on two; it drives the terminal of whoever looks, or turns round what stands beside it.
"""

from topolog.events.asked import SUBJECT_CHARS_MAX
from topolog.events.errors import BadInput


def is_printable(text: str) -> bool:
    """Whether all of it can be seen: no control characters, no marks of direction, no blank but a space."""
    return text.isprintable()


def is_name(text: str, chars_max: int) -> bool:
    """Whether it is one word of 1 to `chars_max` characters that can be seen."""
    return 0 < len(text) <= chars_max and is_printable(text) and " " not in text


def node_id(text: str) -> str:
    """The text itself; raises BadInput, which says what a node's id is, for what can be none."""
    if not is_name(text, SUBJECT_CHARS_MAX) or "/" in text:
        limit = f"A node's id has 1 to {SUBJECT_CHARS_MAX} characters that can be printed, no '/' and no blank"
        raise BadInput(f"{limit}: {text!r} cannot be one.")
    return text
