"""Secrets in texts that others read: lines of a log, a bundle that goes to strangers.

Threat: a library, an error or a record repeats a password. Those that are known are masked by their text; of others the
forms give them away: a value behind a name that says it is one, a scheme of HTTP, the password in a URL, a private key.
A word too many that is masked costs little, so that forms are told apart only where prose would become unreadable.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

MASK: Final = "******"
CHARS_MIN: Final = 4
"""What is shorter stands in too many texts that have nothing to do with it."""

_NAME: Final = r"""(?i:password|passwd|passphrase|secret(?:[-_.]?(?:access[-_.]?)?key)?|(?:api|private)[-_.]?key
    |authorization|(?:access|refresh|id|client|auth|bearer|session)[-_.]?token)"""
_NAMED: Final = re.compile(rf"{_NAME}$", re.VERBOSE)
_FORMS: Final = (
    # What is given a value by name: up to the same quote, or the end of the word.
    re.compile(
        rf"""(?P<kept>(?:{_NAME}|(?:[?&]|&amp;)token)\\*["']?\s*[=:]\s*(?P<quote>\\*["']))
        (?:(?!(?P=quote))(?:\\.|[^\\\r\n]))+""",
        re.VERBOSE,
    ),
    re.compile(
        rf"""(?P<kept>(?:{_NAME}|(?:[?&]|&amp;)token)\\*["']?\s*[=:]\s*(?i:(?:Bearer|Basic|Digest|Token)\s+)?)
        [^\s"',;&\\{{\[]+""",
        re.VERBOSE,
    ),
    re.compile(r"""(?P<kept>\b(?:Bearer|Basic)\s+)[^\s"',;\\]+"""),
    re.compile(r"(?P<kept>\b(?i:bearer)\s+)[\w.~+/=-]{8,}"),
    re.compile(r"(?P<kept>\b(?i:basic)\s+)(?=[\w+/]*[A-Z0-9=])[\w+/]{8,}=*"),
    re.compile(r"""(?P<kept>//[^/\s:@"]*:)[^/\s@"]+(?=@)"""),
    re.compile(
        r"(?P<kept>-----BEGIN [A-Z ]*PRIVATE KEY-----).+?(?=-----END [A-Z ]*PRIVATE KEY-----)",
        re.DOTALL,
    ),
)


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these secrets, and without what looks like one."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    for form in _FORMS:
        text = form.sub(rf"\g<kept>{MASK}", text)
    return text


def masked_values(value: Any, secrets: Iterable[str] = ()) -> Any:
    """The same of plain data, whose shape stays: texts, names, and what stands under the name of a secret."""
    match value:
        case str():
            return masked(value, secrets)
        case Mapping():
            return {masked(str(name), secrets): _value(str(name), held, secrets) for name, held in value.items()}
        case list() | tuple():
            return [masked_values(each, secrets) for each in value]
        case _:
            return value


def _value(name: str, value: Any, secrets: Iterable[str]) -> Any:
    if not _NAMED.search(name) or isinstance(value, bool | Mapping):
        return masked_values(value, secrets)
    if isinstance(value, list | tuple):
        return [_value(name, each, secrets) for each in value]
    return MASK if value not in (None, "") else value
