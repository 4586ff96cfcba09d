"""`topolog void`: an operator's command on the log itself, for the case that the API's projector has stopped too."""

import contextlib
import getpass
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from topolog.commands.command_line import Config, Set, say, settings_of
from topolog.events.errors import BadInput
from topolog.events.stamp import NO_CHAIN
from topolog.events.topics import PLANS, Topic
from topolog.projections.cli.terminal import Screen, clean
from topolog.streams.clock import SystemClock

if TYPE_CHECKING:
    from topolog.streams.coordinator.voiding import Finding


def void(
    position: Annotated[int, typer.Option(min=0, help="Where the readers stop.")],
    chain: Annotated[str, typer.Option(metavar="HEX", help="The chain hash they name.")],
    reason: Annotated[str, typer.Option(help="Why; kept with the voiding.")] = "",
    actor: Annotated[str, typer.Option(help="Who; kept with the voiding.", show_default="you")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the record, change nothing.")] = False,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Void a record of the log that no reader can fold, so that all go on behind it (docs/runbooks/voiding.md)."""
    from topolog.events.kafka import KafkaReader, KafkaWriter
    from topolog.events.kafka_admin import KafkaAdmin
    from topolog.streams.coordinator.voiding import Voider

    if not dry_run and not reason.strip():
        raise BadInput("A record is voided for ever, and nobody would know why.", hint="Say it with --reason.")
    settings = settings_of(config, pairs)
    name, actor = settings.cluster.name, actor or getpass.getuser()
    KafkaAdmin(settings.kafka).wait_for_leaders(name, [plan for plan in PLANS if plan.topic is Topic.DECISIONS])
    with (
        contextlib.closing(KafkaReader(settings.kafka, name)) as reader,
        contextlib.closing(KafkaWriter(settings.kafka, name)) as writer,
    ):
        voider = Voider(reader, writer, SystemClock(), name, f"void-{actor}", secrets.randbits(63))
        finding = voider.check(voider.find(), position, _chain(chain))
        Screen().view(_finding_table(finding))
        if dry_run:
            say("Nothing was changed.")
            return
        voided_at = voider.void(finding, reason, actor)
        say(f"Position {position} is voided, by position {voided_at}. Start the readers that stopped.")
        following = voider.find()
    if following:
        say(f"They will stop again, at position {following.position} (chain {following.chain.hex()}): {following.why}")


def _chain(text: str) -> bytes:
    try:
        chain = bytes.fromhex(text)
    except ValueError:
        chain = b""
    if len(chain) != len(NO_CHAIN):
        raise BadInput(f"{text!r} is no chain hash.", hint="It has 32 hexadecimal digits.")
    return chain


def _finding_table(finding: "Finding") -> Table:
    """What the record says of itself by its stamp, all that can be known of it."""
    from topolog.events.codec import describe_prefix

    stamp = finding.stamp
    recorded = datetime.fromtimestamp(stamp.recorded_at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    shown = {
        "position": finding.position,
        "chain": finding.chain.hex(),
        "cannot be folded": finding.why,
        "schema": describe_prefix(finding.value),
        "size": f"{len(finding.value)} bytes",
        "cause": stamp.cause,
        "actor": stamp.actor,
        "reason": stamp.reason,
        "term": f"{stamp.term}, sequence {stamp.sequence}, {stamp.index + 1} of {stamp.size} in its set",
        "recorded at": recorded,
        "behind it": f"{finding.behind} records, which readers fold once it is voided",
        "lost by voiding": "whatever this one decision changed, and the outcome of the request that is its cause",
    }
    table = Table(box=None, show_header=False, pad_edge=False)
    for label, value in shown.items():
        table.add_row(label, clean(str(value)) or "-")
    return table
