"""Loads the function of a command without what nobody calls, and says which extra is missing if it cannot be loaded."""

import functools
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from topolog.events.errors import MissingExtra, missing_extra
from topolog.projections.cli import command_table


def loaded(target: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, _, function = target.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


@contextmanager
def without_command_line_of_httpx() -> Iterator[None]:
    """httpx is loaded without its own command line, in a process that is ours.

    It would load rich and click for that, which takes longer than all the rest: for an entry of None Python raises the
    ImportError that httpx expects.
    """
    name = "httpx._main"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # what Python's import system takes for "not there"
    try:
        yield
    finally:
        del sys.modules[name]


def needs_extra(extra: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Turn the ImportError of a call whose extra is missing into a sentence that names the extra."""

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("topolog"):
                    raise
                raise missing_extra("This command", error.name, extra) from error

        return wrapped

    return wrap


def missing_extra_of(args: Sequence[str]) -> MissingExtra | None:
    """The error of a command whose extra is not installed, which is said before what is wrong with its options."""
    from importlib import metadata

    entry, _ = command_table.leaf(args)
    if entry is None:
        return None
    for requirement in _requirements(entry["extra"]):
        try:
            metadata.version(requirement)
        except metadata.PackageNotFoundError:
            return missing_extra("This command", requirement, entry["extra"])
    return None


def _requirements(extra: str) -> list[str]:
    """The distributions that an extra names, without those of the extras that it holds."""
    from importlib import metadata

    marked = re.compile(rf"""([\w.-]+).*extra == ['"]{extra}['"]""")
    try:
        found = [marked.match(each) for each in metadata.requires("topolog") or ()]
    except metadata.PackageNotFoundError:
        return []
    return [name[1] for name in found if name and name[1] != "topolog"]
