"""Pieces of sentences that many files say: names in a row, counts with their noun. No store is needed for that."""

from collections.abc import Sequence


def listed(names: Sequence[str], at_most: int = 5) -> str:
    """`n1, n2 and 3 more`."""
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more


def counted(number: int, noun: str) -> str:
    """`no node`, `1 node`, `3 nodes`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
