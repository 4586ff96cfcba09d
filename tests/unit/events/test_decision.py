"""`Decision`, the parent of what may stand in the log, and the closed unions over which the protocols match."""

import importlib
import pkgutil
from collections import Counter

from topolog import events
from topolog.events.codec import DECISIONS
from topolog.events.decision import Decision


def subclasses() -> list[type[Decision]]:
    """Those of every file of `events`, whoever imports it."""
    for module in pkgutil.iter_modules(events.__path__):
        importlib.import_module(f"topolog.events.{module.name}")
    return [each for each in Decision.__subclasses__() if each.__module__.startswith("topolog.")]


def test_every_decision_is_in_the_union_of_exactly_one_protocol() -> None:
    """One that is in no union could not be read, and no protocol would fold it; one in two would be folded twice."""
    assert Counter(DECISIONS) == Counter(subclasses())
