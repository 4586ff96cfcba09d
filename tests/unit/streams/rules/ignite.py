"""Ignite's own rule of joining, small: what a cluster and a node's metastore know, and what it answers."""

import msgspec


def java_hash(text: str) -> int:
    """Java's String.hashCode."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def hash_of(nodes: set[str] | frozenset[str]) -> int:
    """A sum, so that sets collide as soon as their last characters sum up alike (BA23)."""
    return sum(java_hash(node) for node in nodes)


class Baseline(msgspec.Struct, frozen=True):
    """`history` ends with the current hash; `items` are the histories of the baselines before, by id."""

    id: int
    nodes: frozenset[str]
    history: tuple[int, ...]
    items: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def first(cls, *nodes: str) -> "Baseline":
        return cls(0, frozenset(nodes), (hash_of(set(nodes)),))

    def activated(self, *online: str) -> "Baseline":
        """A hash that is the current one already is not appended (BA23)."""
        current = hash_of(self.nodes & set(online))
        if current == self.history[-1]:
            return self
        return msgspec.structs.replace(self, history=(*self.history, current))

    def set_to(self, *nodes: str) -> "Baseline":
        """Id + 1, and a history that begins anew; the same members are no change (BA11)."""
        if frozenset(nodes) == self.nodes:
            return self
        return Baseline(self.id + 1, frozenset(nodes), (hash_of(set(nodes)),), (*self.items, self.history))


class Cluster(msgspec.Struct, frozen=True):
    """`previous` counts while a transition runs, None if there was no baseline before it."""

    baseline: Baseline | None
    in_transition: bool = False
    previous: Baseline | None = None


class Joiner(msgspec.Struct, frozen=True):
    """`baseline`: what its metastore says. The rest for the rows before that is looked at."""

    baseline: Baseline | None = None
    is_daemon: bool = False
    is_client: bool = False
    has_state: bool = True
    is_readable: bool = True


def validate(cluster: Cluster, joiner: Joiner) -> str:
    """Rows 1 and 3 to 13 of its table: ADMIT, or the reason's code."""
    if joiner.is_daemon or joiner.is_client:
        return "ADMIT"
    if not joiner.has_state:
        return "VERSION_WITHOUT_BLT" if cluster.baseline else "ADMIT"
    if not joiner.is_readable:
        return "UNREADABLE_STATE"
    if joiner.baseline is None:
        return "ADMIT"
    if cluster.baseline is None:
        return "CLUSTER_WITHOUT_BLT"
    if cluster.in_transition and cluster.previous is None:
        return "FIRST_ACTIVATION_RUNNING"
    reference = cluster.previous if cluster.in_transition else cluster.baseline
    assert reference is not None
    return _compared(reference, joiner.baseline)


def _compared(reference: Baseline, joining: Baseline) -> str:
    if joining.id > reference.id:
        return "ID_GREATER"
    if joining.id == reference.id:
        return "ADMIT" if joining.history[-1] in reference.history else "FORK_SAME_ID"
    return "ADMIT" if joining.history[-1] in reference.items[joining.id] else "FORK_LOWER_ID"
