"""What a benchmark tells scripts: with `--json`, one line of JSON behind all others, figures by their key.

A figure is a number, or a Spread of what was measured again and again. Its key never changes its meaning: whoever
measures something else gives it another key, for old results stay beside new ones.
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence

import msgspec


class Spread(msgspec.Struct, frozen=True):
    """Percentiles of `count` values, in their unit."""

    p50: float
    p95: float
    p99: float
    max: float
    count: int


Value = Spread | float


def spread(values: Sequence[float]) -> Spread:
    """Percentiles between the values nearest to them; those of one value are that value."""
    cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else [values[0]] * 99
    p50, p95, p99, most = (round(each, 4) for each in (cuts[49], cuts[94], cuts[98], max(values)))
    return Spread(p50, p95, p99, most, len(values))


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="end with one line for scripts")


def tell(arguments: argparse.Namespace, figures: Mapping[str, Value]) -> None:
    """The line, if it was asked for; numbers to four digits behind the point."""
    if arguments.json:
        rounded = {key: round(each, 4) if isinstance(each, float) else each for key, each in figures.items()}
        print(msgspec.json.encode(rounded).decode(), flush=True)


def heard(output: str) -> dict[str, Value]:
    """What the last line tells; raises ValueError if it is none of these."""
    lines = output.rstrip().splitlines()
    return msgspec.json.decode(lines[-1] if lines else "", type=dict[str, Value])
