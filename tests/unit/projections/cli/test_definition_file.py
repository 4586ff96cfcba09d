"""The file of a proposal: what is wrong with it is found before anything is sent, with the line where it stands."""

import io
import re
from pathlib import Path

import pytest
from tests.unit.projections.cli.conftest import Cli, FakeApi

from topolog.events.errors import BadInput
from topolog.events.object_types import ObjectType
from topolog.projections.cli.definition_file import read_definition

GOOD = ObjectType("Customer", {"id": "long", "name": "String"}, "id")
JSON = '{"name": "Customer", "fields": {"id": "long", "name": "String"}, "affinity_key": "id"}'
YAML = "name: Customer\nfields:\n  id: long\n  name: String\naffinity_key: id\n"


@pytest.mark.parametrize(
    ("name", "text"), [("c.json", JSON), ("c.yaml", YAML), ("c.yml", JSON), ("c", JSON), ("c", YAML)]
)
def test_json_and_yaml_say_the_same(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert read_definition(str(file)) == GOOD


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(YAML.encode())))
    assert read_definition("-") == GOOD


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("c.json", '{\n "name": "A",\n}', "c.json, line 3, column 1: no JSON"),
        ("c.json", '{"fields": {\n"id": "long",\n"id": "int"}}', "c.json, line 3: key 'id' stands there twice"),
        ("c.yaml", "name: A\nfields: [", "c.yaml, line 2, column 10: no YAML"),
        (
            "c.yaml",
            "name: A\nfields:\n  id: long\n  id: int\n",
            "line 4, column 3: no YAML: key 'id' stands there twice",
        ),
        ("c.yaml", "name: \x00", "c.yaml: no YAML"),
        ("c.json", '{"name": "A",\n"feilds": {}}', "c.json, line 2: a definition has no key 'feilds'"),
        ("c.json", '{"name": "A", "feilds": {}}', "Did you mean 'fields'?"),
        ("c.json", "[]", "c.json holds a list"),
        ("c.yaml", "", "c.yaml holds nothing"),
        ("c.yaml", "Customer", "c.yaml holds the value 'Customer'"),
        ("c", "root of all evil " * 99, f"c holds the value '{('root of all evil ' * 4)[:59]}…, not"),
        ("c.json", "{}", "c.json: This is no definition of a type"),
        ("c.json", '{"name": "A", "fields": {"id": 7}}', "$.fields"),
        ("c.json", '{"name": " ", "fields": {}}', "A type needs a name"),
        ("c.json", '{"name": "A", "type_id": 1}', "type_id 1 is not the id of 'A'"),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_nothing_is_sent(
    name: str, text: str, said: str, tmp_path: Path, cli: Cli, api: FakeApi
) -> None:
    (tmp_path / name).write_text(text)
    ended = cli("propose", "--file", str(tmp_path / name))
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert not api.asked


def test_a_file_that_is_not_there_or_no_text_is_said_to_be_so(tmp_path: Path, cli: Cli) -> None:
    missing = cli("propose", "--file", str(tmp_path / "missing.json"))
    assert missing.code == 2
    assert "There is no file" in missing.err
    folder = cli("propose", "--file", str(tmp_path))
    assert folder.code == 2
    assert "cannot be read" in folder.err
    (tmp_path / "c.json").write_bytes(b'{"name": "\xff"}')
    assert "no UTF-8 text: byte 10" in cli("propose", "--file", str(tmp_path / "c.json")).err


def test_a_huge_file_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    """Bad input: nobody waits for a file that no request could hold."""
    file = tmp_path / "c.json"
    with file.open("wb") as made:
        made.truncate(10_000_000_000)
    with pytest.raises(BadInput, match="no definition of one type is that big"):
        read_definition(str(file))


def test_many_fields_are_looked_through_once(tmp_path: Path) -> None:
    """A definition of a hundred thousand fields is told apart from one with a repeated key at once."""
    fields = ", ".join(f'"f{number}": "int"' for number in range(100_000))
    file = tmp_path / "c.json"
    file.write_text(f'{{"name": "T", "fields": {{{fields}}}}}')
    assert len(read_definition(str(file)).fields) == 100_000


@pytest.mark.parametrize("command", ["propose --file", "create group orders --file", "apply -f", "apply -o schema -f"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.json", "[" * 100_000),
        ("deep.json", '{"a":' * 100_000),
        ("deep.yaml", "[" * 100_000),
        ("long.json", f'{{"name": {"1" * 5000}}}'),
        ("long.yaml", f"name: {'1' * 5000}"),
        ("date.yaml", "name: 2026-13-13"),
    ],
)
def test_a_file_that_its_parser_cannot_hold_is_refused(
    command: str, name: str, text: str, tmp_path: Path, cli: Cli, api: FakeApi
) -> None:
    """Nested without end, a number without end, a date that is none."""
    file = tmp_path / name
    file.write_text(text)
    ended = cli(*command.split(), str(file))
    assert (ended.code, api.asked) == (2, [])
    assert re.search(rf"{name} is nested too deep for the|{name}.*: no (JSON|YAML): ", ended.err)
