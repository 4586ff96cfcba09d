"""Why the cluster went on, in a verdict's words: every decision that one made due carries it (`rules/verdict.py`)."""

import msgspec


class Evidence(msgspec.Struct, frozen=True):
    """Why a verdict was PROCEED: who had applied, who has left since, who was presumed fenced after the wait."""

    applied: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    presumed_fenced: tuple[str, ...] = ()
