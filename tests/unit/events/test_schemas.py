"""The frozen types are the schemas, both ways; released schemas are never edited."""

import json
import types
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from topolog import schemas
from topolog.events.codec import RECORDS, full_name

CONTRACT = schemas.load()
ROOT = Path(schemas.__file__).parent
AVRO_OF: Mapping[type, str] = {str: "string", int: "long", bool: "boolean", bytes: "bytes"}


def avro_of(hint: Any) -> Any:
    """The Avro type that a Python type must have: scalars by name, records as (name, fields), enums as symbols."""
    if isinstance(hint, NewType):
        return avro_of(hint.__supertype__)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        assert arguments[1:] == (types.NoneType,), "nullable is written T | None"
        return ["null", avro_of(arguments[0])]
    if origin is tuple:
        assert arguments[1:] == (...,)
        return {"array": avro_of(arguments[0])}
    if origin is not None:
        assert arguments[0] is str
        return {"map": avro_of(arguments[1])}
    if issubclass(hint, msgspec.Struct):
        return (hint.__name__, [(name, avro_of(each)) for name, each in fields_of(hint).items()])
    if issubclass(hint, Enum):
        return (hint.__name__, [each.value for each in hint])
    return AVRO_OF[hint]


def fields_of(type_: type[msgspec.Struct]) -> dict[str, Any]:
    hints = get_type_hints(type_)
    return {name: hints[name] for name in type_.__struct_fields__}


def shape_of(schema: Any, defined: dict[str, Any]) -> Any:
    """An Avro type in the same form; `defined` collects named types, which later mentions repeat by name."""
    match schema:
        case str():
            return defined.get(schema, schema)
        case list():
            return [shape_of(each, defined) for each in schema]
        case {"type": "array", "items": items}:
            return {"array": shape_of(items, defined)}
        case {"type": "map", "values": values}:
            return {"map": shape_of(values, defined)}
    full = f"{schema['namespace']}.{schema['name']}"
    if schema["type"] == "enum":
        defined[full] = (schema["name"], schema["symbols"])
    else:
        fields = [(each["name"], shape_of(each["type"], defined)) for each in schema["fields"]]
        defined[full] = (schema["name"], fields)
    return defined[full]


def written() -> list[tuple[str, dict[str, Any]]]:
    """Every schema file as it is written."""
    files = sorted(ROOT.rglob("*.avsc"))
    assert len(files) >= len(RECORDS)
    return [(path.relative_to(ROOT).as_posix(), json.loads(path.read_text())) for path in files]


@pytest.mark.parametrize("type_", RECORDS, ids=lambda type_: type_.__name__)
def test_a_type_and_its_newest_schema_say_the_same(type_: type) -> None:
    """Names, order and types of all fields and symbols of all enums, in both directions."""
    assert avro_of(type_) == shape_of(CONTRACT[full_name(type_)][-1], {})


def test_every_schema_belongs_to_a_record() -> None:
    """A schema file that no record uses would be a promise that nobody keeps."""
    used: dict[str, Any] = {}
    for type_ in RECORDS:
        shape_of(CONTRACT[full_name(type_)][-1], used)
    assert set(CONTRACT) == set(used)


@pytest.mark.parametrize(("path", "schema"), written(), ids=lambda value: value if isinstance(value, str) else "")
def test_everything_in_a_schema_is_documented(path: str, schema: dict[str, Any]) -> None:
    """A doc on each record, enum and field; it is the only documentation of fields there is."""
    assert all(part.get("doc", "").strip() for part in (schema, *schema.get("fields", ())))


@pytest.mark.parametrize(("path", "schema"), written(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_schema_file_keeps_the_habits(path: str, schema: dict[str, Any]) -> None:
    """Namespaces are the folder in lower case, nullable is ["null", T] with default null, enums have a default."""
    folder, file_name = path.split("/")
    assert schema["namespace"] == f"topolog.{folder}" == schema["namespace"].lower()
    assert file_name.split(".")[0] == schema["name"]
    if schema["type"] == "enum":
        assert schema["default"] == schema["symbols"][0] == "UNKNOWN"
    for field in schema.get("fields", ()):
        if isinstance(field["type"], list):
            assert field["type"][0] == "null"
            assert len(field["type"]) == 2
            assert field["default"] is None
        elif "v2" not in file_name:
            assert "default" not in field, "in a first version every value is written"


@pytest.mark.parametrize("type_", RECORDS, ids=lambda type_: type_.__name__)
def test_a_default_of_a_type_is_that_of_its_schema(type_: type[msgspec.Struct]) -> None:
    """A record made without a value must not differ from one read without it."""
    in_schema = {
        each["name"]: each["default"] for each in CONTRACT[full_name(type_)][-1]["fields"] if "default" in each
    }
    in_type = {each.name: each.default for each in msgspec.structs.fields(type_) if not each.required}
    assert in_type.items() <= in_schema.items()


def copy_of_the_contract(folder: Path) -> Path:
    """The schema files in a folder of a test's own, to which it may add versions."""
    for path, schema in written():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(json.dumps(schema))
    return folder


def add_version_two(folder: Path, path: str) -> None:
    """`<Record>.v2.avsc` beside the first, with one more field."""
    schema = json.loads((folder / path).read_text())
    schema["fields"].append({"name": "since", "type": ["null", "string"], "default": None, "doc": "New."})
    (folder / path.replace(".avsc", ".v2.avsc")).write_text(json.dumps(schema))


def test_a_later_version_of_a_record_stands_behind_the_first(tmp_path: Path) -> None:
    """`<Record>.v2.avsc` is the newest, the first stays readable."""
    folder = copy_of_the_contract(tmp_path)
    add_version_two(folder, "log/TermStarted.avsc")
    first, second = schemas.load(folder)["topolog.log.TermStarted"]
    assert first == CONTRACT["topolog.log.TermStarted"][0]
    assert [each["name"] for each in second["fields"]][-1] == "since"


def test_a_new_version_of_an_embedded_record_keeps_the_old_bytes_readable(tmp_path: Path) -> None:
    """A schema stands alone, so what embeds a changed record has a new version too, behind the one released before."""
    folder = copy_of_the_contract(tmp_path)
    add_version_two(folder, "metadata/ObjectType.avsc")
    add_version_two(folder, "requests/RequestRef.avsc")
    versions = schemas.load(folder)["topolog.metadata.MetadataUpdateProposed"]
    assert versions[0] == CONTRACT["topolog.metadata.MetadataUpdateProposed"][0]
    assert len(versions) == 4
    assert json.dumps(versions[-1]).count('"since"') == 2
    assert schemas.load(folder)["topolog.membership.NodeLeft"] == CONTRACT["topolog.membership.NodeLeft"]
