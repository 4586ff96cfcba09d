"""The templates of the pages, which lie beside this file (the owner of jinja2)."""

from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined


def text(name: str) -> str:
    """What a file of this folder holds."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


TEMPLATES = Environment(
    loader=FunctionLoader(text), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
