"""`make soak`: rounds of faults on real brokers, judged one by one, until one breaks a rule.

    python -m tests.soak --rounds 300 [--first SEED] [--nodes 1|3]

Twenty rounds share a stage (brokers, processes, a cluster), every other stage has three brokers. A round that breaks a
rule ends the run with 8; its files stay, and the command that plays its faults again is printed. The faults of a seed
are always the same; what the machine does meanwhile is not, so a violation may need more than one try.
"""

import argparse
import itertools
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.soak.ports import free_row
from tests.soak.rounds import Ended, Rounds
from tests.soak.stage import Stage, ports_needed

ROUNDS_PER_STAGE = 20
FOUND, INTERRUPTED = 8, 130
SHOWN_MAX = 3
SLOW_S = 12.0
"""A round that takes longer says what it waited for: that nothing is broken does not mean that all is well."""


def nodes_of(seed: int) -> int:
    return 3 if seed // ROUNDS_PER_STAGE % 2 else 1


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def soak(first: int, rounds: int, nodes: int | None, *, keep: bool) -> int:
    began_s, ended, folders = time.monotonic(), list[Ended](), list[Path]()
    try:
        for stage, seeds in itertools.groupby(range(first, first + rounds), lambda seed: seed // ROUNDS_PER_STAGE):
            folders.append(folder := Path(tempfile.mkdtemp(prefix=f"topolog-soak-{stage * ROUNDS_PER_STAGE}-")))
            ended_here = len(ended)
            on_stage(folder, list(seeds), nodes or nodes_of(stage * ROUNDS_PER_STAGE), ended)
            if broken := next((each for each in ended[ended_here:] if each.violations), None):
                tell_violation(broken, folder, nodes)
                return FOUND
            drop(folders, keep=keep)
    except KeyboardInterrupt:
        say(f"Interrupted; the rest: python -m tests.soak --first {first + len(ended)} --rounds {rounds - len(ended)}")
        drop(folders, keep=keep)
    report(ended, time.monotonic() - began_s)
    return 0 if len(ended) == rounds else INTERRUPTED


def drop(folders: list[Path], *, keep: bool) -> None:
    while folders and not keep:
        shutil.rmtree(folders.pop())


def on_stage(folder: Path, seeds: list[int], nodes: int, ended: list[Ended]) -> None:
    """Play these seeds on one stage, until one breaks a rule; each is added to `ended` when it has ended."""
    with Stage(folder, f"soak-{seeds[0]}", nodes, free_row(ports_needed(nodes))) as stage:
        rounds = Rounds(stage)
        if found := rounds.settle():
            ended.append(Ended(seeds[0], (), (), 0.0, "", 0, tuple(found)))
            return
        for seed in seeds:
            ended.append(rounds.play(seed))
            say(line_of(ended[-1], nodes))
            if ended[-1].violations:
                break
        rounds.close()


def line_of(ended: Ended, nodes: int) -> str:
    faults = "; ".join(map(str, ended.faults))
    verdict = "BROKEN" if ended.violations else "legal"
    where = "1 broker" if nodes == 1 else f"{nodes} brokers"
    slow = f" (waited for: {ended.waited_for})" if ended.seconds > SLOW_S else ""
    text = f"seed {ended.seed} ({where}): {verdict}, {ended.operations} operations in {ended.seconds:.1f} s{slow}"
    return f"{text}: {faults}"


def tell_violation(broken: Ended, folder: Path, nodes: int | None) -> None:
    for rule, count in Counter(violation.rule for violation in broken.violations).items():
        some = [violation for violation in broken.violations if violation.rule is rule][:SHOWN_MAX]
        say("\n".join(map(str, some)) + (f"\n… {count - SHOWN_MAX} more of these" if count > SHOWN_MAX else ""))
    say(f"Logs, diaries and Kafka's data are in {folder}")
    chosen = f" --nodes {nodes}" if nodes else ""
    say(f"The same faults again: python -m tests.soak --rounds 1 --first {broken.seed}{chosen}")


def report(ended: list[Ended], seconds: float) -> None:
    count = Counter(
        f"{fault.kind.value}, {fault.target.value}"
        for each in ended
        for fault in each.faults
        if fault not in each.left_out
    )
    left_out = Counter(f"{fault.kind.value}" for each in ended for fault in each.left_out)
    say("")
    for name, number in sorted(count.items()):
        say(f"{number:5}  {name}")
    for name, number in left_out.items():
        say(f"{number:5}  {name}: left out, this machine cannot do it")
    if not ended:
        return
    operations = sum(each.operations for each in ended)
    say(
        f"{len(ended)} rounds (seeds {ended[0].seed} to {ended[-1].seed}) with {count.total()} faults and {operations} "
        f"operations in {seconds / 60:.1f} minutes, {seconds / len(ended):.1f} s a round. No rule is broken."
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Rounds of faults on real brokers.")
    parser.add_argument("--rounds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the seed of the first")
    parser.add_argument("--nodes", type=int, choices=(1, 3), help="brokers; both in turn unless it is given")
    parser.add_argument("--keep", action="store_true", help="keep the files of legal rounds too")
    given = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell has started us with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    return soak(given.first, given.rounds, given.nodes, keep=given.keep)


if __name__ == "__main__":
    sys.exit(main())
