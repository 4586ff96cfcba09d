"""Cells of CSV that a spreadsheet opens as what they are.

Threat: a spreadsheet takes a cell that begins with = + @ - for a formula, also behind a tab or the end of a line, and
runs it: a node that calls itself `=cmd|'/c calc'!A1` runs a program with whoever looks at a list of nodes.

A text that begins so gets an apostrophe in front, by which spreadsheets know a text. Numbers stay numbers, also where a
text is nothing but one.
"""

import re

_BEGINS_A_FORMULA = ("=", "+", "@", "-", "\t", "\r", "\n")
_NO_FORMULA = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|-")
"""A number, or the sign that stands for nothing."""


def cell(value: object) -> object:
    """The value as a cell."""
    if isinstance(value, str) and value.startswith(_BEGINS_A_FORMULA) and not _NO_FORMULA.fullmatch(value):
        return f"'{value}"
    return value
