"""The templates of the pages, which lie in `pages/` beside this file, and what they have in common (owns jinja2 and the
markupsafe that comes with it)."""

import re
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from topolog.projections.durations import ago
from topolog.projections.web.event_words import words
from topolog.projections.web.frame import MENU, Frame
from topolog.projections.web.values import why

_PACKAGE = __package__


def asset(name: str) -> str:
    """What a file of `assets/` holds."""
    return files(_PACKAGE).joinpath("assets", name).read_text(encoding="utf-8")


def _source(name: str) -> str:
    return files(_PACKAGE).joinpath("pages", name).read_text(encoding="utf-8")


_COMMAND = re.compile(r"`([^`]+)`")


def prose(text: object) -> Markup:
    """A sentence as it stands in a terminal, with what stands in backticks set as code."""
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(text))))


_TEMPLATES = Environment(
    loader=FunctionLoader(_source), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_TEMPLATES.filters.update(ago=ago, words=words, prose=prose)
_TEMPLATES.globals.update(menu=MENU, why=why, none_of=lambda choices: {each.name: "" for each in choices})


def rendered(template: str, frame: Frame | None, **shown: Any) -> str:
    """The page that this template makes; it finds `frame` as `f`."""
    return _TEMPLATES.get_template(template).render(f=frame, **shown)
