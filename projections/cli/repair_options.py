"""The options of `verify` and `repair`: what is compared, which way rows may go, how a session is followed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from topolog.events.errors import BadInput
from topolog.events.repair_definition import SEGMENTS_MAX
from topolog.events.tree_spec import BITS_MAX, BITS_MIN
from topolog.projections.cli import moments
from topolog.projections.cli.options import Patience, Wait
from topolog.projections.cli.problems import Json


class Way(StrEnum):
    REPORT = "report"
    PULL = "pull"
    UNION = "union"


class Strength(StrEnum):
    FAST = "fast"
    STRONG = "strong"
    PROOF = "proof"


class Order(StrEnum):
    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"
    DATACENTER_PARALLEL = "datacenter-parallel"


@dataclass(frozen=True)
class Comparison:
    """What is compared, by whom, how."""

    ranges: Annotated[
        list[str] | None,
        typer.Option("--ranges", metavar="A..B", help="Only these tokens, in hexadecimal; may be repeated, may wrap."),
    ] = None
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="REPLICA", help="What this replica is to hold, with whoever holds it too."),
    ] = None
    replica: Annotated[
        list[str] | None, typer.Option("--replica", metavar="NAME", help="Only these replicas; may be repeated.")
    ] = None
    initiator: Annotated[
        str | None, typer.Option("--initiator", metavar="NAME", help="With whom --early compares the others.")
    ] = None
    local: Annotated[str | None, typer.Option("--local", metavar="DC", help="Only replicas of this data centre.")] = (
        None
    )
    columns: Annotated[
        list[str] | None, typer.Option("--columns", metavar="NAME", help="Only these columns; may be repeated.")
    ] = None
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="NAME", help="All columns but these; may be repeated.")
    ] = None
    strength: Annotated[Strength, typer.Option("--strength", help="How hard it is to craft rows that look equal.")] = (
        Strength.FAST
    )
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Place rows by the order of their keys, not by a hash.")
    ] = False
    order: Annotated[Order, typer.Option("--order", help="How many replicas read at a time.")] = Order.PARALLEL
    early: Annotated[
        bool, typer.Option("--early", help="Compare each with the initiator as soon as both trees are in.")
    ] = False
    segments: Annotated[
        int, typer.Option("--segments", min=1, max=SEGMENTS_MAX, help="In how many parts, one after the other.")
    ] = 1
    parallel: Annotated[int, typer.Option("--parallel", min=1, help="How many segments at a time.")] = 1
    intensity: Annotated[
        int, typer.Option("--intensity", min=1, max=100, help="How much of the time is worked, in percent.")
    ] = 100
    bits: Annotated[
        int | None,
        typer.Option(
            "--bits", min=BITS_MIN, max=BITS_MAX, help="2^BITS leaves.", show_default="what suits the number of rows"
        ),
    ] = None
    halves: Annotated[bool, typer.Option("--halve", help="Halve a segment that fails for good.")] = False
    recheck: Annotated[bool, typer.Option("--recheck/--no-recheck", help="Look again whether a difference lasts.")] = (
        True
    )
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Go on without replicas that do not answer (exit code 9).")
    ] = False
    retries: Annotated[int, typer.Option("--retries", min=0, help="How often a task is asked for again.")] = 2
    stall: Annotated[
        str,
        typer.Option("--stall", metavar="2m", help="A task that does not move for so long is given up."),
    ] = "2m"
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="1h", help="The session ends then, however far it is.")
    ] = None

    def body(self, table: str) -> Json:
        """The session as the API takes it."""
        stall_ms = _ms(self.stall, "--stall")
        return {
            "table": table,
            "ranges": self.ranges or ["FULL"],
            "node": self.node or "",
            "replicas": self.replica or [],
            "initiator": self.initiator or "",
            "datacenter": self.local or "",
            "columns": self.columns or [],
            "ignored": self.ignore or [],
            "strength": self.strength.upper(),
            "mode": "ORDERED" if self.ordered else "HASHED",
            "order": self.order.upper().replace("-", "_"),
            "rendezvous": "EARLY" if self.early else "ALL",
            "segments": self.segments,
            "parallel": self.parallel,
            "intensity": self.intensity,
            "bits": self.bits or 0,
            "halves": self.halves,
            "recheck": self.recheck,
            "allow_partial": self.allow_partial,
            "retries": self.retries,
            "stall_ms": stall_ms,
            "prepare_ms": stall_ms,
            "deadline_ms": None if self.deadline is None else _ms(self.deadline, "--deadline"),
        }


@dataclass(frozen=True)
class Direction:
    """Which way rows go."""

    policy: Annotated[
        Way | None,
        typer.Option(
            "--policy",
            case_sensitive=False,
            help="pull: from --source. union: of each row the newest version, everywhere.",
            show_default="report; of a preview its own",
        ),
    ] = None
    source: Annotated[
        str | None, typer.Option("--source", metavar="REPLICA", help="The replica that is right, for pull.")
    ] = None
    version_column: Annotated[
        str | None, typer.Option("--version-column", metavar="NAME", help="Says which row is newer, for union.")
    ] = None
    tombstone_column: Annotated[
        str | None, typer.Option("--tombstone-column", metavar="NAME", help="True in a row that is deleted.")
    ] = None
    grace: Annotated[str, typer.Option("--grace", metavar="10d", help="How long tombstones are kept at least.")] = "10d"
    delete_extra: Annotated[
        bool, typer.Option("--delete-extra", help="Delete what the source lacks, for pull; never done otherwise.")
    ] = False

    @property
    def is_given(self) -> bool:
        """Whether anything is said of the way rows go."""
        return self.policy is not None or bool(self.source or self.version_column or self.tombstone_column)

    def body(self) -> Json:
        """What the API takes of it; BadInput for what does not go together."""
        policy = self.policy or (Way.PULL if self.source else Way.UNION if self.version_column else Way.REPORT)
        if policy is Way.PULL and not self.source:
            raise BadInput("Pull needs the replica that is right.", hint="--source R1 names it.")
        if policy is Way.UNION and not self.version_column:
            raise BadInput("Union needs the column that says which row is newer.", hint="--version-column names it.")
        if self.delete_extra and policy is not Way.PULL:
            raise BadInput("Only pull may delete what the source lacks.", hint="--policy pull --source R1")
        return {
            "policy": policy.upper(),
            "source": self.source or "",
            "version_column": self.version_column or "",
            "tombstone_column": self.tombstone_column or "",
            "grace_ms": _ms(self.grace, "--grace") if self.tombstone_column else 0,
            "deletes_extra": self.delete_extra,
        }


@dataclass(frozen=True)
class Following:
    """How a session is followed, why it is asked for, and under which id."""

    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Follow it to its end; its progress is told on a terminal.")
    ] = True
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="10m", help="How long to follow it; it goes on.", show_default="to its end"),
    ] = None
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the decision.")] = ""
    request_id: Annotated[
        str | None,
        typer.Option(
            "--request-id",
            metavar="REQUESTER/SEQUENCE",
            help="The request's id, such as ada-42/1: the same request under the same id is made once.",
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing; show what would be decided.")] = False

    @property
    def timeout_s(self) -> float | None:
        return None if self.timeout is None else moments.seconds(self.timeout, "--timeout")

    @property
    def patience(self) -> Patience:
        """With which the session is asked for; its end is another matter."""
        return Patience(Wait.DECIDED, None, self.reason, self.request_id, self.dry_run)


def _ms(text: str, option: str) -> int:
    found = round(moments.seconds(text, option) * 1000)
    if found < 1:
        raise BadInput(f"{option} {text} is no time to wait.", hint="A millisecond at least: 1ms.")
    return found
