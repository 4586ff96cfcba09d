"""The bytes of every released schema, read for ever.

A file `v<n>/<Record>.bin` holds one record as the n-th version of its schema wrote it, `<Record>.json` what it must be
read as. Until the first release they change in commits named «shape:» and in no other, then never.
`TOPOLOG_WRITE_GOLDEN=1 pytest tests/unit/events/test_golden_bytes.py` adds the files that are missing, after a new
version of a schema has been added.
"""

import os
from pathlib import Path

import msgspec
import pytest
from tests.unit.events.examples import EXAMPLES

from topolog import schemas
from topolog.events.codec import CODEC, RECORDS, Record, full_name

GOLDEN = Path(__file__).parents[2] / "golden"
CONTRACT = schemas.load()
TYPES: dict[str, type] = {type_.__name__: type_ for type_ in RECORDS}


def released() -> list[Path]:
    return sorted(GOLDEN.glob("v*/*.bin"))


def newest_file(record: Record) -> Path:
    name = type(record).__name__
    return GOLDEN / f"v{len(CONTRACT[full_name(type(record))])}" / f"{name}.bin"


def write_if_asked(record: Record, path: Path) -> None:
    if os.environ.get("TOPOLOG_WRITE_GOLDEN") == "1" and not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(CODEC.encode(record))
        text = msgspec.json.format(msgspec.json.encode(record), indent=2)
        path.with_suffix(".json").write_bytes(text + b"\n")


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_the_newest_schema_of_every_record_has_golden_bytes(record: Record) -> None:
    """A schema that changed without a new version has another fingerprint than the bytes it released."""
    path = newest_file(record)
    write_if_asked(record, path)
    assert path.exists(), f"no golden bytes for {path.parent.name} of {path.stem}: see the head of this file"
    assert CODEC.encode(record)[:10] == path.read_bytes()[:10], (
        f"the schema of {path.stem} differs from the one that wrote {path.parent.name}: if that is released, "
        f"add {path.stem}.{'v' + str(int(path.parent.name[1:]) + 1)}.avsc instead of editing it"
    )


@pytest.mark.parametrize("path", released(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_released_bytes_are_read_as_what_they_were(path: Path) -> None:
    """Every byte that any release wrote stays readable, as the same record."""
    expected: Record = msgspec.json.decode(path.with_suffix(".json").read_bytes(), type=TYPES[path.stem])
    assert CODEC.decode(path.read_bytes()) == expected


def test_every_golden_file_has_its_pair() -> None:
    """Bytes without the record they must be read as would prove little."""
    assert len(released()) >= len(RECORDS)
    assert {path.with_suffix(".json") for path in released()} == set(GOLDEN.glob("v*/*.json"))
