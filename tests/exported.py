"""Every metric that the roles really export, by their own collectors; run, it writes the page of them anew."""

import asyncio
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import httpx
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from tests.unit.projections.chronicle import Chronicle
from tests.unit.scenarios.world import World

from topolog.events.log import InMemoryLog
from topolog.projections.api.app import make_app
from topolog.projections.api.connections import BOUNDS, Connections
from topolog.projections.api.served import Served
from topolog.projections.archive.metrics import ArchiveMetrics
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.streams.clock import ManualClock
from topolog.streams.coordinator.metrics import CoordinatorMetrics
from topolog.streams.lease_health.metrics import HealthMeasures, HealthMetrics
from topolog.streams.node.metrics import NodeMetrics
from topolog.streams.node.testing import LocalCluster
from topolog.streams.rendezvous.desk import Desk
from topolog.streams.rendezvous.metrics import RendezvousMetrics
from topolog.streams.validator import core, driver
from topolog.streams.validator.metrics import ValidatorMetrics

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"
BEGINS = "<!-- The tables below are made: .venv/bin/python -m tests.exported -->\n"

ROLES = {
    "coordinator": "Coordinators, stand-bys too",
    "node": "The node client",
    "lease-health": "Lease health",
    "rendezvous": "The rendezvous",
    "validator": "Validators",
    "projector": "The projector and its API",
    "archive": "`topolog spark archive`",
    "process": "Every process",
}


class Exported(NamedTuple):
    """One family: `name` as its samples have it, without what a histogram adds."""

    role: str
    name: str
    kind: str
    labels: tuple[str, ...]
    text: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names that can stand in an expression."""
        return (
            tuple(f"{self.name}{end}" for end in ("_bucket", "_sum", "_count"))
            if self.kind == "histogram"
            else (self.name,)
        )


def exported() -> list[Exported]:
    """In the order of the page."""
    return [
        *_of("coordinator", _coordinator()),
        *_of("node", _node()),
        *_of("lease-health", HealthMetrics(HealthMeasures(), "demo", ManualClock()).collect()),
        *_of("rendezvous", _rendezvous()),
        *_of("validator", _validator()),
        *_of("projector", _projector()),
        *_of("archive", ArchiveMetrics().collect()),
        *_of("process", ProcessCollector(registry=CollectorRegistry()).collect()),
    ]


def _of(role: str, families: Iterable[Metric]) -> Iterator[Exported]:
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield Exported(role, name, family.type, _labels(family), family.documentation)


def _labels(family: Metric) -> tuple[str, ...]:
    declared = getattr(family, "_labelnames", None)
    found = declared or [name for sample in family.samples for name in sample.labels]
    return tuple(dict.fromkeys(name for name in found if name != "le"))


def _coordinator() -> list[Metric]:
    world = World(["c1"])
    return list(CoordinatorMetrics(world.coordinators["c1"].driver, "demo", world.clock).collect())


def _node() -> list[Metric]:
    with LocalCluster() as cluster, cluster.node("n1") as node:
        return list(NodeMetrics(node).collect())


def _rendezvous() -> list[Metric]:
    log, metrics = InMemoryLog(), RendezvousMetrics("demo")
    metrics.show(Desk(log.reader(), log.writer(), ManualClock(), "r", 1))
    return list(metrics.collect())


def _validator() -> list[Metric]:
    log, metrics = InMemoryLog(), ValidatorMetrics("demo")
    metrics.show(driver.Driver(log.reader(), log.writer(), ManualClock(), core.Core([], 1), {}))
    return list(metrics.collect())


def _projector() -> list[Metric]:
    """All that its registry has, after one answer."""
    chronicle = Chronicle().start()
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Projector(chronicle.log.reader(), Path(folder), "main", wall_ms=lambda: chronicle.now_ms)) as projector,
    ):
        projector.step()
        app = make_app([Served(projector, Requester(chronicle.log.writer(), "api-1", ""))])

        async def ask() -> None:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
                await client.get("/livez")

        asyncio.run(ask())
        registry: CollectorRegistry = app.state.registry
        registry.register(Connections(BOUNDS))
        return list(registry.collect())


def tables(found: Iterable[Exported]) -> str:
    """What stands on the page."""
    families = list(found)
    lines = []
    for role, title in ROLES.items():
        lines += ["", f"## {title}", "", "| metric | type | labels | what it says |", "|---|---|---|---|"]
        for each in families:
            if each.role == role:
                labels = ", ".join(each.labels) or "–"
                lines.append(f"| `{each.name}` | {each.kind} | {labels} | {each.text} |")
    return "\n".join([*lines, ""])


def main() -> None:
    head = PAGE.read_text().partition(BEGINS)[0]
    PAGE.write_text(f"{head}{BEGINS}{tables(exported())}")


if __name__ == "__main__":
    main()
