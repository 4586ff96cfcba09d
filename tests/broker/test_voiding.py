"""A poisoned record on a real broker: every reader stops and says what to do; voided, they go on and fold the same."""

import contextlib
import getpass
import json
import os
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.broker.conftest import PATIENCE_S, Site, eventually

from topolog.events.codec import CODEC
from topolog.events.errors import Poisoned
from topolog.events.fold import Fold, Header
from topolog.events.ids import Position, Term
from topolog.events.kafka import KafkaWriter
from topolog.events.metadata import ObjectType
from topolog.events.stamp import HEADER_NAME, NO_CHAIN, Stamp, chain_after, encode_stamp
from topolog.events.terms import TermStarted, cluster
from topolog.events.topics import Topic
from topolog.events.voiding import Voiding

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbooks" / "voiding.md"
WRITTEN = ("41", "9c67257f3e629bf85d2d277e22a600b3")
"""The position and the chain hash that the runbook has as its example."""

POISON = b"\xc3\x01 a newer leader's record"


def test_voiding_the_whole_way(site: Site, unused_port: Callable[[], int], tmp_path: Path) -> None:
    """K27: exit codes and sentences of the stopped, the command, and one state everywhere behind it."""
    port = unused_port()
    coordinator = site.coordinator("c1")
    projector = site.projector(port, tmp_path)
    with site.node("n1") as node:
        node.propose(ObjectType("Customer", {"id": "long"}))
        assert coordinator.end() == 0
        _poison(site)
        assert isinstance(eventually(lambda: node.failure, "the node to stop"), Poisoned)
    second = site.coordinator("c2")
    assert eventually(second.ended, "the coordinator to stop") == (1,)
    (named,) = {line for line in second.complaints if "topolog void" in line}
    assert "docs/runbooks/voiding.md" in named
    position, chain = _named(named)
    stopped = eventually(lambda: _stopped(site, port), "the projector to stop")
    assert f"--position {position} --chain {chain}" in stopped

    before, look, void, after = _runbook(site, port, position, chain)
    assert all(_topolog(*command).returncode == 0 for command in before)
    shown = _topolog(*look[0])
    assert (shown.returncode, "Nothing was changed." in shown.stderr) == (0, True)
    assert "requests@7 cli-4f/3" in shown.stdout
    done = _topolog(*void[0])
    assert (done.returncode, f"Position {position} is voided" in done.stderr) == (0, True), done.stderr
    again = _topolog(*void[0])
    assert (again.returncode, "voided already" in again.stderr) == (5, True)

    site.coordinator("c3")
    with site.node("n2") as node:
        outcome = node.propose(ObjectType("Order", {"id": "long"}))
        assert set(node.types()) == {"Customer", "Order"}
        items = eventually(lambda: _decisions(site, port, position, outcome.position), "the projector to go on")
        assert [(each["event"], each["actor"], each["reason"]) for each in items] == [
            ("RecordVoided", getpass.getuser(), "INC-7: written by a build that was withdrawn"),
            ("LeftOut", "ann", "a newer leader wrote it"),
        ]
        own, own_hash = node.fingerprint()
        shown_cluster = _get(port, f"/v1/clusters/{site.cluster}/cluster")
        told = _told(site, (Position(int(position)), bytes.fromhex(chain)))
        assert told[own] == own_hash
        assert told[shown_cluster["asOf"]["position"]].hex() == shown_cluster["item"]["state_hash"]
    assert "LeftOut" in _topolog(*after[0]).stdout
    assert {"LeftOut", "RecordVoided"} <= set(_topolog(*after[1]).stdout.split())
    assert projector.end() == 0


def _poison(site: Site) -> None:
    """What a leader of a newer version writes: a term of its own, and in it a record that nobody else knows."""
    header = _judged(site)
    assert header.log_id is not None
    term = Term(header.term + 1)
    claim = (
        Stamp(header.log_id, term, 0, 0, 1, NO_CHAIN, 0, header.inputs, "claimed by c9", "c9"),
        CODEC.encode(TermStarted(term, "c9", 9), cluster(_folded(site).state).feature_level),
    )
    chain = chain_after(header.chain, encode_stamp(claim[0]), claim[1])
    poison = Stamp(
        header.log_id, term, 1, 0, 1, chain, 0, header.inputs, "requests@7 cli-4f/3", "ann", "a newer leader wrote it"
    )
    with contextlib.closing(KafkaWriter(site.kafka, site.cluster)) as writer:
        for stamp, value in (claim, (poison, POISON)):
            writer.append(Topic.DECISIONS, site.cluster, value, ((HEADER_NAME, encode_stamp(stamp)),))


def _folded(site: Site) -> Fold:
    fold = Fold()
    for entry in site.entries(Topic.DECISIONS):
        fold.read(entry.stamp, entry.value)
    return fold


def _judged(site: Site) -> Header:
    return _folded(site).header


def _named(complaint: str) -> tuple[str, str]:
    """Position and chain hash in the command that a stopped reader proposes."""
    words = complaint.split()
    return words[words.index("--position") + 1], words[words.index("--chain") + 1]


def _runbook(site: Site, port: int, position: str, chain: str) -> list[list[list[str]]]:
    """The commands of the runbook, step by step, for this cluster and this record."""
    text = RUNBOOK.read_text().replace(WRITTEN[0], position).replace(WRITTEN[1], chain)
    steps = [block.split("```")[0].splitlines() for block in text.split("```sh\n")[1:]]
    ends = {
        "void": ["--set", f"cluster.name={site.cluster}", "--set", f"kafka.bootstrap.servers={site.bootstrap}"],
        "get": ["--cluster", site.cluster, "--api", f"http://127.0.0.1:{port}"],
    }
    commands = [[shlex.split(line)[1:] for line in step] for step in steps]
    return [[[*words, *ends["void" if words[0] == "void" else "get"]] for words in step] for step in commands]


def _topolog(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "topolog", *args],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
        timeout=PATIENCE_S * 2,
        check=False,
    )


def _get(port: int, path: str) -> Any:
    """An answer of the API, None while it gives none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return json.load(answer)
    except (urllib.error.URLError, ConnectionError):
        return None


def _stopped(site: Site, port: int) -> str | None:
    answer = _get(port, f"/v1/clusters/{site.cluster}/nodes")
    return answer["asOf"]["stopped"] if answer else None


def _decisions(site: Site, port: int, poisoned: str, at_least: int) -> list[Any] | None:
    answer = _get(port, f"/v1/clusters/{site.cluster}/decisions?subject=position%20{poisoned}")
    is_behind = answer is None or answer["asOf"]["stopped"] or answer["asOf"]["position"] < at_least
    return None if is_behind else answer["items"]


def _told(site: Site, voided: Voiding) -> dict[Position, bytes]:
    """The hash of the state after each whole set, as a reader that was told of the voiding folds the log."""
    fold, hashes = Fold(), dict[Position, bytes]()
    fold.void(voided)
    for entry in site.entries(Topic.DECISIONS):
        fold.read(entry.stamp, entry.value)
        hashes[fold.header.position] = fold.state.hash()
    return hashes
