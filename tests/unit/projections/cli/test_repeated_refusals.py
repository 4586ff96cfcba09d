"""Who asks again for what was refused fills a list with one thing: people see one line, programs see each."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.projections.cli.conftest import ANSWERS, Cli

from topolog.projections.repeats import runs

PATH = "/v1/clusters/demo/{}"


def request(sequence: int, code: str = "CONFLICT", subject: str = "type Customer") -> dict[str, Any]:
    status = "REFUSED" if code else "GRANTED"
    return {
        "id": f"n1-1/{sequence}",
        "requester": "n1-1",
        "sequence": sequence,
        "subject": subject,
        "status": status,
        "position": 40 + sequence,
        "time": f"2026-11-27T18:06:{sequence:02}.250Z",
        "code": code,
    }


def refusal(position: int, requester: str = "n1-1") -> dict[str, Any]:
    return {
        "position": position,
        "time": f"2026-11-27T18:06:{position:02}.250Z",
        "event": "RequestRefused",
        "subject": "type Customer",
        "content": {"request": {"requester": requester, "sequence": position}, "code": "CONFLICT"},
    }


@pytest.fixture
def reply(monkeypatch: pytest.MonkeyPatch) -> "Reply":
    def reply(view: str, items: list[dict[str, Any]]) -> None:
        body = {"kind": "List", "asOf": {"position": 60, "age_ms": 1}, "items": items}
        monkeypatch.setitem(ANSWERS, PATH.format(view), body)

    return reply


Reply = Callable[[str, list[dict[str, Any]]], None]
NEWEST_FIRST = [request(9, code=""), *(request(number) for number in (8, 7, 6)), request(5, "STALE"), request(4)]


def lines(cli: Cli, *words: str) -> list[str]:
    ended = cli(*words)
    assert ended.code == 0
    return [" ".join(word for word in line.split() if word != "-") for line in ended.out.splitlines()]


def test_refusals_of_the_same_are_one_line_with_a_count_and_both_times(cli: Cli, reply: Reply) -> None:
    """Only those that follow one another: what was granted between them is no repetition."""
    reply("requests", NEWEST_FIRST)
    assert lines(cli, "get", "requests")[1:] == [
        "n1-1/9 type Customer GRANTED 49 2026-11-27 18:06:09Z",
        "n1-1/8 type Customer REFUSED (3 times) 48 CONFLICT 2026-11-27 18:06:06Z – 2026-11-27 18:06:08Z",
        "n1-1/5 type Customer REFUSED 45 STALE 2026-11-27 18:06:05Z",
        "n1-1/4 type Customer REFUSED 44 CONFLICT 2026-11-27 18:06:04Z",
    ]


def test_the_decisions_that_refuse_are_folded_the_same_way(cli: Cli, reply: Reply) -> None:
    reply("decisions", [refusal(12), refusal(11), refusal(10, requester="n2-1")])
    shown = lines(cli, "get", "decisions")[1:]
    assert [line.partition(" type Customer")[0] for line in shown] == [
        "12 2026-11-27 18:06:11Z – 2026-11-27 18:06:12Z RequestRefused (2 times)",
        "10 2026-11-27 18:06:10Z RequestRefused",
    ]


@pytest.mark.parametrize("shape", ["wide", "csv", "name", "jsonl"])
def test_only_the_plain_table_folds(shape: str, cli: Cli, reply: Reply) -> None:
    reply("requests", NEWEST_FIRST)
    told = [line for line in lines(cli, "get", "requests", "-o", shape) if "n1-1" in line]
    assert len(told) == len(NEWEST_FIRST)


def test_json_is_the_answer_as_it_came(cli: Cli, reply: Reply) -> None:
    reply("requests", NEWEST_FIRST)
    assert json.loads(cli("get", "requests", "-o", "json").out)["items"] == NEWEST_FIRST


def test_what_is_like_nothing_stands_alone() -> None:
    assert list(runs("aabba", lambda each: None if each == "a" else each)) == [["a"], ["a"], ["b", "b"], ["a"]]
