"""False removals over simulated stalls of 1 to 60 s, at every phase of the renewal period, 64 nodes, with a stand-by.

    python -m tests.benchmarks.false_removals [--stalls 20000]

Goal (OP29): none over 20,000. `streams/simulation/stalls.py` says what stalls and what is false; `topolog simulate
--stalls N` tells the same to people. The count does not depend on how busy the machine is, for its time is simulated.
"""

import argparse
import contextlib

from tests.benchmarks.told import add_json, tell

from topolog.streams.simulation.seeds import tallies
from topolog.streams.simulation.stalls import STALLS_EACH


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stalls", type=int, default=20_000)
    add_json(parser)
    arguments = parser.parse_args()
    stalls = removals = false = lived_s = 0
    with contextlib.closing(tallies(range(-(-arguments.stalls // STALLS_EACH)))) as ended:
        for tally in ended:
            stalls, removals = stalls + tally.stalls.total(), removals + tally.removals
            false, lived_s = false + len(tally.false), lived_s + tally.lived_s
    print(
        f"{false} false removals over {stalls:,} stalls, {removals:,} true ones, {lived_s / 3600:,.0f} simulated hours"
    )
    tell(arguments, {"false": false, "stalls": stalls, "removals": removals, "lived_s": lived_s})


if __name__ == "__main__":
    main()
