"""How a command takes a whole group of options as one argument, and what all commands have in common because of it.

With -o schema the command itself is not run: what it would print is described. The API and the cluster that are meant
are settled here (`contexts.py`), and whoever can ask for a change can say --yes, which a protected context wants.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass, replace
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from topolog.projections.cli.contexts import DEFAULTS, Defaults, stand
from topolog.projections.cli.options import Format, Shape, Target

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def spread(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with each parameter that is a group replaced by the group's options, as Typer wants them."""
    given = signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in given if is_dataclass(p.annotation)}
    if not groups:
        return command
    has_own_yes = any(p.name == "yes" for p in given)
    takes_yes = not has_own_yes and "target" in groups and _asks(groups, [p.name for p in given])

    def call(**values: Any) -> Any:
        agreed = values.pop("yes", False) if takes_yes else values.get("yes", False)
        arguments = {
            name: group(**{each.name: values.pop(each.name) for each in _option_fields(group)})
            for name, group in groups.items()
        }
        shape = arguments.get("shape")
        if isinstance(shape, Shape) and shape.output is Format.SCHEMA:
            from topolog.projections.cli import output_schema

            output_schema.show(command, {**values, **arguments})
            return None
        if isinstance(target := arguments.get("target"), Target):
            standing = stand(target.api, target.cluster, target.context, DEFAULTS.get(Defaults()))
            arguments["target"] = replace(target, standing=standing, is_agreed=bool(agreed))
        return command(**values, **arguments)

    spread_out: list[Parameter] = []
    for parameter in given:
        spread_out += _options(groups[parameter.name]) if parameter.name in groups else [parameter]
    if takes_yes:
        spread_out.append(Parameter("yes", Parameter.KEYWORD_ONLY, default=False, annotation=YesOption))
    call.__signature__ = Signature(  # type: ignore[attr-defined]  # what inspect.signature, hence Typer, reads
        [p.replace(kind=Parameter.KEYWORD_ONLY) for p in spread_out]
    )
    call.__annotations__ = {}
    call.__name__, call.__doc__ = command.__name__, command.__doc__
    return call


def _asks(groups: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether the command asks for a change, of which a reason is a sign."""
    reasons = (each.name == "reason" for group in groups.values() for each in fields(group))
    return "reason" in names or any(reasons)


def _option_fields(group: type[Any]) -> list[Field[Any]]:
    """Those fields of a group that are options."""
    hints = get_type_hints(group, include_extras=True)
    return [each for each in fields(group) if get_origin(hints[each.name]) is Annotated]


def _options(group: type[Any]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in _option_fields(group)
    ]
