"""The bodies of POST /requests that are about who counts and whether the cluster serves."""

from typing import Annotated, Literal

import msgspec

from topolog.events.asked import Request, RequestId
from topolog.events.baseline_requests import (
    AutoAdjustRequested,
    BaselineChangeRequested,
    BaselineVerb,
    ClusterStateRequested,
    HoldRequested,
    WarmRequested,
)
from topolog.events.cluster_state import ClusterState
from topolog.events.drains import DrainRequested
from topolog.projections import versions
from topolog.projections.api.problems import InvalidParameter, parameter

_NAME_LENGTH_MAX = 1_000
Ms = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class ChangeState(msgspec.Struct, frozen=True, tag_field="kind", tag="cluster-state", forbid_unknown_fields=True):
    """Bring the cluster into another state. The first activation makes the first baseline, of all servers online."""

    state: Literal["ACTIVE", "ACTIVE_READ_ONLY", "INACTIVE"]
    reason: str = ""


class Hold(msgspec.Struct, frozen=True, tag_field="kind", tag="hold", forbid_unknown_fields=True):
    """Keep the cluster as it is, or let it go: while held, nothing activates or adjusts by itself."""

    on: bool
    reason: str = ""


class Warm(msgspec.Struct, frozen=True, tag_field="kind", tag="warm", forbid_unknown_fields=True):
    """Go on with the members that are here, though the cluster is cold: what only others have is lost."""

    reason: str = ""


class ChangeBaseline(msgspec.Struct, frozen=True, tag_field="kind", tag="baseline", forbid_unknown_fields=True):
    """Change who counts. SET: exactly these `nodes`, or the servers of a former view, `version`; ADD, REMOVE: these
    too, or no more. `accept_loss`: the last copies of partitions may go."""

    verb: Literal["SET", "ADD", "REMOVE"]
    nodes: tuple[str, ...] = ()
    version: str | None = None
    accept_loss: bool = False
    reason: str = ""


class AdjustBaseline(msgspec.Struct, frozen=True, tag_field="kind", tag="auto-adjust", forbid_unknown_fields=True):
    """Whether the baseline follows the servers by itself: `soft_ms` after the last of their joins and leaves, not later
    than `hard_ms` after the first. What is null stays as it is."""

    enabled: bool | None = None
    soft_ms: Ms | None = None
    hard_ms: Ms | None = None
    reason: str = ""


class Drain(msgspec.Struct, frozen=True, tag_field="kind", tag="drain", forbid_unknown_fields=True):
    """Let a server hand over all it holds, and count no more then; `cancel` takes that back."""

    node: str
    cancel: bool = False
    reason: str = ""


BaselineForm = ChangeState | Hold | Warm | ChangeBaseline | AdjustBaseline | Drain


def to_request(form: BaselineForm, name: RequestId, log_id: bytes, actor: str) -> Request:
    """The request a form asks for; raises BadInput."""
    head = (name, log_id, actor, form.reason)
    match form:
        case ChangeState():
            return ClusterStateRequested(*head, ClusterState(form.state))
        case Hold():
            return HoldRequested(*head, form.on)
        case Warm():
            return WarmRequested(*head)
        case ChangeBaseline():
            return _change(form, head)
        case AdjustBaseline():
            return AutoAdjustRequested(*head, form.enabled, form.soft_ms, form.hard_ms)
        case Drain():
            return DrainRequested(*head, form.node, form.cancel)


def check(form: BaselineForm) -> None:
    """Raise BadInput for names that no node can have, and for what contradicts itself."""
    names = form.nodes if isinstance(form, ChangeBaseline) else (form.node,) if isinstance(form, Drain) else ()
    if not all(name.strip() and len(name) <= _NAME_LENGTH_MAX for name in names):
        at = "nodes" if isinstance(form, ChangeBaseline) else "node"
        reason = f"a node's name has 1 to {_NAME_LENGTH_MAX} characters"
        raise InvalidParameter(at, reason, hint="`topolog get nodes -o name` lists them.")
    if isinstance(form, ChangeBaseline) and form.version is not None and (form.nodes or form.verb != "SET"):
        reason = "it stands for the nodes of SET, so neither they nor another verb can stand beside it"
        raise InvalidParameter("version", reason, hint="Give nodes, or SET and a version.")


def _change(form: ChangeBaseline, head: tuple[RequestId, bytes, str, str]) -> BaselineChangeRequested:
    if form.version is None:
        return BaselineChangeRequested(*head, BaselineVerb(form.verb), form.nodes, accepts_loss=form.accept_loss)
    with parameter("version"):
        version = versions.parsed(form.version)
    return BaselineChangeRequested(*head, BaselineVerb.VERSION, (), version=version, accepts_loss=form.accept_loss)
