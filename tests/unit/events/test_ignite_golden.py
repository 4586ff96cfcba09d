"""Ids and merges are what Apache Ignite's own classes computed, line by line."""

import json
from pathlib import Path
from typing import Any

import pytest

from topolog.events.errors import MergeConflict
from topolog.events.metadata import ObjectType, field_id, merge, schema_id, type_id

GOLDEN = Path(__file__).parents[2] / "golden" / "ignite"


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / name).read_text(encoding="utf-8").splitlines()]


def test_the_two_vectors_of_the_reference() -> None:
    """ME1: `Type0` is 110843958 and `fld` is 101470."""
    assert type_id("Type0") == 110843958
    assert field_id("fld") == 101470


def test_every_id_is_the_one_ignite_computes() -> None:
    """ME1: type, field and schema ids, names outside ASCII included."""
    golden = lines("ids.jsonl")
    assert len(golden) == 200
    for line in golden:
        computed = {
            "type": line["type"],
            "type_id": type_id(line["type"]),
            "fields": line["fields"],
            "field_ids": [field_id(name) for name in line["fields"]],
            "schema_id": schema_id(line["fields"]),
        }
        assert computed == line


def test_there_are_merges_of_every_outcome() -> None:
    """A golden file without conflicts would prove nothing about them."""
    outcomes = [step["outcome"] for line in lines("merges.jsonl") for step in line["steps"]]
    assert set(outcomes) == {"CHANGED", "UNCHANGED", "CONFLICT"}
    assert len(outcomes) > 300


@pytest.mark.parametrize("line", lines("merges.jsonl"))
def test_every_merge_ends_as_ignite_ends_it(line: dict[str, Any]) -> None:
    """ME3-ME9: outcome and content of each step; the very same object where nothing changes (ME9)."""
    current: ObjectType | None = None
    for step in line["steps"]:
        proposal = ObjectType.from_dict(step["proposed"])
        try:
            merged = merge(current, proposal)
        except MergeConflict:
            outcome, merged = "CONFLICT", current or proposal
        else:
            outcome = "UNCHANGED" if merged is current else "CHANGED"
        assert outcome == step["outcome"]
        assert merged.to_dict() == step["result"]
        current = merged


def test_a_definition_survives_its_written_form() -> None:
    """`from_dict` reads what `to_dict` writes."""
    for line in lines("merges.jsonl"):
        for step in line["steps"]:
            assert ObjectType.from_dict(step["proposed"]).to_dict() == step["proposed"]
