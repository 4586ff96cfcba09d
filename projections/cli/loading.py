"""Loads the function of a command, and says which extra is missing if it cannot be loaded or cannot run."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from topolog.events.errors import missing_extra


def loaded(target: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, _, function = target.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


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
