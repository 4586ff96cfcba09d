"""Calls a command whose words are plain, by the table of commands alone.

Typer checks every option by pydantic, and to load that takes longer than a question to the API. So words that leave no
doubt are read here; whatever else is typed, Typer reads, and says what is wrong with it: an option that is unknown, a
value that does not fit, an argument too few. Invariant: what is read here is what Typer would read. A test holds the
two against each other.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from types import UnionType
from typing import Any, Union, get_args, get_origin

from topolog.projections.cli import command_table
from topolog.projections.cli.command_table import Entry
from topolog.projections.cli.loading import loaded, needs_extra
from topolog.projections.cli.spreading import spread

Values = dict[str, Any]


def prepared(args: Sequence[str], environ: Mapping[str, str] = os.environ) -> Callable[[], Any] | None:
    """The command that these arguments call, ready to be run; None if Typer has to read them."""
    entry, words = command_table.leaf(args)
    if entry is None or not entry.get("target"):
        return None
    given = read(entry, words, environ)
    if given is None:
        return None
    needing = needs_extra(entry["extra"])
    command = needing(spread(needing(loaded)(entry["target"])))
    values = converted(command, given)
    return lambda: command(**values)


def read(entry: Entry, words: Sequence[str], environ: Mapping[str, str]) -> Values | None:
    """What is given to each parameter, as text, whole numbers and switches; None if a word is not plain."""
    options = {name: param for param in entry["params"] for name in param.get("opts", ())}
    found: Values = {}
    arguments: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            arguments.append(word)
            continue
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        param = options.get(name)
        if param is None or not _take(found, param, name, [value] if equals else None, rest):
            return None
    for param in entry["params"]:
        if param.get("env") and param["name"] not in found and environ.get(param["env"]):
            found[param["name"]] = environ[param["env"]]
    return found if _place(found, entry, arguments) else None


def _take(found: Values, param: Entry, name: str, attached: list[str] | None, rest: list[str]) -> bool:
    """Read the value of an option, which is attached to it or the next word; False if it has none that is plain."""
    if not param.get("takes"):
        found[param["name"]] = name not in param.get("off", ())
        return attached is None
    source = rest if attached is None else attached
    if not source:
        return False
    is_plain, value = _value(param, source.pop(0))
    if param.get("multiple"):
        value = [*found.get(param["name"], ()), value]
    found[param["name"]] = value
    return is_plain


def _place(found: Values, entry: Entry, arguments: list[str]) -> bool:
    """Give the words that are no options to the arguments, in order; False if there are too many, or too few."""
    for param in entry["params"]:
        if "opts" in param:
            if param.get("required") and param["name"] not in found:
                return False
        elif param.get("multiple"):
            if arguments:
                found[param["name"]] = [*arguments]
            elif param.get("required"):
                return False
            arguments = []
        elif arguments:
            is_plain, found[param["name"]] = _value(param, arguments.pop(0))
            if not is_plain:
                return False
        elif param.get("required"):
            return False
    return not arguments


def _value(param: Entry, text: str) -> tuple[bool, Any]:
    """Whether the text is plainly a value of the parameter, and the value."""
    match param.get("type"):
        case "text":
            return True, text
        case "choice":
            return text in param["values"], text
        case "int":
            is_plain = text.isascii() and text.isdecimal() and len(text) < 19
            low, high = param.get("bounds", (None, None))
            number = int(text) if is_plain else 0
            return is_plain and (low is None or number >= low) and (high is None or number <= high), number
        case _:
            return False, text


def converted(command: Callable[..., Any], given: Values) -> Values:
    """The values that the command takes: its defaults, and members of its enumerations for their names."""
    values: Values = {}
    for name, parameter in signature(command).parameters.items():
        if name not in given:
            values[name] = None if parameter.default is Parameter.empty else parameter.default
        else:
            values[name] = _as(parameter.annotation, given[name])
    return values


def _as(annotation: Any, value: Any) -> Any:
    """The value as the annotation wants it: text becomes a member of the enumeration that is among its types."""
    if isinstance(value, list):
        return [_as(annotation, each) for each in value]
    for kind in types(annotation):
        if isinstance(value, str) and hasattr(kind, "__members__"):
            return kind(value)
    return value


def types(annotation: Any) -> list[Any]:
    """The types within Annotated, unions and lists."""
    if get_origin(annotation) in (Union, UnionType, list):
        return [kind for each in get_args(annotation) for kind in types(each)]
    if hasattr(annotation, "__metadata__"):
        return types(get_args(annotation)[0])
    return [annotation]
