"""The options that say what a group of partitions is."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from topolog.events.group_definition import BACKUPS_MAX, PARTITIONS_DEFAULT, PARTITIONS_MAX


class Policy(StrEnum):
    """What may be done with a group while partitions of it are lost."""

    IGNORE = "IGNORE"
    READ_WRITE_SAFE = "READ_WRITE_SAFE"
    READ_ONLY_SAFE = "READ_ONLY_SAFE"


@dataclass(frozen=True)
class GroupOptions:
    """What a group is; None is not said."""

    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            metavar="N",
            min=1,
            max=PARTITIONS_MAX,
            help=f"Into how many partitions it is cut, {PARTITIONS_DEFAULT} unless said; never changes.",
        ),
    ] = None
    backups: Annotated[
        int | None,
        typer.Option(
            "--backups",
            metavar="N",
            min=0,
            max=BACKUPS_MAX,
            help="How many copies of a partition there are beside the primary, 0 unless said.",
        ),
    ] = None
    persistent: Annotated[
        bool | None,
        typer.Option(
            "--persistent/--not-persistent",
            help="Whether copies outlive their process, not unless said; never changes.",
            show_default=False,
        ),
    ] = None
    node_filter: Annotated[
        list[str] | None,
        typer.Option(
            "--node-filter",
            metavar="ATTRIBUTE=VALUE",
            help="Only nodes with this attribute hold copies; may be repeated. '' takes the filter away.",
        ),
    ] = None
    backup_filter: Annotated[
        str | None,
        typer.Option(
            "--backup-filter",
            metavar="ATTRIBUTE",
            help="Copies of a partition are on nodes that differ in it, as rack. '' takes the filter away.",
        ),
    ] = None
    exclude_neighbours_by: Annotated[
        str | None,
        typer.Option(
            "--exclude-neighbours-by",
            metavar="ATTRIBUTE",
            help="The same, as host, but only while there are enough such nodes. '' takes the rule away.",
        ),
    ] = None
    loss_policy: Annotated[
        Policy | None,
        typer.Option(
            "--loss-policy",
            case_sensitive=False,
            help="What may be done while partitions are lost, READ_WRITE_SAFE unless said.",
        ),
    ] = None
