"""Derives the table of commands, and the list of settings, that help and completion read: `make command-table`."""

import json
import re
from inspect import signature
from typing import Any

from topolog.commands.tree import TREE, root
from topolog.projections.cli import completion, direct
from topolog.projections.cli.command_table import FILE
from topolog.projections.cli.lazy import CommandGroup, CommandPlace
from topolog.projections.cli.loading import loaded
from topolog.projections.cli.spreading import spread
from topolog.settings.model import setting_keys
from topolog.settings.sources import KEYS_FILE

_SHORT = re.compile(r"(?<!\bv)(?:[.:;] |[.:;]$| \()")
"""Where the first clause of a help text ends."""


Json = dict[str, Any]


def table() -> Json:
    """The root command as help and completion know it, and the parameters that commands name by number."""
    params: dict[str, int] = {}
    tree = _entry(root(), TREE, params)
    return {"params": [json.loads(each) for each in params], "root": tree}


def _entry(command: Any, place: CommandPlace | CommandGroup, numbers: dict[str, int]) -> Json:
    context = command.make_context(command.name, [], resilient_parsing=True)
    help_text = command.help or ""
    entry: Json = {
        "help": "\n\n".join(" ".join(part.split()) for part in help_text.split("\n\n")),
        "short": _short(" ".join(help_text.split()), is_group=hasattr(command, "commands")),
        "panel": command.rich_help_panel or "",
        "params": [_number(_param(each, context), numbers) for each in command.params if not each.hidden],
    }
    if isinstance(place, CommandGroup):
        inner = place.commands
        entry["commands"] = {name: _entry(command.commands[name], inner[name], numbers) for name in inner}
        entry |= {"by_default": place.by_default} if place.by_default else {}
    else:
        entry |= {"extra": place.extra} | ({"target": place.target} if _is_plain(command, place) else {})
    return entry


def _number(param: Json, numbers: dict[str, int]) -> int:
    return numbers.setdefault(json.dumps(param, ensure_ascii=False), len(numbers))


def _is_plain(command: Any, place: CommandPlace) -> bool:
    """Whether what is given to the command says all: nothing of it is hidden, looks at others, or at the context."""
    names = {each.name for each in command.params}
    special = any(each.hidden or each.is_eager or each.callback for each in command.params)
    return not special and names == set(signature(spread(loaded(place.target))).parameters)


def _short(text: str, *, is_group: bool) -> str:
    """What a list of commands says of one: of a group, which has no other text, all; else the first clause."""
    return text.removesuffix(".") if is_group else _SHORT.split(text)[0]


def _param(param: Any, context: Any) -> Json:
    is_argument = param.param_type_name == "argument"
    choices = _choices(param)
    entry: Json = {"name": param.name, "help": _help(param, choices, context)}
    if is_argument:
        entry |= {"usage": _usage(param), "shown": param.display_name_raw.upper()}
    else:
        entry |= {"opts": [*param.opts, *param.secondary_opts], "shown": _shown(param, choices)}
    if is_argument or not param.is_flag:
        entry |= {"takes": True, "type": _type(param, choices)}
        entry |= {"values": choices} if choices else _completed(param)
        if param.nargs == -1 or getattr(param, "multiple", False):
            entry["multiple"] = True
        if (bounds := _bounds(param)) != (None, None):
            entry["bounds"] = bounds
    elif param.secondary_opts:
        entry["off"] = param.secondary_opts
    if param.envvar:
        entry["env"] = param.envvar
    if param.required:
        entry["required"] = True
    return entry


def _type(param: Any, choices: list[str]) -> str:
    """What `direct.py` reads of the parameter: text, whole numbers, one of several; '' is read by Typer alone."""
    kinds = {kind for kind in direct.types(param.type_descriptor.annotation) if kind is not type(None)}
    if choices:
        return "choice"
    return {frozenset({str}): "text", frozenset({int}): "int"}.get(frozenset(kinds), "")


def _bounds(param: Any) -> tuple[int | None, int | None]:
    info = param.type_descriptor.parameter_info
    return info.min, info.max


def _usage(param: Any) -> str:
    name = param.display_name_raw.upper().strip("[]").removesuffix("...")
    return f"{name if param.required else f'[{name}]'}{'...' if param.nargs == -1 else ''}"


def _shown(param: Any, choices: list[str]) -> str:
    """The option's names, short ones first, and what stands for its value."""
    names = ", ".join(sorted(param.opts, key=len))
    off = f" / {', '.join(param.secondary_opts)}" if param.secondary_opts else ""
    if param.is_flag:
        return f"{names}{off}"
    return f"{names} {param.metavar or ('CHOICE' if choices else _kind(param))}"


def _kind(param: Any) -> str:
    kind = str(param.display_type(None)).strip("<>").removeprefix("list[").rstrip("]").split(" ")[0]
    return {"str": "TEXT", "int": "N", "float": "N"}.get(kind, kind.upper())


def _choices(param: Any) -> list[str]:
    return [str(getattr(each, "value", each)) for each in param.type_descriptor.choices or ()]


def _completed(param: Any) -> Json:
    """How values of the parameter are completed: words, a name of `completion.py`, or by its own command."""
    function = param.type_descriptor.parameter_info.autocompletion
    if function is None:
        return {}
    if words := getattr(function, "words", ()):
        return {"values": list(words), "complete": "names"}
    known = {completion.names: "names", completion.contexts: "contexts", completion.commands: "commands"}
    return {"complete": known.get(function, "command")}


def _help(param: Any, choices: list[str], context: Any) -> str:
    parts = [" ".join((param.help or "").split())]
    if choices and param.param_type_name != "argument":
        parts.append(f"[one of: {', '.join(choices)}]")
    if bounds := param._get_number_range_help_str():
        parts.append(f"[range: {bounds}]")
    if getattr(param, "multiple", False) and "repeated" not in parts[0]:
        parts.append("[repeatable]")
    if param.envvar and getattr(param, "show_envvar", False):
        parts.append(f"[env: {param.envvar}]")
    if default := _default(param, context):
        parts.append(f"[default: {default}]")
    if param.required and param.param_type_name != "argument":
        parts.append("[required]")
    return " ".join(parts)


def _default(param: Any, context: Any) -> str:
    if isinstance(param.show_default, str):
        return str(param.show_default)
    if not param.show_default or param.default in (None, False, "") or getattr(param, "is_flag", False):
        return ""
    value = param._extract_default_help_str(ctx=context)
    return str(param._get_default_string(ctx=context, show_default_is_str=False, default_value=value))


def main() -> None:
    """Write both files."""
    FILE.write_text(f"{written(table())}\n", encoding="utf-8")
    KEYS_FILE.write_text(f"{json.dumps(sorted(setting_keys()), indent=1)}\n", encoding="utf-8")


def written(entry: Json) -> str:
    return json.dumps(entry, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
