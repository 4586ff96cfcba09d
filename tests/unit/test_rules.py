"""The rules of docs/rules.md: each has a sentence and a test that exists, and each that is cited anywhere is one."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docs" / "rules.md"
SECTION = re.compile(r"^### (\w+)\n(.+)\nProved by (.+)\.$", re.MULTILINE)
CITED = re.compile(r"(?<![\w/.%])(?:K|DS|LE|ME|EX|BA|TA|RE|RD|OP)\d{1,2}(?!\w)")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
CHAPTER = re.compile(r"docs/design/\w+\.md")
ELSEWHERE = re.compile(r"\bDESIGN\b|§|\breference/\w+")
TEXT = {".avsc", ".json", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"}


@cache
def rules() -> Mapping[str, tuple[str, tuple[tuple[str, str], ...]]]:
    """By a rule's name: its sentence, and the tests that prove it (file, function)."""
    text = RULES.read_text()
    found = SECTION.findall(text)
    assert [name for name, _, _ in found] == re.findall(r"^### (.+)$", text, re.MULTILINE), "a section without a proof"
    assert Counter(name for name, _, _ in found).most_common(1)[0][1] == 1, "a rule of this name is there twice"
    return {name: (sentence, tuple(TEST.findall(proof))) for name, sentence, proof in found}


@cache
def tracked() -> Mapping[str, str]:
    """The text of each file that is in the repository, this one aside, by its path."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in listed.stdout.decode().splitlines()]
    kept = [path for path in paths if path.suffix in TEXT and path.is_file() and path != Path(__file__)]
    return {str(path.relative_to(ROOT)): path.read_text() for path in kept}


def citations() -> Iterator[tuple[str, str]]:
    """(file, rule) of each citation outside the list of rules."""
    for name, text in tracked().items():
        if name != "docs/rules.md":
            yield from ((name, cited) for cited in CITED.findall(text))


def refused_by() -> Iterator[tuple[str, int, str]]:
    """(file, line, rule) of each refusal in the product that names its rule where it is raised."""
    for name, text in tracked().items():
        if name.endswith(".py") and name.startswith(("events/", "streams/", "projections/", "src/")):
            for call in (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)):
                if isinstance(call.func, ast.Name) and call.func.id == "Refused" and len(call.args) > 1:
                    rule = call.args[1]
                    if isinstance(rule, ast.Constant) and isinstance(rule.value, str):
                        yield name, call.lineno, rule.value


def test_each_rule_is_proved_by_tests_that_exist() -> None:
    assert len(rules()) > 100
    for rule, (sentence, tests) in rules().items():
        assert sentence.endswith("."), rule
        assert tests, f"{rule} names no test"
        for file, function in tests:
            text = tracked().get(file)
            assert text is not None, f"{rule}: there is no {file}"
            assert re.search(rf"^(async )?def {function}\(", text, re.MULTILINE), f"{rule}: {file} has no {function}"


def test_each_citation_is_of_a_rule() -> None:
    unknown = sorted({f"{name}: {cited}" for name, cited in citations() if cited not in rules()})
    assert not unknown


def test_each_rule_is_argued_in_a_chapter() -> None:
    """A rule that no chapter cites stands there without a reason."""
    argued = {cited for name, cited in citations() if name.startswith("docs/design/")}
    assert not rules().keys() - argued


def test_each_refusal_names_a_rule() -> None:
    """What a command or an address turns away by itself breaks no rule of a protocol, and names none."""
    found = list(refused_by())
    assert len(found) > 100
    assert not [each for each in found if each[2] not in rules() and each[2]]
    assert not [each for each in found if each[0].startswith("streams/rules/") and not each[2]]


def test_each_chapter_that_is_cited_exists_and_nothing_outside_the_repository_is_cited() -> None:
    for name, text in tracked().items():
        assert not [path for path in CHAPTER.findall(text) if not (ROOT / path).is_file()], name
        assert not ELSEWHERE.findall(text), name
