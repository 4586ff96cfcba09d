"""Lists of who is there: nodes, how punctual their heartbeats are, views."""

from topolog.projections.baseline_resources import View
from topolog.projections.resources import LeaseHealth, Node
from topolog.projections.web import values
from topolog.projections.web.frame import Frame
from topolog.projections.web.listing import Column, Listing
from topolog.projections.web.values import Shown, Value


def _standing(_: Frame, node: Node) -> Shown:
    about = (node.left_reason or "").replace("_", " ").lower() if node.standing == "LEFT" else ""
    shown = [values.state(node.standing, about)]
    if node.role in ("AWAY", "OUTSIDER", "DRAINING", "DRAINED"):
        words = {"OUTSIDER": "not in the baseline"}.get(node.role, node.role.lower())
        shown.append(Value(words, tone="busy"))
    if node.kind == "CLIENT":
        shown.append(Value("client", tone="quiet"))
    return tuple(shown)


def _lease(frame: Frame, node: Node) -> Shown:
    lease = node.lease
    if lease is None:
        return Value("holds none")
    if lease.state is None:
        return Value("see the strip", frame.to("leases"))
    return values.state(lease.state, f"renewed {values.exact(lease.age_ms)} ago")


NODES = Listing(
    view="nodes",
    title="Nodes",
    about="Every node the cluster has known, in the order in which they joined.",
    columns=(
        Column("Node", lambda f, node: Value(node.node, f.to("nodes", node.node)), sort="node"),
        Column("Standing", _standing, sort="standing"),
        Column("Lease", _lease),
        Column("Health", lambda _, node: Value("–") if node.health is None else values.state(node.health)),
        Column("Endpoint", lambda _, node: node.endpoint),
        Column("Attributes", lambda _, node: values.plain(node.attributes), is_wide=True),
        Column("Slot", lambda _, node: node.slot, is_number=True, sort="slot"),
        Column("Incarnation", lambda _, node: node.incarnation, is_number=True),
        Column("Joined at", lambda f, node: values.position(f, node.joined_at), is_number=True, sort="joined_at"),
    ),
    empty="No node has joined yet. A service joins with topolog.streams.node.Node.",
)


def _of_window(name: str) -> Column:
    title = name.removesuffix("_ms").replace("_", " ").capitalize()

    def shown(_: Frame, each: LeaseHealth) -> Shown:
        value = getattr(each.window, name) if each.window else None
        return "–" if value is None else values.exact(value) if name.endswith("_ms") else value

    return Column(title, shown, is_number=True)


LEASE_HEALTH = Listing(
    view="lease-health",
    title="Lease health",
    about="How punctual the heartbeats of the last ten minutes were. It has no past, and no decision rests on it.",
    columns=(
        Column("Node", lambda f, each: Value(each.node, f.to("lease-health", each.node)), sort="node"),
        Column("State", lambda _, each: values.state(each.state), sort="state"),
        Column("Why", lambda _, each: each.sentence, is_wide=True),
        *(_of_window(name) for name in ("beats", "margin_ms", "lateness_mean_ms", "lateness_max_ms")),
        *(_of_window(name) for name in ("jitter_ms", "missed", "lost", "fencings")),
    ),
    empty="There is no member whose heartbeats could be measured.",
    has_past=False,
    told=frozenset({"node", "state"}),
)


def _members(frame: Frame, view: View) -> Shown:
    return values.names(frame, "nodes", view.members)


VIEWS = Listing(
    view="views",
    title="Views",
    about="Each change of who is there or of what is shared out, newest first: a new version of the topology.",
    columns=(
        Column("View", lambda f, view: Value(view.version, f.to("views", view.version))),
        Column("Time", lambda _, view: values.time(view.time)),
        Column("Made by", lambda _, view: Value(view.subject, note=view.event)),
        Column("Joined", lambda f, view: values.names(f, "nodes", view.joined)),
        Column("Left", lambda f, view: values.names(f, "nodes", view.left)),
        Column("Members", _members, is_wide=True),
        Column("Chain", lambda _, view: Value(view.chain[:12], is_code=True)),
        Column("Position", lambda f, view: values.position(f, view.position), is_number=True),
    ),
    empty="No node has joined and no group was created yet, so there is no view.",
)
