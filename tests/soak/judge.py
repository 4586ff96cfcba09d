"""Whether a history was legal: what clients did and were told, held against the log that arbitrates. Pure.

Threats: an answer that was a lie (a success the log does not hold, two outcomes, a refusal with an effect), a read from
yesterday, a node that acts without being a member, a member that was put out while it still could act.

Method. Where the log orders everything, linearizability need not be searched for: the log order is the witness. Each
proposal takes effect at the position of its decision, and what is left to check is that this order agrees with real
time. Real time is one clock of one machine; the log's part in it is when the auditor saw a record, which is never
before the record was there, so a rule of the form «what began after that» is judged too mildly at worst, never falsely.

Each rule is a function from the history to its violations; `judge` runs all of them.
"""

from collections.abc import Iterator

from tests.soak import answers, leases, versions
from tests.soak.history import History, Rule, Violation, of
from tests.soak.operations import Ended, Stood


def judge(history: History, *, at_rest: bool) -> list[Violation]:
    """Every violation, in the order of the rules. `at_rest`: what was read by then is accepted.

    That every request has an outcome is no rule here but what rest is: a request that a producer held back while its
    broker was away may come at any moment after it.
    """
    rules = [
        answers.outcomes,
        answers.told,
        answers.real_time,
        answers.fresh_reads,
        answers.true_reads,
        leases.fresh_leases,
        leases.accepted,
        leases.member_leases,
        leases.lives,
        leases.leavings,
        versions.versions,
        _folds,
        _ends,
    ]
    if at_rest:
        rules.append(answers.accepted_reads)
    return [violation for rule in rules for violation in rule(history)]


def _folds(history: History) -> Iterator[Violation]:
    for stood in of(Stood, history.lines):
        expected = history.state_hashes.get(stood.position)
        if expected is None and stood.position > max(history.state_hashes, default=-1):
            yield Violation(Rule.ONE_FOLD, f"{stood.client} stands at {stood.position}, behind the end of the log")
        elif expected != stood.state_hash:
            what = f"{stood.client} holds {stood.state_hash} at position {stood.position}, the log makes {expected}"
            yield Violation(Rule.ONE_FOLD, what)


def _ends(history: History) -> Iterator[Violation]:
    for ended in of(Ended, history.lines):
        yield Violation(Rule.NO_END, f"{ended.client}: {ended.code}: {ended.message}")
