"""What is said of a segment that ends otherwise than equal or repaired: codes, and sentences for people."""

from itertools import combinations

from topolog.events.repair_tasks import Task, TaskKind
from topolog.events.requests import shortened
from topolog.events.sessions import SegmentRow

_COPY_STALLED = ("COPY_TIMEOUT", "its copies have not moved on for too long")
_FINAL = {
    (TaskKind.PREPARE, "STALLED"): ("REPLICA_DOWN", "it has not answered"),
    (TaskKind.LEAVES, "STALLED"): ("TREE_TIMEOUT", "its tree has not moved on for too long"),
    (TaskKind.DIGESTS, "STALLED"): ("TREE_TIMEOUT", "its digests have not moved on for too long"),
    (TaskKind.SEND, "STALLED"): _COPY_STALLED,
    (TaskKind.WRITE, "STALLED"): _COPY_STALLED,
}
_RENAMED = {"SCHEMA": "SCHEMA_MISMATCH"}


def final(row: SegmentRow, task: Task) -> tuple[str, str]:
    """The code and the message of what a lost task leads to, one of the present step or an earlier copy."""
    assert row.step is not None
    if task in row.uncopied and task.code == "STALLED":
        code, what = _COPY_STALLED
    else:
        code, what = _FINAL.get((row.step.kind, task.code), (_RENAMED.get(task.code, task.code), task.message))
    return code, shortened(f"Replica {task.replica}: {what}")


def unresolved(row: SegmentRow) -> str:
    assert row.found is not None
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(row.found.unresolved.items()))
    return f"Rows are left as they are: {listed}."


def compared_without(row: SegmentRow) -> tuple[str, str]:
    """The code and the message of a segment that went on without some, with all pairs that stay open (RE30)."""
    open_pairs = [f"{one}-{other}" for one, other in combinations(row.replicas, 2) if {one, other} & {*row.absent}]
    message = f"Compared without {', '.join(row.absent)}, which did not answer; not compared: {', '.join(open_pairs)}."
    return "REPLICA_DOWN", shortened(message)


def full_copy(rows: int) -> tuple[str, str]:
    """The code and the message of more rows than can be compared."""
    message = f"Where something differs are about {rows} rows: copying the whole replica is cheaper than repairing it."
    return "FULL_COPY", message


def hot_key(rows: int) -> tuple[str, str]:
    """The code and the message of a leaf that no finer ones can take apart."""
    return "HOT_KEY", f"About {rows} rows have one token: they are rows of one key, or all the same."
