"""The one error tree of topolog.

    TopologError
    ├── Retriable                the same call may succeed later
    │   ├── Unreachable          no broker or API answered in time
    │   ├── Overloaded           too many requests of this process are under way
    │   ├── Fenced               the node has no valid lease now
    │   ├── NotPrimary           another node acts for this partition, or nobody does now
    │   ├── Moved                another node may have begun to act while this operation ran
    │   ├── PartitionLost        no copy that holds all acknowledged writes is there
    │   ├── NotActive            the cluster's state does not allow it now
    │   ├── Changing             a change of the object stands in the way
    │   │   ├── BeingCreated     the object is there once the change that makes it is committed
    │   │   ├── BeingDeleted     the object is going, or its name was given to another one
    │   │   └── BeingAltered     the object was changed meanwhile, or is changed in a way that this does not suit
    │   ├── NotCaughtUp          a reader is behind the position that was asked for
    │   └── OutcomeUnknown       a request was sent, its outcome has not been read
    └── Permanent                the same call will fail again
        ├── Refused              a rule says no: code, rule and facts
        │   └── MergeConflict    two definitions of one type contradict each other
        ├── BadInput             what was given cannot be a request or a setting
        ├── NotAllowed           the API or the broker does not know who asks, or does not let them
        ├── NotFound             no such row, file or cluster
        ├── Gone                 asked for a past that is no longer kept
        ├── Undecodable          bytes that are not a record of ours
        │   └── OutOfRange       a map names partitions that its group has not
        ├── LogDiverged          the log is not the one this reader has folded
        ├── Poisoned             an accepted record cannot be decoded or folded
        ├── DiskFailed           the node's own data folder cannot be written
        ├── CannotApply          a service's hook says that its node cannot apply a change
        ├── HookFailed           a service's hook raised, so the node cannot apply the log any further
        ├── LeftCluster          this incarnation is out of the membership for good
        ├── DamagedStore         a projection's files contradict themselves
        ├── ReplicaFailed        a replica cannot do its part of a session of anti-entropy
        ├── SparkFailed          Spark does not start, or a job of it fails
        │   └── SparkEnded       the process's Spark is no more, and only another process can have one
        ├── MissingExtra         an optional part of topolog is not installed
        ├── LocalBrokerError     the broker on this machine cannot start or stop
        └── Injected             a failpoint was told to fail

Every error names what happened and, in `hint`, what to do about it. `code` is stable; the text is for people.
Library errors are translated at the file that owns the library.
"""

from collections.abc import Mapping


class TopologError(Exception):
    """Parent of every error that topolog raises on purpose."""

    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class Retriable(TopologError):
    code = "retriable"


class Unreachable(Retriable):
    code = "unreachable"


class Overloaded(Retriable):
    code = "overloaded"


class Fenced(Retriable):
    """The node holds no valid lease: it must not answer. `retry_after_ms` is an estimate for callers."""

    code = "fenced"

    def __init__(self, message: str, *, retry_after_ms: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_ms = retry_after_ms


class NotPrimary(Retriable):
    """This node does not act for the partition. `node` and `endpoint` are of who does, empty while nobody does."""

    code = "not_primary"

    def __init__(self, message: str, *, node: str = "", endpoint: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.node = node
        self.endpoint = endpoint


class Moved(Retriable):
    """The operation has outlived its node's right to act: whatever it did must not count. Ask the new primary."""

    code = "moved"


class PartitionLost(Retriable):
    """No owner of the partition is there: it comes back with one, or by an operator's reset."""

    code = "partition_lost"


class NotActive(Retriable):
    """The cluster serves nothing now, or no writes: `state` is what it is in."""

    code = "not_active"

    def __init__(self, message: str, *, state: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.state = state


class Changing(Retriable):
    """A change of the object stands in the way. `retry_after_ms` is an estimate for callers."""

    code = "changing"

    def __init__(self, message: str, *, retry_after_ms: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_ms = retry_after_ms


class BeingCreated(Changing):
    code = "being_created"


class BeingDeleted(Changing):
    code = "being_deleted"


class BeingAltered(Changing):
    """Whatever the operation did must not count as done."""

    code = "being_altered"


class NotCaughtUp(Retriable):
    code = "not_caught_up"


class OutcomeUnknown(Retriable):
    """A request went out and no outcome came back in time: ask again with `request_id`, never send it as new."""

    code = "outcome_unknown"

    def __init__(self, message: str, *, request_id: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.request_id = request_id


class Permanent(TopologError):
    code = "permanent"


class Refused(Permanent):
    """A rule says no. `code` is stable, `rule` names the rule in the reference, `facts` are the evidence."""

    def __init__(
        self, code: str, rule: str, message: str, facts: Mapping[str, str] | None = None, *, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.rule = rule
        self.facts: dict[str, str] = dict(facts or {})


class MergeConflict(Refused):
    """Two definitions of one type contradict each other; `facts` holds both sides of the contradiction."""

    def __init__(self, rule: str, message: str, facts: Mapping[str, str]) -> None:
        super().__init__("METADATA_CONFLICT", rule, message, facts)


class BadInput(Permanent):
    code = "bad_input"


class RowTooLarge(BadInput):
    code = "row_too_large"


class NotAllowed(Permanent):
    code = "not_allowed"


class NotFound(Permanent):
    code = "not_found"


class Gone(Permanent):
    code = "gone"


class Undecodable(Permanent):
    code = "undecodable"


class OutOfRange(Undecodable):
    code = "out_of_range"


class LogDiverged(Permanent):
    code = "log_diverged"


class Poisoned(Permanent):
    """An accepted record that cannot be decoded or folded: which one, by position and the chain hash after it.

    `level` is the feature level in force there, 0 before the log has one.
    """

    code = "poisoned"

    def __init__(
        self,
        message: str,
        *,
        position: int,
        chain: bytes,
        stamp: bytes,
        value: bytes,
        level: int,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.position = position
        self.chain = chain
        self.stamp = stamp
        self.value = value
        self.level = level


class DiskFailed(Permanent):
    code = "disk_failed"


class CannotApply(Permanent):
    """Raised by a hook of a service: this node cannot apply the change, which is rolled back then (TA19). `code` is the
    service's own, such as NO_CODEC."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class HookFailed(Permanent):
    code = "hook_failed"


class LeftCluster(Permanent):
    code = "left_cluster"


class DamagedStore(Permanent):
    code = "damaged_store"


class ReplicaFailed(Permanent):
    """A replica cannot do its part of a session. `code` is what its task fails with, such as CORRUPT, SCHEMA, RANGE,
    IO, CUT_LOST, LEAF_TOO_LARGE, UNSUPPORTED or NOT_WRITABLE."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class SparkFailed(Permanent):
    code = "spark_failed"


class SparkEnded(SparkFailed):
    """The JVM of this process is gone: whatever it is asked for fails from now on. A new process does it again."""

    code = "spark_ended"


class MissingExtra(Permanent):
    code = "missing_extra"


def missing_extra(what: str, library: str | None, extra: str) -> MissingExtra:
    """The error of something that needs a library which comes with an extra of topolog."""
    return MissingExtra(
        f"{what} needs {library}, which is not installed.", hint=f"Install it with: pip install 'topolog[{extra}]'"
    )


class LocalBrokerError(Permanent):
    code = "local_broker"


class Injected(Permanent):
    code = "injected"
