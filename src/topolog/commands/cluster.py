"""`topolog cluster init`: the topics of a managed cluster, and the access that each role needs to them."""

from typing import Annotated

import typer
from rich.table import Table

from topolog.commands.command_line import Config, Set, say, settings_of
from topolog.events.topics import ACLS, PLANS, topic_name, topic_prefix
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.terminal import Screen


def cluster_init(
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be made, make nothing.")] = False,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Copies of each topic: 3 in production, 1 if nothing is said.")
    ] = None,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Make the topics of a cluster; its first coordinator begins the log."""
    from topolog.events.kafka_admin import KafkaAdmin

    settings = settings_of(config, pairs)
    name = settings.cluster.name
    if plan:
        screen = Screen()
        screen.view(_topic_table(name, replicas or 1))
        screen.aside("\nThe access that each role needs, no more:")
        screen.view(_access_table(name))
        return
    admin = KafkaAdmin(settings.kafka)
    made = admin.create_topics(name, PLANS, replicas=replicas or 1)
    say(f"Made {', '.join(made)}." if made else f"Cluster {name!r} has all its topics.")
    copies = {plan.topic.short_name: admin.replicas(name, plan.topic) for plan in PLANS}
    if single := [topic for topic, count in copies.items() if count == 1]:
        say(f"One copy of {', '.join(single)}: not durable against loss of the disk.")
    if replicas and any(count != replicas for count in copies.values()):
        found = ", ".join(f"{topic} {count}" for topic, count in copies.items())
        say(f"Topics that exist keep their copies: {found}. Kafka's kafka-reassign-partitions changes that.")
        raise typer.Exit(ExitCode.FOUND)


def _topic_table(name: str, replicas: int) -> Table:
    from topolog.events.kafka_admin import topic_config

    table = Table("TOPIC", "PARTITIONS", "REPLICAS", "CONFIG", box=None)
    for plan in PLANS:
        config = " ".join(f"{key}={value}" for key, value in topic_config(plan, replicas).items())
        table.add_row(topic_name(name, plan.topic), str(plan.partitions), str(replicas), config)
    return table


def _access_table(name: str) -> Table:
    """The ACLs of a cluster. Topics of one's own are named in full, so that no role has more than it uses."""
    table = Table("ROLE", "RESOURCE", "PATTERN", "NAME", "OPERATIONS", box=None)
    for access in sorted(ACLS, key=lambda each: each.role):
        resource = "Group" if access.is_group else "Topic"
        pattern = "prefixed" if access.topic is None else "literal"
        what = topic_name(name, access.topic) if access.topic else f"{topic_prefix(name)}{access.begins}"
        table.add_row(access.role, resource, pattern, what, ", ".join(access.operations))
    return table
