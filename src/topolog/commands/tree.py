"""The commands of topolog: what each is called, where it is, and under which heading the front page lists it.

A command's module is loaded when the command runs, no other is. Help and completion do not load even that: they read
the table that `python -m topolog.commands.table` derives from this tree.
"""

import functools
from typing import Any, Final

from topolog.projections.cli.lazy import CommandGroup, CommandPlace, group

READ: Final = "Read"
CHANGE: Final = "Change"
REPAIR: Final = "Compare and repair"
RUN: Final = "Run"
SUPPORT: Final = "Support"
YOURS: Final = "Settings and access"

_CLI: Final = "topolog.projections.cli"
_OWN: Final = "topolog.commands"

TREE: Final = CommandGroup(
    "The topology of a sharded cluster as one ordered log of decisions on Kafka.",
    {
        "status": CommandPlace(f"{_CLI}.status:status", READ),
        "get": CommandPlace(f"{_CLI}.reading:get", READ),
        "describe": CommandPlace(f"{_CLI}.reading:describe", READ),
        "explain": CommandPlace(f"{_CLI}.reading:explain", READ),
        "history": CommandPlace(f"{_CLI}.reading:history", READ),
        "diff": CommandPlace(f"{_CLI}.diffing:diff", READ),
        "watch": CommandPlace(f"{_CLI}.watching:watch", READ),
        "wait": CommandPlace(f"{_CLI}.waiting:wait", READ),
        "apply": CommandPlace(f"{_CLI}.applying:apply", CHANGE),
        "propose": CommandPlace(f"{_CLI}.writing:propose", CHANGE),
        "create": CommandPlace(f"{_CLI}.sharing:create", CHANGE),
        "alter": CommandPlace(f"{_CLI}.sharing:alter", CHANGE),
        "rename": CommandPlace(f"{_CLI}.schema_commands:rename", CHANGE),
        "drop": CommandPlace(f"{_CLI}.sharing:drop", CHANGE),
        "remove": CommandPlace(f"{_CLI}.writing:remove", CHANGE),
        "cancel": CommandPlace(f"{_CLI}.schema_commands:cancel", CHANGE),
        "reset": CommandPlace(f"{_CLI}.sharing:reset", CHANGE),
        "replay": CommandPlace(f"{_CLI}.replaying:replay", CHANGE),
        "start-exchange": CommandPlace(f"{_CLI}.sharing:start_exchange", CHANGE),
        "raise-level": CommandPlace(f"{_CLI}.writing:raise_level", CHANGE),
        "cluster": CommandGroup(
            "Whether the cluster serves; its terms of lease, its topics.",
            {
                "activate": CommandPlace(f"{_CLI}.baseline_commands:activate"),
                "read-only": CommandPlace(f"{_CLI}.baseline_commands:read_only"),
                "deactivate": CommandPlace(f"{_CLI}.baseline_commands:deactivate"),
                "lease-terms": CommandPlace(f"{_CLI}.baseline_commands:lease_terms"),
                "init": CommandPlace(f"{_OWN}.cluster:cluster_init"),
            },
            CHANGE,
        ),
        "baseline": CommandGroup(
            "Who counts: the members over which persistent groups are placed.",
            {
                "set": CommandPlace(f"{_CLI}.baseline_commands:set_members"),
                "add": CommandPlace(f"{_CLI}.baseline_commands:add"),
                "remove": CommandPlace(f"{_CLI}.baseline_commands:remove"),
                "drain": CommandPlace(f"{_CLI}.baseline_commands:drain"),
                "auto-adjust": CommandPlace(f"{_CLI}.baseline_commands:auto_adjust"),
                "hold": CommandPlace(f"{_CLI}.baseline_commands:hold"),
                "warm": CommandPlace(f"{_CLI}.baseline_commands:warm"),
                "graph": CommandPlace(f"{_CLI}.baseline_commands:graph"),
            },
            CHANGE,
        ),
        "verify": CommandGroup(
            "Do the replicas of a table agree: `topolog verify TABLE`.",
            {
                "table": CommandPlace(f"{_CLI}.verify_commands:verify"),
                "projections": CommandPlace(f"{_OWN}.verify:verify_projections", extra="server"),
            },
            REPAIR,
            by_default="table",
        ),
        "repair": CommandGroup(
            "Make the replicas of a table agree, by a plan that is shown first.",
            {
                "plan": CommandPlace(f"{_CLI}.repair_commands:plan"),
                "run": CommandPlace(f"{_CLI}.repair_commands:run"),
                "pause": CommandPlace(f"{_CLI}.repair_commands:pause"),
                "resume": CommandPlace(f"{_CLI}.repair_commands:resume"),
                "pace": CommandPlace(f"{_CLI}.repair_commands:pace"),
                "abort": CommandPlace(f"{_CLI}.repair_commands:abort"),
                "withdraw": CommandPlace(f"{_CLI}.repair_commands:withdraw"),
                "schedule": CommandGroup(
                    "Sessions that are opened again and again.",
                    {
                        "set": CommandPlace(f"{_CLI}.schedule_commands:set_schedule"),
                        "drop": CommandPlace(f"{_CLI}.schedule_commands:drop_schedule"),
                        "list": CommandPlace(f"{_CLI}.schedule_commands:list_schedules"),
                    },
                ),
            },
            REPAIR,
        ),
        "projection": CommandGroup(
            "The stores of the projector that answers: rebuild, back, pause.",
            {
                "status": CommandPlace(f"{_CLI}.projection_commands:status"),
                "rebuild": CommandPlace(f"{_CLI}.projection_commands:rebuild"),
                "back": CommandPlace(f"{_CLI}.projection_commands:back"),
                "cancel": CommandPlace(f"{_CLI}.projection_commands:cancel"),
                "pause": CommandPlace(f"{_CLI}.projection_commands:pause"),
                "resume": CommandPlace(f"{_CLI}.projection_commands:resume"),
                "drop": CommandPlace(f"{_CLI}.projection_commands:drop"),
                "scrub": CommandPlace(f"{_CLI}.projection_commands:scrub"),
            },
            REPAIR,
        ),
        "up": CommandPlace(f"{_OWN}.local:up", RUN, extra="local"),
        "run": CommandGroup(
            "One role, in the foreground.",
            {
                "coordinator": CommandPlace(f"{_OWN}.roles:run_coordinator"),
                "projector": CommandPlace(f"{_OWN}.roles:run_projector", extra="server"),
                "lease-health": CommandPlace(f"{_OWN}.roles:run_lease_health", extra="health"),
                "rendezvous": CommandPlace(f"{_OWN}.roles:run_rendezvous", extra="health"),
                "validator": CommandPlace(f"{_OWN}.roles:run_validator", extra="spark"),
                "demo-node": CommandPlace(f"{_OWN}.roles:run_demo_node", extra="local"),
            },
            RUN,
        ),
        "broker": CommandGroup(
            "Apache Kafka on this machine.",
            {
                "start": CommandPlace(f"{_OWN}.broker:broker_start", extra="local"),
                "stop": CommandPlace(f"{_OWN}.broker:broker_stop", extra="local"),
                "status": CommandPlace(f"{_OWN}.broker:broker_status", extra="local"),
            },
            RUN,
        ),
        "demo": CommandGroup(
            "The nodes of a running `topolog up --demo`, and clients of its store.",
            {
                "add-node": CommandPlace(f"{_OWN}.demo:add_node", extra="local"),
                "kill": CommandPlace(f"{_OWN}.demo:kill", extra="local"),
                "pause": CommandPlace(f"{_OWN}.demo:pause", extra="local"),
                "resume": CommandPlace(f"{_OWN}.demo:resume", extra="local"),
                "power-cut": CommandPlace(f"{_OWN}.demo:power_cut", extra="local"),
                "power-on": CommandPlace(f"{_OWN}.demo:power_on", extra="local"),
                "backup": CommandPlace(f"{_OWN}.demo:backup", extra="local"),
                "restore": CommandPlace(f"{_OWN}.demo:restore", extra="local"),
                "wipe": CommandPlace(f"{_OWN}.demo:wipe", extra="local"),
                "corrupt": CommandPlace(f"{_OWN}.demo:corrupt", extra="local"),
                "validator": CommandPlace(f"{_OWN}.demo:validator", extra="local"),
                "load": CommandPlace(f"{_OWN}.demo:load", extra="local"),
                "stranger": CommandPlace(f"{_OWN}.demo:stranger", extra="local"),
            },
            RUN,
        ),
        "spark": CommandGroup(
            "The data pipeline: topics as tables, rebuilds, reports (docs/pipeline.md).",
            {
                "archive": CommandPlace(f"{_OWN}.spark_archive:archive_topics", extra="spark"),
                "rebuild": CommandPlace(f"{_OWN}.spark_rebuild:rebuild_projections", extra="spark"),
                "report": CommandPlace(f"{_OWN}.spark_report:report", extra="spark"),
            },
            RUN,
        ),
        "simulate": CommandPlace(f"{_OWN}.simulation:simulate", RUN),
        "doctor": CommandPlace(f"{_OWN}.support:doctor", SUPPORT),
        "bundle": CommandPlace(f"{_OWN}.support:bundle", SUPPORT),
        "open": CommandPlace(f"{_OWN}.support:open_bundle", SUPPORT, extra="server"),
        "void": CommandPlace(f"{_OWN}.voiding:void", SUPPORT),
        "help": CommandPlace(f"{_CLI}.app:explain_command", SUPPORT),
        "version": CommandPlace(f"{_CLI}.lazy:show_version", SUPPORT),
        "context": CommandGroup(
            "Whom the command line asks, under names of your own.",
            {
                "list": CommandPlace(f"{_CLI}.context_commands:list_contexts"),
                "show": CommandPlace(f"{_CLI}.context_commands:show_context"),
                "use": CommandPlace(f"{_CLI}.context_commands:use_context"),
                "add": CommandPlace(f"{_CLI}.context_commands:add_context"),
                "remove": CommandPlace(f"{_CLI}.context_commands:remove_context"),
            },
            YOURS,
        ),
        "auth": CommandGroup(
            "Who you are to the API, and what you may.",
            {
                "whoami": CommandPlace(f"{_CLI}.auth_commands:whoami"),
                "can-i": CommandPlace(f"{_CLI}.auth_commands:can_i"),
                "explain": CommandPlace(f"{_CLI}.auth_commands:explain"),
                "token": CommandGroup(
                    "Tokens for scripts.", {"new": CommandPlace(f"{_OWN}.access:new_token", extra="server")}
                ),
            },
            YOURS,
        ),
        "config": CommandGroup("The settings in force.", {"show": CommandPlace(f"{_OWN}.config:config_show")}, YOURS),
    },
)


@functools.cache
def root() -> Any:
    """The command `topolog`, of which Typer and a command's module load what is called."""
    return group("topolog", TREE)
