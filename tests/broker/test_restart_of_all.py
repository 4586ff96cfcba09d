"""Every member of a cluster dies at once and is started again on its disk (DS1, DS2), on a real broker."""

import signal
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from tests.broker.conftest import PATIENCE_S, Process, Site, eventually
from tests.broker.keeper import ROWS, SAFE, SCRATCH

from topolog.events.group_definition import GroupDefinition
from topolog.events.leases import NodeKind
from topolog.events.partitions import PartitionState
from topolog.streams.node.client import Node
from topolog.streams.rules.affinity import partition_of

Held = dict[str, dict[str, dict[str, str]]]

NAMES = ("n1", "n2", "n3")
STORED_MIN = 60


def stored(folder: Path) -> dict[str, str]:
    """What was acknowledged to the writers, by key; a last line may have been cut by their end."""
    text = "".join(path.read_text() for path in folder.glob("*.stored"))
    return dict(line.split() for line in text.splitlines(keepends=True) if line.endswith("\n"))


def is_at_rest(witness: Node, group: GroupDefinition) -> bool:
    found = witness.partitions(group.name)
    copies = [copy for each in found for copy in each.copies]
    return (
        {copy.state for copy in copies} == {PartitionState.OWNING}
        and len(copies) == 2 * group.partitions
        and all(each.copies[0].node == each.primary for each in found)
    )


def read(members: Mapping[str, Process], key: str) -> str | None:
    """As a client does: ask until one acts for it."""

    def ask() -> list[str | None]:
        for process in members.values():
            process.tell(do="read", key=key)
            told = process.hear("read")
            if "code" not in told:
                return [told["value"]]
        return []

    return eventually(ask, f"somebody to act for {key}")[0]


@pytest.mark.parametrize("dies", ["members", "members-and-coordinator"])
def test_what_was_acknowledged_outlives_all_members(site: Site, tmp_path: Path, dies: str) -> None:
    """DS2: owners of a persistent group come back with their disks, and all that was acknowledged is there; what lived
    in memory only is LOST until an operator gives it up, or begins again empty where its policy says so (IGNORE)."""
    coordinator = site.coordinator("c1")
    with Node(site.cluster, "w", kafka=site.kafka, kind=NodeKind.CLIENT, join_timeout_s=PATIENCE_S) as witness:
        members = {name: site.keeper(name, tmp_path) for name in NAMES}
        for process in members.values():
            process.hear("member")
        for group in (ROWS, SAFE, SCRATCH):
            eventually(partial(is_at_rest, witness, group), f"{group.name} to be shared out")
        eventually(lambda: len(stored(tmp_path)) > STORED_MIN, "rows to be written")

        dying = [*members.values(), *([coordinator] if dies != "members" else [])]
        for process in dying:
            process.send(signal.SIGKILL)
        for process in dying:
            assert process.wait() == -signal.SIGKILL
        before = stored(tmp_path)
        if dies != "members":
            site.coordinator("c2")

        members = {name: site.keeper(name, tmp_path) for name in NAMES}
        for process in members.values():
            process.hear("member")
            process.tell(do="quiet")
            process.hear("quiet")
        # The witness reads the log for itself: it may still show the maps of before the deaths, which look at rest too.
        eventually(lambda: witness.lost("safe") == list(range(SAFE.partitions)), "what nobody has any more to be lost")
        for group in (ROWS, SCRATCH):
            eventually(partial(is_at_rest, witness, group), f"{group.name} to be back")
        assert not witness.lost("rows")
        assert_all_there(witness, members, {**before, **stored(tmp_path)})

        witness.reset_group("safe", reason="its processes are gone")
        eventually(partial(is_at_rest, witness, SAFE), "what was given up to begin again")
        assert site.agrees_with(witness)


def rows_of_owners(witness: Node, members: Mapping[str, Process]) -> Held | None:
    """What each member has of what it owns, by partition; None while the witness knows of more that it owns."""
    held: Held = {}
    for name, process in members.items():
        process.tell(do="rows")
        held[name] = process.hear("rows")["rows"]
    owned = [(copy.node, str(each.partition)) for each in witness.partitions(ROWS.name) for copy in each.copies]
    return held if all(number in held[node] for node, number in owned) else None


def assert_all_there(witness: Node, members: Mapping[str, Process], rows: Mapping[str, str]) -> None:
    """Each acknowledged row is on every owner, all owners are equal, and who acts answers with it."""
    held = eventually(partial(rows_of_owners, witness, members), "each owner to have read that it is one")
    for each in witness.partitions(ROWS.name):
        copies = [held[copy.node][str(each.partition)] for copy in each.copies]
        assert all(copy == copies[0] for copy in copies), f"owners of rows/{each.partition} differ"
        expected = {key: value for key, value in rows.items() if partition_of(key, ROWS.partitions) == each.partition}
        assert expected.items() <= copies[0].items(), f"acknowledged rows of rows/{each.partition} are gone"
    for key in list(rows)[:: max(1, len(rows) // 10)]:
        assert read(members, key) == rows[key]
