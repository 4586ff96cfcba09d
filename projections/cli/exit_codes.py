"""The exit codes, which scripts branch on: stable for ever, printed by `topolog help exit-codes`."""

from collections.abc import Mapping
from enum import IntEnum

from topolog.events.errors import (
    BadInput,
    Fenced,
    MissingExtra,
    NotAllowed,
    NotCaughtUp,
    OutcomeUnknown,
    Refused,
    TopologError,
    Unreachable,
)


class ExitCode(IntEnum):
    OK = 0
    ERROR = 1
    USAGE = 2
    AUTH = 3
    UNREACHABLE = 4
    REJECTED = 5
    FENCED = 6
    UNKNOWN = 7
    FOUND = 8
    PARTIAL = 9
    INCONCLUSIVE = 10
    FAILED = 11
    MISSING_EXTRA = 12
    INTERRUPTED = 130


MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.OK: "done; also when whoever read the output closed it early",
    ExitCode.ERROR: "an error that has no code of its own, such as no row of that name",
    ExitCode.USAGE: "the command, an option, a file or a setting is wrong; nothing changed",
    ExitCode.AUTH: "the API or the broker does not know you, or does not let you",
    ExitCode.UNREACHABLE: "no API or broker answered at the address",
    ExitCode.REJECTED: "the cluster refused the request, for example for a conflict; nothing changed",
    ExitCode.FENCED: "the node has no valid lease now; try again",
    ExitCode.UNKNOWN: "time ran out: a request may or may not have been decided, or a reader is behind; ask again",
    ExitCode.FOUND: "the command worked and found differences or something unhealthy",
    ExitCode.PARTIAL: "a comparison or repair covers only a part of what was asked; the rest is named",
    ExitCode.INCONCLUSIVE: "replicas differ, but one had no read point: rows may have changed in between",
    ExitCode.FAILED: "a comparison or repair ended without a result: failed, aborted, over its deadline, nothing to do",
    ExitCode.MISSING_EXTRA: "an optional part of topolog is not installed: the message says how to install it",
    ExitCode.INTERRUPTED: "stopped by Ctrl-C, `simulate` also by SIGTERM or SIGHUP",
}

_BY_ERROR: tuple[tuple[type[TopologError], ExitCode], ...] = (
    (BadInput, ExitCode.USAGE),
    (MissingExtra, ExitCode.MISSING_EXTRA),
    (NotAllowed, ExitCode.AUTH),
    (Unreachable, ExitCode.UNREACHABLE),
    (Refused, ExitCode.REJECTED),
    (Fenced, ExitCode.FENCED),
    (OutcomeUnknown, ExitCode.UNKNOWN),
    (NotCaughtUp, ExitCode.UNKNOWN),
)


def exit_code(error: TopologError) -> ExitCode:
    """The code a process ends with because of `error`."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.ERROR)
