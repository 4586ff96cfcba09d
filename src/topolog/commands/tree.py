"""The commands of topolog: what each is called, where it is, and under which heading the front page lists it.

A command's module is loaded when the command runs, no other is. Help and completion do not load even that: they read
the table that `python -m topolog.commands.table` derives from this tree.
"""

import functools
from typing import Any, Final

from topolog.projections.cli.lazy import Command, Group, group

READ: Final = "Read"
CHANGE: Final = "Change"
REPAIR: Final = "Compare and repair"
RUN: Final = "Run"
SUPPORT: Final = "Support"
YOURS: Final = "Settings and access"

_CLI: Final = "topolog.projections.cli"
_OWN: Final = "topolog.commands"

TREE: Final = Group(
    "The topology of a sharded cluster as one ordered log of decisions on Kafka.",
    {
        "get": Command(f"{_CLI}.reading:get", READ),
        "describe": Command(f"{_CLI}.reading:describe", READ),
        "explain": Command(f"{_CLI}.reading:explain", READ),
        "history": Command(f"{_CLI}.reading:history", READ),
        "diff": Command(f"{_CLI}.diffing:diff", READ),
        "watch": Command(f"{_CLI}.watching:watch", READ),
        "wait": Command(f"{_CLI}.waiting:wait", READ),
        "apply": Command(f"{_CLI}.applying:apply", CHANGE),
        "propose": Command(f"{_CLI}.writing:propose", CHANGE),
        "create": Command(f"{_CLI}.sharing:create", CHANGE),
        "alter": Command(f"{_CLI}.sharing:alter", CHANGE),
        "rename": Command(f"{_CLI}.schema_commands:rename", CHANGE),
        "drop": Command(f"{_CLI}.sharing:drop", CHANGE),
        "remove": Command(f"{_CLI}.writing:remove", CHANGE),
        "cancel": Command(f"{_CLI}.schema_commands:cancel", CHANGE),
        "reset": Command(f"{_CLI}.sharing:reset", CHANGE),
        "replay": Command(f"{_CLI}.replaying:replay", CHANGE),
        "start-exchange": Command(f"{_CLI}.sharing:start_exchange", CHANGE),
        "raise-level": Command(f"{_CLI}.writing:raise_level", CHANGE),
        "cluster": Group(
            "Whether the cluster serves; its terms of lease, its topics.",
            {
                "activate": Command(f"{_CLI}.baseline_commands:activate"),
                "read-only": Command(f"{_CLI}.baseline_commands:read_only"),
                "deactivate": Command(f"{_CLI}.baseline_commands:deactivate"),
                "lease-terms": Command(f"{_CLI}.baseline_commands:lease_terms"),
                "init": Command(f"{_OWN}.cluster:cluster_init"),
            },
            CHANGE,
        ),
        "baseline": Group(
            "Who counts: the members over which persistent groups are placed.",
            {
                "set": Command(f"{_CLI}.baseline_commands:set_members"),
                "add": Command(f"{_CLI}.baseline_commands:add"),
                "remove": Command(f"{_CLI}.baseline_commands:remove"),
                "drain": Command(f"{_CLI}.baseline_commands:drain"),
                "auto-adjust": Command(f"{_CLI}.baseline_commands:auto_adjust"),
                "hold": Command(f"{_CLI}.baseline_commands:hold"),
                "warm": Command(f"{_CLI}.baseline_commands:warm"),
                "graph": Command(f"{_CLI}.baseline_commands:graph"),
            },
            CHANGE,
        ),
        "verify": Group(
            "Do the replicas of a table agree: `topolog verify TABLE`.",
            {
                "table": Command(f"{_CLI}.verify_commands:verify"),
                "projections": Command(f"{_OWN}.verify:verify_projections", extra="server"),
            },
            REPAIR,
            by_default="table",
        ),
        "repair": Group(
            "Make the replicas of a table agree, by a plan that is shown first.",
            {
                "plan": Command(f"{_CLI}.repair_commands:plan"),
                "run": Command(f"{_CLI}.repair_commands:run"),
                "pause": Command(f"{_CLI}.repair_commands:pause"),
                "resume": Command(f"{_CLI}.repair_commands:resume"),
                "pace": Command(f"{_CLI}.repair_commands:pace"),
                "abort": Command(f"{_CLI}.repair_commands:abort"),
                "withdraw": Command(f"{_CLI}.repair_commands:withdraw"),
                "schedule": Group(
                    "Sessions that are opened again and again.",
                    {
                        "set": Command(f"{_CLI}.schedule_commands:set_schedule"),
                        "drop": Command(f"{_CLI}.schedule_commands:drop_schedule"),
                        "list": Command(f"{_CLI}.schedule_commands:list_schedules"),
                    },
                ),
            },
            REPAIR,
        ),
        "projection": Group(
            "The stores of the projector that answers: rebuild, back, pause.",
            {
                "status": Command(f"{_CLI}.projection_commands:status"),
                "rebuild": Command(f"{_CLI}.projection_commands:rebuild"),
                "back": Command(f"{_CLI}.projection_commands:back"),
                "cancel": Command(f"{_CLI}.projection_commands:cancel"),
                "pause": Command(f"{_CLI}.projection_commands:pause"),
                "resume": Command(f"{_CLI}.projection_commands:resume"),
                "drop": Command(f"{_CLI}.projection_commands:drop"),
                "scrub": Command(f"{_CLI}.projection_commands:scrub"),
            },
            REPAIR,
        ),
        "up": Command(f"{_OWN}.local:up", RUN, extra="local"),
        "run": Group(
            "One role, in the foreground.",
            {
                "coordinator": Command(f"{_OWN}.roles:run_coordinator"),
                "projector": Command(f"{_OWN}.roles:run_projector", extra="server"),
                "lease-health": Command(f"{_OWN}.roles:run_lease_health", extra="health"),
                "rendezvous": Command(f"{_OWN}.roles:run_rendezvous", extra="health"),
                "validator": Command(f"{_OWN}.roles:run_validator", extra="spark"),
                "demo-node": Command(f"{_OWN}.roles:run_demo_node", extra="local"),
            },
            RUN,
        ),
        "broker": Group(
            "Apache Kafka on this machine.",
            {
                "start": Command(f"{_OWN}.broker:broker_start", extra="local"),
                "stop": Command(f"{_OWN}.broker:broker_stop", extra="local"),
                "status": Command(f"{_OWN}.broker:broker_status", extra="local"),
            },
            RUN,
        ),
        "demo": Group(
            "The nodes of a running `topolog up --demo`, and clients of its store.",
            {
                "add-node": Command(f"{_OWN}.demo:add_node", extra="local"),
                "kill": Command(f"{_OWN}.demo:kill", extra="local"),
                "pause": Command(f"{_OWN}.demo:pause", extra="local"),
                "resume": Command(f"{_OWN}.demo:resume", extra="local"),
                "power-cut": Command(f"{_OWN}.demo:power_cut", extra="local"),
                "power-on": Command(f"{_OWN}.demo:power_on", extra="local"),
                "backup": Command(f"{_OWN}.demo:backup", extra="local"),
                "restore": Command(f"{_OWN}.demo:restore", extra="local"),
                "wipe": Command(f"{_OWN}.demo:wipe", extra="local"),
                "corrupt": Command(f"{_OWN}.demo:corrupt", extra="local"),
                "validator": Command(f"{_OWN}.demo:validator", extra="local"),
                "load": Command(f"{_OWN}.demo:load", extra="local"),
            },
            RUN,
        ),
        "spark": Group(
            "The data pipeline: topics as tables, rebuilds, reports (docs/pipeline.md).",
            {
                "archive": Command(f"{_OWN}.spark_archive:archive_topics", extra="spark"),
                "rebuild": Command(f"{_OWN}.spark_rebuild:rebuild_projections", extra="spark"),
                "report": Command(f"{_OWN}.spark_report:report", extra="spark"),
            },
            RUN,
        ),
        "simulate": Command(f"{_OWN}.simulation:simulate", RUN),
        "doctor": Command(f"{_OWN}.support:doctor", SUPPORT),
        "bundle": Command(f"{_OWN}.support:bundle", SUPPORT),
        "open": Command(f"{_OWN}.support:open_bundle", SUPPORT, extra="server"),
        "void": Command(f"{_OWN}.voiding:void", SUPPORT),
        "help": Command(f"{_CLI}.app:explain_command", SUPPORT),
        "version": Command(f"{_CLI}.lazy:show_version", SUPPORT),
        "context": Group(
            "Whom the command line asks, under names of your own.",
            {
                "list": Command(f"{_CLI}.context_commands:list_contexts"),
                "show": Command(f"{_CLI}.context_commands:show_context"),
                "use": Command(f"{_CLI}.context_commands:use_context"),
                "add": Command(f"{_CLI}.context_commands:add_context"),
                "remove": Command(f"{_CLI}.context_commands:remove_context"),
            },
            YOURS,
        ),
        "auth": Group(
            "Who you are to the API, and what you may.",
            {
                "whoami": Command(f"{_CLI}.auth_commands:whoami"),
                "can-i": Command(f"{_CLI}.auth_commands:can_i"),
                "explain": Command(f"{_CLI}.auth_commands:explain"),
                "token": Group("Tokens for scripts.", {"new": Command(f"{_OWN}.access:new_token", extra="server")}),
            },
            YOURS,
        ),
        "config": Group("The settings in force.", {"show": Command(f"{_OWN}.config:config_show")}, YOURS),
    },
)


@functools.cache
def root() -> Any:
    """The command `topolog`, of which Typer and a command's module load what is called."""
    return group("topolog", TREE)
