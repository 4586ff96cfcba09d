"""The classes that the files of `events` declare."""

import importlib
import pkgutil
from typing import TypeVar

from topolog import events

T = TypeVar("T")


def declared(parent: type[T]) -> list[type[T]]:
    """The children of a class in every file of `events`, whoever imports it; not those that tests make up."""
    modules = [importlib.import_module(f"topolog.events.{each.name}") for each in pkgutil.iter_modules(events.__path__)]
    own = {id(each) for module in modules for each in vars(module).values()}
    return [each for each in parent.__subclasses__() if id(each) in own]
