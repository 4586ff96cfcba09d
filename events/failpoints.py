"""Named places where a process can be made to die, to stall or to fail, so that a test can do it there.

Threat. What is done between two records, between a record and its answer, between a write and what follows from it, is
where a crash costs something; a kill at a random moment meets such a place once in a thousand runs.

    TOPOLOG_FAILPOINT=coordinator.decided=crash topolog run coordinator
    TOPOLOG_FAILPOINT="coordinator.appended:3=pause:50ms+crash,projector.folded=pause:2s" topolog up

The third time that a coordinator has handed decisions to the producer it waits 50 ms, so that they land, and dies by
SIGKILL: nothing is closed, flushed or said, but for one line on stderr. The first batch a projector folds waits two
seconds before it is written. A program that embeds a node calls `arm(os.environ)` itself; nothing else reads the
variable, and without it a place costs one look into an empty dictionary.
"""

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from topolog.events.errors import BadInput, Injected

VARIABLE = "TOPOLOG_FAILPOINT"

FAILPOINTS: Mapping[str, str] = {
    "coordinator.founding": "LogStarted is made and not yet appended to the empty log",
    "coordinator.claiming": "the next term is about to be claimed",
    "coordinator.elected": "TermStarted is read back, the inputs are not yet assigned",
    "coordinator.resumed": "the inputs are assigned, none of them is read",
    "coordinator.asked": "requests are read and not yet decided",
    "coordinator.decided": "requests are decided and nothing of it is appended",
    "coordinator.inside-a-set": "some of a set's records are appended, and not its last",
    "coordinator.appended": "decisions are with the producer, their answers have not come",
    "coordinator.delivered": "the broker has answered that the log has a decision",
    "coordinator.burying": "undecodable input is found, its dead letters are not yet appended",
    "coordinator.buried": "dead letters are with the producer, the decisions of the same step are not",
    "coordinator.retired": "TermEnded is read back, the process has not ended",
    "coordinator.exchange-decided": "ExchangeStarted is decided and not appended",
    "coordinator.exchange-appended": "ExchangeStarted is with the producer, its answer has not come",
    "coordinator.map-heard": "a single map that answers the open exchange is read",
    "coordinator.map-heard-again": "a new leader reads one that answers an exchange it has found open",
    "coordinator.maps-complete": "the last single map is read, the outcome is not decided",
    "coordinator.outcome-decided": "the outcome of an exchange is decided and not appended",
    "coordinator.inside-an-outcome": "all of an outcome is appended but for ExchangeCompleted",
    "coordinator.outcome-appended": "an outcome is with the producer, its answer has not come",
    "coordinator.merge-decided": "ExchangeMerged is decided and not appended",
    "coordinator.merge-appended": "ExchangeMerged is with the producer, its answer has not come",
    "coordinator.overdue-decided": "the log is about to name whom the last exchange was completed without",
    "coordinator.overdue-appended": "ExchangeOverdue is with the producer, its answer has not come",
    "coordinator.stop-decided": "a lease is to be stopped (STUCK, REMOVED …), LeaseStopped is not appended",
    "coordinator.stop-appended": "LeaseStopped is with the producer, its answer has not come",
    "coordinator.states-decided": "loads or clearings have ended, PartitionStatesChanged is not appended",
    "coordinator.states-appended": "PartitionStatesChanged is with the producer, its answer has not come",
    "coordinator.hand-over-decided": "HandOverPrepared is decided and not appended",
    "coordinator.hand-over-appended": "HandOverPrepared is with the producer, its answer has not come",
    "coordinator.drain-heard": "a heartbeat says that a hand-over has drained, the switch is not decided",
    "coordinator.switch-decided": "AffinitySwitched is decided and not appended",
    "coordinator.switch-appended": "AffinitySwitched is with the producer, its answer has not come",
    "coordinator.queued-decided": "SchemaChangeQueued is decided and not appended",
    "coordinator.queued-appended": "SchemaChangeQueued is with the producer, its answer has not come",
    "coordinator.prepared-decided": "SchemaChangePrepared is decided and not appended",
    "coordinator.prepared-appended": "SchemaChangePrepared is with the producer, its answer has not come",
    "coordinator.commit-decided": "SchemaChangeCommitted is decided and not appended",
    "coordinator.commit-appended": "SchemaChangeCommitted is with the producer, its answer has not come",
    "coordinator.rollback-decided": "SchemaChangeRolledBack is decided and not appended",
    "coordinator.rollback-appended": "SchemaChangeRolledBack is with the producer, its answer has not come",
    "coordinator.deletion-decided": "DataDeletionConfirmed is decided and not appended",
    "coordinator.deletion-appended": "DataDeletionConfirmed is with the producer, its answer has not come",
    "coordinator.between-changes": "what one change has come to is with the producer, of another it is not yet",
    "node.joining": "the end of the log is reached, no request to join is sent",
    "node.join-sent": "the request to join is with the producer",
    "node.beaten": "a heartbeat is with the producer, its echo has not come",
    "node.folded": "a decision is folded and its hook has not run",
    "node.hooked": "the hook of a decision is done, the decision does not count as applied",
    "node.inside-a-set": "some of a set's decisions are applied, and not its last",
    "node.applied": "a set is applied, nobody has been told",
    "node.acknowledging": "what asks for an early heartbeat (the own NodeJoined too) is applied, none is sent",
    "node.request-sent": "a request (the one to join too) is with the producer, its outcome has not come",
    "node.outcome-read": "the outcome of an own request is folded, its caller has not been told",
    "node.map-owed": "an exchange asks this node, or something is finished, and no single map says so yet",
    "node.map-sent": "a single map is with the producer, its answer has not come",
    "node.map-folded": "partitions have changed in the log, nothing of that is done here",
    "node.map-adopted": "the service has been told of its partitions, the node acts for nothing new yet",
    "node.finished": "a load or a clearing is noted, no single map says so",
    "node.clearing": "a copy is RENTING in the log, the service has not been told to clear it",
    "node.handing-over": "a hand-over of this node is folded: nothing new begins, it does not count as applied",
    "node.drained": "what ran when a hand-over was applied has ended, no heartbeat says so",
    "node.past-syncing": "something is to be noted in the node's past, its disk does not say so",
    "node.past-synced": "the node's disk says so, nothing relies on it yet",
    "node.releasing": "the node has stopped acting, its release is not sent",
    "node.released": "the release is with the producer, the process has not ended",
    "snapshot.cut": "the leader has copied its state, no chunk is appended",
    "snapshot.chunk-sent": "a chunk is with the producer, its answer has not come",
    "snapshot.chunk-delivered": "a chunk is in its topic, the next one is not made",
    "snapshot.closed": "SnapshotTaken closes the chunks in their topic, no decision says so",
    "snapshot.announced": "the decision that makes the snapshot true is made and not appended",
    "snapshot.loaded": "who starts has loaded a snapshot and has not proven it",
    "snapshot.proven": "the log has proven a snapshot, who starts from it has not begun",
    "validator.cut-fixed": "a replica has fixed a read point, no report says so",
    "validator.pages-sent": "all pages of a task are in their topic, no report says so",
    "validator.between-batches": "some of the rows that are to be written are, others are not",
    "validator.written": "all rows that are to be written are, no report says so",
    "projector.sides-read": "records of the topics beside the log are read and not written",
    "projector.sides-written": "their rows are written, the decisions read with them are not",
    "projector.read": "records are read and not folded",
    "projector.folded": "sets are folded and not written",
    "projector.written": "sets are written, nobody who waits has been told",
    "projector.set-aside": "a damaged store is out of the way, none has taken its place",
    "projector.made": "an empty store is there, nothing is read into it",
    "projector.caught-up": "a store of new shape has reached the end, those before it are not removed",
    "projector.taken": "a rebuilt store that was offered is the projector's, which has not opened it",
    "projector.succeeding": "a rebuilt store stands where the projector's own does, and does not count yet",
    "projector.succeeded": "a rebuilt store counts, readers still have the one of before",
    "projector.former-noted": "a rebuilt store is shown, what it was made for still counts as wanted",
    "projector.ordered": "an order about the store is on the disk, nothing of it is done",
    "projector.recalled": "the former store lies where it is read on, nothing reads it",
    "build.begun": "a store beside the shown one is open, nothing is folded into it",
    "build.written": "sets are written to a store beside the shown one",
    "build.at-end": "a store beside the shown one has reached the end, it is not compared",
    "build.compared": "it is compared, and does not say so",
    "build.noted": "it is whole and says what it is for, it is not offered",
    "build.offered": "it is offered, who waits for it has not been told",
    "rendezvous.compared": "trees or rows are compared, nothing of it is sent",
    "rendezvous.findings-sent": "the broker has the pages of findings, no report speaks of them",
    "rendezvous.reported": "a report is with the producer, its outcome has not come",
    "projector.request-sent": "a request of the API is with the producer, its caller has not been told",
}
"""Every place, and what has happened when a process is there."""

_ENTRY = re.compile(r"(?P<name>[a-z.-]+)(?::(?P<count>[1-9]\d*))?=(?P<actions>\S+)")
_PAUSE = re.compile(r"pause:(\d+)(ms|s)")
_S_PER_UNIT = {"ms": 0.001, "s": 1.0}


class _Armed(msgspec.Struct):
    """What is done at one place, when it has been reached `left` times more."""

    left: int
    text: str
    actions: list[Callable[[], None]]


_armed: dict[str, _Armed] = {}
_counting = threading.Lock()


def reach(name: str) -> None:
    """This thread is at the place `name`."""
    if name in _armed:
        _act(name)


def is_armed(name: str) -> bool:
    """Whether anything would ever happen there: for places that cost something to recognise."""
    return name in _armed


def is_any_armed() -> bool:
    """Whether there is a place at which something would happen: for whole families of them."""
    return bool(_armed)


def arm(environ: Mapping[str, str]) -> None:
    """Do what TOPOLOG_FAILPOINT says from now on, nothing if it is not there.

    Entries `name[:count]=action` are separated by commas; an action, done once at the count-th time (the first unless
    said), is `crash`, `error`, `pause:500ms`, or some of them joined by `+`. Raises BadInput for anything else.
    """
    entries = [entry for part in environ.get(VARIABLE, "").split(",") if (entry := part.strip())]
    armed = dict(_parsed(entry) for entry in entries)
    _armed.clear()
    _armed.update(armed)


def _act(name: str) -> None:
    with _counting:
        armed = _armed[name]
        armed.left -= 1
        is_due = armed.left == 0
    if is_due:
        _say(f"failpoint {name}: {armed.text}")
        for action in armed.actions:
            action()


def _parsed(entry: str) -> tuple[str, _Armed]:
    parts = _ENTRY.fullmatch(entry)
    if parts is None:
        raise BadInput(f"{VARIABLE}: {entry!r} is not of the form name[:count]=action.", hint=_form())
    name, text = parts["name"], parts["actions"]
    if name not in FAILPOINTS:
        names = "".join(f"\n  {name}: {meaning}" for name, meaning in FAILPOINTS.items())
        raise BadInput(f"{VARIABLE}: there is no failpoint {name!r}.", hint=f"There are:{names}")
    return name, _Armed(int(parts["count"] or 1), text, [_action(name, action) for action in text.split("+")])


def _action(name: str, text: str) -> Callable[[], None]:
    if text == "crash":
        return _crash
    if text == "error":
        return lambda: _fail(name)
    pause = _PAUSE.fullmatch(text)
    if pause is None:
        raise BadInput(f"{VARIABLE}: {text!r} is no action.", hint=_form())
    pause_s = int(pause[1]) * _S_PER_UNIT[pause[2]]
    return lambda: time.sleep(pause_s)


def _form() -> str:
    return f"Such as {VARIABLE}=coordinator.decided:2=crash; actions are crash, error, pause:500ms, or a+b for both."


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()  # another thread may be the one that the kernel ends first


def _fail(name: str) -> None:
    raise Injected(f"Failpoint {name} was told to fail.")


def _say(text: str) -> None:
    """One write, so that no buffer keeps it when the process dies."""
    os.write(sys.stderr.fileno() if sys.stderr else 2, f"{text}\n".encode())
