"""Rows from files in three formats: what they say about their types, whose they are, and what cannot be read."""

import sys
from pathlib import Path

import pytest

from topolog.events.errors import BadInput, MissingExtra
from topolog.streams.local.demo.rows import Share, find_files, read_table, read_tables
from topolog.streams.local.demo.tpch import tpch_rows

ALL = Share(0, 1)


@pytest.fixture(scope="session")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tpch_rows(lambda _: None, tmp_path_factory.mktemp("cache"))


def test_parquet_says_types_exactly_and_csv_lets_infer_them(tpch: Path) -> None:
    """The same table in two formats has two opinions, which is what agreement is about."""
    exact, inferred = read_table(tpch / "part.parquet"), read_table(tpch / "part.csv")
    assert (exact.name, exact.key) == (inferred.name, inferred.key) == ("Part", "partkey")
    assert {name: (exact.types[name], inferred.types[name]) for name in exact.types} == {
        "partkey": ("long", "long"),
        "size": ("int", "long"),
        "retailprice": ("decimal", "double"),
        **dict.fromkeys(("name", "mfgr", "brand", "type", "container", "comment"), ("String", "String")),
    }


def test_json_lines_are_read_with_gaps(tmp_path: Path) -> None:
    """A document store's export: what a line lacks is not in its document; nested values have types too."""
    file = tmp_path / "people.jsonl"
    file.write_text('{"id": 1, "tags": ["a"]}\n{"id": 2, "born": "1990-05-01T00:00:00", "at": {"x": 1}, "no": null}\n')
    table = read_table(file)
    assert table.types == {"id": "long", "tags": "Collection", "born": "Timestamp", "at": "Object"}
    assert [list(document) for document in table.documents(ALL)] == [["id", "tags"], ["id", "born", "at"]]


def test_every_row_belongs_to_exactly_one_node_in_every_format(tpch: Path) -> None:
    """Shares cover all rows and do not overlap, although one node reads CSV and the others Parquet."""
    keys: list[int] = []
    for index in range(5):
        share = Share(index, 5)
        tables = {table.name: table for table in read_tables(tpch, share)}
        assert tables["Supplier"].path.suffix == (".csv" if index == 4 else ".parquet")
        keys += [document["suppkey"] for document in tables["Supplier"].documents(share)]
    assert sorted(keys) == list(range(1, 101))


def test_small_tables_come_first(tpch: Path) -> None:
    """So that every type is known soon."""
    names = [table.name for table in read_tables(tpch, ALL)]
    assert names == ["Region", "Nation", "Supplier", "Customer", "Part", "Order"]


def test_the_key_is_the_id_or_else_the_first_column(tmp_path: Path) -> None:
    """Rows without a key are nobody's."""
    file = tmp_path / "things.csv"
    file.write_text("name,ID\na,1\nb,\n")
    table = read_table(file)
    assert table.key == "ID"
    assert list(table.documents(ALL)) == [{"name": "a", "ID": 1}]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.csv", b"", "a.csv cannot be read as csv: Empty CSV file"),
        ("a.csv", b"x,x\n1,2\n", "columns with names of their own"),
        ("a.csv", b"x,\n1,2\n", "columns with names of their own"),
        ("a.jsonl", b'{"a": 1}\n{"a": "x"}\n', "a.jsonl cannot be read as jsonl: "),
        ("a.parquet", b"PAR1", "a.parquet cannot be read as parquet: "),
        ("a.xlsx", b"", "holds no rows that can be read. Files end in .parquet, .csv, .jsonl, .ndjson"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    """One sentence with the file's name and what is wrong."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput) as refusal:
        read_tables(tmp_path / name, ALL)
    assert complaint in str(refusal.value)


def test_no_file_and_no_rows_are_told_apart(tmp_path: Path) -> None:
    """A mistyped path is not an empty folder."""
    with pytest.raises(BadInput, match="There are no rows at"):
        find_files(tmp_path / "absent", ALL)
    with pytest.raises(BadInput, match="holds no rows that can be read"):
        find_files(tmp_path, ALL)


def test_a_base_install_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow or the generator the sentence names the extra."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(MissingExtra, match=r"topolog\[local\]"):
        read_table(tmp_path / "a.csv")
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(MissingExtra, match=r"topolog\[local\]"):
        tpch_rows(lambda _: None, tmp_path)


def test_rows_of_tpch_are_made_once(tpch: Path) -> None:
    """The second call finds them and says nothing."""
    said: list[str] = []
    assert tpch_rows(said.append, tpch.parent) == tpch
    assert said == []
