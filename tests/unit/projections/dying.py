"""A process that is killed between two of its effects on the disk."""

from collections.abc import Callable
from typing import Any

import pytest


class Died(BaseException):
    """The process ends here: nothing is cleared up behind it."""


def die_at(patch: pytest.MonkeyPatch, step: int, *effects: tuple[Any, str]) -> None:
    """Before the `step`th of these effects (who has it, its name) from now on."""
    left = [step]

    def mortal(effect: Callable[..., object]) -> Callable[..., object]:
        def act(*given: object, **named: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Died
            return effect(*given, **named)

        return act

    for owner, name in effects:
        patch.setattr(owner, name, mortal(getattr(owner, name)))
