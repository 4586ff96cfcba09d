"""Rows of a projection store as a table, beside the projector that goes on writing it."""

from pathlib import Path

import msgspec
import pytest
from tests.unit.projections.chronicle import Chronicle

from topolog.events.errors import BadInput, ReplicaFailed
from topolog.projections.projector import Projector
from topolog.projections.spark.sources.projection import ProjectionRows


def rows(source: ProjectionRows) -> dict[str, str]:
    with source.reading() as (shape, batches):
        assert [each.name for each in shape.columns] == ["key", "row"]
        found = [row for batch in batches for row in batch]
    return {str(key): str(row) for key, row in found}


def test_rows_of_a_kind_are_as_the_projector_has_them(tmp_path: Path) -> None:
    """While it runs; later ones show at the next look, and two stores have the same at one position."""
    chronicle = Chronicle().start()
    chronicle.join("n1")
    projector = Projector(chronicle.log.reader(), tmp_path / "one", "main")
    projector.step()
    newest = ProjectionRows(tmp_path / "one", "node")
    before = rows(newest)
    assert list(before) == ["n1"]
    assert msgspec.json.decode(before["n1"])["standing"] == "MEMBER"
    with projector.reading() as reading:
        position = reading.position
    chronicle.join("n2")
    projector.step()
    assert list(rows(newest)) == ["n1", "n2"]
    projector.close()
    other = Projector(chronicle.log.reader(), tmp_path / "other", "main")
    other.step()
    for folder in ("one", "other"):
        assert rows(ProjectionRows(tmp_path / folder, "node", position)) == before
    other.close()


def test_what_is_no_store_is_said_to_be_none(tmp_path: Path) -> None:
    """An unknown kind is a mistake of whoever named it; a folder without a store, or a position ahead, may come."""
    with pytest.raises(BadInput, match="No row of a projection is a 'nodes'") as unknown:
        ProjectionRows(tmp_path, "nodes")
    assert "node" in unknown.value.hint
    with pytest.raises(ReplicaFailed, match="holds no store") as absent:
        rows(ProjectionRows(tmp_path, "node"))
    assert absent.value.code == "IO"
    Projector(Chronicle().start().log.reader(), tmp_path, "main").close()
    with pytest.raises(ReplicaFailed, match="has not been reached here") as ahead:
        rows(ProjectionRows(tmp_path, "node", 10_000))
    assert ahead.value.code == "IO"


def test_nothing_is_written_into_a_projection(tmp_path: Path) -> None:
    """It follows from the log."""
    source = ProjectionRows(tmp_path, "node")
    assert not source.is_writable
    with pytest.raises(ReplicaFailed) as refused:
        source.apply(None, [], lambda: None)  # type: ignore[arg-type]  # it looks at nothing
    assert refused.value.code == "NOT_WRITABLE"
