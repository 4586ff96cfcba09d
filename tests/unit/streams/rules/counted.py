"""A cluster with a baseline, without a log: operators ask, deadlines pass, everybody applies at once."""

import copy
from collections.abc import Sequence

import pytest
from tests.unit.streams.rules.cluster import LOG_ID, new_id
from tests.unit.streams.rules.exchanging import Shared

from topolog.events import baseline as b
from topolog.events.asked import Request
from topolog.events.baseline_requests import (
    AutoAdjustRequested,
    BaselineChangeRequested,
    BaselineVerb,
    ClusterStateRequested,
    HoldRequested,
    WarmRequested,
)
from topolog.events.cluster_state import ClusterState
from topolog.events.decision import Decision
from topolog.events.drains import DrainRequested, DrainRow
from topolog.events.errors import Refused
from topolog.events.ids import NOWHERE, TopologyVersion
from topolog.events.leases import LeaveReason, NodeRow
from topolog.events.membership import LeaseStopped
from topolog.events.terms import cluster
from topolog.streams.rules import baseline, cluster_state, drains, placement
from topolog.streams.rules.verdict import Reports

FOR_PEOPLE = (LOG_ID, "ada", "")


def activation(target: ClusterState = ClusterState.ACTIVE) -> ClusterStateRequested:
    return ClusterStateRequested(new_id(), *FOR_PEOPLE, target)


def deactivation() -> ClusterStateRequested:
    return activation(ClusterState.INACTIVE)


def change(
    verb: BaselineVerb, *nodes: str, accepts_loss: bool = False, version: TopologyVersion | None = None
) -> BaselineChangeRequested:
    return BaselineChangeRequested(new_id(), *FOR_PEOPLE, verb, nodes, accepts_loss, version)


def set_(*nodes: str, accepts_loss: bool = False) -> BaselineChangeRequested:
    return change(BaselineVerb.SET, *nodes, accepts_loss=accepts_loss)


def add(*nodes: str) -> BaselineChangeRequested:
    return change(BaselineVerb.ADD, *nodes)


def remove(*nodes: str, accepts_loss: bool = False) -> BaselineChangeRequested:
    return change(BaselineVerb.REMOVE, *nodes, accepts_loss=accepts_loss)


def to_view(version: TopologyVersion | None) -> BaselineChangeRequested:
    return change(BaselineVerb.VERSION, version=version)


def hold(*, off: bool = False) -> HoldRequested:
    return HoldRequested(new_id(), *FOR_PEOPLE, not off)


def adjust(enabled: bool | None = True, soft_ms: int | None = None, hard_ms: int | None = None) -> AutoAdjustRequested:
    return AutoAdjustRequested(new_id(), *FOR_PEOPLE, enabled, soft_ms, hard_ms)


def warm() -> WarmRequested:
    return WarmRequested(new_id(), *FOR_PEOPLE)


def drain(node: str, *, cancelled: bool = False) -> DrainRequested:
    return DrainRequested(new_id(), *FOR_PEOPLE, node, cancelled)


class Counted(Shared):
    """`adjusting`: deadlines of the baseline that have passed; `silent`: who applies nothing; `waited_through`."""

    def __init__(self, *servers: str, active: bool = True) -> None:
        super().__init__()
        self.adjusting: set[str] = set()
        self.silent: set[str] = set()
        self.waited_through = NOWHERE
        self.join(*servers)
        if active:
            self.ask(activation())
            self.rest()

    # What happens to it.

    def create(self, name: str = "orders", partitions: int = 16, backups: int = 1, **rest: object) -> None:
        super().create(name, partitions, backups, **{"persistent": True, **rest})

    def settle(self) -> list[Decision]:
        """All that follows, exchanges waiting for answers."""
        return self.settle_exchange()

    def stop(self, node: str) -> None:
        """It gets no renewals any more, and is still a member."""
        row = self.node(node)
        self.log(LeaseStopped(None, row.node, row.incarnation, LeaveReason.STUCK))

    def pass_soft(self) -> list[Decision]:
        return self._pass("adjust/soft/")

    def pass_hard(self) -> list[Decision]:
        return self._pass("adjust/hard/")

    def copied(self) -> "Counted":
        """The same once more: what becomes of one is nothing to the other."""
        return copy.deepcopy(self)

    # What it is.

    @property
    def state_row(self) -> b.ClusterStateRow:
        return b.cluster_state(self.state)

    @property
    def baseline(self) -> b.BaselineRow:
        found = b.baseline(self.state)
        assert found is not None
        return found

    def baseline_or_none(self) -> b.BaselineRow | None:
        return b.baseline(self.state)

    def former(self) -> list[tuple[str, b.FormerBaselineRow]]:
        return list(self.state.rows(b.FormerBaselineRow))

    def node_is_member(self, node: str) -> bool:
        row = self.state.get(NodeRow, node)
        return row is not None and row.is_member

    @property
    def auto_adjust(self) -> b.AutoAdjustRow:
        return b.auto_adjust(self.state)

    @property
    def view(self) -> TopologyVersion:
        return cluster(self.state).topology_version

    @property
    def waits(self) -> Sequence[str]:
        """The deadlines of the baseline that are due now."""
        return [each.key for each in baseline.deadlines(self.auto_adjust)]

    def drain_of(self, node: str) -> DrainRow | None:
        return self.state.get(DrainRow, node)

    def holders(self, group: str = "orders") -> set[str]:
        """Who is listed with a copy of anything of the group."""
        return {node for name, each in self.all() if name == group for node in self.states(each.partition, group)}

    def placed(self, group: str = "orders") -> dict[int, list[tuple[str, str]]]:
        """What each partition's copies are, in their order."""
        return {
            each.partition: list(self.states(each.partition, group).items())
            for name, each in self.all()
            if name == group
        }

    def refusal(self, request: Request) -> Refused:
        """The refusal of a request, which changes nothing."""
        before = self.state.hash()
        with pytest.raises(Refused) as raised:
            self.decide(request)
        assert self.state.hash() == before, "an illegal request changes nothing"
        return raised.value

    def _pass(self, prefix: str) -> list[Decision]:
        self.adjusting = {key for key in self.waits if key.startswith(prefix)}
        found = self.settle()
        self.adjusting = set()
        return found

    def _due(self) -> list[Decision]:
        """In the order of the coordinator."""
        return (
            cluster_state.settle(self.state, self._reports(), self.waited_through)
            or baseline.settle(self.state, self.adjusting)
            or drains.settle(self.state)
            or super()._due()
        )

    def _reports(self) -> Reports:
        rows = placement.servers(self.state)
        return {row.node: (row.incarnation, self.position) for row in rows if row.node not in self.silent}
